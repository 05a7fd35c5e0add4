package tests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"payonce/internal/reconcile"
	"payonce/tests/harness"
	"payonce/workflows"
)

// reconciled runs `worker verify --temporal` and returns its exit code and what it says.
func reconciled(t *testing.T, w *harness.World, args ...string) (code int, view reconcile.View) {
	t.Helper()
	result := w.Worker(t, append([]string{"verify", "--temporal", "--output", "json"}, args...)...)
	result.Decode(t, &view)
	require.Equal(t, result.Code == 0, view.OK)
	require.Empty(t, view.Findings, "the books")
	return result.Code, view
}

// awaitReconciled reconciles until Temporal's list of workflows, which is behind, has as many closed ones as there are.
func awaitReconciled(t *testing.T, w *harness.World, closed int64) (code int, view reconcile.View) {
	t.Helper()
	harness.Eventually(t, "the list has all workflows", func() bool {
		code, view = reconciled(t, w)
		return view.Temporal.Agreed+view.Temporal.ClosedByForce+view.Temporal.FindingsCount >= closed
	})
	return code, view
}

// finish runs the command that a finding names, in a shell.
func finish(t *testing.T, w *harness.World, command string) {
	t.Helper()
	starter := harness.Binary(t, "starter")
	env := []string{"PATH=" + filepath.Dir(starter) + string(os.PathListSeparator) + os.Getenv("PATH")}
	for _, setting := range w.ClientEnv() {
		if !strings.HasPrefix(setting, "PATH=") {
			env = append(env, setting)
		}
	}
	result := harness.Run(t, harness.ProcessConfig{Path: "/bin/sh", Args: []string{"-c", command}, Env: env})
	require.Equal(t, exitDone, result.Code)
}

// Whatever their ends, and however odd their IDs, transfers that nobody has meddled with are no finding.
func TestReconcileEnds(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob, carol := w.Account(t, "us", "100.00"), w.Account(t, "us", ""), w.Account(t, "eu", "")
	ends := map[string]workflows.State{
		bob: workflows.StateCompleted, carol: workflows.StateCompleted, "us/nobody": workflows.StateRejected, "eu/nobody": workflows.StateCompensated,
	}
	closed := int64(1) // the funding
	for to, state := range ends {
		for _, id := range []string{"rent", `o'brien \ "x" %_`, "é/2\\"} {
			result := w.Transfer(t, workflows.TransferInput{ID: id + " " + to, From: alice, To: to, Amount: "1", Asset: "USD"})
			require.Equal(t, state, result.State)
			closed++
		}
	}
	code, view := awaitReconciled(t, w, closed)
	require.Equal(t, exitDone, code)
	require.Equal(t, "The books are right. The workflows agree with them.", view.Conclusion)
	require.Equal(t, closed, view.Temporal.Agreed)
	require.Zero(t, view.Temporal.Forgotten+view.Temporal.UnaccountedCount+view.Temporal.UnderWay)

	t.Run("with one of the ledgers", func(t *testing.T) {
		env := append(w.ClientEnv(), "LEDGERS=us="+w.LedgerURL("us"))
		result := harness.Run(t, harness.ProcessConfig{
			Path: harness.Binary(t, "worker"), Args: []string{"verify", "--temporal", "--output", "json"}, Env: env,
		})
		require.Equal(t, exitDone, result.Code)
		var view reconcile.View
		result.Decode(t, &view)
		require.EqualValues(t, 6, view.Temporal.OnOtherLedgers, "those between both")
		require.Equal(t, closed-6, view.Temporal.Agreed)
		require.Equal(t, []string{"eu"}, view.NotChecked)
	})
	t.Run("as text", func(t *testing.T) {
		result := w.Worker(t, "verify", "--temporal")
		require.Equal(t, exitDone, result.Code)
		require.Contains(t, result.Stdout, "13 workflows closed as the books have it, 0 closed by force, without a result\n")
		require.True(t, strings.HasSuffix(result.Stdout, "The books are right. The workflows agree with them.\n"), result.Stdout)
	})
	t.Run("wrong usage", func(t *testing.T) {
		result := w.Worker(t, "verify", "--repair")
		require.Equal(t, exitUsage, result.Code)
		require.Contains(t, result.Stderr, "--repair needs --temporal")
	})
	t.Run("Temporal can't be reached", func(t *testing.T) {
		env := append(w.WorkerEnv(), "TEMPORAL_ADDRESS=127.0.0.1:1")
		result := harness.Run(t, harness.ProcessConfig{Path: harness.Binary(t, "worker"), Args: []string{"verify", "--temporal"}, Env: env})
		require.Equal(t, 1, result.Code)
		require.Contains(t, result.Stderr, "temporal at 127.0.0.1:1")
		require.NotContains(t, result.Stdout, "right")
	})
}

