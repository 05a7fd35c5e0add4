package httprail

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Reason says why there is no word of the rail.
type Reason string

// The reasons. All but ReasonInvalid leave it open what became of the payout.
const (
	// ReasonInvalid: what was to be sent breaks the contract, so that nothing was sent. It is decided by the request alone:
	// no other attempt with the same request was sent either.
	ReasonInvalid Reason = "invalid"
	// ReasonUnreachable: no connection: the name, the address, the certificate, or nobody listening.
	ReasonUnreachable Reason = "unreachable"
	// ReasonNoAnswer: there was a connection, and no complete answer in time.
	ReasonNoAnswer Reason = "no_answer"
	// ReasonDenied: the rail does not take our credentials (401, 403).
	ReasonDenied Reason = "denied"
	// ReasonBusy: more than the rail takes now (429).
	ReasonBusy Reason = "busy"
	// ReasonFailed: the rail, or what stands before it, failed (5xx).
	ReasonFailed Reason = "failed"
	// ReasonInFlight: another request with this key is being worked on (409).
	ReasonInFlight Reason = "in_flight"
	// ReasonKeyConflict: the rail has this key with other content (422). Repeating does not help.
	ReasonKeyConflict Reason = "key_conflict"
	// ReasonStatus: a status code that carries no payout here, a redirect or a bare 400 say.
	ReasonStatus Reason = "status"
	// ReasonMalformed: the code would carry a payout, and the body is none.
	ReasonMalformed Reason = "malformed"
	// ReasonOther: the answer is about something else: another reference, amount or asset.
	ReasonOther Reason = "other_payout"
)

// Error says that there is no word of the rail about a payout, and why. Neither its text nor what it wraps has our secrets
// in it, and of an answer's body it has at most the error that is named there.
//
// Who must not import this package asks errors.As for an interface with the methods that it needs.
type Error struct {
	Reason Reason
	Status int // the HTTP status; 0 when no answer came

	text       string
	retryAfter time.Duration
	cause      error
}

func (e *Error) Error() string { return e.text }

// Unwrap is the error of the connection or of the context, if there was one.
func (e *Error) Unwrap() error { return e.cause }

// Outage says that the error would have hit any payout, and says nothing of this one: the rail can't be reached, refuses our
// credentials, fails, or has too much to do.
func (e *Error) Outage() bool {
	switch e.Reason {
	case ReasonUnreachable, ReasonDenied, ReasonBusy, ReasonFailed:
		return true
	case ReasonInvalid, ReasonNoAnswer, ReasonInFlight, ReasonKeyConflict, ReasonStatus, ReasonMalformed, ReasonOther:
		return false
	default:
		return false
	}
}

// RetryAfter is how long the rail wants to be left alone, at most an hour; 0 if it did not say.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// KeyConflict says that the rail has this key with other content.
func (e *Error) KeyConflict() bool { return e.Reason == ReasonKeyConflict }

// Invalid says that the request can't be sent, now or later, and never was.
func (e *Error) Invalid() bool { return e.Reason == ReasonInvalid }

// retryAfterMax bounds what a rail may ask for: a wrong date must not stop payouts for a year.
const retryAfterMax = time.Hour

// retryAfter reads Retry-After, seconds or an HTTP date, of a 429 or a 503. What can't be read, or is past, is 0.
func retryAfter(status int, header http.Header, now time.Time) time.Duration {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return 0
	}
	value := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 31)
	switch {
	case err == nil:
		return min(time.Duration(seconds)*time.Second, retryAfterMax)
	case errors.Is(err, strconv.ErrRange):
		return retryAfterMax
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), retryAfterMax)
}

// reasonOf is why a status code that carries no payout came.
func reasonOf(status int) Reason {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return ReasonDenied
	case status == http.StatusConflict:
		return ReasonInFlight
	case status == http.StatusTooManyRequests:
		return ReasonBusy
	case status >= http.StatusInternalServerError:
		return ReasonFailed
	default:
		return ReasonStatus
	}
}
