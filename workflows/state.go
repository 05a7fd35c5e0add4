package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// transfer is one run of a Transfer.
type transfer struct {
	run

	parsed ParsedTransfer
	status TransferStatus
}

// newTransfer checks the request and answers queries and updates from then on.
func (w *Workflows) newTransfer(ctx workflow.Context, input TransferInput) (*transfer, error) {
	parsed, err := ParseTransfer(input)
	if err != nil {
		return nil, invalidInput(err)
	}
	if err := checkWorkflowID(ctx, "transfer", input.ID, TransferWorkflowID(input.ID)); err != nil {
		return nil, err
	}
	t := &transfer{parsed: parsed, status: TransferStatus{Request: input}}
	about := subject{
		what: "transfer", id: input.ID, letters: input.ID, from: parsed.From, to: parsed.To.String(),
		amount: parsed.Amount.Format(parsed.Asset), asset: parsed.Asset.String(),
		memo: input.Memo, metadata: input.Metadata, text: parsed.String(),
	}
	if t.run, err = newRun(ctx, w.options, about, t, &t.status, &t.status.Standing); err != nil {
		return nil, err
	}
	return t, takeDecisions(ctx, &t.run, &t.status)
}

// summary labels an activity in Temporal's web UI: "deposit 10.00 USD/2 to eu/bob".
func (t *transfer) summary(name Step) string {
	money := t.about.money()
	switch name { //nolint:exhaustive // the others are a payout's
	case StepPost:
		return fmt.Sprintf("post %s from %s to %s", money, t.parsed.From, t.parsed.To)
	case StepWithdraw:
		return fmt.Sprintf("withdraw %s from %s", money, t.parsed.From)
	case StepDeposit:
		return fmt.Sprintf("deposit %s to %s", money, t.parsed.To)
	case StepRefund:
		return fmt.Sprintf("refund %s to %s", money, t.parsed.From)
	default:
		return fmt.Sprintf("%s of %s", name, money)
	}
}

// whereabouts say where the money is while a step is parked. Until a step is resolved, nobody knows what it did.
func (t *transfer) whereabouts(name Step) (ledger.Place, string) {
	transit := t.transit()
	switch name { //nolint:exhaustive // the others are a payout's
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

func (t *transfer) choices(Step) []Action {
	return []Action{ActionRetry, ActionCompensate, ActionDiscard}
}

// end completes the transfer. why is the outcome that kept it from completing, or nil.
func (t *transfer) end(ctx workflow.Context, state State, why *activities.StepOutcome) (TransferResult, error) {
	result := TransferResult{
		ID: t.about.id, State: state,
		From: t.parsed.From.String(), To: t.parsed.To.String(), Amount: t.about.amount, Asset: t.about.asset,
		Steps: slices.Clone(t.status.Steps),
	}
	detail := string(state)
	if why != nil {
		result.Code, result.Detail = why.Code, why.Detail
		detail += ": " + why.Detail
		if why.Code == ledger.CodeAttemptsExhausted || why.Code == ledger.CodeKeyConflict {
			name := StepDeposit
			for _, first := range []step{t.post(), t.withdraw()} {
				if first.input.Key == why.Key {
					name = first.name
				}
			}
			t.setAside(ctx, name, state, why, choicesAfter(state))
		}
	}
	left := t.left(state, why)
	if state == StateDiscarded {
		result.Left = &left
	}
	t.settle(ctx, state, left)
	t.status.Result = &result
	t.say(ctx, detail)
	t.publish(ctx, state)
	t.notify(ctx, t.status.Request.Notify, state, result, left)
	if err := t.letters.flush(ctx); err != nil {
		return TransferResult{}, err
	}
	return result, nil
}

// left says where the money is at an end.
func (t *transfer) left(state State, why *activities.StepOutcome) Whereabouts {
	at := Whereabouts{Place: ledger.PlaceSource, Account: t.parsed.From.String(), Amount: t.about.amount, Asset: t.about.asset}
	switch {
	case state == StateCompleted:
		at.Place, at.Account = ledger.PlaceDestination, t.parsed.To.String()
	case state == StateDiscarded && why.Key == StepKey(t.workflowID, StepRefund):
		at.Place, at.Account = ledger.PlaceTransit, t.transit()
	}
	return at
}
