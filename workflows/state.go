package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// errTakenBack is why a forward step is not tried after a person decided to take the transfer back, or has discarded it.
var errTakenBack = temporal.NewApplicationError("a person decided to take the transfer back", "TakenBack")

// transfer is one run of a Transfer.
type transfer struct {
	options    Options
	workflowID string
	runID      string
	input      TransferInput
	parsed     ParsedTransfer

	status    TransferStatus
	published State                  // the state in the search attributes
	failures  map[Step]*stepFailures // never iterated: a map's order is not deterministic
	begun     time.Time              // when the running step was first tried
	takeBack  bool                   // a person decided against going forward
	discard   *takenDecision         // a person has settled the transfer outside
	parkings  int                    // how often this run was parked
	decision  *takenDecision         // the last one
	letters   deadLetters
}

// newTransfer checks the request and answers queries and updates from then on.
func (w *Workflows) newTransfer(ctx workflow.Context, input TransferInput) (*transfer, error) {
	parsed, err := ParseTransfer(input)
	if err != nil {
		return nil, invalidInput(err)
	}
	execution := workflow.GetInfo(ctx).WorkflowExecution
	workflowID := execution.ID
	if want := TransferWorkflowID(input.ID); workflowID != want {
		return nil, invalidInput(&ledger.InvalidError{
			Field: "id", Reason: fmt.Sprintf("the workflow ID of transfer %q must be %q, not %q", input.ID, want, workflowID),
		})
	}
	t := &transfer{
		options: w.options, workflowID: workflowID, runID: execution.RunID, input: input, parsed: parsed,
		status:   TransferStatus{Request: input, State: StateRunning, Steps: []StepReport{}},
		failures: make(map[Step]*stepFailures),
	}
	if state, ok := workflow.GetTypedSearchAttributes(ctx).GetKeyword(SearchAttributeState); ok {
		t.published = State(state)
	}
	err = workflow.SetQueryHandlerWithOptions(ctx, StatusQuery, func() (TransferStatus, error) { return t.status, nil },
		workflow.QueryHandlerOptions{Description: "Where the transfer stands."})
	if err != nil {
		return nil, err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, DecideUpdate, t.handleDecision, workflow.UpdateHandlerOptions{
		Validator: t.checkUpdate, Description: "Decides about a parked transfer: retry, compensate or discard.",
	})
	return t, err
}

// startStep tells queries and the web UI which step is running.
func (t *transfer) startStep(ctx workflow.Context, name Step) {
	t.status.Step = name
	t.begun = workflow.Now(ctx)
	t.say(ctx, string(name))
}

// failed takes note of attempts of a step that failed, the last of them with err. An attempt that met an outage does not
// count.
func (t *transfer) failed(ctx workflow.Context, name Step, err error, attempts int32) {
	if isOutage(err) {
		attempts--
	}
	f := t.failures[name]
	if f == nil {
		f = &stepFailures{firstAt: t.begun}
		t.failures[name] = f
	}
	f.attempts += int(attempts)
	f.lastAt = workflow.Now(ctx)
	f.last = tell(err)
	if isOutage(err) {
		t.say(ctx, fmt.Sprintf("%s, waiting for the ledger: %s", name, errorText(err)))
		return
	}
	t.say(ctx, fmt.Sprintf("%s, attempt %d: %s", name, f.attempts+1, errorText(err)))
}

// report keeps the recorded outcome of a step for the status and the result. Resolving a step reports the step's own
// outcome.
func (t *transfer) report(name Step, outcome activities.StepOutcome) {
	t.status.Steps = append(t.status.Steps, StepReport{Step: name, StepOutcome: outcome})
}

// say tells a person what is happening, in the status query and in the web UI.
func (t *transfer) say(ctx workflow.Context, detail string) {
	t.status.Detail = detail
	workflow.SetCurrentDetails(ctx, t.parsed.String()+": "+detail)
}

// publish writes the state into the search attributes, when it is not there already. On the fast path the end is all that
// is written.
func (t *transfer) publish(ctx workflow.Context, state State) {
	t.status.State = state
	if t.published == state {
		return
	}
	t.published = state
	err := workflow.UpsertTypedSearchAttributes(ctx,
		SearchAttributeState.ValueSet(string(state)), SearchAttributeTransferID.ValueSet(t.input.ID))
	if err != nil {
		// The SDK refuses only what is malformed, and these two never are.
		workflow.GetLogger(ctx).Error("search attributes not written", "error", err)
	}
}

// end completes the transfer. why is the outcome that kept it from completing, or nil.
func (t *transfer) end(ctx workflow.Context, state State, why *activities.StepOutcome) (TransferResult, error) {
	result := TransferResult{
		ID: t.input.ID, State: state,
		From: t.parsed.From.String(), To: t.parsed.To.String(),
		Amount: t.parsed.Amount.Format(t.parsed.Asset), Asset: t.parsed.Asset.String(),
		Steps: slices.Clone(t.status.Steps),
	}
	detail := string(state)
	if why != nil {
		result.Code, result.Detail = why.Code, why.Detail
		detail += ": " + why.Detail
		if why.Code == ledger.CodeAttemptsExhausted || why.Code == ledger.CodeKeyConflict {
			t.setAside(ctx, state, why)
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
	if err := t.letters.flush(ctx); err != nil {
		return TransferResult{}, err
	}
	return result, nil
}

// left says where the money is at an end.
func (t *transfer) left(state State, why *activities.StepOutcome) Whereabouts {
	at := Whereabouts{
		Place: ledger.PlaceSource, Account: t.parsed.From.String(),
		Amount: t.parsed.Amount.Format(t.parsed.Asset), Asset: t.parsed.Asset.String(),
	}
	switch {
	case state == StateCompleted:
		at.Place, at.Account = ledger.PlaceDestination, t.parsed.To.String()
	case state == StateDiscarded && why.Key == StepKey(t.workflowID, StepRefund):
		at.Place, at.Account = ledger.PlaceTransit, t.transit()
	}
	return at
}

// refuseRequest fails the workflow: this request has no outcome, and none of its money has moved.
func (t *transfer) refuseRequest(err error) (TransferResult, error) {
	typ := ErrorInvalidInput
	if isType(err, ErrorKeyConflict) {
		typ = ErrorKeyConflict
	}
	return TransferResult{}, temporal.NewNonRetryableApplicationError(errorText(err), typ, err)
}

// unknownState is a defect: the ledger answered with an outcome that this code does not know. The workflow task fails and
// is tried again, so that a worker that knows it can take over.
func (t *transfer) unknownState(outcome activities.StepOutcome) (TransferResult, error) {
	panic(fmt.Sprintf("payonce: the outcome of %q is %q, which this worker does not know", outcome.Key, outcome.State))
}
