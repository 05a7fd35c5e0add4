package faults

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"payonce/tests/harness"
)

// Temporal's server is killed under load and started again from its file. Clients and workers go on trying; every transfer
// ends, and each step that a worker had done and could not report meets its key.
func TestTemporalCrash(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{OwnTemporal: true})
	worker := w.StartWorker(t, harness.WorkerConfig{})
	l := newLoad(t, w)
	l.send(t, 10)
	l.awaitTold(t, 8)
	first := w.TemporalServer.PID()
	require.NoError(t, w.TemporalServer.Kill())
	toldBefore := l.toldSoFar()
	l.underWay(t)
	_, err := w.Temporal.WorkflowService().GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.Error(t, err, "it is gone")
	l.stands(t, toldBefore)
	require.NoError(t, w.TemporalServer.Restart(t.Context()))
	require.NotEqual(t, first, w.TemporalServer.PID())

	l.ends(t)
	require.True(t, worker.Alive())
}
