package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// deadLetters writes a transfer's dead letters in order, beside the transfer itself.
type deadLetters struct {
	pending []activities.DeadLetterView
	writing bool
	asOf    time.Time                   // of the last one
	decided []activities.DeadLetterView // the last one of each step that a person has decided about
}

// setAside records the step whose attempts ran out, now that the transfer has ended and the money is back.
func (t *transfer) setAside(ctx workflow.Context, state State, why *activities.StepOutcome) {
	name := StepDeposit
	for _, candidate := range []step{t.post(), t.withdraw()} {
		if candidate.input.Key == why.Key {
			name = candidate.name
		}
	}
	if t.letters.ofDecided(StepKey(t.workflowID, name)) >= 0 {
		return // A person has seen it, and decided.
	}
	letter := t.letter(ctx, name)
	letter.Ended = string(state)
	letter.Place, letter.Account = ledger.PlaceSource, t.parsed.From.String()
	if letter.Error == "" {
		// An earlier run used the attempts up; what it knew is in the seal.
		letter.Error, letter.ErrorType = why.Detail, string(why.Code)
	}
	letter.Choices = choicesAfter(state)
	letter.Resolution = "the transfer ended as " + string(state)
	t.letters.write(ctx, t, letter)
}

// setAsideParked records the parked step.
func (t *transfer) setAsideParked(ctx workflow.Context, p *Parking, cause error) {
	letter := t.letter(ctx, p.Step)
	told := tell(cause)
	letter.Error, letter.ErrorType, letter.Causes = told.whole, told.typ, told.causes
	letter.Parked, letter.Parking = true, p.Number
	letter.Place, letter.Account = p.Place, p.Account
	for _, choice := range p.Choices {
		letter.Choices = append(letter.Choices, string(choice))
	}
	t.letters.write(ctx, t, letter)
}

// closeParked records that a person has decided about the parked step.
func (t *transfer) closeParked(ctx workflow.Context, name Step, decision *takenDecision) {
	letter := t.letter(ctx, name)
	letter.State, letter.Parking = ledger.DeadLetterClosed, decision.Parking
	letter.Place, letter.Account = t.whereabouts(name)
	letter.Resolution = decisionText(decision.Action, decision.By, decision.Reason)
	letter.Decision = decision.view()
	t.letters.write(ctx, t, letter)
	if at := t.letters.ofDecided(letter.Key); at >= 0 {
		t.letters.decided[at] = letter
	} else {
		t.letters.decided = append(t.letters.decided, letter)
	}
}

// settle has the letters that a person has decided about say how the transfer ended, and where its money is now.
func (t *transfer) settle(ctx workflow.Context, state State, left Whereabouts) {
	for _, letter := range t.letters.decided {
		letter.Ended, letter.Place, letter.Account = string(state), left.Place, left.Account
		letter.Resolution += "; the transfer ended as " + string(state)
		letter.Decision = nil
		letter.AsOf = t.letters.next(ctx)
		t.letters.write(ctx, t, letter)
	}
}

// letter is the dead letter of a step, open, with what this run knows of its failures.
func (t *transfer) letter(ctx workflow.Context, name Step) activities.DeadLetterView {
	letter := activities.DeadLetterView{
		Ledger: t.parsed.From.Ledger, Key: StepKey(t.workflowID, name), Transfer: t.input.ID, Step: string(name),
		State: ledger.DeadLetterOpen, Run: t.runID,
		FirstAt: workflow.Now(ctx), LastAt: workflow.Now(ctx),
		Asset: t.parsed.Asset.String(), Amount: t.parsed.Amount.Format(t.parsed.Asset),
		From: t.parsed.From.String(), To: t.parsed.To.String(), Memo: t.input.Memo, Metadata: t.input.Metadata,
		AsOf: t.letters.next(ctx),
	}
	if f := t.failures[name]; f != nil {
		letter.Error, letter.ErrorType, letter.Causes = f.last.whole, f.last.typ, f.last.causes
		letter.Attempts, letter.FirstAt, letter.LastAt = f.attempts, f.firstAt, f.lastAt
	}
	return letter
}

// next is the moment that the next letter is as of: now, and later than the one before, whatever the clock does.
func (d *deadLetters) next(ctx workflow.Context) time.Time {
	now := workflow.Now(ctx).Truncate(time.Microsecond)
	if !now.After(d.asOf) {
		now = d.asOf.Add(time.Microsecond)
	}
	d.asOf = now
	return now
}

// ofDecided is where the letter of a key is among those that a person has decided about, or -1.
func (d *deadLetters) ofDecided(key string) int {
	return slices.IndexFunc(d.decided, func(letter activities.DeadLetterView) bool { return letter.Key == key })
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
