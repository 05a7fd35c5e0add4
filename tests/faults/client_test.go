package faults

import (
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/tests/harness"
	"payonce/workflows"
)

const startWorkflow = "StartWorkflowExecution"

// The client's process is killed after it has sent the start of a transfer, and the same command is run again. It finds what
// the first has started; or starts it, if the first did not get as far as the server.
func TestClientKilledAfterStart(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	for _, lost := range []harness.Lost{harness.LostReply, harness.LostRequest} {
		t.Run("the "+string(lost)+" is lost", func(t *testing.T) {
			t.Parallel()
			proxy := w.TemporalProxy(t)
			proxy.Lose(harness.Loss{Method: startWorkflow, Lost: lost, Silent: true, Always: true})
			in := between(t, w, w.Unique("rent"))
			client := harness.StartProcess(t, harness.ProcessConfig{
				Path: harness.Binary(t, "starter"), Args: harness.TransferArgs(in), Env: append(w.ClientEnv(), "TEMPORAL_ADDRESS="+proxy.Address),
			})
			proxy.AwaitLost(t, startWorkflow, lost)
			require.NoError(t, client.Kill())
			require.Equal(t, -1, client.AwaitExit(t), "it was killed")
			require.Empty(t, client.Stdout.String(), "nobody was told anything")

			again := w.CLITransfer(t, in, "--timeout=2m")
			require.Equal(t, exitDone, again.Code)
			require.Equal(t, new(lost == harness.LostReply), again.Transfer(t).Attached, "the first run had started it")
			once(t, w, in, workflows.StateCompleted, arrived)
		})
	}
}

// The server's answer to a start is lost, and Temporal's client starts the transfer again by itself. The server knows the
// request, and answers as before.
func TestStartReplyLost(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	in := between(t, w, "rent")
	proxy := w.TemporalProxy(t)
	proxy.Lose(harness.Loss{Method: startWorkflow, Lost: harness.LostReply, Times: 2})
	done := harness.Run(t, harness.ProcessConfig{
		Path: harness.Binary(t, "starter"), Args: append([]string{"--output", "json", "--timeout", "2m"}, harness.TransferArgs(in)...),
		Env: append(w.ClientEnv(), "TEMPORAL_ADDRESS="+proxy.Address),
	})
	require.Equal(t, exitDone, done.Code)
	require.Equal(t, workflows.StateCompleted, done.Transfer(t).State)
	calls := proxy.Calls(startWorkflow)
	require.GreaterOrEqual(t, len(calls), 3)
	require.Equal(t, []harness.ProxiedCall{
		{Method: startWorkflow, Lost: harness.LostReply}, {Method: startWorkflow, Lost: harness.LostReply},
	}, calls[:2])
	require.Contains(t, calls, harness.ProxiedCall{Method: startWorkflow}, "the server has said yes three times")
	once(t, w, in, workflows.StateCompleted, arrived)
}

// Nobody answers the start of a question, and the SDK gives that call up after ten seconds, though the command has more time: it asks
// again, and both are one question.
func TestQuestionReplyLost(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	account := w.Account(t, "us", "20.00")
	proxy := w.TemporalProxy(t)
	proxy.Lose(harness.Loss{Method: startWorkflow, Lost: harness.LostReply, Silent: true})
	shown := harness.Run(t, harness.ProcessConfig{
		Path: harness.Binary(t, "starter"), Args: []string{"account", "show", account, "--timeout=2m"},
		Env: append(w.ClientEnv(), "TEMPORAL_ADDRESS="+proxy.Address),
	})
	require.Equal(t, exitDone, shown.Code)
	require.Contains(t, shown.Stdout, "20.00")
	require.Equal(t, []harness.ProxiedCall{{Method: startWorkflow, Lost: harness.LostReply}, {Method: startWorkflow}}, proxy.Calls(startWorkflow))
}
