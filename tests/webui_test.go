package tests

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"payonce/tests/harness"
	"payonce/workflows"
)

// Temporal's web UI tells a person the story of a transfer: what it is about, where it stands, and what each step does; and
// a search finds it.
func TestWebUI(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := w.StartFaultWorker(t, harness.FaultConfig{
		Faults: []string{"deposit/before=fail:4;transfer=rent", "deposit/after=hold;transfer=rent"},
		Options: func(o *workflows.Options) {
			unhurried(o)
			o.Forward.TimeoutStartToClose = time.Hour // to be held is no failure
		},
	})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	in := workflows.TransferInput{ID: "rent", From: alice, To: bob, Amount: "10", Asset: "USD"}
	workflowID := workflows.TransferWorkflowID(in.ID)
	_, err := w.Transfers.Start(t.Context(), in)
	require.NoError(t, err)
	what := "10.00 USD/2 from " + alice + " to " + bob
	details := func() string {
		var metadata sdk.WorkflowMetadata
		// A query that meets a poll which is just ending is never answered.
		harness.Eventually(t, "an answer to a query", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			value, err := w.Temporal.QueryWorkflow(ctx, workflowID, "", "__temporal_workflow_metadata")
			if err != nil && ctx.Err() != nil {
				return false
			}
			require.NoError(t, err)
			require.NoError(t, value.Get(&metadata))
			return true
		})
		return metadata.GetCurrentDetails()
	}

	worker.AwaitStrike(t, "deposit/after", in.ID)
	require.Contains(t, details(), what+": deposit, attempt 3: ", "after two attempts on the fast path")
	require.Contains(t, details(), "fault at deposit/before")
	description, err := w.Temporal.DescribeWorkflow(t.Context(), workflowID, "")
	require.NoError(t, err)
	summary, err := description.GetStaticSummary()
	require.NoError(t, err)
	require.Equal(t, what, summary)
	require.True(t, found(t, w, "PayonceState = 'running' and PayonceTransferID = 'rent'", workflowID))

	worker.LetGo(t)
	require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, in.ID).State)
	require.Equal(t, what+": completed", details())
	require.True(t, found(t, w, "PayonceState = 'completed' and PayonceTransferID = 'rent'", workflowID))
	for _, event := range w.History(t, workflowID) {
		if event.GetEventType() == enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
			var label string
			require.NoError(t, converter.GetDefaultDataConverter().FromPayload(event.GetUserMetadata().GetSummary(), &label))
			require.Equal(t, "deposit 10.00 USD/2 to "+bob, label)
		}
	}

	// What a foreign client has started can be found as well.
	w.Start(t, workflows.TransferInput{ID: "refused", From: alice, To: "us/nobody", Amount: "1", Asset: "USD"})
	w.AwaitEnd(t, "refused")
	require.True(t, found(t, w, "PayonceState = 'rejected' and PayonceTransferID = 'refused'", workflows.TransferWorkflowID("refused")))
}

// found waits until a search finds one workflow.
func found(t *testing.T, w *harness.World, query, workflowID string) bool {
	t.Helper()
	harness.Eventually(t, query+" finds "+workflowID, func() bool {
		list, err := w.Temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		require.NoError(t, err)
		return len(list.GetExecutions()) == 1 && list.GetExecutions()[0].GetExecution().GetWorkflowId() == workflowID
	})
	return true
}
