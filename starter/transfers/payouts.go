package transfers

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/starter/asking"
	"payonce/starter/diagnosis"
	"payonce/workflows"
)

// PayoutStatus is where a payout stands.
type PayoutStatus struct {
	workflows.PayoutStatus
	// Notes tell a person why it may not get on, or how its state was found out.
	Notes []string
}

// Ended says whether the payout has ended. Result is set then. A payout that has settled may still bounce.
func (s *PayoutStatus) Ended() bool { return s.Result != nil }

// PayoutPendingError says that the wait is over and the payout is not: it goes on without its caller, is pending at its rail or
// parked, or its state is unknown. The same call again goes on from there.
type PayoutPendingError struct {
	Status PayoutStatus
	Cause  error // the context's, or nil when it is parked
}

func (e *PayoutPendingError) Error() string {
	return fmt.Sprintf("payout %q is %s: %s", e.Status.Request.ID, e.Status.State, e.Status.Detail)
}

func (e *PayoutPendingError) Unwrap() error { return e.Cause }

// DifferentPayoutError says that a payout's ID was used before, for another request. It is an ErrDifferentRequest.
type DifferentPayoutError struct {
	Asked workflows.PayoutInput
	Known *workflows.PayoutInput // nil when only the ledger remembers, and could not be asked
}

func (e *DifferentPayoutError) Error() string {
	if e.Known == nil {
		return fmt.Sprintf("payout %q was made before, for a different request; nothing was moved now", e.Asked.ID)
	}
	return fmt.Sprintf("payout %q was made before, for %s; this request is for %s; nothing was moved now: another payment needs another ID",
		e.Asked.ID, describePayout(*e.Known), describePayout(e.Asked))
}

// Is makes errors.Is(err, ErrDifferentRequest) true.
func (e *DifferentPayoutError) Is(target error) bool { return target == ErrDifferentRequest }

func describePayout(in workflows.PayoutInput) string {
	if parsed, err := workflows.ParsePayout(in); err == nil {
		return parsed.String() + " to " + parsed.Counterparty
	}
	return fmt.Sprintf("%s %s from %s through %s", in.Amount, in.Asset, in.From, in.Rail)
}

// PayoutHandle is a payout that was started, now or before. It is for one goroutine at a time.
type PayoutHandle struct {
	ID       string
	RunID    string // of the workflow's run
	Attached bool   // the payout had been started before, with the same request

	client  *Client
	request workflows.PayoutInput
}

// StartPayout starts a payout, or attaches to the one that was started with the same ID before, running or ended. It does not
// wait for the end. Repeats are safe, and errors are as those of Start; a pending one is a *PayoutPendingError.
func (c *Client) StartPayout(ctx context.Context, in workflows.PayoutInput) (*PayoutHandle, error) {
	parsed, err := workflows.ParsePayout(in)
	if err != nil {
		return nil, err
	}
	handle := &PayoutHandle{ID: in.ID, client: c, request: in}
	for {
		handle.RunID, handle.Attached, err = c.startWorkflow(ctx, start{
			id: in.ID, workflowID: workflows.PayoutWorkflowID(in.ID), workflow: workflows.PayoutWorkflow, summary: parsed.String(), input: in,
		})
		if err == nil && handle.Attached {
			err = c.mustBeSamePayout(ctx, in, handle.RunID)
		}
		switch {
		case err == nil:
			return handle, nil
		case ctx.Err() != nil && mayPass(err):
			status := unknownPayout(in, "Temporal did not answer: the payout may or may not have been started")
			return nil, &PayoutPendingError{Status: status, Cause: context.Cause(ctx)}
		case !mayPass(err):
			return nil, err
		}
		// When the context ends, the next start fails at once, and its error is told above.
		_ = pause(ctx, intervalRetry)
	}
}

