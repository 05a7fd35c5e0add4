package httprail

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"payonce/activities"
	"payonce/ledger"
)

// The bounds of what an error tells of the error in an answer, and of a connection's: Go's client quotes what it can't read.
const (
	problemBytesMax = 300
	lostBytesMax    = 500
)

// Rail is a rail that is spoken to over HTTP. Its methods may be called concurrently.
type Rail struct {
	settings Settings
	base     *url.URL
	client   *http.Client
	now      func() time.Time
}

var (
	_ activities.Rail          = (*Rail)(nil)
	_ activities.RailCanceller = (*Rail)(nil)
)

// New returns the rail that the settings name. It opens no connection. The error is of the settings.
func New(s Settings) (*Rail, error) {
	base, err := parseBase(s.URL, s.PlainHTTP)
	if err != nil {
		return nil, fmt.Errorf("rail %s: %w", s.Name, err)
	}
	if s.Timeouts == (Timeouts{}) {
		s.Timeouts = DefaultTimeouts()
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: s.Timeouts.Connect}).DialContext,
		TLSHandshakeTimeout:    s.Timeouts.Connect,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.Roots},
		ResponseHeaderTimeout:  s.Timeouts.Headers,
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
		// The bound of a body is a bound of what was sent.
		DisableCompression: true,
	}
	client := &http.Client{
		Transport: transport,
		// Whoever a redirect names would get our credentials, or answer in the rail's place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Rail{settings: s, base: base, client: client, now: time.Now}, nil
}

// Close closes the connections that are not in use.
func (r *Rail) Close() { r.client.CloseIdleConnections() }

// Format writes the rail's name, whatever the verb: within a Rail its secrets could not hide themselves.
func (r *Rail) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "rail "+r.settings.Name) }

// Submit asks for a payout; level 2 while the rail keeps keys. It is safe to repeat with the same payment, whose bytes on
// the wire are the same then. The error is an *Error.
func (r *Rail) Submit(ctx context.Context, payment activities.RailPayment) (activities.RailAnswer, error) {
	body, err := encode(payment)
	if err != nil {
		return activities.RailAnswer{}, r.invalid(callSubmit, err)
	}
	u := *r.base
	u.Path += "/payouts"
	u.RawPath = r.base.EscapedPath() + "/payouts"
	return r.ask(ctx, question{
		call: callSubmit, method: http.MethodPost, url: &u, key: keyHeader(payment.Key), body: body,
		reference: payment.Reference, payment: &payment,
	})
}

// Lookup asks what has become of a payout; it changes nothing. The error is an *Error.
func (r *Rail) Lookup(ctx context.Context, reference string) (activities.RailAnswer, error) {
	if err := checkReference(reference); err != nil {
		return activities.RailAnswer{}, r.invalid(callLookup, err)
	}
	return r.ask(ctx, question{call: callLookup, method: http.MethodGet, url: r.at(reference, ""), reference: reference})
}

// Cancel asks for a payout to be stopped; level 1. The error is an *Error.
func (r *Rail) Cancel(ctx context.Context, reference string) (activities.RailAnswer, error) {
	if err := checkReference(reference); err != nil {
		return activities.RailAnswer{}, r.invalid(callCancel, err)
	}
	return r.ask(ctx, question{call: callCancel, method: http.MethodPost, url: r.at(reference, "/cancel"), reference: reference})
}

// question is a request, and what its answer must be about.
type question struct {
	call      call
	method    string
	url       *url.URL
	key       string
	body      []byte
	reference string
	payment   *activities.RailPayment // of a submit
}

func (r *Rail) ask(ctx context.Context, q question) (activities.RailAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.settings.Timeouts.Whole)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})

	request, err := r.request(ctx, q)
	if err != nil {
		return activities.RailAnswer{}, r.invalid(q.call, err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return activities.RailAnswer{}, r.lost(q.call, err, connected.Load())
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax+1))
	if err != nil {
		lost := r.lost(q.call, err, true)
		lost.Status = response.StatusCode
		return activities.RailAnswer{}, lost
	}
	return r.read(q, response, body)
}

