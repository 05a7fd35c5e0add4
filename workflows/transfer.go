package workflows

import (
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// Transfer moves money from one account to another, once. Its input is a TransferInput. It completes with a result at every
// business end, also when the money did not move; it fails only for a malformed or conflicting request.
//
// This file is the protocol's table: each step is decided, and each outcome of each step leads to one end.
func (w *Workflows) Transfer(ctx workflow.Context, request converter.RawValue) (TransferResult, error) {
	input, err := decodeTransfer(request)
	if err != nil {
		return TransferResult{}, invalidInput(err)
	}
	t, err := w.newTransfer(ctx, input)
	if err != nil {
		return TransferResult{}, err
	}
	if t.parsed.From.Ledger == t.parsed.To.Ledger {
		return t.withinOneLedger(ctx)
	}
	return t.betweenLedgers(ctx)
}

// withinOneLedger is one database transaction: no saga where that will do.
func (t *transfer) withinOneLedger(ctx workflow.Context) (TransferResult, error) {
	post, err := t.decide(ctx, t.post())
	if err != nil {
		return TransferResult{}, refusal(err)
	}
	switch post.State {
	case ledger.OutcomeApplied:
		return t.end(ctx, StateCompleted, nil)
	case ledger.OutcomeRefused:
		return t.end(ctx, StateRejected, &post)
	case ledger.OutcomeSealed:
		return t.end(ctx, givenUpAs(post.Code), &post)
	default:
		unknownState(post)
		return TransferResult{}, nil
	}
}

// betweenLedgers withdraws at the source and deposits at the destination. Once the withdraw has applied, the money is in
// transit, and the transfer ends only when it has arrived or is back.
func (t *transfer) betweenLedgers(ctx workflow.Context) (TransferResult, error) {
	withdraw, err := t.decide(ctx, t.withdraw())
	if err != nil {
		return TransferResult{}, refusal(err)
	}
	switch withdraw.State {
	case ledger.OutcomeApplied:
	case ledger.OutcomeRefused:
		return t.end(ctx, StateRejected, &withdraw)
	case ledger.OutcomeSealed:
		return t.end(ctx, givenUpAs(withdraw.Code), &withdraw)
	default:
		unknownState(withdraw)
		return TransferResult{}, nil
	}

	deposit := t.decideDeposit(ctx)
	switch deposit.State {
	case ledger.OutcomeApplied:
		return t.end(ctx, StateCompleted, nil)
	case ledger.OutcomeRefused, ledger.OutcomeSealed:
		refund := t.refund(ctx)
		if refund.State == ledger.OutcomeSealed {
			return t.end(ctx, StateDiscarded, &refund)
		}
		return t.end(ctx, takenBackAs(deposit.State, deposit.Code), &deposit)
	default:
		unknownState(deposit)
		return TransferResult{}, nil
	}
}

// givenUpAs is the end after the first step was sealed, by the reason that the ledger remembers: so a later run of the same
// transfer ends the same way.
func givenUpAs(code ledger.Code) State {
	switch code {
	case ledger.CodeCancelled:
		return StateCancelled
	case ledger.CodeDiscarded:
		return StateDiscarded
	default:
		return StateFailed
	}
}

// takenBackAs is the end after a deposit that did not apply and a refund that did.
func takenBackAs(deposit ledger.OutcomeState, why ledger.Code) State {
	if deposit == ledger.OutcomeSealed && why == ledger.CodeCancelled {
		return StateCancelled
	}
	return StateCompensated
}

// decideDeposit decides the deposit. By then money is in transit, so a wrong request has no way out of its own: a person
// decides whether to try again or to give the money back.
func (t *transfer) decideDeposit(ctx workflow.Context) activities.StepOutcome {
	for {
		outcome, err := t.decide(ctx, t.deposit())
		if err == nil {
			return outcome
		}
		if t.park(ctx, StepDeposit, err) != ActionRetry {
			return activities.StepOutcome{State: ledger.OutcomeRefused, Code: ledger.CodeKeyConflict, Detail: errorText(err)}
		}
	}
}

// refund gives the withdraw back. It does not return before the money is back, or a person has discarded the transfer and the
// refund is sealed: then it never moves again.
func (t *transfer) refund(ctx workflow.Context) activities.StepOutcome {
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	for {
		s := t.refundStep()
		c := s.call()
		if t.discard != nil {
			c = t.resolveCall(s, nil)
		}
		outcome, err := t.insist(disconnected, c)
		if err == nil && (outcome.State == ledger.OutcomeApplied || outcome.Code == ledger.CodeDiscarded) {
			return outcome
		}
		if err == nil {
			// Only a defect leads here: a refund of an applied withdraw is never refused, and only a discard seals its key.
			err = temporal.NewApplicationError("the refund was "+string(outcome.State)+": "+outcome.Detail, string(outcome.Code))
		}
		t.park(ctx, c.step, err)
	}
}