func (c *Client) mustBeSamePayout(ctx context.Context, in workflows.PayoutInput, runID string) error {
	known, err := inputOf[workflows.PayoutInput](ctx, c, workflows.PayoutWorkflow, workflows.PayoutWorkflowID(in.ID), runID)
	switch {
	case isNotFound(err):
		return errRunGone
	case err != nil:
		return err
	case !in.SameRequest(known):
		return &DifferentPayoutError{Asked: in, Known: &known}
	}
	return nil
}

// PayoutRequest returns the request that the payout was started with, as long as Temporal keeps its history. The error is
// ErrUnknown if it does not.
func (c *Client) PayoutRequest(ctx context.Context, id string) (workflows.PayoutInput, error) {
	in, err := inputOf[workflows.PayoutInput](ctx, c, workflows.PayoutWorkflow, workflows.PayoutWorkflowID(id), "")
	if isNotFound(err) {
		return in, &UnknownError{What: "payout", ID: id}
	}
	return in, err
}

// Payout starts a payout or attaches to it, and waits for its end. It may be called again with the same request at any time.
func (c *Client) Payout(ctx context.Context, in workflows.PayoutInput) (workflows.PayoutResult, error) {
	handle, err := c.StartPayout(ctx, in)
	if err != nil {
		return workflows.PayoutResult{}, err
	}
	return handle.Wait(ctx)
}

// Wait waits for the end of the payout. A *PayoutPendingError when the context ends first, which a rail may well take longer
// than, or when the payout is parked. A *ClosedError if its workflow was closed without an end. ErrDifferentRequest if the
// ledger remembers the ID for another request; nothing moved.
func (h *PayoutHandle) Wait(ctx context.Context) (workflows.PayoutResult, error) {
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		result workflows.PayoutResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		result, err := resultOf[workflows.PayoutResult](waitCtx, h.client, workflows.PayoutWorkflowID(h.ID), h.RunID)
		ended <- end{result, err}
	}()
	parked := make(chan PayoutStatus, 1)
	go h.lookOut(waitCtx, parked)
	select {
	case e := <-ended:
		closed := closedError(h.ID, e.err)
		switch {
		case closed != nil && closed.How == ClosedConflict:
			return e.result, h.client.payoutConflict(ctx, h.request)
		case closed != nil:
			closed.What = "payout"
			return e.result, closed
		case e.err != nil && ctx.Err() != nil:
			return e.result, h.pending(ctx)
		}
		return e.result, e.err
	case status := <-parked:
		return workflows.PayoutResult{}, &PayoutPendingError{Status: status}
	case <-ctx.Done():
		return workflows.PayoutResult{}, h.pending(ctx)
	}
}

// lookOut tells parked when the payout is parked, and returns then, or when the context ends.
func (h *PayoutHandle) lookOut(ctx context.Context, parked chan<- PayoutStatus) {
	for interval := intervalLookFirst; pause(ctx, interval) == nil; interval = min(2*interval, intervalLookMax) {
		description, err := h.client.temporal.DescribeWorkflow(ctx, workflows.PayoutWorkflowID(h.ID), h.RunID)
		if err != nil {
			continue
		}
		if state, _ := description.TypedSearchAttributes.GetKeyword(workflows.SearchAttributeState); state != string(workflows.StateParked) {
			continue
		}
		if status := h.client.openPayout(ctx, h.request, description); status.State == workflows.StateParked {
			parked <- status
			return
		}
	}
}

// pending is the error of a wait that ends before the payout.
func (h *PayoutHandle) pending(ctx context.Context) error {
	lookCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutLook)
	defer cancel()
	status := unknownPayout(h.request, "Temporal does not answer")
	if description, err := h.client.temporal.DescribeWorkflow(lookCtx, workflows.PayoutWorkflowID(h.ID), h.RunID); err == nil {
		status = h.client.openPayout(lookCtx, h.request, description)
	}
	return &PayoutPendingError{Status: status, Cause: context.Cause(ctx)}
}

func unknownPayout(in workflows.PayoutInput, detail string) PayoutStatus {
	return PayoutStatus{PayoutStatus: workflows.PayoutStatus{Request: in, Standing: workflows.Standing{State: StateUnknown, Detail: detail}}}
}