// request is the question on the wire.
func (r *Rail) request(ctx context.Context, q question) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, q.method, q.url.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	// Without it Go's client does not send a body again by itself when a connection breaks: attempts are the caller's.
	request.GetBody = nil
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "payonce")
	if q.key != "" {
		request.Header.Set("Idempotency-Key", q.key)
	}
	if len(q.body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	} else {
		request.Body = http.NoBody
	}
	if token := r.settings.Token; token != "" {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	if key := r.settings.HMACSecret; key != "" {
		request.Header.Set(signatureHeader,
			signature(key, r.now(), signedRequest, q.method, request.URL.EscapedPath(), q.key, string(q.body)))
	}
	return request, nil
}

// read decides whether an answer is the rail's word.
func (r *Rail) read(q question, response *http.Response, body []byte) (activities.RailAnswer, error) {
	status := response.StatusCode
	fail := func(reason Reason, format string, args ...any) (activities.RailAnswer, error) {
		e := r.failed(q.call, reason, fmt.Sprintf(format, args...))
		e.Status, e.retryAfter = status, retryAfter(status, response.Header, r.now())
		return activities.RailAnswer{}, e
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	isJSON := err == nil && kind == "application/json"
	whole := len(body) <= answerBytesMax

	states, known := carries[q.call][status]
	word, detail := "", ""
	if isJSON && whole {
		word, detail = problem(body)
	}
	if !known || word != "" {
		reason := reasonOf(status)
		if status == http.StatusUnprocessableEntity && word == "key_conflict" {
			reason = ReasonKeyConflict
		}
		return fail(reason, "%s%s", statusText(status), r.problemText(word, detail))
	}
	switch {
	case !whole:
		return fail(ReasonMalformed, "%s with more than %d bytes", statusText(status), answerBytesMax)
	case !isJSON:
		return fail(ReasonMalformed, "%s without application/json", statusText(status))
	}
	p, err := parsePayout(body)
	switch {
	case err != nil:
		return fail(ReasonMalformed, "%s with a body that is no payout: %s", statusText(status), r.hide(err.Error()))
	case p.reference != q.reference:
		return fail(ReasonOther, "%s about another reference", statusText(status))
	case q.payment != nil && (p.amount != q.payment.Amount || p.asset != q.payment.Asset):
		return fail(ReasonOther, "%s about another amount or asset", statusText(status))
	case !slices.Contains(states, p.answer.State):
		return fail(ReasonMalformed, "%s does not go with the status %s", statusText(status), p.answer.State)
	}
	return r.keep(p.answer), nil
}

// keep makes what the rail says of a payout fit to be kept.
func (r *Rail) keep(answer activities.RailAnswer) activities.RailAnswer {
	answer.Detail = ledger.ClipNote(r.hide(answer.Detail))
	return answer
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

func (r *Rail) problemText(word, detail string) string {
	switch {
	case word == "":
		return ", which is no word about the payout"
	case detail != "":
		word += ": " + ledger.ClipError(r.hide(detail), problemBytesMax)
	}
	return ": " + r.hide(word)
}

// lost is the error of a question that got no answer.
func (r *Rail) lost(c call, err error, connected bool) *Error {
	if asURL, ok := errors.AsType[*url.Error](err); ok {
		err = asURL.Err // the address is the rail's, and the question is in the text already
	}
	reason := ReasonNoAnswer
	if !connected && !errors.Is(err, context.Canceled) {
		reason = ReasonUnreachable
	}
	text := err.Error()
	e := r.failed(c, reason, ledger.ClipError(r.hide(text), lostBytesMax))
	if r.hide(text) == text {
		e.cause = err // what it wraps is kept too
	}
	return e
}

func (r *Rail) invalid(c call, err error) *Error {
	e := r.failed(c, ReasonInvalid, err.Error())
	e.cause = err
	return e
}

func (r *Rail) failed(c call, reason Reason, text string) *Error {
	return &Error{Reason: reason, text: fmt.Sprintf("rail %s: %s: %s", r.settings.Name, c, text)}
}

// hide takes our own secrets out of a text, should the rail repeat them, and what looks like one.
func (r *Rail) hide(s string) string {
	for _, own := range []string{r.settings.Token.Reveal(), r.settings.HMACSecret.Reveal()} {
		if own != "" {
			s = strings.ReplaceAll(s, own, "***")
		}
	}
	return ledger.HideSecrets(s)
}