// A transfer that somebody has ended in transit, by whichever of Temporal's means, is found with the command that finishes
// it, and that command does; so does --repair, also when two run at once.
func TestReconcileUnfinished(t *testing.T) {
	t.Parallel()
	workflowID := workflows.TransferWorkflowID("rent")
	terminate := func(t *testing.T, w *harness.World) {
		t.Helper()
		require.NoError(t, w.Temporal.TerminateWorkflow(t.Context(), workflowID, "", "a test"))
	}
	repair := func(t *testing.T, w *harness.World, _ string) {
		t.Helper()
		code, view := reconciled(t, w, "--repair")
		require.Equal(t, 1, code)
		require.EqualValues(t, 1, view.Temporal.Started)
		require.Contains(t, view.Temporal.Findings[0].Repair, "started again, run ")
	}
	for _, row := range []struct {
		name   string
		end    func(t *testing.T, w *harness.World)
		detail string
		mend   func(t *testing.T, w *harness.World, command string)
	}{
		{"terminated, asked for again", terminate, "its workflow was closed as terminated; ", finish},
		{"terminated, repaired", terminate, "its workflow was closed as terminated; ", repair},
		{"terminated, repaired by two at once", terminate, "its workflow was closed as terminated; ", func(t *testing.T, w *harness.World, _ string) {
			t.Helper()
			var both sync.WaitGroup
			results := make([]*harness.Result, 2)
			for i := range results {
				both.Go(func() { results[i] = w.Worker(t, "verify", "--temporal", "--repair", "--output", "json") })
			}
			both.Wait()
			started := int64(0)
			for _, result := range results {
				var view reconcile.View
				result.Decode(t, &view)
				require.Empty(t, view.Findings)
				started += view.Temporal.Started
			}
			require.EqualValues(t, 1, started)
		}},
		{"forgotten, asked for again", func(t *testing.T, w *harness.World) {
			t.Helper()
			terminate(t, w)
			w.Forget(t, workflowID)
		}, "Temporal knows no workflow of it; ", finish},
		{"forgotten, repaired", func(t *testing.T, w *harness.World) {
			t.Helper()
			terminate(t, w)
			w.Forget(t, workflowID)
		}, "Temporal knows no workflow of it; ", repair},
		{"timed out", nil, "its workflow was closed as timedout; ", repair},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"us"}})
			destination := w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
			in := workflows.TransferInput{
				ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD",
				Memo: "it's the rent; $HOME", Metadata: map[string]string{"house": "number 3", "a": "b"},
			}
			require.Equal(t, exitDone, destination.Stop(t))
			options := client.StartWorkflowOptions{ID: workflowID, TaskQueue: workflows.TaskQueue}
			if row.end == nil {
				options.WorkflowExecutionTimeout = 30 * time.Second // long enough for the withdraw
			}
			_, err := w.Temporal.ExecuteWorkflow(t.Context(), options, workflows.TransferWorkflow, in)
			require.NoError(t, err)
			w.AwaitStep(t, in.ID, "us withdraw applied")
			if row.end == nil {
				harness.Eventually(t, "the workflow has timed out", func() bool {
					described, err := w.Temporal.DescribeWorkflow(t.Context(), workflowID, "")
					require.NoError(t, err)
					return described.Status == enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT
				})
			} else {
				code, view := reconciled(t, w)
				require.Equal(t, exitDone, code, "it runs: no finding")
				require.EqualValues(t, 1, view.Temporal.UnderWay)
				require.Len(t, view.InTransit, 1)
				row.end(t, w)
			}

			code, view := reconciled(t, w)
			require.Equal(t, 1, code)
			require.Len(t, view.Temporal.Findings, 1)
			require.EqualValues(t, 1, view.Temporal.FindingsCount)
			finding := view.Temporal.Findings[0]
			command := "starter transfer --id rent --from " + in.From + " --to " + in.To +
				` --amount 10.00 --asset USD/2 --memo 'it'\''s the rent; $HOME' --metadata a=b --metadata 'house=number 3'`
			want := reconcile.TransferFindingView{
				Check: "unfinished", Transfer: workflowID, Advice: finding.Advice, Command: command,
				Detail: row.detail + "the books have 10.00 USD/2 in transit from " + in.From + " to " + in.To + " (withdraw applied)",
			}
			require.Equal(t, want, finding)
			text := w.Worker(t, "verify", "--temporal")
			require.Equal(t, 1, text.Code)
			require.Contains(t, text.Stdout, "WRONG  unfinished: transfer/rent: "+row.detail)
			require.Contains(t, text.Stdout, "\n       "+command+"\n")
			require.Contains(t, text.Stdout, "The books are right. The workflows DON'T agree with them: 1 finding.\n")

			w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
			row.mend(t, w, command)
			require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, in.ID).State)
			require.Equal(t, []string{"us withdraw applied", "eu deposit applied"}, w.Steps(t, in.ID))
			require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, in.From, in.To))
			var memo string
			const sql = `select memo || ' ' || (metadata ->> 'house') from operations where key = $1`
			require.NoError(t, w.DB(t, "eu").QueryRow(t.Context(), sql, workflowID+"/deposit").Scan(&memo))
			require.Equal(t, in.Memo+" number 3", memo, "it is the same request")
			code, view = awaitReconciled(t, w, 2)
			require.Equal(t, exitDone, code)
			require.Empty(t, view.InTransit)
		})
	}
}

