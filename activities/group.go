package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payonce/ledger"
)

// stragglersAfter is how long PostGroup waits for those that are left when others have been answered. Calls that come
// together share a database transaction, so what is left then waits for something of its own, such as an account that
// somebody holds.
const stragglersAfter = 300 * time.Millisecond

// PostGroupInput asks for posts on one ledger, each a keyed operation of its own.
type PostGroupInput struct {
	Ledger string      `json:"ledger"`
	Steps  []StepInput `json:"steps"`
}

// PostGroupOutput has the answers in the order of the steps.
type PostGroupOutput struct {
	Answers []PostAnswer `json:"answers"`
}

// PostAnswer is what came of one post: an outcome or an error.
type PostAnswer struct {
	State  ledger.OutcomeState `json:"state,omitempty"`
	Code   ledger.Code         `json:"code,omitempty"`
	Detail string              `json:"detail,omitempty"`
	At     time.Time           `json:"at,omitzero"`
	Repeat bool                `json:"repeat,omitempty"`
	// Error is the type of the error that left the post without an outcome here, one of errors.go.
	Error string `json:"error,omitempty"`
}

// errStraggler ends a post that keeps others waiting. It may have been carried out.
var errStraggler = errors.New("others are done, and this one is not")

// PostGroup carries posts out at the same time, each as Post does. Level 2: a repeat of any of them, here, in another group or
// alone, returns its original outcome. One that is refused, in conflict or slow spoils no other.
//
// The error is that of the whole: ErrorLedgerUnavailable when all posts met an outage.
func (a *Activities) PostGroup(ctx context.Context, in PostGroupInput) (_ PostGroupOutput, err error) {
	defer finish(ctx, fmt.Sprintf("%d posts on ledger %s", len(in.Steps), in.Ledger), &err)
	books, err := a.ledger(in.Ledger)
	if err != nil {
		return PostGroupOutput{}, err
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	type answer struct {
		index   int
		outcome ledger.Outcome
		err     error
	}
	answers := make(chan answer, len(in.Steps))
	for i := range in.Steps {
		go func() {
			got := answer{index: i, err: errPanicked}
			defer func() { answers <- got }()
			defer func() {
				if panicked := recover(); panicked != nil {
					logPanic(ctx, in.Steps[i].Key, panicked)
				}
			}()
			operation, err := in.Steps[i].operation(ledger.KindPost)
			if err != nil {
				got.err = err
				return
			}
			got.outcome, got.err = books.Post(ctx, operation)
		}()
	}

	out := PostGroupOutput{Answers: make([]PostAnswer, len(in.Steps))}
	outages := 0
	var outage error
	stragglers := time.AfterFunc(time.Hour, func() { leave(errStraggler) })
	defer stragglers.Stop()
	for range in.Steps {
		got := <-answers
		stragglers.Reset(stragglersAfter)
		if got.err != nil {
			out.Answers[got.index].Error, _ = classify(got.err)
			if errors.Is(got.err, ledger.ErrUnavailable) {
				outages++
				outage = got.err
			}
			continue
		}
		o := got.outcome
		out.Answers[got.index] = PostAnswer{State: o.State, Code: o.Code, Detail: o.Detail, At: o.At, Repeat: o.Repeat}
	}
	if outages > 0 && outages == len(in.Steps) {
		return PostGroupOutput{}, outage
	}
	return out, nil
}
