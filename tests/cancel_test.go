package tests

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/tests/harness"
	"payonce/workflows"
)

// Case 21 (sdk-java#305): a transfer that is cancelled at any step cleans up, and the books close. What has not been
// written is sealed, what has been is undone if it can't be finished, and what has arrived stays.
func TestCancelledAtEachStep(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	sealedPost, sealedWithdraw := []string{"us post sealed cancelled"}, []string{"us withdraw sealed cancelled"}
	sealedDeposit := []string{"us withdraw applied", "us refund applied", "eu deposit sealed cancelled"}
	arrived := []string{"us withdraw applied", "eu deposit applied"}
	rows := []struct {
		point string
		state workflows.State
		steps []string
	}{
		{"post/before", workflows.StateCancelled, sealedPost},
		{"post/after", workflows.StateCompleted, []string{"us post applied"}},
		{"withdraw/before", workflows.StateCancelled, sealedWithdraw},
		{"withdraw/after", workflows.StateCancelled, sealedDeposit},
		{"deposit/before", workflows.StateCancelled, sealedDeposit},
		{"deposit/after", workflows.StateCompleted, arrived},
		// Cancelled when it is on its way back already: it goes back.
		{"refund/before", workflows.StateCompensated, compensated("account_unknown")},
		{"refund/after", workflows.StateCompensated, compensated("account_unknown")},
	}
	var faults []string
	id := func(point string) string { return strings.ReplaceAll(point, "/", "-") }
	for _, row := range rows {
		faults = append(faults, row.point+"=block;for=12s;transfer="+id(row.point))
	}
	worker := w.StartFaultWorker(t, harness.FaultConfig{Faults: faults, Options: func(o *workflows.Options) {
		harness.Durable(o)
		// The block is no failure.
		o.Forward.TimeoutStartToClose, o.Settle.TimeoutStartToClose = time.Minute, time.Minute
	}})
	for _, row := range rows {
		t.Run(row.point, func(t *testing.T) {
			t.Parallel()
			in := workflows.TransferInput{ID: id(row.point), From: w.Account(t, "us", "20.00"), Amount: "10", Asset: "USD"}
			switch {
			case strings.HasPrefix(row.point, "post"):
				in.To = w.Account(t, "us", "")
			case strings.HasPrefix(row.point, "refund"):
				in.To = "eu/nobody"
			default:
				in.To = w.Account(t, "eu", "")
			}
			w.Start(t, in)
			worker.AwaitStrike(t, row.point, in.ID)
			if row.point == "withdraw/before" {
				cancel := w.TemporalCLI(t, "workflow", "cancel", "--workflow-id", workflows.TransferWorkflowID(in.ID))
				require.Equal(t, 0, cancel.Code)
			} else {
				require.NoError(t, w.Transfers.Cancel(t.Context(), in.ID))
			}

			result := w.AwaitEnd(t, in.ID)
			require.Equal(t, row.state, result.State)
			require.Equal(t, row.steps, w.Steps(t, in.ID))
			exit := exitFailed
			if row.state == workflows.StateCompleted {
				exit = exitDone
				require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, in.From, in.To))
			} else {
				require.Equal(t, "20.00", w.Balance(t, in.From))
			}
			require.Equal(t, exit, w.CLITransfer(t, in).Code, "asked again")

			// The step that was under way goes on after all: it finds its key decided.
			worker.AwaitEvent(t, "the blocked step goes on", resumed(row.point, in.ID))
			harness.Eventually(t, "it is answered", func() bool { return answers(worker, in.ID) >= len(row.steps) })
			require.Equal(t, row.steps, w.Steps(t, in.ID))
		})
	}
}

// A transfer that is cancelled on its way through the fast path ends too, one way or the other.
func TestCancelledOnFastPath(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := w.StartFaultWorker(t, harness.FaultConfig{Faults: []string{"withdraw/after=block;for=700ms;transfer=rent"}})
	in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD"}
	w.Start(t, in)
	worker.AwaitStrike(t, "withdraw/after", in.ID)
	require.NoError(t, w.Transfers.Cancel(t.Context(), in.ID))
	switch result := w.AwaitEnd(t, in.ID); result.State {
	case workflows.StateCompleted:
		require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, in.From, in.To))
	case workflows.StateCancelled:
		require.Equal(t, []string{"20.00", "0.00"}, w.Balances(t, in.From, in.To))
	case workflows.StateRunning, workflows.StateParked, workflows.StateRejected, workflows.StateFailed, workflows.StateCompensated:
		require.Failf(t, "not an end of this", "%+v", result)
	}
}
