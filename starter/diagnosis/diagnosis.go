// Package diagnosis finds out why a workflow does not get on: no worker polls its task queue, or an activity fails again
// and again. It asks Temporal's server, so that it has an answer when no worker has.
//
// It promises hints for a person, from the server's records alone. It does not promise that they are all there is to know,
// nor that a worker which is too busy to poll is told from one that is not there.
package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"payonce/workflows"
)

// waitMin is how long a task waits before that means something: a worker that is there takes it at once.
const waitMin = 1500 * time.Millisecond

// Workflow returns why the workflow may not get on, a phrase for each reason; none if nothing is known. runID may be
// empty, for the latest run. The context should be short.
func Workflow(ctx context.Context, c client.Client, workflowID, runID string) []string {
	description, err := c.DescribeWorkflow(ctx, workflowID, runID)
	if err != nil {
		return nil
	}
	return Describe(ctx, c, description)
}

// Describe is Workflow for a workflow that has been described already.
func Describe(ctx context.Context, c client.Client, description *client.WorkflowExecutionDescription) []string {
	if description.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil
	}
	var reasons []string
	if task := description.RawResponse.GetPendingWorkflowTask(); task != nil {
		waiting := waitingTask{queue: description.TaskQueueName, kind: enums.TASK_QUEUE_TYPE_WORKFLOW, since: task.GetScheduledTime().AsTime()}
		if task.GetState() == enums.PENDING_WORKFLOW_TASK_STATE_SCHEDULED {
			reasons = append(reasons, waiting.reason(ctx, c)...)
		}
		if task.GetAttempt() > 1 && len(reasons) == 0 {
			reasons = append(reasons, fmt.Sprintf("the workflow's code failed, attempt %d: see the worker's log", task.GetAttempt()))
		}
	}
	for _, activity := range description.RawResponse.GetPendingActivities() {
		reasons = append(reasons, pendingActivity(ctx, c, activity)...)
	}
	return reasons
}

func pendingActivity(ctx context.Context, c client.Client, activity *workflow.PendingActivityInfo) []string {
	var reasons []string
	if activity.GetLastFailure() != nil {
		reasons = append(reasons, fmt.Sprintf("%s: attempt %d; the last one failed: %s",
			activity.GetActivityType().GetName(), activity.GetAttempt(), failureText(activity.GetLastFailure())))
	}
	if activity.GetPaused() {
		return append(reasons, activity.GetActivityType().GetName()+" is paused by an operator")
	}
	if queue := activity.GetActivityOptions().GetTaskQueue().GetName(); queue != "" && activity.GetState() == enums.PENDING_ACTIVITY_STATE_SCHEDULED {
		waiting := waitingTask{queue: queue, kind: enums.TASK_QUEUE_TYPE_ACTIVITY, since: activity.GetScheduledTime().AsTime()}
		if activity.GetAttempt() > 1 {
			// Between two attempts nobody has to take it.
			waiting.since = activity.GetLastAttemptCompleteTime().AsTime().Add(activity.GetCurrentRetryInterval().AsDuration())
		}
		reasons = append(reasons, waiting.reason(ctx, c)...)
	}
	return reasons
}

// failureText is what a person needs of a failure: a time-out's own words say little of what it was about.
func failureText(f *failure.Failure) string {
	if f.GetTimeoutFailureInfo() != nil {
		return "no answer in time"
	}
	return f.GetMessage()
}

// waitingTask is a task that a worker may take, and none has.
type waitingTask struct {
	queue string
	kind  enums.TaskQueueType
	since time.Time
}

// reason says that nobody polls the task's queue, and what to do about it. A worker that has not polled since the task is
// there does not count: it was stopped, it died, or it is busy.
func (w waitingTask) reason(ctx context.Context, c client.Client) []string {
	if time.Since(w.since) < waitMin {
		return nil
	}
	queue, err := c.DescribeTaskQueue(ctx, w.queue, w.kind)
	if err != nil {
		return nil
	}
	for _, poller := range queue.GetPollers() {
		if !poller.GetLastAccessTime().AsTime().Before(w.since) {
			return nil
		}
	}
	if missing := missingSearchAttributes(ctx, c); missing != "" {
		return []string{fmt.Sprintf("no worker polls the task queue %s, and none will start before the namespace has the search attributes of transfers; make them, once: %s", w.queue, missing)}
	}
	question := "is a worker running?"
	if rail, ok := strings.CutPrefix(w.queue, workflows.RailTaskQueue("")); ok {
		question = "has a worker settings for the rail " + rail + "?"
	} else if ledgerName, ok := strings.CutPrefix(w.queue, workflows.LedgerTaskQueue("")); ok {
		question = "does a worker hold the ledger " + ledgerName + "?"
	}
	return []string{fmt.Sprintf("no worker polls the task queue %s: %s", w.queue, question)}
}

// missingSearchAttributes is the command that makes those which the namespace lacks, or "". A query that needs one fails
// without it.
func missingSearchAttributes(ctx context.Context, c client.Client) (command string) {
	for _, key := range workflows.SearchAttributes() {
		_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: key.GetName() + " is not null"})
		if _, invalid := errors.AsType[*serviceerror.InvalidArgument](err); invalid {
			command += fmt.Sprintf(" --name %s --type %s", key.GetName(), key.GetValueType())
		}
	}
	if command == "" {
		return ""
	}
	return "temporal operator search-attribute create" + command
}
