package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// step is one write to a ledger. Its activity has the name of its kind.
type step struct {
	name     Step
	kind     ledger.Kind
	activity string
	input    activities.StepInput
	resolve  Step // the step that resolves it; "" for one that is never given up
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

// refundStep gives the withdraw back: the same money, the other way. When the transfer is discarded it is resolved without
// being tried.
func (t *transfer) refundStep() step {
	withdraw := t.withdraw().input
	refund := t.stepInput(StepRefund, withdraw.Ledger, withdraw.To, withdraw.From, withdraw.Other)
	refund.Reverses = withdraw.Key
	return step{name: StepRefund, kind: ledger.KindRefund, activity: "Refund", resolve: StepResolveRefund, input: refund}
}

func (r *run) stepInput(name Step, ledgerName, from, to, other string) activities.StepInput {
	return activities.StepInput{
		Ledger:   ledgerName,
		Key:      StepKey(r.workflowID, name),
		From:     from,
		To:       to,
		Amount:   r.about.amount,
		Asset:    r.about.asset,
		Other:    other,
		Memo:     r.about.memo,
		Metadata: r.about.metadata,
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

// resolveCall asks for the outcome of s, which is given up because of cause, or because a person has discarded it all.
func (r *run) resolveCall(s step, cause error) call {
	var code ledger.Code
	var detail string
	switch {
	case r.discard != nil:
		code, detail = ledger.CodeDiscarded, decisionText(r.discard.Action, r.discard.By, r.discard.Reason)
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

// decide gives a forward step its outcome. When its attempts did not, the outcome is unknown, whatever the last error
// said, and resolving decides it. The error says that the request itself is wrong: its key belongs to another, or it is
// malformed.
func (r *run) decide(ctx workflow.Context, s step) (activities.StepOutcome, error) {
	outcome, err := r.forward(ctx, s)
	if err != nil && !isWrongRequest(err) {
		outcome, err = r.resolve(ctx, s, err)
	}
	return outcome, err
}

// resolve decides the outcome of a step that was given up because of cause: what the ledger has recorded, or never. It
// runs on a context that the cancellation of the workflow does not reach.
func (r *run) resolve(ctx workflow.Context, s step, cause error) (activities.StepOutcome, error) {
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	for {
		outcome, err := r.insist(disconnected, r.resolveCall(s, cause))
		if err == nil || isWrongRequest(err) {
			return outcome, err
		}
		r.park(ctx, s.resolve, err)
	}
}

// forward tries a forward step: first fast, then durably, under the same key. An error other than a wrong request leaves
// the outcome unknown, also when nothing was tried: an earlier run of the same may have.
func (r *run) forward(ctx workflow.Context, s step) (activities.StepOutcome, error) {
	if err := ctx.Err(); err != nil {
		return activities.StepOutcome{}, err
	}
	if r.takeBack {
		return activities.StepOutcome{}, errTakenBack
	}
	c := s.call()
	r.startStep(ctx, c.step)
	if r.options.Fast.AttemptsMax > 0 {
		outcome, err := r.fast(ctx, c)
		if err == nil || isWrongRequest(err) || temporal.IsCanceledError(err) {
			return outcome, err
		}
	}
	return r.durable(ctx, c, r.options.Forward)
}

// insist runs what has to succeed, with the patience of Options.Settle. An error leaves nothing but to ask a person.
func (r *run) insist(ctx workflow.Context, c call) (activities.StepOutcome, error) {
	r.startStep(ctx, c.step)
	return r.durable(ctx, c, r.options.Settle)
}

// fast runs a call as a local activity: in this worker, without a task of its own.
func (r *run) fast(ctx workflow.Context, c call) (activities.StepOutcome, error) {
	options := r.options.Fast.local()
	options.Summary = r.of.summary(c.step)
	var outcome activities.StepOutcome
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, options), c.activity, c.input).Get(ctx, &outcome)
	if err != nil {
		if !isNotServed(err) {
			r.failed(ctx, c.step, err, attemptsUsed(err, r.options.Fast.AttemptsMax))
		}
		return outcome, err
	}
	r.report(c.step, outcome)
	return outcome, nil
}

// durable runs a call as an activity on its ledger's task queue until it has an outcome, its attempts have run out, or
// the outage budget has.
func (r *run) durable(ctx workflow.Context, c call, o StepOptions) (activities.StepOutcome, error) {
	r.publish(ctx, StateRunning)
	var outcome activities.StepOutcome
	err := r.options.waitingOut(ctx, o, LedgerTaskQueue(c.ledger), r.of.summary(c.step), func(options workflow.ActivityOptions) error {
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), c.activity, c.input).Get(ctx, &outcome)
		if err != nil && !temporal.IsCanceledError(err) {
			r.failed(ctx, c.step, err, attemptsUsed(err, options.RetryPolicy.MaximumAttempts))
		}
		return err
	})
	if err == nil {
		r.report(c.step, outcome)
	}
	return outcome, err
}

// waitingOut has run make the attempts of an activity on the task queue of a ledger or a rail. An outage uses up none of them:
// it is waited out here, and run again.
func (o *Options) waitingOut(ctx workflow.Context, step StepOptions, queue, summary string, run func(workflow.ActivityOptions) error) error {
	attemptsLeft := step.AttemptsMax
	outageEnd := workflow.Now(ctx).Add(o.Outage.Budget)
	backoff := o.Outage.BackoffFirst
	for {
		within := max(outageEnd.Sub(workflow.Now(ctx)), step.TimeoutStartToClose)
		err := run(step.capped(queue, summary, attemptsLeft, within))
		if err == nil || temporal.IsCanceledError(err) || !isOutage(err) {
			return err
		}
		if attemptsLeft > 0 {
			// The cap may have been lowered since these attempts were made.
			attemptsLeft = max(attemptsLeft-attemptsUsed(err, attemptsLeft)+1, 1)
		}
		pause := max(backoff, retryAfter(err))
		if !recorded(ctx, func() bool { return workflow.Now(ctx).Add(pause).Before(outageEnd) }) {
			return err
		}
		if err := workflow.Sleep(ctx, pause); err != nil {
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

// stepFailures is what went wrong with one step in this run.
type stepFailures struct {
	attempts int
	firstAt  time.Time
	lastAt   time.Time
	last     toldError
}
