package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// errTakenBack is why a forward step is not tried after a person decided to take the transfer back, or has discarded it.
var errTakenBack = temporal.NewApplicationError("a person decided to take the transfer back", "TakenBack")

// run is one run of a Transfer, a Payout or a Notification: what their steps, parkings and dead letters have in common.
type run struct {
	options    Options
	workflowID string
	runID      string
	about      subject
	of         kindOfRun

	standing  *Standing              // in the status that queries are answered with
	published State                  // the state in the search attributes
	failures  map[Step]*stepFailures // never iterated: a map's order is not deterministic
	begun     time.Time              // when the running step was first tried
	takeBack  bool                   // a person decided against going forward
	discard   *takenDecision         // a person has settled it outside
	parkings  int                    // how often this run was parked
	decision  *takenDecision         // the last one
	letters   deadLetters
	told      []State // the ends that notifications were started of
}

// subject is what was asked for, as steps and dead letters tell it.
type subject struct {
	what     string // "transfer", "payout" or "notification"
	id       string // the client's
	letters  string // what dead letters name it
	from     ledger.AccountRef
	to       string
	amount   string // with all of the asset's digits
	asset    string
	memo     string
	metadata map[string]string
	text     string // "10.00 USD/2 from us/alice to eu/bob"
}

func (s *subject) money() string { return s.amount + " " + s.asset }

// kindOfRun is what each kind of run knows of its own steps.
type kindOfRun interface {
	// summary labels a step's activity in Temporal's web UI.
	summary(name Step) string
	// whereabouts say where the money is while a step is parked.
	whereabouts(name Step) (ledger.Place, string)
	// choices are what a person can decide about a parked step.
	choices(name Step) []Action
}

// newRun answers queries and updates from then on: status is what they are answered with, and standing is in it.
func newRun[Status any](ctx workflow.Context, options Options, about subject, of kindOfRun, status *Status, standing *Standing) (run, error) {
	execution := workflow.GetInfo(ctx).WorkflowExecution
	standing.State, standing.Steps = StateRunning, []StepReport{}
	r := run{
		options: options, workflowID: execution.ID, runID: execution.RunID, about: about, of: of,
		standing: standing, failures: make(map[Step]*stepFailures),
	}
	if state, ok := workflow.GetTypedSearchAttributes(ctx).GetKeyword(SearchAttributeState); ok {
		r.published = State(state)
	}
	return r, workflow.SetQueryHandlerWithOptions(ctx, StatusQuery, func() (Status, error) { return *status, nil },
		workflow.QueryHandlerOptions{Description: "Where the " + about.what + " stands."})
}

// takeDecisions has r take the decisions that are sent to the workflow, and answer them with status.
func takeDecisions[Status any](ctx workflow.Context, r *run, status *Status) error {
	take := func(ctx workflow.Context, input converter.RawValue) (Status, error) {
		if err := r.handleDecision(ctx, input); err != nil {
			var none Status
			return none, err
		}
		return *status, nil
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, DecideUpdate, take, workflow.UpdateHandlerOptions{
		Validator: r.checkUpdate, Description: "Decides about a parked " + r.about.what + ".",
	})
}

// checkWorkflowID says whether the workflow has the ID that belongs to what it is asked for.
func checkWorkflowID(ctx workflow.Context, what, id, want string) error {
	if got := workflow.GetInfo(ctx).WorkflowExecution.ID; got != want {
		return invalidInput(&ledger.InvalidError{
			Field: "id", Reason: fmt.Sprintf("the workflow ID of %s %q must be %q, not %q", what, id, want, got),
		})
	}
	return nil
}

// startStep tells queries and the web UI which step is running.
func (r *run) startStep(ctx workflow.Context, name Step) {
	r.standing.Step = name
	r.begun = workflow.Now(ctx)
	r.say(ctx, string(name))
}

// failed takes note of attempts of a step that failed, the last of them with err. An attempt that met an outage does not
// count.
func (r *run) failed(ctx workflow.Context, name Step, err error, attempts int32) {
	if isOutage(err) {
		attempts--
	}
	f := r.failures[name]
	if f == nil {
		f = &stepFailures{firstAt: r.begun}
		r.failures[name] = f
	}
	f.attempts += int(attempts)
	f.lastAt = workflow.Now(ctx)
	f.last = tell(err)
	if isOutage(err) {
		r.say(ctx, fmt.Sprintf("%s, waiting for the %s: %s", name, awaited(err), errorText(err)))
		return
	}
	r.say(ctx, fmt.Sprintf("%s, attempt %d: %s", name, f.attempts+1, errorText(err)))
}

// report keeps the recorded outcome of a step for the status and the result. Resolving a step reports the step's own
// outcome.
func (r *run) report(name Step, outcome activities.StepOutcome) {
	r.standing.Steps = append(r.standing.Steps, StepReport{Step: name, StepOutcome: outcome})
}

// say tells a person what is happening, in the status query and in the web UI.
func (r *run) say(ctx workflow.Context, detail string) {
	r.standing.Detail = detail
	workflow.SetCurrentDetails(ctx, r.about.text+": "+detail)
}

// publish writes the state into the search attributes, when it is not there already. On the fast path the end is all that
// is written.
func (r *run) publish(ctx workflow.Context, state State) {
	r.standing.State = state
	if r.published == state {
		return
	}
	r.published = state
	err := workflow.UpsertTypedSearchAttributes(ctx,
		SearchAttributeState.ValueSet(string(state)), SearchAttributeTransferID.ValueSet(r.about.id))
	if err != nil {
		// The SDK refuses only what is malformed, and these two never are.
		workflow.GetLogger(ctx).Error("search attributes not written", "error", err)
	}
}

// refusal is the error of a request that has no outcome, and none of whose money has moved.
func refusal(err error) error {
	typ := ErrorInvalidInput
	if isType(err, ErrorKeyConflict) {
		typ = ErrorKeyConflict
	}
	return temporal.NewNonRetryableApplicationError(errorText(err), typ, err)
}

// unknownState is a defect: the ledger answered with an outcome that this code does not know. The workflow task fails and
// is tried again, so that a worker that knows it can take over.
func unknownState(outcome activities.StepOutcome) {
	panic(fmt.Sprintf("payonce: the outcome of %q is %q, which this worker does not know", outcome.Key, outcome.State))
}
