package tests

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"payonce/ledger"
	"payonce/workflows"
)

// What a transfer's recorded steps tell, when nothing else is left of it, is what its workflow has returned.
func TestRecall(t *testing.T) {
	t.Parallel()
	seen := make(map[workflows.State]bool)
	for way, recorded := range histories(t, historiesDir) {
		events := recorded.GetEvents()
		if events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName() != workflows.TransferWorkflow {
			continue
		}
		completed := events[len(events)-1].GetWorkflowExecutionCompletedEventAttributes()
		if completed == nil {
			continue
		}
		var result workflows.TransferResult
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(completed.GetResult(), &result), way)
		end, why := workflows.Recall(func(step workflows.Step) (ledger.OutcomeState, ledger.Code) {
			for i := range result.Steps {
				if key := workflows.StepKey(workflows.TransferWorkflowID(result.ID), step); result.Steps[i].Key == key {
					return result.Steps[i].State, result.Steps[i].Code
				}
			}
			return "", ""
		})
		require.Equal(t, result.State, end, way)
		for i := range result.Steps {
			if why != "" && result.Steps[i].Key == workflows.StepKey(workflows.TransferWorkflowID(result.ID), why) {
				require.Equal(t, result.Code, result.Steps[i].Code, way)
			}
		}
		seen[end] = true
	}
	for _, state := range []workflows.State{
		workflows.StateCompleted, workflows.StateRejected, workflows.StateFailed, workflows.StateCompensated, workflows.StateCancelled, workflows.StateDiscarded,
	} {
		require.True(t, seen[state], "%s", state)
	}
}
