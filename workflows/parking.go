package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// takenDecision is a decision that this run has taken.
type takenDecision struct {
	Decision

	updateID string
	at       time.Time
	carried  bool // the parked step has taken it up
}

// String tells who did what, and when.
func (d *takenDecision) String() string {
	text := fmt.Sprintf("%s decided to %s on %s", d.By, d.Action, d.at.UTC().Format(time.RFC3339))
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	return text
}

// park waits for a person to decide about a step that could not be finished, and returns the decision. Its dead letter is
// recorded meanwhile. Cancelling the transfer does not end the wait: money may be in transit.
func (t *transfer) park(ctx workflow.Context, name Step, cause error) Action {
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	place, account := t.whereabouts(name)
	t.parkings++
	t.status.Parking = &Parking{
		Number: t.parkings, Run: t.runID, Step: name, Error: errorText(cause), Since: workflow.Now(disconnected),
		Place: place, Account: account, Choices: []Action{ActionRetry, ActionCompensate, ActionDiscard},
	}
	t.say(disconnected, fmt.Sprintf("parked at %s, waiting for a decision: %s", name, errorText(cause)))
	t.publish(disconnected, StateParked)
	t.setAsideParked(disconnected, t.status.Parking, cause)

	if err := workflow.Await(disconnected, func() bool { return t.status.Parking.Number == t.decidedParking() }); err != nil {
		// A disconnected context is not cancelled, and Await has no other error.
		panic(err)
	}
	decision := t.decision
	decision.carried = true
	t.status.Parking = nil
	switch decision.Action {
	case ActionCompensate:
		t.takeBack, t.discard = true, nil
	case ActionDiscard:
		t.takeBack, t.discard = true, decision
	case ActionRetry:
	}
	t.closeParked(disconnected, name, decision)
	t.say(disconnected, fmt.Sprintf("%s: %s decided to %s", name, decision.By, decision.Action))
	t.publish(disconnected, StateRunning)
	return decision.Action
}

// decidedParking is the number of the parking that was decided about last.
func (t *transfer) decidedParking() int {
	if t.decision == nil {
		return 0
	}
	return t.decision.Parking
}

// whereabouts says where the money is while a step is parked. Until a step is resolved, nobody knows what it did.
func (t *transfer) whereabouts(name Step) (ledger.Place, string) {
	transit := t.transit()
	switch name {
	case StepRefund, StepDeposit:
		return ledger.PlaceTransit, transit
	case StepResolveDeposit:
		return ledger.PlaceUnknown, fmt.Sprintf("%s or %s", transit, t.parsed.To)
	case StepResolveWithdraw, StepResolveRefund:
		return ledger.PlaceUnknown, fmt.Sprintf("%s or %s", t.parsed.From, transit)
	case StepResolvePost, StepPost, StepWithdraw:
		return ledger.PlaceUnknown, fmt.Sprintf("%s or %s", t.parsed.From, t.parsed.To)
	default:
		return ledger.PlaceUnknown, t.parsed.From.String()
	}
}

// transit is the account that the money is in between withdraw and deposit or refund.
func (t *transfer) transit() string {
	return ledger.AccountRef{Ledger: t.parsed.From.Ledger, Name: ledger.TransitAccount(t.parsed.To.Ledger)}.String()
}

// checkUpdate is checkDecision for what may be no decision at all.
func (t *transfer) checkUpdate(input converter.RawValue) error {
	decision, err := decode[Decision](input)
	if err != nil {
		return refuseDecision("%s", err)
	}
	return t.checkDecision(decision)
}

// checkDecision refuses a decision that makes no sense now, before it enters the history.
func (t *transfer) checkDecision(decision Decision) error {
	parking := t.status.Parking
	switch {
	case decision.Action != ActionRetry && decision.Action != ActionCompensate && decision.Action != ActionDiscard:
		return refuseDecision("%q is not a decision: choose retry, compensate or discard", decision.Action)
	case decision.Run != "" && decision.Run != t.runID:
		return refuseDecision("the decision is about the run %s of the transfer's workflow; the transfer is now in the run %s: look again", decision.Run, t.runID)
	case t.decision != nil && decision.Parking == t.decision.Parking:
		return refuseDecision("parking %d was decided about: %s", decision.Parking, t.decision)
	case parking == nil:
		return refuseDecision("the transfer is not parked, it is %s", t.status.State)
	case decision.Parking != parking.Number:
		return refuseDecision("the decision is about parking %d; the transfer is now at parking %d (%s): look again", decision.Parking, parking.Number, parking.Step)
	case decision.Action == ActionDiscard && !decision.SettledOutside:
		// What is parked is in transit, or nobody knows where.
		return refuseDecision("the place of the money is %s (%s): a transfer is discarded only when it was settled outside, and whoever discards it says so",
			parking.Place, parking.Account)
	}
	if err := checkWords(decision.Action, decision.By, decision.Reason); err != nil {
		return refuseDecision("%s", err)
	}
	return nil
}

// handleDecision takes a decision. Two may have passed the check at once: the second is refused here.
func (t *transfer) handleDecision(ctx workflow.Context, input converter.RawValue) (TransferStatus, error) {
	if err := t.checkUpdate(input); err != nil {
		return TransferStatus{}, err
	}
	decision, err := decode[Decision](input)
	if err != nil {
		return TransferStatus{}, invalidInput(err)
	}
	taken := &takenDecision{Decision: decision, updateID: workflow.GetCurrentUpdateInfo(ctx).ID, at: workflow.Now(ctx)}
	t.decision = taken
	if err := workflow.Await(ctx, func() bool { return taken.carried }); err != nil {
		return TransferStatus{}, err
	}
	return t.status, nil
}

// view is the decision as it is recorded.
func (d *takenDecision) view() *activities.DecisionView {
	return &activities.DecisionView{ID: d.updateID, Action: string(d.Action), By: d.By, Reason: d.Reason}
}
