package transfers

import (
	"context"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"payonce/workflows"
)

// NotificationStatus tells where the notification with a workflow ID stands, as long as Temporal keeps its history. One that is
// open is asked itself, once. Of one whose workflow was closed by force the state is StateUnknown. ErrUnknown if there is none.
func (c *Client) NotificationStatus(ctx context.Context, workflowID string) (workflows.NotificationStatus, error) {
	var status workflows.NotificationStatus
	description, err := c.temporal.DescribeWorkflow(ctx, workflowID, "")
	switch {
	case isNotFound(err):
		return status, &UnknownError{What: "notification", ID: workflowID}
	case err != nil:
		return status, err
	case description.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		answer, err := c.temporal.QueryWorkflow(ctx, workflowID, "", workflows.StatusQuery)
		if err == nil {
			err = answer.Get(&status)
		}
		return status, err
	}
	if status.Request, err = c.NotificationRequest(ctx, workflowID); err != nil {
		return status, err
	}
	result, err := resultOf[workflows.NotificationResult](ctx, c, workflowID, description.WorkflowExecution.RunID)
	switch {
	case err == nil:
		status.State, status.Result = result.State, &result
	case closedError(workflowID, err) != nil:
		status.State, err = StateUnknown, nil
	}
	return status, err
}

// NotificationRequest returns what the notification with a workflow ID was started with, as long as Temporal keeps its history.
// The error is ErrUnknown if it does not.
func (c *Client) NotificationRequest(ctx context.Context, workflowID string) (workflows.NotificationInput, error) {
	in, err := inputOf[workflows.NotificationInput](ctx, c, workflows.NotificationWorkflow, workflowID, "")
	if isNotFound(err) {
		return in, &UnknownError{What: "notification", ID: workflowID}
	}
	return in, err
}

// DecideNotification tells a parked notification what a person has decided. It is as Decide.
func (c *Client) DecideNotification(ctx context.Context, workflowID string, decision workflows.Decision) (workflows.NotificationStatus, error) {
	var status workflows.NotificationStatus
	err := c.decide(ctx, workflowID, decision, &status)
	return status, c.explainGone(ctx, name{what: "notification", id: workflowID, workflowID: workflowID}, err)
}

// StartNotificationAgain starts a notification whose workflow was closed by force. One that runs, or has ended, stays as it is.
// ErrUnknown if Temporal has forgotten it.
func (c *Client) StartNotificationAgain(ctx context.Context, workflowID string) error {
	in, err := c.NotificationRequest(ctx, workflowID)
	if err != nil {
		return err
	}
	_, err = c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflowID, TaskQueue: workflows.TaskQueue, StaticSummary: in.Summary(),
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, workflows.NotificationWorkflow, in)
	return err
}
