package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// step is one write to a ledger: post, withdraw, deposit or refund. Its activity has the name of its kind.
type step struct {
	name     Step
	kind     ledger.Kind
	activity string
	input    activities.StepInput
	resolve  Step // the step that resolves it
}

func (t *transfer) post() step {
	return step{
		name: StepPost, kind: ledger.KindPost, activity: "Post", resolve: StepResolvePost,
		input: t.stepInput(StepPost, t.parsed.From.Ledger, t.parsed.From.Name, t.parsed.To.Name, ""),
	}
}

func (t *transfer) withdraw() step {
	from, to := t.parsed.From, t.parsed.To
	return step{
		name: StepWithdraw, kind: ledger.KindWithdraw, activity: "Withdraw", resolve: StepResolveWithdraw,
		input: t.stepInput(StepWithdraw, from.Ledger, from.Name, ledger.TransitAccount(to.Ledger), to.String()),
	}
}

func (t *transfer) deposit() step {
	from, to := t.parsed.From, t.parsed.To
	return step{
		name: StepDeposit, kind: ledger.KindDeposit, activity: "Deposit", resolve: StepResolveDeposit,
		input: t.stepInput(StepDeposit, to.Ledger, ledger.TransitAccount(from.Ledger), to.Name, from.String()),
	}
}

func (t *transfer) stepInput(name Step, ledgerName, from, to, other string) activities.StepInput {
	return activities.StepInput{
		Ledger:   ledgerName,
		Key:      StepKey(t.workflowID, name),
		From:     from,
		To:       to,
		Amount:   t.parsed.Amount.Format(t.parsed.Asset),
		Asset:    t.parsed.Asset.String(),
		Other:    other,
		Memo:     t.input.Memo,
		Metadata: t.input.Metadata,
	}
}

// call is one activity that a ledger is asked to run for a step.
type call struct {
	step     Step
	ledger   string
	activity string
	input    any
}

func (s step) call() call {
	return call{step: s.name, ledger: s.input.Ledger, activity: s.activity, input: s.input}
}

// resolveCall asks for the outcome of s, which is given up because of cause, or because a person has discarded the transfer.
func (t *transfer) resolveCall(s step, cause error) call {
	var code ledger.Code
	var detail string
	switch {
	case t.discard != nil:
		code, detail = ledger.CodeDiscarded, decisionText(t.discard.Action, t.discard.By, t.discard.Reason)
	case temporal.IsCanceledError(cause):
		code, detail = ledger.CodeCancelled, errorText(cause)
	default:
		code, detail = ledger.CodeAttemptsExhausted, errorText(cause)
	}
	return call{
		step: s.resolve, ledger: s.input.Ledger, activity: "Resolve",
		input: activities.ResolveInput{Kind: s.kind, Step: s.input, Code: code, Detail: ledger.ClipNote(detail)},
	}
}

// refundStep gives the withdraw back: the same money, the other way. When the transfer is discarded it is resolved without
// being tried.
func (t *transfer) refundStep() step {
	withdraw := t.withdraw().input
	refund := t.stepInput(StepRefund, withdraw.Ledger, withdraw.To, withdraw.From, withdraw.Other)
	refund.Reverses = withdraw.Key
	return step{name: StepRefund, kind: ledger.KindRefund, activity: "Refund", resolve: StepResolveRefund, input: refund}
}

// forward tries a forward step: first fast, then durably, under the same key. An error other than a wrong request leaves
// the outcome unknown, also when nothing was tried: an earlier run of this transfer may have.
func (t *transfer) forward(ctx workflow.Context, s step) (activities.StepOutcome, error) {
	if err := ctx.Err(); err != nil {
		return activities.StepOutcome{}, err
	}
	if t.takeBack {
		return activities.StepOutcome{}, errTakenBack
	}
	c := s.call()
	t.startStep(ctx, c.step)
	if t.options.Fast.AttemptsMax > 0 {
		outcome, err := t.fast(ctx, c)
		if err == nil || isWrongRequest(err) || temporal.IsCanceledError(err) {
			return outcome, err
		}
	}
	return t.durable(ctx, c, t.options.Forward)
}

// insist runs what has to succeed, with the patience of Options.Settle. An error leaves nothing but to ask a person.
func (t *transfer) insist(ctx workflow.Context, c call) (activities.StepOutcome, error) {
	t.startStep(ctx, c.step)
	return t.durable(ctx, c, t.options.Settle)
}

