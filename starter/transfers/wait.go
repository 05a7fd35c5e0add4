package transfers

import (
	"context"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"payonce/workflows"
)

// timeoutLook bounds a look at a transfer beside, or after, the wait for its end.
const timeoutLook = 3 * time.Second

// Wait waits for the end of the transfer. A server that goes away for a while is waited for.
//
// Errors: *PendingError when the context ends before the transfer does, and when the transfer is parked, which would
// otherwise take as long as a person does. *ClosedError if its workflow was closed without an end.
// ErrDifferentRequest if the ledger remembers the ID for another request, which Temporal has forgotten; nothing moved.
func (h *Handle) Wait(ctx context.Context) (workflows.TransferResult, error) {
	for {
		result, err := h.waitRun(ctx)
		if isNotFound(err) {
			return result, &PendingError{Status: unknownStatus(h.request, "Temporal has deleted its workflow: start it again with the same ID"), Cause: err}
		}
		closed := closedError(h.ID, err)
		if closed == nil {
			return result, err
		}
		if closed.How == ClosedConflict {
			return result, h.client.conflict(ctx, h.request)
		}
		if closed.How != ClosedTerminated {
			return result, closed
		}
		// A reset ends a run and goes on in another; or somebody has started a terminated transfer again.
		description, errDescribe := h.client.temporal.DescribeWorkflow(ctx, workflows.TransferWorkflowID(h.ID), "")
		if errDescribe != nil || description.WorkflowExecution.RunID == h.RunID {
			return result, closed
		}
		h.RunID = description.WorkflowExecution.RunID
		if err := h.client.mustBeSame(ctx, h.request, h.RunID); err != nil {
			return result, err
		}
	}
}

// waitRun waits for the end of one run, for the context, or until the transfer is parked.
func (h *Handle) waitRun(ctx context.Context) (workflows.TransferResult, error) {
	type end struct {
		result workflows.TransferResult
		err    error
	}
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan end, 1)
	go func() {
		result, err := h.client.result(waitCtx, h.ID, h.RunID)
		ended <- end{result, err}
	}()
	parked := make(chan Status, 1)
	go h.lookOut(waitCtx, parked)

	select {
	case e := <-ended:
		if ctx.Err() != nil && closedError(h.ID, e.err) == nil && e.err != nil {
			return e.result, h.pending(ctx)
		}
		return e.result, e.err
	case status := <-parked:
		return workflows.TransferResult{}, &PendingError{Status: status}
	case <-ctx.Done():
		return workflows.TransferResult{}, h.pending(ctx)
	}
}

// lookOut tells parked when the transfer is parked, and returns then, or when the context ends. It asks the server, and
// the workflow itself, which costs a worker some work, only when the server can't tell.
func (h *Handle) lookOut(ctx context.Context, parked chan<- Status) {
	for interval := intervalLookFirst; pause(ctx, interval) == nil; interval = min(2*interval, intervalLookMax) {
		lookCtx, cancel := context.WithTimeout(ctx, timeoutLook)
		status, err := h.client.running(lookCtx, h.ID, h.RunID, false)
		cancel()
		if err == nil && status.State == workflows.StateParked {
			parked <- status
			return
		}
	}
}

// pending is the error of a wait that ends before the transfer.
func (h *Handle) pending(ctx context.Context) error {
	cause := context.Cause(ctx)
	lookCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutLook)
	defer cancel()
	status, err := h.client.running(lookCtx, h.ID, h.RunID, true)
	if err != nil {
		status = unknownStatus(h.request, "Temporal does not answer")
	}
	return &PendingError{Status: status, Cause: cause}
}

// result waits for the end of a run, as long as the context lasts.
func (c *Client) result(ctx context.Context, id, runID string) (workflows.TransferResult, error) {
	return resultOf[workflows.TransferResult](ctx, c, workflows.TransferWorkflowID(id), runID)
}

func resultOf[Result any](ctx context.Context, c *Client, workflowID, runID string) (Result, error) {
	for {
		var result Result
		err := c.temporal.GetWorkflow(ctx, workflowID, runID).Get(ctx, &result)
		if err == nil || closedError(workflowID, err) != nil || ctx.Err() != nil || !mayPass(err) {
			return result, err
		}
		if err := pause(ctx, intervalRetry); err != nil {
			return result, err
		}
	}
}

// running tells where a running transfer stands, from the server's record and, if that says that it is parked, or if everything
// is wanted, from the workflow itself. One that is parked has said so in its search attributes; one that has not been through its
// first attempts has none.
func (c *Client) running(ctx context.Context, id, runID string, everything bool) (Status, error) {
	description, err := c.temporal.DescribeWorkflow(ctx, workflows.TransferWorkflowID(id), runID)
	if err != nil {
		return Status{}, err
	}
	return c.runningAs(ctx, id, description, everything)
}

func (c *Client) runningAs(ctx context.Context, id string, description *client.WorkflowExecutionDescription, everything bool) (Status, error) {
	recorded, _ := description.TypedSearchAttributes.GetKeyword(workflows.SearchAttributeState)
	state := workflows.State(recorded)
	var status Status
	status.State = workflows.StateRunning
	status.Request.ID = id
	if state == workflows.StateParked {
		status.State = state
	}
	if state != workflows.StateParked && !everything {
		return status, nil
	}
	runID := description.WorkflowExecution.RunID
	answered := status.ask(ctx, c, id, runID)
	if !answered {
		// No worker answers, so all that is known is in the server.
		status.Detail = "no worker answers for it"
		if in, err := c.requestOf(ctx, id, runID); err == nil {
			status.Request = in
		}
	}
	if everything {
		status.Notes = c.notes(ctx, description)
	}
	return status, nil
}

// ask has the workflow tell where it stands. It leaves half of the time for what comes after.
func (s *Status) ask(ctx context.Context, c *Client, id, runID string) bool {
	ctx, cancel := context.WithTimeout(ctx, timeoutLook/2)
	defer cancel()
	answer, err := c.temporal.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID:           workflows.TransferWorkflowID(id),
		RunID:                runID,
		QueryType:            workflows.StatusQuery,
		QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NONE,
	})
	if err != nil || answer.QueryResult == nil {
		return false
	}
	var told workflows.TransferStatus
	if err := answer.QueryResult.Get(&told); err != nil {
		return false
	}
	s.TransferStatus = told
	return true
}
