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
		return t.refuseRequest(err)
	}
	switch post.State {
	case ledger.OutcomeApplied:
		return t.end(ctx, StateCompleted, nil)
	case ledger.OutcomeRefused:
		return t.end(ctx, StateRejected, &post)
	case ledger.OutcomeSealed:
		return t.end(ctx, givenUpAs(post, StateFailed), &post)
	default:
		return t.unknownState(post)
	}
}

// betweenLedgers withdraws at the source and deposits at the destination. Once the withdraw has applied, the money is in
// transit, and the transfer ends only when it has arrived or is back.
func (t *transfer) betweenLedgers(ctx workflow.Context) (TransferResult, error) {
	withdraw, err := t.decide(ctx, t.withdraw())
	if err != nil {
		return t.refuseRequest(err)
	}
	switch withdraw.State {
	case ledger.OutcomeApplied:
	case ledger.OutcomeRefused:
		return t.end(ctx, StateRejected, &withdraw)
	case ledger.OutcomeSealed:
		return t.end(ctx, givenUpAs(withdraw, StateFailed), &withdraw)
	default:
		return t.unknownState(withdraw)
	}

	deposit := t.decideDeposit(ctx)
	switch deposit.State {
	case ledger.OutcomeApplied:
		return t.end(ctx, StateCompleted, nil)
	case ledger.OutcomeRefused, ledger.OutcomeSealed:
		t.refund(ctx)
		return t.end(ctx, givenUpAs(deposit, StateCompensated), &deposit)
	default:
		return t.unknownState(deposit)
	}
}

// givenUpAs is the end after a step that did not apply: cancelled if that is why its key was sealed, else otherwise. The
// ledger remembers the reason, so a later run of the same transfer ends the same way.
func givenUpAs(outcome activities.StepOutcome, otherwise State) State {
	if outcome.State == ledger.OutcomeSealed && outcome.Code == ledger.CodeCancelled {
		return StateCancelled
	}
	return otherwise
}

// decide gives a forward step its outcome. When its attempts did not, the outcome is unknown, whatever the last error
// said, and resolving decides it. The error says that the request itself is wrong: its key belongs to another, or it is
// malformed.
func (t *transfer) decide(ctx workflow.Context, s step) (activities.StepOutcome, error) {
	outcome, err := t.forward(ctx, s)
	if err != nil && !isWrongRequest(err) {
		outcome, err = t.resolve(ctx, s, err)
	}
	return outcome, err
}

// decideDeposit decides the deposit. By then money is in transit, so a wrong request has no way out of its own: a person
// decides whether to try again or to give the money back.
func (t *transfer) decideDeposit(ctx workflow.Context) activities.StepOutcome {
	for {
		outcome, err := t.decide(ctx, t.deposit())
		if err == nil {
			return outcome
		}
		if t.park(ctx, StepDeposit, err) == ActionCompensate {
			return activities.StepOutcome{State: ledger.OutcomeRefused, Code: ledger.CodeKeyConflict, Detail: errorText(err)}
		}
	}
}

// resolve decides the outcome of a step that was given up because of cause: what the ledger has recorded, or never. It
// runs on a context that the transfer's cancellation does not reach.
func (t *transfer) resolve(ctx workflow.Context, s step, cause error) (activities.StepOutcome, error) {
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	c := resolveCall(s, cause)
	for {
		outcome, err := t.insist(disconnected, c)
		if err == nil || isWrongRequest(err) {
			return outcome, err
		}
		if t.park(ctx, c.step, err) == ActionCompensate {
			t.takeBack = true
		}
	}
}

// refund gives the withdraw back. It does not return before the money is back.
func (t *transfer) refund(ctx workflow.Context) {
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	for {
		outcome, err := t.insist(disconnected, t.refundCall())
		if err == nil && outcome.State == ledger.OutcomeApplied {
			return
		}
		if err == nil {
			// Only a defect leads here: a refund of an applied withdraw is never refused, and nothing seals its key.
			err = temporal.NewApplicationError("the refund was "+string(outcome.State)+": "+outcome.Detail, string(outcome.Code))
		}
		t.park(ctx, StepRefund, err)
	}
}
