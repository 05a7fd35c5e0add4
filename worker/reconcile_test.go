package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"payonce/internal/devstack"
	"payonce/internal/reconcile"
	"payonce/workflows"
)

// TestReconcileOnSchedule has a Temporal Schedule, made as docs/operations.md says, find and then finish a transfer that was
// terminated in transit.
func TestReconcileOnSchedule(t *testing.T) {
	t.Parallel()
	stack := ownStack(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	us := serving(t, stack, "--listen", "127.0.0.1:0")
	b := newBank(t, stack, "schedule")
	alice, carol := b.account("us", "alice"), b.account("eu", "carol")
	b.completed(b.transfer("arrived", alice, carol))
	require.Equal(t, exitOK, us.stop(t))

	// Without a worker for eu a transfer stays in transit.
	ledgers, _, _ := strings.Cut(stack.LedgersURL(), ",eu=")
	us = startWorker(t, environment(stack, "LEDGERS="+ledgers))
	us.awaitLog(t, `"msg":"serving"`)
	stuck := b.transfer("stuck", alice, carol)
	require.Eventually(t, func() bool { return b.events(stuck, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == 1 }, patience, 20*time.Millisecond)
	require.NoError(t, b.temporal.TerminateWorkflow(t.Context(), stuck.GetID(), stuck.GetRunID(), "a test"))
	require.Equal(t, exitOK, us.stop(t))
	both := serving(t, stack, "--listen", "127.0.0.1:0")

	temporal := func(args ...string) {
		t.Helper()
		path, err := devstack.TemporalBinary(t.Context(), t.Output())
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Env = append(environment(stack), "TEMPORAL_CONFIG_FILE="+os.DevNull)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	run := func(schedule, input string) (view reconcile.View) {
		t.Helper()
		temporal("schedule", "create", "--schedule-id", schedule, "--cron", "0 3 * * *", "--overlap-policy", "Skip",
			"--workflow-id", schedule, "--type", workflows.ReconcileWorkflow, "--task-queue", workflows.TaskQueue, "--input", input)
		temporal("schedule", "trigger", "--schedule-id", schedule)
		var id string
		require.Eventually(t, func() bool {
			list, err := b.temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
				Namespace: stack.Temporal.Namespace, Query: "WorkflowType = 'Reconcile' and WorkflowId starts_with '" + schedule + "-'",
			})
			require.NoError(t, err)
			if len(list.GetExecutions()) > 0 {
				id = list.GetExecutions()[0].GetExecution().GetWorkflowId()
			}
			return id != ""
		}, patience, 50*time.Millisecond)
		require.NoError(t, b.temporal.GetWorkflow(t.Context(), id, "").Get(ctx, &view))
		return view
	}

	view := run("reconcile", "{}")
	assert.False(t, view.OK)
	assert.Equal(t, "The books are right. The workflows DON'T agree with them: 1 finding.", view.Conclusion)
	require.Len(t, view.Temporal.Findings, 1)
	assert.Equal(t, stuck.GetID(), view.Temporal.Findings[0].Transfer)
	assert.Empty(t, view.Temporal.Findings[0].Repair)
	_, metrics := ask(t, both, "/metrics")
	assert.Regexp(t, `(?m)^payonce_reconcile_findings\{.*\} 1$`, metrics)
	both.awaitLog(t, `"msg":"the books and the workflows are not as they should be"`)

	view = run("repair", `{"repair":true}`)
	assert.EqualValues(t, 1, view.Temporal.Started)
	var result workflows.TransferResult
	require.NoError(t, b.temporal.GetWorkflow(t.Context(), stuck.GetID(), "").Get(ctx, &result))
	assert.Equal(t, workflows.StateCompleted, result.State)

	view = run("again", "{}")
	assert.True(t, view.OK)
	assert.Equal(t, "The books are right. The workflows agree with them.", view.Conclusion)
	assert.Equal(t, exitOK, both.stop(t))
}
