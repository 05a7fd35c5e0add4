package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
)

// errUnknownToRail is why a payout is not over when its rail says that it doesn't know it: what was submitted may be on its way.
var errUnknownToRail = temporal.NewApplicationError("the rail does not know the payout, so far", "RailUnknown")

// ask asks the rail until its word is definite, or until a person gives one in its place. A word that is not definite is
// returned only when the books have an end already. The error is that the workflow continues as new.
func (p *payout) ask(ctx, disconnected workflow.Context) (activities.RailAnswer, error) {
	if word, unsent := p.unsent(ctx, disconnected); unsent {
		return word, nil
	}
	q := question{payout: p, since: workflow.Now(disconnected), interval: p.options.Rail.pollFirst()}
	q.first(ctx, disconnected)
	for !q.answered() {
		switch {
		case q.pending():
			p.publish(disconnected, StatePending)
			q.since = workflow.Now(disconnected)
		case recorded(disconnected, func() bool { return workflow.Now(disconnected).Sub(q.since) >= p.options.Rail.Patience }):
			if word, decided := q.person(disconnected); decided {
				return word, nil
			}
		default:
			p.publish(disconnected, StateRunning)
		}
		if q.pending() && !p.hinted() && workflow.GetInfo(disconnected).GetContinueAsNewSuggested() {
			return q.word, workflow.NewContinueAsNewError(disconnected, PayoutWorkflow, p.status.Request)
		}
		q.wait(ctx, disconnected)
		q.again(ctx, disconnected)
	}
	return q.word, nil
}

// unsent says that the payout goes back without its rail: it is cancelled, or taken back, and nobody has ever submitted it.
func (p *payout) unsent(ctx, disconnected workflow.Context) (activities.RailAnswer, bool) {
	if p.cancelWanted(ctx) && !p.submitted && p.firstRun(disconnected) {
		return activities.RailAnswer{State: activities.RailCancelled, Code: CodeUnsent, Detail: "it was cancelled before it was submitted"}, true
	}
	return activities.RailAnswer{}, false
}

// cancelWanted says that the workflow was cancelled, or that a person wants the money back.
func (p *payout) cancelWanted(ctx workflow.Context) bool { return ctx.Err() != nil || p.takeBack }

// question is the asking of a rail about a payout.
type question struct {
	*payout

	word     activities.RailAnswer // the last, zero if there was none
	err      error                 // why the last time brought no word
	since    time.Time             // for how long nothing is known
	interval time.Duration
}

// answered says that no more is to be asked. When the books have an end, one word is enough, whatever it is.
func (q *question) answered() bool {
	return q.err == nil && (q.word.State.Definite() || q.books.ended() && q.word.State != "")
}

func (q *question) pending() bool { return q.err == nil && q.word.State == activities.RailPending }

// first submits a payout that nobody has submitted. Of any other the rail is asked what has become of it.
func (q *question) first(ctx, disconnected workflow.Context) {
	if q.submitted || q.cancelWanted(ctx) || q.books.read && !q.firstRun(disconnected) {
		q.again(ctx, disconnected)
		return
	}
	q.submit(ctx)
	if isType(q.err, activities.ErrorRailInvalid) && q.submits == 1 && attemptsUsed(q.err, 0) == 1 && q.firstRun(disconnected) {
		q.word = activities.RailAnswer{State: activities.RailRejected, Code: CodeUnsent, Detail: errorText(q.err)}
		q.err = nil
	}
}

// again asks once more. A payout that is to be cancelled is cancelled, if the rail can; one that the rail doesn't know is
// submitted again under its key, as long as the rail keeps that.
func (q *question) again(ctx, disconnected workflow.Context) {
	if q.cancelWanted(ctx) && !q.cancelDone && !q.books.ended() {
		q.cancel(disconnected)
		cant := isType(q.err, activities.ErrorRailCantCancel)
		q.cancelTried, q.cancelDone = true, cant || q.err == nil
		if !cant {
			return
		}
	}
	q.lookup(disconnected)
	if q.err != nil || q.word.State != activities.RailUnknown || q.books.ended() {
		return
	}
	if q.mayNotSubmit || q.cancelWanted(ctx) {
		q.err = errUnknownToRail
		return
	}
	q.submit(ctx)
}

// submit hands the payout to the rail. Level 2 by contract with the rail: it has one key, however often it is submitted.
func (q *question) submit(ctx workflow.Context) {
	q.submitted = true
	q.startStep(ctx, StepSubmit)
	in := activities.RailSubmitInput{
		Rail: q.parsed.Rail, Key: StepKey(q.workflowID, StepSubmit), Reference: q.about.id, Amount: q.about.amount, Asset: q.about.asset,
		Payee: q.status.Request.Payee, Memo: q.about.memo, Since: q.reservedAt,
	}
	q.call(ctx, q.options.Rail.Submit, "RailSubmit", "submit "+q.about.money()+" to "+q.parsed.Rail, in)
	q.mayNotSubmit = isType(q.err, activities.ErrorRailKeyExpired) || isType(q.err, activities.ErrorRailKeyConflict) ||
		isType(q.err, activities.ErrorRailInvalid)
}

