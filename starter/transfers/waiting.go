package transfers

import (
	"context"
	"fmt"

	"go.temporal.io/api/workflowservice/v1"

	"payonce/workflows"
)

// Waiting is a transfer, a payout or a notification that waits for a person, or for a ledger to take its dead letter.
type Waiting struct {
	ID    string          // a payout's as payout/ID, a notification's as its workflow ID
	State workflows.State // parked, or how it has ended
}

// waitingQuery finds them in Temporal's search attributes: when the ledger that keeps the dead letters is away, these are what
// tells. A transfer that has ended stays open until its dead letters are written.
var waitingQuery = fmt.Sprintf("WorkflowType in ('%s', '%s', '%s') and ExecutionStatus = 'Running' and %s in ('%s', '%s', '%s', '%s')",
	workflows.TransferWorkflow, workflows.PayoutWorkflow, workflows.NotificationWorkflow, workflows.SearchAttributeState.GetName(),
	workflows.StateParked, workflows.StateFailed, workflows.StateCompensated, workflows.StateDiscarded)

// Waiting lists, without asking any ledger or worker, transfers, payouts and notifications that are parked, or
// that have ended and could not write their dead letters yet; limit of them at most.
func (c *Client) Waiting(ctx context.Context, limit int) ([]Waiting, error) {
	list, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: int32(limit), Query: waitingQuery, //nolint:gosec // limits are small
	})
	if err != nil {
		return nil, err
	}
	var waiting []Waiting
	for _, execution := range list.GetExecutions() {
		var one Waiting
		attributes := execution.GetSearchAttributes().GetIndexedFields()
		for name, value := range map[string]any{
			workflows.SearchAttributeTransferID.GetName(): &one.ID, workflows.SearchAttributeState.GetName(): &one.State,
		} {
			if err := c.converter.FromPayload(attributes[name], value); err != nil {
				return nil, fmt.Errorf("the search attribute %s of %s: %w", name, execution.GetExecution().GetWorkflowId(), err)
			}
		}
		if execution.GetType().GetName() != workflows.TransferWorkflow {
			one.ID = execution.GetExecution().GetWorkflowId()
		}
		waiting = append(waiting, one)
	}
	return waiting, nil
}
