package faults

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"payonce/internal/faultworker/fault"
	"payonce/tests/harness"
	"payonce/workflows"
)

// killed runs a transfer of ofKind with a worker that kills itself at a point of it, and then with another that is whole.
func killed(t *testing.T, kind fault.Kind, point string) {
	t.Helper()
	w := harness.New(t, harness.Config{})
	dying := startFaulty(t, w, harness.FaultConfig{Options: timedOutDurable, Faults: []string{point + "=kill;transfer=rent"}})
	in := ofKind(t, w, kind, "rent")
	start(t, w, in)
	dying.AwaitStrike(t, point, in.ID)
	dying.AwaitKilled(t)
	before := w.Steps(t, in.ID)

	whole := startFaulty(t, w, harness.FaultConfig{Options: timedOutDurable})
	endsWell(t, w, kind, in)
	// The server has noticed by nothing but the time that went by.
	retriedAfter(t, w, in.ID, kind, enums.TIMEOUT_TYPE_START_TO_CLOSE)
	again := awaitAnswers(t, 1, kind, in.ID, whole)[0]
	require.GreaterOrEqual(t, again.Attempt, int32(2))
	committed := len(answersTo(kind, in.ID, dying)) > 0
	require.Equal(t, committed, again.Repeat, "the second attempt moves money if the first has not")
	require.Equal(t, committed, stepIn(before, kind), "what the dead worker left: %v", before)
}

// stepIn says whether a step of a kind has applied.
func stepIn(steps []string, kind fault.Kind) bool {
	for _, ledgerName := range []string{"us", "eu"} {
		if slices.Contains(steps, ledgerName+" "+string(kind)+" applied") {
			return true
		}
	}
	return false
}

// A worker is killed when it has taken a step and not yet asked the ledger. Another does the step.
func TestWorkerKilledBeforeWrite(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault.Kind{fault.KindPost, fault.KindWithdraw, fault.KindRefund} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			killed(t, kind, string(kind)+"/before")
		})
	}
}

// A worker is killed when a step is committed and nobody has been told. Another runs it again, and meets the key.
func TestWorkerKilledAfterCommit(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault.Kind{fault.KindPost, fault.KindWithdraw, fault.KindDeposit, fault.KindRefund} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			killed(t, kind, string(kind)+"/after")
		})
	}
}

// A worker is killed when the money has left and not arrived. It does not get lost, and another brings it there.
func TestWorkerKilledBetweenWithdrawAndDeposit(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	dying := startFaulty(t, w, harness.FaultConfig{Options: timedOutDurable, Faults: []string{"deposit/before=kill;transfer=rent"}})
	in := between(t, w, "rent")
	start(t, w, in)
	dying.AwaitStrike(t, "deposit/before", in.ID)
	dying.AwaitKilled(t)
	require.Equal(t, []string{"us withdraw applied"}, w.Steps(t, in.ID))
	code, verified := w.Verify(t)
	require.Equal(t, exitDone, code, "money in transit is no fault")
	require.Len(t, verified.InTransit, 1)
	require.Equal(t, workflows.TransferWorkflowID(in.ID), verified.InTransit[0].Transfer)

	whole := startFaulty(t, w, harness.FaultConfig{Options: timedOutDurable})
	once(t, w, in, workflows.StateCompleted, arrived)
	require.Empty(t, answersTo(fault.KindWithdraw, in.ID, whole), "what is in the history is not run again")
	require.Len(t, answersTo(fault.KindDeposit, in.ID, whole), 1)
	retriedAfter(t, w, in.ID, fault.KindDeposit, enums.TIMEOUT_TYPE_START_TO_CLOSE)
}

// On the fast path a step runs within a workflow task, and the server knows nothing of it before the task is reported. A
// worker that is killed in the middle of it takes the whole task along: the next one runs all its steps again.
func TestWorkerKilledInLocalActivity(t *testing.T) {
	t.Parallel()
	// Killed by itself, at a point.
	for _, row := range []struct {
		kind   fault.Kind
		point  string
		repeat bool
	}{
		{fault.KindPost, "post/after", true},
		{fault.KindWithdraw, "withdraw/before", false},
		{fault.KindWithdraw, "withdraw/after", true},
		// Here the withdraw is run again too.
		{fault.KindDeposit, "deposit/after", true},
	} {
		t.Run(row.point, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			dying := startFaulty(t, w, harness.FaultConfig{Options: unhurried, Faults: []string{row.point + "=kill;transfer=rent"}})
			in := ofKind(t, w, row.kind, "rent")
			start(t, w, in)
			require.True(t, dying.AwaitStrike(t, row.point, in.ID).Local)
			dying.AwaitKilled(t)
			endsAfterLostTask(t, w, row.kind, in, row.repeat)
		})
	}
	// Killed from outside, while PostgreSQL works on its write.
	t.Run("in the middle of the write", func(t *testing.T) {
		t.Parallel()
		w := harness.New(t, harness.Config{})
		dying := startFaulty(t, w, harness.FaultConfig{Options: unhurried})
		in := within(t, w, "rent")
		lock := w.LockAccount(t, in.To)
		start(t, w, in)
		w.AwaitBlocked(t, "us")
		require.NoError(t, dying.Kill())
		dying.AwaitKilled(t)
		require.Empty(t, answersTo(fault.KindPost, in.ID, dying))
		lock.Release()
		endsAfterLostTask(t, w, fault.KindPost, in, false)
	})
}

// endsAfterLostTask has a worker finish a transfer whose workflow task was lost, and holds that this ran the step of a kind
// again, as a repeat or not.
func endsAfterLostTask(t *testing.T, w *harness.World, kind fault.Kind, in workflows.TransferInput, repeat bool) {
	t.Helper()
	whole := startFaulty(t, w, harness.FaultConfig{Options: unhurried})
	endsWell(t, w, kind, in)
	require.NotEmpty(t, eventsOf(t, w, in.ID, enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT), "the task was lost")
	again := awaitAnswers(t, 1, kind, in.ID, whole)[0]
	require.True(t, again.Local)
	require.Equal(t, repeat, again.Repeat)
}
