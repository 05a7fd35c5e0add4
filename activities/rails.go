package activities

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ServedRail is a rail that this worker process has settings for.
type ServedRail struct {
	Rail

	// KeysKept is how long after the first submit the rail keeps its key. Later, a submit with the same key could be paid
	// again, and is not sent.
	KeysKept time.Duration
}

// Rails are the activities of the rails of one worker process. Register the pointer with the worker of each rail's task queue.
type Rails struct {
	rails map[string]ServedRail
}

// NewRails returns the activities for some rails, by name. The map is not changed afterwards.
func NewRails(rails map[string]ServedRail) *Rails { return &Rails{rails: rails} }

// RailSubmitInput asks a rail for a payout. It is plain JSON.
type RailSubmitInput struct {
	Rail      string            `json:"rail"`
	Key       string            `json:"key"`
	Reference string            `json:"reference"`
	Amount    string            `json:"amount"` // in major units, "10.00"
	Asset     string            `json:"asset"`  // "USD/2"
	Payee     map[string]string `json:"payee"`
	Memo      string            `json:"memo,omitempty"`
	// Since is a moment that no submit with this key was before. The time that the rail keeps the key is counted from it.
	Since time.Time `json:"since"`
}

// RailAskInput names a payout to its rail.
type RailAskInput struct {
	Rail      string `json:"rail"`
	Reference string `json:"reference"`
}

// RailSubmit hands a payout to its rail. Level 2 by contract with the rail: a repeat under the same key returns the payout's
// state. Past the time that the rail keeps the key nothing is sent, and the error is ErrorRailKeyExpired.
func (r *Rails) RailSubmit(ctx context.Context, in RailSubmitInput) (_ RailAnswer, err error) {
	defer finish(ctx, "submit to rail "+in.Rail, &err)
	rail, err := r.rail(in.Rail)
	if err != nil {
		return RailAnswer{}, err
	}
	until := in.Since.Add(rail.KeysKept - keyMargin(rail.KeysKept))
	if !time.Now().Before(until) {
		return RailAnswer{}, fmt.Errorf("%w: its key may be used until %s", errRailKeyExpired, until.UTC().Format(time.RFC3339))
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return checked(rail.Submit(ctx, RailPayment{
		Key: in.Key, Reference: in.Reference, Amount: in.Amount, Asset: in.Asset, Payee: in.Payee, Memo: in.Memo,
	}))
}

// keyMargin is for clocks that differ, and for a request that is slow on its way.
func keyMargin(kept time.Duration) time.Duration { return min(kept/10, time.Hour) }

// RailLookup asks a rail what has become of a payout. Level 1: a read.
func (r *Rails) RailLookup(ctx context.Context, in RailAskInput) (_ RailAnswer, err error) {
	defer finish(ctx, "ask rail "+in.Rail, &err)
	rail, err := r.rail(in.Rail)
	if err != nil {
		return RailAnswer{}, err
	}
	return checked(rail.Lookup(ctx, in.Reference))
}

// RailCancel asks a rail to stop a payout. Level 1. The error is ErrorRailCantCancel if the rail has no such thing.
func (r *Rails) RailCancel(ctx context.Context, in RailAskInput) (_ RailAnswer, err error) {
	defer finish(ctx, "cancel at rail "+in.Rail, &err)
	rail, err := r.rail(in.Rail)
	if err != nil {
		return RailAnswer{}, err
	}
	canceller, can := rail.Rail.(RailCanceller)
	if !can {
		return RailAnswer{}, errRailCantCancel
	}
	return checked(canceller.Cancel(ctx, in.Reference))
}

func (r *Rails) rail(name string) (ServedRail, error) {
	rail, ok := r.rails[name]
	if !ok {
		return ServedRail{}, errRailNotServed
	}
	return rail, nil
}

// checked lets no word pass that this code does not know: it could be a definite one.
func checked(answer RailAnswer, err error) (RailAnswer, error) {
	if err != nil {
		return RailAnswer{}, err
	}
	switch answer.State {
	case RailPending, RailSettled, RailRejected, RailCancelled, RailReturned, RailUnknown:
		return answer, nil
	default:
		return RailAnswer{}, fmt.Errorf("%w: %q", errRailWord, answer.State)
	}
}

var (
	errRailKeyExpired = errors.New("the rail may have forgotten the payout's key")
	errRailCantCancel = errors.New("the rail can't cancel")
	errRailNotServed  = errors.New("this worker has no settings for the rail")
	errRailWord       = errors.New("the rail's word is none that is known")
)

// railError is what a rail's error may say of itself.
type railError interface {
	error
	// Outage: it would have hit any payout, and says nothing of this one.
	Outage() bool
	// KeyConflict: the rail has the key with other content.
	KeyConflict() bool
	// Invalid: the request can't be sent, now or later, and never was.
	Invalid() bool
	// RetryAfter is how long the rail wants to be left alone.
	RetryAfter() time.Duration
}

// classifyRail is classify for the error of a rail.
func classifyRail(err railError) (typ string, retry bool) {
	switch {
	case err.Outage():
		return ErrorRailUnavailable, true
	case err.KeyConflict():
		return ErrorRailKeyConflict, false
	case err.Invalid():
		return ErrorRailInvalid, false
	default:
		return ErrorRail, true
	}
}
