package workflows_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"payonce/workflows"
)

func workflowOptions(id string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: workflows.TransferWorkflowID(id), TaskQueue: workflows.TaskQueue}
}

func withoutRepeats(calls []string) []string { return slices.Compact(slices.Clone(calls)) }

func queryStatus(t *testing.T, w *world) workflows.TransferStatus {
	t.Helper()
	value, err := w.QueryWorkflow(workflows.StatusQuery)
	require.NoError(t, err)
	var status workflows.TransferStatus
	require.NoError(t, value.Get(&status))
	return status
}

func applicationErrorType(t *testing.T, err error) string {
	t.Helper()
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	return application.Type()
}