// openPayout tells where an open payout stands, from the workflow itself, or else from the server's record of it.
func (c *Client) openPayout(ctx context.Context, in workflows.PayoutInput, description *client.WorkflowExecutionDescription) PayoutStatus {
	var status PayoutStatus
	queryCtx, cancel := context.WithTimeout(ctx, timeoutLook/2)
	defer cancel()
	answer, err := c.temporal.QueryWorkflowWithOptions(queryCtx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: description.WorkflowExecution.ID, RunID: description.WorkflowExecution.RunID,
		QueryType: workflows.StatusQuery, QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NONE,
	})
	if err == nil && answer.QueryResult != nil {
		err = answer.QueryResult.Get(&status.PayoutStatus)
	}
	if err != nil {
		status.Request, status.State, status.Detail = in, workflows.StateRunning, "no worker answers for it"
		if recorded, ok := description.TypedSearchAttributes.GetKeyword(workflows.SearchAttributeState); ok {
			status.State = workflows.State(recorded)
		}
	}
	status.Notes = diagnosis.Describe(ctx, c.temporal, description)
	return status
}

// PayoutStatus tells where a payout stands. It moves nothing, and does not ask the rail. One that Temporal has forgotten, or
// whose workflow was closed without an end, is read from what the ledgers have recorded. ErrUnknown if there is no trace of it
// on the ledgers of the worker that answers. A *ClosedError if its workflow failed with a request that moved nothing.
func (c *Client) PayoutStatus(ctx context.Context, id string) (PayoutStatus, error) {
	if err := checkID(id); err != nil {
		return PayoutStatus{}, err
	}
	workflowID := workflows.PayoutWorkflowID(id)
	description, err := c.temporal.DescribeWorkflow(ctx, workflowID, "")
	switch {
	case isNotFound(err):
		return c.rememberedPayout(ctx, id)
	case err != nil:
		return PayoutStatus{}, err
	case description.WorkflowType.Name != workflows.PayoutWorkflow:
		return PayoutStatus{}, fmt.Errorf("the workflow %q is a %s, not a %s", workflowID, description.WorkflowType.Name, workflows.PayoutWorkflow)
	case description.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return c.openPayout(ctx, workflows.PayoutInput{ID: id}, description), nil
	}
	result, err := resultOf[workflows.PayoutResult](ctx, c, workflowID, description.WorkflowExecution.RunID)
	if err == nil {
		return endedPayout(&result), nil
	}
	closed := closedError(id, err)
	if closed == nil {
		return PayoutStatus{}, err
	}
	closed.What = "payout"
	status, err := c.rememberedPayout(ctx, id)
	switch {
	case errors.Is(err, ErrUnknown):
		return PayoutStatus{}, closed
	case err == nil:
		status.Notes = append(status.Notes, "its last workflow was closed without an end: "+string(closed.How))
	}
	return status, err
}

func endedPayout(result *workflows.PayoutResult) PayoutStatus {
	status := PayoutStatus{PayoutStatus: workflows.PayoutStatus{
		Request: workflows.PayoutInput{
			ID: result.ID, From: result.From, Rail: result.Rail, Payee: result.Payee, Amount: result.Amount, Asset: result.Asset,
		},
		Standing: workflows.Standing{State: result.State, Detail: result.Detail, Steps: result.Steps}, Result: result,
	}}
	if n := len(result.Steps); n > 0 {
		status.Step = result.Steps[n-1].Step
	}
	return status
}

