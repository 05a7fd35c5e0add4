package transfers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"payonce/starter/asking"
	"payonce/starter/diagnosis"
	"payonce/workflows"
)

// StateUnknown is where a transfer stands when nobody can tell for sure: its workflow was closed without an end, or nobody
// answers. Starting it again with the same ID tells.
const StateUnknown workflows.State = "unknown"

// timeoutMemory bounds asking the ledgers when there is an answer without them.
const timeoutMemory = 10 * time.Second

// Status is where a transfer stands.
type Status struct {
	workflows.TransferStatus
	// Notes tell a person why it may not get on, or how its state was found out.
	Notes []string
}

// Ended says whether the transfer has ended. Result is set then.
func (s *Status) Ended() bool { return s.Result != nil }

// unknownStatus is all that is known of a transfer when nobody answers.
func unknownStatus(in workflows.TransferInput, detail string) Status {
	return Status{TransferStatus: workflows.TransferStatus{Request: in, Standing: workflows.Standing{State: StateUnknown, Detail: detail}}}
}

// Status tells where a transfer stands. It moves nothing. A running transfer tells itself, if a worker answers in time, or
// else Temporal's record of it. One that has ended has a Result. One that Temporal has forgotten, or whose workflow was
// closed without an end, is read from what the ledgers have recorded: final where it says an end, and otherwise
// StateUnknown.
//
// ErrUnknown if there is no trace of it on the ledgers of the worker that answers. A *ClosedError if its workflow failed
// with a request that moved nothing.
func (c *Client) Status(ctx context.Context, id string) (Status, error) {
	if err := checkID(id); err != nil {
		return Status{}, err
	}
	description, err := c.temporal.DescribeWorkflow(ctx, workflows.TransferWorkflowID(id), "")
	if isNotFound(err) {
		return c.forgotten(ctx, id)
	}
	if err != nil {
		return Status{}, err
	}
	if name := description.WorkflowType.Name; name != workflows.TransferWorkflow {
		return Status{}, fmt.Errorf("the workflow %q is a %s, not a %s", workflows.TransferWorkflowID(id), name, workflows.TransferWorkflow)
	}
	if description.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return c.runningAs(ctx, id, description, true)
	}
	runID := description.WorkflowExecution.RunID
	result, err := c.result(ctx, id, runID)
	if err == nil {
		return Status{TransferStatus: endedStatus(result)}, nil
	}
	if closed := closedError(id, err); closed != nil {
		return c.closed(ctx, id, runID, closed)
	}
	return Status{}, err
}

// forgotten tells where a transfer stands that has no workflow: it is on its way in a group, or only the ledgers know.
func (c *Client) forgotten(ctx context.Context, id string) (Status, error) {
	lookCtx, cancel := context.WithTimeout(ctx, timeoutLook)
	defer cancel()
	if in, group, err := c.grouped(lookCtx, id); err == nil {
		return groupedStatus(in, group), nil
	}
	status, err := c.remembered(ctx, id)
	if unanswered, ok := errors.AsType[*asking.UnansweredError](err); ok {
		status = unknownStatus(workflows.TransferInput{ID: id}, "Temporal does not know it, and no worker answers for the ledgers")
		status.Notes = unanswered.Reasons
		return status, nil
	}
	return status, err
}

// groupedStatus is where a transfer stands that is on its way in a group.
func groupedStatus(in workflows.TransferInput, group string) Status {
	return Status{TransferStatus: workflows.TransferStatus{Request: in, Standing: workflows.Standing{
		State: workflows.StateRunning, Step: workflows.StepPost, Steps: []workflows.StepReport{},
		Detail: "it travels with others in the workflow " + group,
	}}}
}

func endedStatus(result workflows.TransferResult) workflows.TransferStatus {
	status := workflows.TransferStatus{
		Request:  workflows.TransferInput{ID: result.ID, From: result.From, To: result.To, Amount: result.Amount, Asset: result.Asset},
		Standing: workflows.Standing{State: result.State, Detail: result.Detail, Steps: result.Steps}, Result: &result,
	}
	if n := len(result.Steps); n > 0 {
		status.Step = result.Steps[n-1].Step
	}
	return status
}

// closed tells where a transfer stands whose last run was closed without an end. The ledgers are the authority: the run
// may have been closed after everything was done, or have asked for something else than the transfer of that ID did.
func (c *Client) closed(ctx context.Context, id, runID string, closed *ClosedError) (Status, error) {
	askCtx, cancel := context.WithTimeout(ctx, timeoutMemory)
	defer cancel()
	status, err := c.remembered(askCtx, id)
	switch {
	case err == nil && status.Ended():
		status.Notes = append(status.Notes, "its last workflow was closed without an end: "+string(closed.How))
		return status, nil
	case closed.How == ClosedInvalid || closed.How == ClosedFailed:
		return Status{}, closed
	case err != nil:
		in, errRequest := c.requestOf(ctx, id, runID)
		if errRequest != nil {
			in.ID = id
		}
		if closed.How == ClosedConflict {
			return Status{}, &DifferentRequestError{Asked: in}
		}
		status = unknownStatus(in, closed.Error())
		if !errors.Is(err, ErrUnknown) {
			status.Notes = append(status.Notes, "the ledgers were not asked: "+err.Error())
		}
		return status, nil
	default:
		status.Detail = closed.Error()
		return status, nil
	}
}

// notes are the reasons why a running transfer may not get on.
func (c *Client) notes(ctx context.Context, description *client.WorkflowExecutionDescription) []string {
	return diagnosis.Describe(ctx, c.temporal, description)
}
