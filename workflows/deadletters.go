package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// deadLetters writes a transfer's dead letters in order, beside the transfer itself.
type deadLetters struct {
	pending []activities.DeadLetterView
	writing bool
}

// setAside records the step whose attempts ran out, now that the transfer has ended and the money is back.
func (t *transfer) setAside(ctx workflow.Context, state State, why *activities.StepOutcome) {
	name := StepDeposit
	for _, candidate := range []step{t.post(), t.withdraw()} {
		if candidate.input.Key == why.Key {
			name = candidate.name
		}
	}
	letter := t.letter(ctx, name)
	letter.Place, letter.Account = ledger.PlaceSource, t.parsed.From.String()
	if letter.Error == "" {
		// An earlier run used the attempts up; what it knew is in the seal.
		letter.Error = why.Detail
	}
	letter.Resolution = "the transfer ended as " + string(state)
	t.letters.write(ctx, t, letter)
}

// setAsideParked records the parked step.
func (t *transfer) setAsideParked(ctx workflow.Context, p *Parking) {
	letter := t.letter(ctx, p.Step)
	letter.Parked = true
	letter.Error = p.Error
	letter.Place, letter.Account = p.Place, p.Account
	for _, choice := range p.Choices {
		letter.Choices = append(letter.Choices, string(choice))
	}
	t.letters.write(ctx, t, letter)
}

// closeParked records that a person has decided about the parked step.
func (t *transfer) closeParked(ctx workflow.Context, name Step, decision Decision) {
	letter := t.letter(ctx, name)
	letter.State = ledger.DeadLetterClosed
	letter.Place, letter.Account = t.whereabouts(name)
	letter.Resolution = fmt.Sprintf("%s by %s", decision.Action, decision.By)
	if decision.Reason != "" {
		letter.Resolution += ": " + decision.Reason
	}
	t.letters.write(ctx, t, letter)
}

// letter is the dead letter of a step, open, with what this run knows of its failures.
func (t *transfer) letter(ctx workflow.Context, name Step) activities.DeadLetterView {
	letter := activities.DeadLetterView{
		Ledger: t.parsed.From.Ledger, Key: StepKey(t.workflowID, name), Transfer: t.input.ID, Step: string(name),
		State:   ledger.DeadLetterOpen,
		FirstAt: workflow.Now(ctx), LastAt: workflow.Now(ctx),
		Asset: t.parsed.Asset.String(), Amount: t.parsed.Amount.Format(t.parsed.Asset),
	}
	if f := t.failures[name]; f != nil {
		letter.Error, letter.Attempts, letter.FirstAt, letter.LastAt = f.text, f.attempts, f.first, f.last
	}
	return letter
}

// write queues a letter. One coroutine writes them in order, each until it is written: the transfer is parked or has
// ended, so there is no reason to give up.
func (d *deadLetters) write(ctx workflow.Context, t *transfer, letter activities.DeadLetterView) {
	d.pending = append(d.pending, letter)
	if d.writing {
		return
	}
	d.writing = true
	disconnected, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(disconnected, func(ctx workflow.Context) {
		defer func() { d.writing = false }()
		for len(d.pending) > 0 {
			next := d.pending[0]
			d.pending = d.pending[1:]
			options := t.options.Record.durable(next.Ledger, "record the dead letter of "+next.Step)
			err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), "DeadLetterRecord", next).Get(ctx, nil)
			if err != nil {
				// Only a letter that no ledger can hold ends here. The transfer itself is in the books.
				workflow.GetLogger(ctx).Error("dead letter not recorded", "key", next.Key, "error", err)
			}
		}
	})
}

// flush waits until all letters are written.
func (d *deadLetters) flush(ctx workflow.Context) error {
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	return workflow.Await(disconnected, func() bool { return !d.writing })
}
