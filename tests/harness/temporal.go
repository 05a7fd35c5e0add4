package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"payonce/internal/devstack"
	"payonce/workflows"
)

// Start starts a transfer as any client of Temporal can, and does not wait. It fails the test if the ID is running.
func (w *World) Start(t testing.TB, in workflows.TransferInput) client.WorkflowRun {
	t.Helper()
	run, err := w.Temporal.ExecuteWorkflow(Within(t, patience), client.StartWorkflowOptions{
		ID: workflows.TransferWorkflowID(in.ID), TaskQueue: workflows.TaskQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL, WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, workflows.TransferWorkflow, in)
	require.NoError(t, err)
	return run
}

// AwaitEnd waits for the end of a transfer that was started.
func (w *World) AwaitEnd(t testing.TB, id string) workflows.TransferResult {
	t.Helper()
	var result workflows.TransferResult
	ctx := Within(t, patience)
	err := w.Temporal.GetWorkflow(ctx, workflows.TransferWorkflowID(id), "").Get(ctx, &result)
	require.NoError(t, err, "the end of %s", id)
	return result
}

// Transfer starts a transfer with the Go client, and waits for its end.
func (w *World) Transfer(t testing.TB, in workflows.TransferInput) workflows.TransferResult {
	t.Helper()
	result, err := w.Transfers.Transfer(Within(t, patience), in)
	require.NoError(t, err)
	return result
}

// timeoutQuery bounds one try of a query. Queries are not kept by Temporal as tasks are: one that meets a poll that is just
// ending is never answered.
const timeoutQuery = 3 * time.Second

// Status asks a transfer where it stands.
func (w *World) Status(t testing.TB, id string) workflows.TransferStatus {
	t.Helper()
	var status workflows.TransferStatus
	Eventually(t, "an answer to a query of "+id, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), timeoutQuery)
		defer cancel()
		value, err := w.Temporal.QueryWorkflow(ctx, workflows.TransferWorkflowID(id), "", workflows.StatusQuery)
		var late *serviceerror.DeadlineExceeded
		if err != nil && (ctx.Err() != nil || errors.As(err, &late)) {
			return false
		}
		require.NoError(t, err)
		require.NoError(t, value.Get(&status))
		return true
	})
	return status
}

// AwaitParked waits until a transfer is parked for the how many-th time, and returns where it stands.
func (w *World) AwaitParked(t testing.TB, id string, number int) workflows.TransferStatus {
	t.Helper()
	var status workflows.TransferStatus
	Eventually(t, id+" is parked", func() bool {
		status = w.Status(t, id)
		return status.Parking != nil && status.Parking.Number == number
	})
	return status
}

// History is what Temporal has recorded of the latest run of a workflow.
func (w *World) History(t testing.TB, workflowID string) []*history.HistoryEvent {
	t.Helper()
	events := w.Temporal.GetWorkflowHistory(Within(t, patience), workflowID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var all []*history.HistoryEvent
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		all = append(all, event)
	}
	return all
}

// AwaitEvent waits until the history of a workflow has an event of a type.
func (w *World) AwaitEvent(t testing.TB, workflowID string, kind enums.EventType) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%s in the history of %s", kind, workflowID), func() bool {
		return slices.ContainsFunc(w.History(t, workflowID), func(e *history.HistoryEvent) bool { return e.GetEventType() == kind })
	})
}

// Forget deletes a workflow and its history, as the server does by itself after the retention, and returns when it is gone.
func (w *World) Forget(t testing.TB, workflowID string) {
	t.Helper()
	ctx := Within(t, patience)
	_, err := w.Temporal.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: w.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: workflowID},
	})
	require.NoError(t, err)
	Eventually(t, workflowID+" is deleted", func() bool {
		_, err := w.Temporal.DescribeWorkflow(ctx, workflowID, "")
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
			return true
		}
		require.NoError(t, err)
		return false
	})
}

// Reset resets the latest run of a workflow to before its first decision, and returns the new run's ID.
func (w *World) Reset(t testing.TB, workflowID string) string {
	t.Helper()
	var firstTask int64
	for _, event := range w.History(t, workflowID) {
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			firstTask = event.GetEventId()
			break
		}
	}
	require.NotZero(t, firstTask, "no workflow task has completed, so there is nothing to reset to")
	answer, err := w.Temporal.ResetWorkflowExecution(Within(t, patience), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: w.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: workflowID},
		WorkflowTaskFinishEventId: firstTask, RequestId: w.Unique("reset"), Reason: "a test",
	})
	require.NoError(t, err)
	return answer.GetRunId()
}

// TemporalCLI runs Temporal's own command line on the world's namespace.
func (w *World) TemporalCLI(t testing.TB, args ...string) *Result {
	t.Helper()
	return Run(t, ProcessConfig{Path: temporalBinary(t), Args: args, Env: w.ClientEnv()})
}

func temporalBinary(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	path, err := devstack.TemporalBinary(ctx, t.Output())
	require.NoError(t, err)
	return path
}

// ListWorkflows returns the IDs of the workflows that a query finds, as far as the server has indexed them.
func (w *World) ListWorkflows(t testing.TB, query string) []string {
	t.Helper()
	answer, err := w.Temporal.ListWorkflow(Within(t, patience), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
	require.NoError(t, err)
	var ids []string
	for _, execution := range answer.GetExecutions() {
		ids = append(ids, execution.GetExecution().GetWorkflowId())
	}
	return ids
}
