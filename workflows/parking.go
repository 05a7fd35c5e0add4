package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/ledger"
)

// ErrorDecisionRefused is the type of the error that refuses a decision: the transfer is not parked, or no longer where
// the decision thinks it is. Nothing was changed.
const ErrorDecisionRefused = "DecisionRefused"

// park waits for a person to decide about a step that could not be finished, and returns the decision. Its dead letter is
// recorded meanwhile. Cancelling the transfer does not end the wait: money may be in transit.
func (t *transfer) park(ctx workflow.Context, name Step, cause error) Action {
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	place, account := t.whereabouts(name)
	t.parkings++
	t.status.Parking = &Parking{
		Number: t.parkings, Step: name, Error: errorText(cause), Since: workflow.Now(disconnected),
		Place: place, Account: account, Choices: []Action{ActionRetry, ActionCompensate},
	}
	t.say(disconnected, fmt.Sprintf("parked at %s, waiting for a decision: %s", name, errorText(cause)))
	t.publish(disconnected, StateParked)
	t.setAsideParked(disconnected, t.status.Parking)

	if err := workflow.Await(disconnected, func() bool { return t.decision != nil }); err != nil {
		// A disconnected context is not cancelled, and Await has no other error.
		panic(err)
	}
	decision := *t.decision
	t.decision, t.status.Parking = nil, nil
	t.closeParked(disconnected, name, decision)
	t.say(disconnected, fmt.Sprintf("%s: %s decided to %s", name, decision.By, decision.Action))
	t.publish(disconnected, StateRunning)
	return decision.Action
}

// whereabouts says where the money is while a step is parked. Until a withdraw or post is resolved, nobody knows.
func (t *transfer) whereabouts(name Step) (ledger.Place, string) {
	transit := ledger.AccountRef{Ledger: t.parsed.From.Ledger, Name: ledger.TransitAccount(t.parsed.To.Ledger)}
	switch name {
	case StepRefund, StepDeposit:
		return ledger.PlaceTransit, transit.String()
	case StepResolveDeposit:
		return ledger.PlaceUnknown, fmt.Sprintf("%s or %s", transit, t.parsed.To)
	case StepResolveWithdraw:
		return ledger.PlaceUnknown, fmt.Sprintf("%s or %s", t.parsed.From, transit)
	case StepResolvePost, StepPost, StepWithdraw:
		return ledger.PlaceUnknown, fmt.Sprintf("%s or %s", t.parsed.From, t.parsed.To)
	default:
		return ledger.PlaceUnknown, t.parsed.From.String()
	}
}

// checkDecision refuses a decision that makes no sense now, before it enters the history.
func (t *transfer) checkDecision(decision Decision) error {
	parking := t.status.Parking
	switch {
	case decision.Action != ActionRetry && decision.Action != ActionCompensate:
		return refuseDecision("%q is not a decision: choose retry or compensate", decision.Action)
	case decision.By == "":
		return refuseDecision("a decision needs the name of who decides")
	case parking == nil:
		return refuseDecision("the transfer is not parked, it is %s", t.status.State)
	case decision.Parking != parking.Number:
		return refuseDecision("the decision is about parking %d; the transfer is now at parking %d (%s): look again", decision.Parking, parking.Number, parking.Step)
	case t.decision != nil:
		return refuseDecision("%s has just decided to %s", t.decision.By, t.decision.Action)
	}
	return nil
}

// handleDecision takes a decision. Two may have passed the check at once: the second is refused here.
func (t *transfer) handleDecision(ctx workflow.Context, decision Decision) (TransferStatus, error) {
	if err := t.checkDecision(decision); err != nil {
		return TransferStatus{}, err
	}
	t.decision = &decision
	if err := workflow.Await(ctx, func() bool { return t.decision == nil }); err != nil {
		return TransferStatus{}, err
	}
	return t.status, nil
}

func refuseDecision(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), ErrorDecisionRefused, nil)
}