// rememberedPayout tells where a payout stands from what the ledgers have recorded.
func (c *Client) rememberedPayout(ctx context.Context, id string) (PayoutStatus, error) {
	workflowID := workflows.PayoutWorkflowID(id)
	var in activities.OperationListInput
	for _, step := range []workflows.Step{workflows.StepReserve, workflows.StepSettle, workflows.StepReturn, workflows.StepBounce} {
		in.Keys = append(in.Keys, workflows.StepKey(workflowID, step))
	}
	list, err := asking.Run[activities.OperationList](ctx, c.temporal, asking.Question{
		Workflow: workflows.OperationListWorkflow, Name: "operation-list/" + workflowID, Input: in,
	})
	if err != nil {
		return PayoutStatus{}, err
	}
	return recallPayout(id, list.Operations)
}

// recallPayout reads a payout's state from the recorded outcomes of its steps, which are in the order of the steps.
func recallPayout(id string, operations []activities.OperationView) (PayoutStatus, error) {
	status := unknownPayout(workflows.PayoutInput{ID: id}, "")
	status.Notes = []string{"read from the ledgers, which remember it"}
	outcomes := make(workflows.Recorded)
	for i := range operations {
		operation := &operations[i]
		outcome := operation.StepOutcome
		outcome.Repeat = false
		status.Step = workflows.Step(operation.Kind)
		status.Steps = append(status.Steps, workflows.StepReport{Step: status.Step, StepOutcome: outcome})
		outcomes[status.Step] = operation
	}
	reserve := outcomes[workflows.StepReserve]
	if reserve == nil {
		return PayoutStatus{}, &UnknownError{What: "payout", ID: id}
	}
	var ok bool
	if status.Request, ok = workflows.PayoutOf(id, reserve); !ok {
		return PayoutStatus{}, fmt.Errorf("the reserve %q is of no payout", reserve.Key)
	}
	end := workflows.RecallPayout(outcomes.Outcome)
	if end == "" {
		status.Detail = "money is reserved for it, and the ledgers have no end of it: start it again with the same ID, and its rail is asked"
		return status, nil
	}
	in := &status.Request
	status.State, status.Detail = end, reserve.Detail
	status.Result = &workflows.PayoutResult{
		ID: id, State: end, From: in.From, Rail: in.Rail, Payee: in.Payee, Amount: in.Amount, Asset: in.Asset,
		Code: string(reserve.Code), Detail: reserve.Detail, Steps: status.Steps,
	}
	return status, nil
}

// HintPayout has a payout's rail asked now. One that has ended is opened again: it may have bounced. Nothing else follows from
// a hint, so repeats are safe. No answer before the context ends, or within half a minute if it has no deadline, is an
// *asking.UnansweredError. ErrUnknown if the ledgers of the worker that answers don't know the payout.
func (c *Client) HintPayout(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	_, err := asking.Run[struct{}](ctx, c.temporal, asking.Question{
		Workflow: workflows.PayoutHintWorkflow, Name: "payout-hint/" + id, Input: workflows.PayoutHintInput{ID: id},
	})
	if isOperationUnknown(err) {
		return &UnknownError{What: "payout", ID: id}
	}
	return err
}

// DecidePayout tells a parked payout what a person has decided. It is as Decide.
func (c *Client) DecidePayout(ctx context.Context, id string, decision workflows.Decision) (workflows.PayoutStatus, error) {
	var status workflows.PayoutStatus
	if err := checkID(id); err != nil {
		return status, err
	}
	err := c.decide(ctx, workflows.PayoutWorkflowID(id), decision, &status)
	return status, c.explainGone(ctx, payoutName(id), err)
}

// CancelPayout asks a payout to stop. It is as Cancel: once the payout is submitted, only its rail's word ends it.
func (c *Client) CancelPayout(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return c.cancel(ctx, payoutName(id))
}

// payoutConflict is the error of a payout that the ledger has refused because its ID is another's. It asks the ledgers whose.
func (c *Client) payoutConflict(ctx context.Context, in workflows.PayoutInput) error {
	conflict := &DifferentPayoutError{Asked: in}
	lookCtx, cancel := context.WithTimeout(ctx, timeoutLook)
	defer cancel()
	if status, err := c.rememberedPayout(lookCtx, in.ID); err == nil {
		conflict.Known = &status.Request
	}
	return conflict
}
