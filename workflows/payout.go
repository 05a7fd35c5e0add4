package workflows

import (
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// Payout pays money out through a rail, once. Its input is a PayoutInput. It completes with a result at every business end; it
// fails only for a malformed or conflicting request.
//
// This file is the protocol's table of docs/payouts.md: what is reserved is settled, or goes back, by what the rail has said
// for good, and never because time has passed. Where the rail has no such word, a person has.
func (w *Workflows) Payout(ctx workflow.Context, request converter.RawValue) (PayoutResult, error) {
	input, err := decodePayout(request)
	if err != nil {
		return PayoutResult{}, invalidInput(err)
	}
	p, err := w.newPayout(ctx, input)
	if err != nil {
		return PayoutResult{}, err
	}
	reserve, err := p.decide(ctx, p.reserve())
	if err != nil {
		return PayoutResult{}, refusal(err)
	}
	switch reserve.State {
	case ledger.OutcomeApplied:
		return p.reserved(ctx, reserve)
	case ledger.OutcomeRefused:
		return p.end(ctx, StateRejected, &reserve)
	case ledger.OutcomeSealed:
		return p.end(ctx, givenUpAs(reserve.Code), &reserve)
	default:
		unknownState(reserve)
		return PayoutResult{}, nil
	}
}

// reserved takes the payout to its end. Nothing but the submit ends with the workflow's cancellation from here on.
func (p *payout) reserved(ctx workflow.Context, reserve activities.StepOutcome) (PayoutResult, error) {
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	p.reservedAt = reserve.At
	if reserve.Repeat {
		// An earlier run, or an attempt whose answer was lost, was here before.
		p.readBooks(disconnected)
	}
	for {
		word, err := p.ask(ctx, disconnected)
		if err != nil {
			return PayoutResult{}, err
		}
		p.word = word
		end, done := p.book(disconnected, word)
		if !done {
			continue
		}
		result, err := p.end(disconnected, end, nil)
		// Only now: while the dead letters are written, one more may come. What comes later meets a closed workflow.
		if err != nil || !p.takeHints() {
			return result, err
		}
		p.status.Result, p.status.State = nil, StateRunning
	}
}

// book has the books say what the rail has said, and returns the end. done is false when a person has the rail asked again.
func (p *payout) book(ctx workflow.Context, word activities.RailAnswer) (end State, done bool) {
	for {
		if contradiction := p.contradiction(word); contradiction != nil {
			return p.contradicted(ctx, contradiction)
		}
		switch word.State { //nolint:exhaustive // see default
		case activities.RailSettled:
			if p.carryOut(ctx, p.settleStep()) {
				return StateSettled, true
			}
		case activities.RailReturned:
			// The books tell it as it was: paid, and come back.
			if p.books.returned || p.carryOut(ctx, p.settleStep()) && p.carryOut(ctx, p.bounceStep()) {
				return StateReturned, true
			}
		case activities.RailCancelled:
			if p.books.bounced || p.carryOut(ctx, p.returnStep()) {
				return StateCancelled, true
			}
		case activities.RailRejected:
			if p.books.bounced || p.carryOut(ctx, p.returnStep()) {
				return StateReturned, true
			}
		default:
			// Not definite: the books had an end before this run, and the rail says nothing against it.
			return p.books.end(), true
		}
		// An attempt of another run was recorded in between, and it was for the other way.
	}
}

// contradiction is what the rail says against what the books have, or nil. It is for a person: whatever is done about it, the
// money is somewhere it should not be.
func (p *payout) contradiction(word activities.RailAnswer) *contradiction {
	switch notPaid := word.State == activities.RailRejected || word.State == activities.RailCancelled; {
	case word.State == activities.RailSettled && p.books.returned:
		return &contradiction{step: StepSettle, text: "the rail has paid, and the money was given back"}
	case word.State == activities.RailSettled && p.books.bounced:
		return &contradiction{step: StepBounce, text: "the rail has paid, and the money was given back as bounced"}
	case notPaid && p.books.settled && !p.books.bounced:
		return &contradiction{step: StepReturn, text: "the rail has not paid, and the money was settled"}
	default:
		return nil
	}
}

// contradicted waits for a person to say what is right: the rail, when it is asked again; the books, or what was done outside
// of them; or, if the money was settled, that it has to go back.
func (p *payout) contradicted(ctx workflow.Context, c *contradiction) (end State, done bool) {
	p.contradicting = c
	cause := temporal.NewApplicationError(c.text, "Contradiction")
	action := p.parkUnless(ctx, c.step, cause, otherEnd{may: p.hinted, look: func(ctx workflow.Context) string {
		word, ok := p.glance(ctx)
		if !ok || p.contradiction(word) != nil || !word.State.Definite() {
			return ""
		}
		return "the rail says now: " + string(word.State)
	}})
	p.contradicting = nil
	switch action { //nolint:exhaustive // nothing else is among the choices
	case ActionDiscard:
		return StateDiscarded, true
	case ActionCompensate:
		if p.carryOut(ctx, p.bounceStep()) {
			return StateReturned, true
		}
	}
	return "", false
}

// carryOut carries out a step that has to succeed. It returns false when the money has gone the other way: settled, or given
// back.
func (p *payout) carryOut(ctx workflow.Context, s step) bool {
	for {
		outcome, err := p.insist(ctx, s.call())
		switch {
		case err == nil && outcome.State == ledger.OutcomeApplied:
			p.books.add(s.kind)
			return true
		case isType(err, activities.ErrorKeyConflict):
			p.readBooks(ctx)
			if s.kind == ledger.KindSettle && p.books.returned || s.kind == ledger.KindReturn && p.books.settled {
				return false
			}
		case err == nil:
			// Only a defect leads here: what was reserved is there, and goes one way.
			err = temporal.NewApplicationError("the "+string(s.name)+" was "+string(outcome.State)+": "+outcome.Detail, string(outcome.Code))
		}
		p.park(ctx, s.name, err)
	}
}
