package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
	"payonce/tests/harness"
	"payonce/workflows"
)

// Case 21 (sdk-java#305): a transfer that is cancelled at any step cleans up, and the books close. What has not been
// written is sealed, what has been is undone if it can't be finished, and what has arrived stays. The step that was under
// way when the transfer was cancelled goes on later, and finds its key decided.
func TestCancelledAtEachStep(t *testing.T) {
	t.Parallel()
	sealedDeposit := []string{"us withdraw applied", "us refund applied", "eu deposit sealed cancelled"}
	for _, row := range []struct {
		point string
		state workflows.State
		steps []string
	}{
		{"post/before", workflows.StateCancelled, []string{"us post sealed cancelled"}},
		{"post/after", workflows.StateCompleted, []string{"us post applied"}},
		{"withdraw/before", workflows.StateCancelled, []string{"us withdraw sealed cancelled"}},
		{"withdraw/after", workflows.StateCancelled, sealedDeposit},
		{"deposit/before", workflows.StateCancelled, sealedDeposit},
		{"deposit/after", workflows.StateCompleted, []string{"us withdraw applied", "eu deposit applied"}},
	} {
		t.Run(row.point, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			frozen := w.StartFaultWorker(t, harness.FaultConfig{Options: patiently, Faults: []string{row.point + "=freeze;transfer=rent"}})
			in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD"}
			if strings.HasPrefix(row.point, "post") {
				in.To = w.Account(t, "us", "")
			}
			w.Start(t, in)
			frozen.AwaitStrike(t, row.point, in.ID)
			w.StartFaultWorker(t, harness.FaultConfig{Options: patiently})
			if row.point == "withdraw/before" {
				cancel := w.TemporalCLI(t, "workflow", "cancel", "--workflow-id", workflows.TransferWorkflowID(in.ID))
				require.Equal(t, 0, cancel.Code)
			} else {
				require.NoError(t, w.Transfers.Cancel(t.Context(), in.ID))
			}

			result := w.AwaitEnd(t, in.ID)
			require.Equal(t, row.state, result.State)
			require.Equal(t, row.steps, w.Steps(t, in.ID))
			exit, balances := exitFailed, []string{"20.00", "0.00"}
			if row.state == workflows.StateCompleted {
				exit, balances = exitDone, []string{"10.00", "10.00"}
			}
			require.Equal(t, balances, w.Balances(t, in.From, in.To))
			require.Equal(t, exit, w.CLITransfer(t, in).Code, "asked again")

			require.NoError(t, frozen.Thaw())
			frozen.AwaitEvent(t, "the frozen step goes on", resumed(row.point, in.ID))
			kind, _, _ := strings.Cut(row.point, "/")
			late := frozen.AwaitAnswer(t, fault.Kind(kind), in.ID)
			if strings.HasSuffix(row.point, "/before") {
				require.Equal(t, ledger.OutcomeSealed, late.State)
			}
			require.Equal(t, row.steps, w.Steps(t, in.ID))
			require.Equal(t, balances, w.Balances(t, in.From, in.To))
		})
	}
}

// Money that is on its way back already comes back, whoever cancels what.
func TestCancelledOnItsWayBack(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"refund/before", "refund/after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			dying := w.StartFaultWorker(t, harness.FaultConfig{Options: losing, Faults: []string{point + "=kill;transfer=rent"}})
			in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: "eu/nobody", Amount: "10", Asset: "USD"}
			w.Start(t, in)
			dying.AwaitKilled(t)
			require.NoError(t, w.Transfers.Cancel(t.Context(), in.ID))
			w.StartFaultWorker(t, harness.FaultConfig{Options: losing})
			require.Equal(t, workflows.StateCompensated, w.AwaitEnd(t, in.ID).State)
			require.Equal(t, compensated("account_unknown"), w.Steps(t, in.ID))
			require.Equal(t, "20.00", w.Balance(t, in.From))
		})
	}
}

// A transfer that is cancelled on its way through the fast path ends too, one way or the other.
func TestCancelledOnFastPath(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Faults: []string{"withdraw/after=hold;transfer=rent"}})
	in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD"}
	w.Start(t, in)
	worker.AwaitStrike(t, "withdraw/after", in.ID)
	require.NoError(t, w.Transfers.Cancel(t.Context(), in.ID))
	worker.LetGo(t)
	switch result := w.AwaitEnd(t, in.ID); result.State { //nolint:exhaustive // the others are a payout's
	case workflows.StateCompleted:
		require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, in.From, in.To))
	case workflows.StateCancelled:
		require.Equal(t, []string{"20.00", "0.00"}, w.Balances(t, in.From, in.To))
	case workflows.StateRunning, workflows.StateParked, workflows.StateRejected, workflows.StateFailed, workflows.StateCompensated,
		workflows.StateDiscarded:
		require.Failf(t, "not an end of this", "%+v", result)
	}
}
