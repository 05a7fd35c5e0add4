package tests

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"payonce/starter/transfers"
	"payonce/tests/harness"
	"payonce/workflows"
)

// Temporal's work is per event and per state transition, so what a transfer costs there is held here. docs/performance.md
// states the counts.
func TestEventsPerTransfer(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "us", "")
	away := w.Account(t, "eu", "")
	kinds := func(workflowID string) []enums.EventType {
		var kinds []enums.EventType
		for _, event := range w.History(t, workflowID) {
			kinds = append(kinds, event.GetEventType())
		}
		return kinds
	}
	transitions := func(workflowID string) int64 {
		description, err := w.Temporal.DescribeWorkflow(t.Context(), workflowID, "")
		require.NoError(t, err)
		return description.RawResponse.GetWorkflowExecutionInfo().GetStateTransitionCount()
	}
	begun := []enums.EventType{
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
		enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, enums.EVENT_TYPE_MARKER_RECORDED,
	}

	t.Run("within one ledger", func(t *testing.T) {
		w.Transfer(t, workflows.TransferInput{ID: "within", From: alice, To: bob, Amount: "1", Asset: "USD"})
		id := workflows.TransferWorkflowID("within")
		require.Equal(t, append(begun,
			enums.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED), kinds(id))
		require.EqualValues(t, 3, transitions(id))
	})
	t.Run("between two ledgers", func(t *testing.T) {
		w.Transfer(t, workflows.TransferInput{ID: "between", From: alice, To: away, Amount: "1", Asset: "USD"})
		id := workflows.TransferWorkflowID("between")
		require.Equal(t, append(begun, enums.EVENT_TYPE_MARKER_RECORDED,
			enums.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED), kinds(id))
		require.EqualValues(t, 3, transitions(id))
	})
	t.Run("in a group", func(t *testing.T) {
		requests := make([]workflows.TransferInput, 20)
		for i := range requests {
			requests[i] = workflows.TransferInput{ID: w.Unique("coffee"), From: alice, To: bob, Amount: "1", Asset: "USD"}
		}
		for _, answer := range together(t.Context(), grouping(w, transfers.GroupOptions{AtOnce: 1}), requests) {
			require.NoError(t, answer.err)
		}
		groups(t, w)
		group := w.ListWorkflows(t, "WorkflowType = '"+workflows.TransferGroupWorkflow+"'")[0]
		require.Equal(t, append(begun, enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED), kinds(group))
		require.EqualValues(t, 3, transitions(group))
	})
}
