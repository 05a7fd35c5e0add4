package tests

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"payonce/tests/harness"
	"payonce/workflows"
)

// inTransit starts workers and a transfer, and returns when its money has left and can't arrive: no worker serves the
// destination. arrive starts one.
func inTransit(t *testing.T, w *harness.World) (in workflows.TransferInput, arrive func()) {
	t.Helper()
	w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"us"}})
	destination := w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
	in = workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD"}
	require.Equal(t, 0, destination.Stop(t))
	w.Start(t, in)
	w.AwaitStep(t, in.ID, "us withdraw applied")
	w.AwaitEvent(t, workflows.TransferWorkflowID(in.ID), enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	return in, func() { w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}}) }
}

// Case 22 (temporalio/temporal#1412): a workflow that is terminated between withdraw and deposit cleans nothing up. Verify
// says that money is in transit and whose it is; the same transfer, started again, finishes.
func TestTerminatedInTransit(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	in, arrive := inTransit(t, w)
	require.NoError(t, w.Temporal.TerminateWorkflow(t.Context(), workflows.TransferWorkflowID(in.ID), "", "a test"))

	code, verified := w.Verify(t)
	require.Equal(t, 0, code, "money in transit is no fault")
	require.Len(t, verified.InTransit, 1)
	got := verified.InTransit[0]
	require.Equal(t, workflows.TransferWorkflowID(in.ID), got.Transfer)
	require.Equal(t, []string{in.From, in.To, "10.00", "USD/2"}, []string{got.From, got.To, got.Amount, got.Asset})
	status := w.CLI(t, "status", in.ID)
	require.Equal(t, exitPending, status.Code, "nobody can say that it has ended")
	require.Equal(t, "unknown", string(status.Transfer(t).State))
	require.Equal(t, []string{"10.00", "0.00"}, w.Balances(t, in.From, in.To))

	// Another payment under its ID gets nowhere.
	other := in
	other.Amount = "11"
	require.Equal(t, exitDifferent, w.CLITransfer(t, other).Code)

	arrive()
	again := w.CLITransfer(t, in)
	require.Equal(t, exitDone, again.Code)
	require.True(t, again.Transfer(t).Steps[0].Repeat, "the withdraw is the one of before")
	require.Equal(t, []string{"us withdraw applied", "eu deposit applied"}, w.Steps(t, in.ID))
	require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, in.From, in.To))
	_, verified = w.Verify(t)
	require.Empty(t, verified.InTransit)
}

// Case 23 (temporalio/temporal#8901): a workflow that is reset to its beginning runs its steps again, and each meets its
// key: in transit, and after the end, whatever the end was.
func TestReset(t *testing.T) {
	t.Parallel()
	t.Run("in transit", func(t *testing.T) {
		t.Parallel()
		w := harness.New(t, harness.Config{})
		in, arrive := inTransit(t, w)
		w.Reset(t, workflows.TransferWorkflowID(in.ID))
		arrive()
		require.Equal(t, exitDone, w.CLITransfer(t, in).Code)
		result := w.AwaitEnd(t, in.ID)
		require.True(t, result.Steps[0].Repeat)
		require.Equal(t, []string{"us withdraw applied", "eu deposit applied"}, w.Steps(t, in.ID))
		require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, in.From, in.To))
	})
	t.Run("after the end", func(t *testing.T) {
		t.Parallel()
		w := harness.New(t, harness.Config{})
		w.StartWorker(t, harness.WorkerConfig{})
		alice := w.Account(t, "us", "100.00")
		for _, to := range []string{w.Account(t, "us", ""), w.Account(t, "eu", ""), "us/nobody", "eu/nobody"} {
			in := workflows.TransferInput{ID: w.Unique("rent"), From: alice, To: to, Amount: "10", Asset: "USD"}
			first := w.Transfer(t, in)
			recorded, balance := w.Operations(t, in.ID), w.Balance(t, alice)
			run := w.Reset(t, workflows.TransferWorkflowID(in.ID))
			var again workflows.TransferResult
			err := w.Temporal.GetWorkflow(t.Context(), workflows.TransferWorkflowID(in.ID), run).Get(t.Context(), &again)
			require.NoError(t, err)
			require.Equal(t, first.State, again.State)
			for _, step := range again.Steps {
				require.True(t, step.Repeat, "%s of %s", step.Step, in.ID)
			}
			require.Equal(t, recorded, w.Operations(t, in.ID))
			require.Equal(t, balance, w.Balance(t, alice))
		}
	})
}

// A transfer within one ledger that is terminated before anything is done is done when it is started again.
func TestTerminatedBeforeAnything(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	first := w.StartWorker(t, harness.WorkerConfig{})
	in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "us", ""), Amount: "10", Asset: "USD"}
	require.Equal(t, 0, first.Stop(t))
	w.Start(t, in)
	require.NoError(t, w.Temporal.TerminateWorkflow(t.Context(), workflows.TransferWorkflowID(in.ID), "", "a test"))
	require.Empty(t, w.Steps(t, in.ID))
	w.StartWorker(t, harness.WorkerConfig{})
	require.Equal(t, exitDone, w.CLITransfer(t, in).Code)
	require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, in.From, in.To))
}
