package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// deadLetters writes a run's dead letters in order, beside the run itself.
type deadLetters struct {
	pending []activities.DeadLetterView
	writing bool
	asOf    time.Time                   // of the last one
	closed  []activities.DeadLetterView // the last one of each step whose parking is over
}

// setAside records a step whose attempts ran out, now that all has ended and the money is back.
func (r *run) setAside(ctx workflow.Context, name Step, state State, why *activities.StepOutcome, choices []string) {
	if r.letters.ofClosed(StepKey(r.workflowID, name)) >= 0 {
		return // It was parked, and a person has seen it.
	}
	letter := r.letter(ctx, name)
	letter.Ended = string(state)
	letter.Place, letter.Account = ledger.PlaceSource, r.about.from.String()
	if letter.Error == "" {
		// An earlier run used the attempts up; what it knew is in the seal.
		letter.Error, letter.ErrorType = why.Detail, string(why.Code)
	}
	letter.Choices = choices
	letter.Resolution = fmt.Sprintf("the %s ended as %s", r.about.what, state)
	r.letters.write(ctx, r, letter)
}

// setAsideParked records the parked step.
func (r *run) setAsideParked(ctx workflow.Context, p *Parking, cause error) {
	letter := r.letter(ctx, p.Step)
	told := tell(cause)
	letter.Error, letter.ErrorType, letter.Causes = told.whole, told.typ, told.causes
	letter.Parked, letter.Parking = true, p.Number
	letter.Place, letter.Account = p.Place, p.Account
	for _, choice := range p.Choices {
		letter.Choices = append(letter.Choices, string(choice))
	}
	r.letters.write(ctx, r, letter)
}

// closeParked records that a person has decided about the parked step.
func (r *run) closeParked(ctx workflow.Context, name Step, decision *takenDecision) {
	letter := r.letter(ctx, name)
	letter.State, letter.Parking = ledger.DeadLetterClosed, decision.Parking
	letter.Place, letter.Account = r.of.whereabouts(name)
	letter.Resolution = decisionText(decision.Action, decision.By, decision.Reason)
	letter.Decision = decision.view()
	r.writeClosed(ctx, letter)
}

// closeOver records that a parking is over without a decision, and why.
func (r *run) closeOver(ctx workflow.Context, name Step, parking int, why string) {
	letter := r.letter(ctx, name)
	letter.State, letter.Parking = ledger.DeadLetterClosed, parking
	letter.Place, letter.Account = r.of.whereabouts(name)
	letter.Resolution = why
	r.writeClosed(ctx, letter)
}

func (r *run) writeClosed(ctx workflow.Context, letter activities.DeadLetterView) {
	r.letters.write(ctx, r, letter)
	if at := r.letters.ofClosed(letter.Key); at >= 0 {
		r.letters.closed[at] = letter
	} else {
		r.letters.closed = append(r.letters.closed, letter)
	}
}

// settle has the letters of parkings that are over say how it all ended, and where its money is now.
func (r *run) settle(ctx workflow.Context, state State, left Whereabouts) {
	for _, letter := range r.letters.closed {
		letter.Ended, letter.Place, letter.Account = string(state), left.Place, left.Account
		letter.Resolution += fmt.Sprintf("; the %s ended as %s", r.about.what, state)
		letter.Decision = nil
		letter.AsOf = r.letters.next(ctx)
		r.letters.write(ctx, r, letter)
	}
}

// letter is the dead letter of a step, open, with what this run knows of its failures.
func (r *run) letter(ctx workflow.Context, name Step) activities.DeadLetterView {
	letter := activities.DeadLetterView{
		Ledger: r.about.from.Ledger, Key: StepKey(r.workflowID, name), Transfer: r.about.letters, Step: string(name),
		State: ledger.DeadLetterOpen, Run: r.runID,
		FirstAt: workflow.Now(ctx), LastAt: workflow.Now(ctx),
		Asset: r.about.asset, Amount: r.about.amount,
		From: r.about.from.String(), To: r.about.to, Memo: r.about.memo, Metadata: r.about.metadata,
		AsOf: r.letters.next(ctx),
	}
	if f := r.failures[name]; f != nil {
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

// ofClosed is where the letter of a key is among those of parkings that are over, or -1.
func (d *deadLetters) ofClosed(key string) int {
	return slices.IndexFunc(d.closed, func(letter activities.DeadLetterView) bool { return letter.Key == key })
}

// write queues a letter. One coroutine writes them in order, each until it is written: the run is parked or has
// ended, so there is no reason to give up.
func (d *deadLetters) write(ctx workflow.Context, r *run, letter activities.DeadLetterView) {
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
			options := r.options.Record.durable(LedgerTaskQueue(next.Ledger), "record the dead letter of "+next.Step)
			err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), "DeadLetterRecord", next).Get(ctx, nil)
			if err != nil {
				// Only a letter that no ledger can hold ends here. What moved is in the books.
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