func (q *question) lookup(ctx workflow.Context) {
	q.takeHints()
	q.call(ctx, q.options.Rail.Ask, "RailLookup", "ask "+q.parsed.Rail, q.reference())
}

func (q *question) cancel(ctx workflow.Context) {
	q.call(ctx, q.options.Rail.Ask, "RailCancel", "cancel at "+q.parsed.Rail, q.reference())
}

func (p *payout) reference() activities.RailAskInput {
	return activities.RailAskInput{Rail: p.parsed.Rail, Reference: p.about.id}
}

// call has the rail asked on its task queue, and waits out that it can't be reached.
func (q *question) call(ctx workflow.Context, o StepOptions, activity, summary string, in any) {
	if q.published == "" {
		q.publish(ctx, StateRunning)
	}
	var word activities.RailAnswer
	err := q.options.waitingOut(ctx, o, RailTaskQueue(q.parsed.Rail), summary, func(options workflow.ActivityOptions) error {
		if activity == "RailSubmit" {
			q.submits++
		}
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), activity, in).Get(ctx, &word)
		switch {
		case err == nil || temporal.IsCanceledError(err):
		case activity == "RailSubmit":
			q.failed(ctx, StepSubmit, err, attemptsUsed(err, options.RetryPolicy.MaximumAttempts))
		default:
			q.say(ctx, summary+": "+errorText(err))
		}
		return err
	})
	q.word, q.err = word, err
	if err == nil {
		q.told(ctx, word)
	}
}

// told keeps the rail's word for those who ask.
func (p *payout) told(ctx workflow.Context, word activities.RailAnswer) {
	p.status.Word, p.status.Asked = &word, workflow.Now(ctx)
	p.say(ctx, "the rail says: "+wordText(word))
}

func wordText(word activities.RailAnswer) string {
	text := string(word.State)
	if word.Code != "" {
		text += " (" + word.Code + ")"
	}
	if word.Detail != "" {
		text += ": " + word.Detail
	}
	return text
}

// wait waits for the next time to ask: the interval, a hint, or a cancellation that the rail has not been told of.
func (q *question) wait(ctx, disconnected workflow.Context) {
	woken := func() bool { return q.hinted() || q.cancelWanted(ctx) && !q.cancelTried }
	_, err := workflow.AwaitWithTimeout(disconnected, q.interval, woken)
	if err != nil {
		panic(err) // a disconnected context is not cancelled, and there is no other error
	}
	q.interval = min(2*q.interval, q.options.Rail.PollMax)
}

// person asks a person, and returns the word that is given in the rail's place. The rail's own goes before it, if it comes
// while the person thinks. Retrying asks the rail with fresh patience.
func (q *question) person(ctx workflow.Context) (word activities.RailAnswer, decided bool) {
	cause := q.err
	if cause == nil {
		cause = errUnknownToRail
	}
	action := q.parkUnless(ctx, StepSubmit, cause, otherEnd{may: q.hinted, look: func(ctx workflow.Context) string {
		var ok bool
		if word, ok = q.glance(ctx); !ok || !word.State.Definite() {
			return ""
		}
		return "the rail has answered: " + wordText(word)
	}})
	switch action { //nolint:exhaustive // nothing else is among the choices
	case "":
		return word, true
	case ActionSettle:
		return q.decidedAs(activities.RailSettled), true
	case ActionCompensate:
		return q.decidedAs(activities.RailRejected), true
	case ActionDiscard: // the books' end stands
		return activities.RailAnswer{}, true
	}
	q.since, q.interval = workflow.Now(ctx), q.options.Rail.pollFirst()
	return activities.RailAnswer{}, false
}

// decidedAs is a person's word in the rail's place.
func (p *payout) decidedAs(state activities.RailState) activities.RailAnswer {
	d := p.decision
	return activities.RailAnswer{State: state, Code: CodeDecided, Detail: decisionText(d.Action, d.By, d.Reason)}
}

// glance asks the rail once, and does not wait for one that can't be reached.
func (p *payout) glance(ctx workflow.Context) (word activities.RailAnswer, ok bool) {
	p.takeHints()
	o := p.options.Rail.Ask
	options := o.capped(RailTaskQueue(p.parsed.Rail), "ask "+p.parsed.Rail, 1, 2*o.TimeoutStartToClose)
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), "RailLookup", p.reference()).Get(ctx, &word)
	if err != nil {
		p.say(ctx, fmt.Sprintf("parked; the rail does not tell: %s", errorText(err)))
		return activities.RailAnswer{}, false
	}
	p.told(ctx, word)
	return word, true
}

// hinted says that somebody has hinted since the rail was asked.
func (p *payout) hinted() bool { return p.hints.Len() > 0 }

// takeHints takes the hints that are there, and says whether there were any.
func (p *payout) takeHints() bool {
	taken := false
	for p.hints.ReceiveAsync(nil) {
		taken = true
	}
	return taken
}
