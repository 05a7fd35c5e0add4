package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
)

// takenDecision is a decision that this run has taken.
type takenDecision struct {
	Decision

	updateID  string
	at        time.Time
	carried   bool   // the parked step has taken it up
	overruled string // why the parking was over without it; "" if it was not
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
// recorded meanwhile. Cancelling the workflow does not end the wait: money may be on its way.
func (r *run) park(ctx workflow.Context, name Step, cause error) Action {
	return r.parkUnless(ctx, name, cause, otherEnd{})
}

// otherEnd is what may end a parking beside a person's decision; the zero value is nothing.
type otherEnd struct {
	// may says that it is worth looking.
	may func() bool
	// look says why the parking is over, or "". It is asked too before a decision is carried out, and wins over that.
	look func(ctx workflow.Context) string
}

// parkUnless is park for a step that may be over without a decision; then it returns none.
func (r *run) parkUnless(ctx workflow.Context, name Step, cause error, other otherEnd) Action {
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	place, account := r.of.whereabouts(name)
	r.parkings++
	parking := &Parking{
		Number: r.parkings, Run: r.runID, Step: name, Error: errorText(cause), Since: workflow.Now(disconnected),
		Place: place, Account: account, Choices: r.of.choices(name),
	}
	r.standing.Parking = parking
	r.say(disconnected, fmt.Sprintf("parked at %s, waiting for a decision: %s", name, errorText(cause)))
	r.publish(disconnected, StateParked)
	r.setAsideParked(disconnected, parking, cause)

	decided := func() bool { return parking.Number == r.decidedParking() }
	over := ""
	for over == "" {
		if err := workflow.Await(disconnected, func() bool { return decided() || other.may != nil && other.may() }); err != nil {
			// A disconnected context is not cancelled, and Await has no other error.
			panic(err)
		}
		if other.look != nil {
			over = other.look(disconnected)
		}
		if decided() {
			break
		}
	}
	r.standing.Parking = nil
	if over != "" {
		r.closeOver(disconnected, name, parking.Number, over)
		if decided() {
			r.decision.overruled, r.decision.carried = over, true
		}
		r.say(disconnected, string(name)+": "+over)
		r.publish(disconnected, StateRunning)
		return ""
	}
	decision := r.decision
	decision.carried = true
	switch decision.Action {
	case ActionCompensate:
		r.takeBack, r.discard = true, nil
	case ActionDiscard:
		r.takeBack, r.discard = true, decision
	case ActionRetry, ActionSettle:
	}
	r.closeParked(disconnected, name, decision)
	r.say(disconnected, fmt.Sprintf("%s: %s decided to %s", name, decision.By, decision.Action))
	r.publish(disconnected, StateRunning)
	return decision.Action
}

// decidedParking is the number of the parking that was decided about last.
func (r *run) decidedParking() int {
	if r.decision == nil {
		return 0
	}
	return r.decision.Parking
}

// checkUpdate is checkDecision for what may be no decision at all.
func (r *run) checkUpdate(input converter.RawValue) error {
	decision, err := decode[Decision](input)
	if err != nil {
		return refuseDecision("%s", err)
	}
	return r.checkDecision(decision)
}

// checkDecision refuses a decision that makes no sense now, before it enters the history.
func (r *run) checkDecision(decision Decision) error {
	parking, what := r.standing.Parking, r.about.what
	switch {
	case !slices.Contains([]Action{ActionRetry, ActionCompensate, ActionDiscard, ActionSettle}, decision.Action):
		return refuseDecision("%q is not a decision: choose retry, compensate, discard or settle", decision.Action)
	case decision.Run != "" && decision.Run != r.runID:
		return refuseDecision("the decision is about the run %s of the %s's workflow; the %s is now in the run %s: look again", decision.Run, what, what, r.runID)
	case r.decision != nil && decision.Parking == r.decision.Parking:
		return refuseDecision("parking %d was decided about: %s", decision.Parking, r.decision)
	case parking == nil:
		return refuseDecision("the %s is not parked, it is %s", what, r.standing.State)
	case decision.Parking != parking.Number:
		return refuseDecision("the decision is about parking %d; the %s is now at parking %d (%s): look again", decision.Parking, what, parking.Number, parking.Step)
	case !slices.Contains(parking.Choices, decision.Action):
		return refuseDecision("a %s that is parked at %s is not one to %s: choose %s", what, parking.Step, decision.Action, orOf(parking.Choices))
	case decision.Action == ActionDiscard && !decision.SettledOutside && parking.Step != StepSubmit && parking.Step != StepNotify:
		// What is parked is in transit, or nobody knows where; but for a payout that the books have an end of, and for what only tells.
		return refuseDecision("the place of the money is %s (%s): a %s is discarded only when it was settled outside, and whoever discards it says so",
			parking.Place, parking.Account, what)
	case decision.Action == ActionCompensate && parking.Step == StepSubmit && decision.Reason == "":
		return refuseDecision("reason: giving back what the rail may have paid needs one: how it is known that it was not")
	}
	if err := checkWords(decision.Action, decision.By, decision.Reason); err != nil {
		return refuseDecision("%s", err)
	}
	return nil
}

// orOf is "retry, compensate or discard".
func orOf(actions []Action) string {
	var text strings.Builder
	for i, action := range actions {
		switch {
		case i > 0 && i == len(actions)-1:
			text.WriteString(" or ")
		case i > 0:
			text.WriteString(", ")
		}
		text.WriteString(string(action))
	}
	return text.String()
}

// handleDecision takes a decision. Two may have passed the check at once: the second is refused here.
func (r *run) handleDecision(ctx workflow.Context, input converter.RawValue) error {
	if err := r.checkUpdate(input); err != nil {
		return err
	}
	decision, err := decode[Decision](input)
	if err != nil {
		return invalidInput(err)
	}
	taken := &takenDecision{Decision: decision, updateID: workflow.GetCurrentUpdateInfo(ctx).ID, at: workflow.Now(ctx)}
	r.decision = taken
	if err := workflow.Await(ctx, func() bool { return taken.carried }); err != nil {
		return err
	}
	if taken.overruled != "" {
		return refuseDecision("%s", taken.overruled)
	}
	return nil
}

// view is the decision as it is recorded.
func (d *takenDecision) view() *activities.DecisionView {
	return &activities.DecisionView{ID: d.updateID, Action: string(d.Action), By: d.By, Reason: d.Reason}
}