// A transfer that is complete in the books is no fault when Temporal has forgotten it. It is counted, and named if Temporal
// should still have it.
func TestReconcileForgotten(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	for _, id := range []string{"old", "young", "kept"} {
		w.Transfer(t, workflows.TransferInput{ID: id, From: alice, To: bob, Amount: "1", Asset: "USD"})
	}
	w.Forget(t, workflows.TransferWorkflowID("old"))
	w.Forget(t, workflows.TransferWorkflowID("young"))
	// Temporal keeps a closed workflow for a day here, and the clock can't be turned: the books are made older.
	for _, ledger := range w.Ledgers {
		w.Plant(t, ledger, `update operations set at = at - interval '25 hours' where id <= (select id from operations where key like 'transfer/old/%')`)
		w.Plant(t, ledger, `update accounts a set entry_at = o.at from entries e join operations o on o.id = e.operation_id
			where e.account_id = a.id and e.version = a.version`)
	}

	var code int
	var view reconcile.View
	harness.Eventually(t, "the list has those that are kept, and no other", func() bool {
		code, view = awaitReconciled(t, w, 2)
		return view.Temporal.Agreed == 2 && view.Temporal.UnaccountedCount == 1
	})
	require.Equal(t, exitDone, code)
	require.EqualValues(t, 2, view.Temporal.Forgotten, "the old one, and the funding, which is as old now")
	require.Equal(t, workflows.TransferWorkflowID("young"), view.Temporal.Unaccounted[0].Transfer)
	require.Equal(t, "24h0m0s", view.Temporal.Retention)
	text := w.Worker(t, "verify", "--temporal")
	require.Contains(t, text.Stdout, "no workflow  transfer/young: complete in the books since ")
}

// While transfers run, in every state at once, none of them is taken for a fault.
func TestReconcileWhileTransfersRun(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, carol := w.Account(t, "us", "1000.00"), w.Account(t, "eu", "1000.00")
	const count = 300
	started := make([]workflows.TransferInput, 0, count)
	for i := range count {
		in := workflows.TransferInput{ID: w.Unique("rent"), From: alice, To: carol, Amount: "1", Asset: "USD"}
		switch i % 3 {
		case 1:
			in.From, in.To = carol, alice
		case 2:
			in.To = "eu/nobody"
		}
		started = append(started, in)
	}
	done := make(chan struct{})
	errs := make([]error, count)
	go func() {
		defer close(done)
		for i, in := range started {
			_, errs[i] = w.Transfers.Start(t.Context(), in)
		}
	}()
	seenUnderWay := int64(0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		code, view := reconciled(t, w)
		require.Equal(t, exitDone, code)
		seenUnderWay += view.Temporal.UnderWay
	}
	require.NoError(t, errors.Join(errs...))
	t.Logf("%d were in transit when they were looked at", seenUnderWay)
	for _, in := range started {
		w.AwaitEnd(t, in.ID)
	}
	code, view := awaitReconciled(t, w, count+2)
	require.Equal(t, exitDone, code)
	require.EqualValues(t, count+2, view.Temporal.Agreed)
	require.Zero(t, view.Temporal.UnaccountedCount)
}