// fast runs a call as a local activity: in this worker, without a task of its own.
func (t *transfer) fast(ctx workflow.Context, c call) (activities.StepOutcome, error) {
	options := t.options.Fast.local()
	options.Summary = t.summary(c)
	var outcome activities.StepOutcome
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, options), c.activity, c.input).Get(ctx, &outcome)
	if err != nil {
		if !isNotServed(err) {
			t.failed(ctx, c.step, err, attemptsUsed(err, t.options.Fast.AttemptsMax))
		}
		return outcome, err
	}
	t.report(c.step, outcome)
	return outcome, nil
}

// durable runs a call as an activity on its ledger's task queue until it has an outcome, its attempts have run out, or
// the outage budget has.
func (t *transfer) durable(ctx workflow.Context, c call, o StepOptions) (activities.StepOutcome, error) {
	t.publish(ctx, StateRunning)
	var outcome activities.StepOutcome
	err := t.options.waitingOut(ctx, o, c.ledger, t.summary(c), func(options workflow.ActivityOptions) error {
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), c.activity, c.input).Get(ctx, &outcome)
		if err != nil && !temporal.IsCanceledError(err) {
			t.failed(ctx, c.step, err, attemptsUsed(err, options.RetryPolicy.MaximumAttempts))
		}
		return err
	})
	if err == nil {
		t.report(c.step, outcome)
	}
	return outcome, err
}

// waitingOut has run make the attempts of an activity on a ledger's task queue. An outage uses up none of them: it is waited
// out here, and run again.
func (o *Options) waitingOut(ctx workflow.Context, step StepOptions, ledgerName, summary string, run func(workflow.ActivityOptions) error) error {
	attemptsLeft := step.AttemptsMax
	outageEnd := workflow.Now(ctx).Add(o.Outage.Budget)
	backoff := o.Outage.BackoffFirst
	for {
		within := max(outageEnd.Sub(workflow.Now(ctx)), step.TimeoutStartToClose)
		err := run(step.capped(ledgerName, summary, attemptsLeft, within))
		if err == nil || temporal.IsCanceledError(err) || !isOutage(err) {
			return err
		}
		if attemptsLeft > 0 {
			// The cap may have been lowered since these attempts were made.
			attemptsLeft = max(attemptsLeft-attemptsUsed(err, attemptsLeft)+1, 1)
		}
		if !recorded(ctx, func() bool { return workflow.Now(ctx).Add(backoff).Before(outageEnd) }) {
			return err
		}
		if err := workflow.Sleep(ctx, backoff); err != nil {
			return err
		}
		backoff = min(2*backoff, o.Outage.BackoffMax)
	}
}

// recorded is what decide says, written into the history. It is for decisions that hang on an option: options may change
// while a transfer runs, and its replay must take the way that it took.
func recorded(ctx workflow.Context, decide func() bool) bool {
	var decision bool
	err := workflow.SideEffect(ctx, func(workflow.Context) any { return decide() }).Get(&decision)
	if err != nil {
		// A bool can always be read back.
		panic(err)
	}
	return decision
}

// summary labels an activity in Temporal's web UI: "deposit 10.00 USD/2 to eu/bob".
func (t *transfer) summary(c call) string {
	money := t.parsed.Amount.Format(t.parsed.Asset) + " " + t.parsed.Asset.String()
	switch c.step {
	case StepPost:
		return fmt.Sprintf("post %s from %s to %s", money, t.parsed.From, t.parsed.To)
	case StepWithdraw:
		return fmt.Sprintf("withdraw %s from %s", money, t.parsed.From)
	case StepDeposit:
		return fmt.Sprintf("deposit %s to %s", money, t.parsed.To)
	case StepRefund:
		return fmt.Sprintf("refund %s to %s", money, t.parsed.From)
	case StepResolvePost, StepResolveWithdraw, StepResolveDeposit, StepResolveRefund:
		return fmt.Sprintf("%s of %s", c.step, money)
	default:
		return string(c.step)
	}
}

// stepFailures is what went wrong with one step in this run.
type stepFailures struct {
	attempts int
	firstAt  time.Time
	lastAt   time.Time
	last     toldError
}
