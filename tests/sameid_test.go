package tests

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/starter/transfers"
	"payonce/tests/harness"
	"payonce/workflows"
)

// Case 3 (fineract PR#5674): without an ID nothing is done; sameness is never inferred from the content.
func TestMissingID(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "us", "")
	in := workflows.TransferInput{From: alice, To: bob, Amount: "5", Asset: "USD"}
	for range 2 {
		refused := w.CLITransfer(t, in)
		require.Equal(t, exitUsage, refused.Code)
		require.Contains(t, refused.Failure(t).Error, "--id is required")
	}
	require.Equal(t, []string{"20.00", "0.00"}, w.Balances(t, alice, bob))

	// The same payment under two IDs is two payments.
	for _, id := range []string{"coffee-1", "coffee-2"} {
		in.ID = id
		require.Equal(t, exitDone, w.CLITransfer(t, in).Code)
	}
	require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, alice, bob))
}

// Case 5 (square-mcp-server#31): the same command by several processes at once, and again later, is one transfer.
func TestSameCommandAtOnce(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	in := workflows.TransferInput{ID: "rent", From: alice, To: bob, Amount: "10", Asset: "USD"}

	const times = 5
	results := make([]*harness.Result, times)
	var running sync.WaitGroup
	for i := range times {
		running.Go(func() { results[i] = w.CLITransfer(t, in) })
	}
	running.Wait()
	started := 0
	for _, result := range results {
		require.Equal(t, exitDone, result.Code)
		got := result.Transfer(t)
		require.Equal(t, results[0].Transfer(t).TransferResult, got.TransferResult)
		if !*got.Attached {
			started++
		}
	}
	require.Equal(t, 1, started, "one of them has started it")
	require.Equal(t, []string{"us withdraw applied", "eu deposit applied"}, w.Steps(t, in.ID))
	require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, alice, bob))
}

// Case 12 (stripe-ruby#503): the same ID for another request is an error of its own, exit code 6, and moves nothing: while
// the transfer runs, after its end, and after Temporal has forgotten it.
func TestSameIDOtherRequest(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"us"}})
	destination := w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	carol, dave := w.Account(t, "us", "20.00"), w.Account(t, "eu", "20.00")
	in := workflows.TransferInput{ID: "rent", From: alice, To: bob, Amount: "10", Asset: "USD"}
	refuse := func(t *testing.T, what string, change func(*workflows.TransferInput)) {
		t.Helper()
		before := w.Balances(t, alice, bob, carol, dave)
		other := in
		change(&other)
		refused := w.CLITransfer(t, other)
		require.Equal(t, exitDifferent, refused.Code, "another %s", what)
		require.Contains(t, refused.Failure(t).Error, `transfer "rent" was made before`)
		require.Equal(t, before, w.Balances(t, alice, bob, carol, dave))
	}
	refuseAll := func(t *testing.T) {
		t.Helper()
		refuse(t, "amount", func(in *workflows.TransferInput) { in.Amount = "10.01" })
		refuse(t, "asset", func(in *workflows.TransferInput) { in.Asset = "EUR" })
		refuse(t, "source", func(in *workflows.TransferInput) { in.From = carol })
		refuse(t, "destination", func(in *workflows.TransferInput) { in.To = dave })
	}
	refuseShape := func(t *testing.T) {
		t.Helper()
		refuse(t, "destination, on the source's ledger", func(in *workflows.TransferInput) { in.To = carol })
	}
	refuseSources := func(t *testing.T) {
		t.Helper()
		refuse(t, "source, on the destination's ledger", func(in *workflows.TransferInput) { in.From = dave })
		refuse(t, "direction", func(in *workflows.TransferInput) { in.From, in.To = dave, carol })
	}
	// What is not part of the payment is no difference, nor is the way in which it is written.
	attach := func(t *testing.T) {
		t.Helper()
		same := in
		same.Amount, same.Asset, same.Memo = "10.00", "USD/2", "another memo"
		same.Metadata = map[string]string{"try": "2"}
		result := w.CLITransfer(t, same)
		require.Equal(t, exitDone, result.Code)
		require.Equal(t, workflows.StateCompleted, result.Transfer(t).State)
	}

	// No worker serves the destination, so the money is in transit.
	require.Equal(t, 0, destination.Stop(t))
	require.Equal(t, exitDone, w.CLITransfer(t, in, "--wait=false").Code)
	w.AwaitStep(t, in.ID, "us withdraw applied")
	refuseAll(t)
	refuseShape(t)
	refuseSources(t)

	w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
	require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, in.ID).State)
	refuseAll(t)
	refuseShape(t)
	refuseSources(t)
	attach(t)

	// From here on the ledger that has paid remembers the ID, and it alone.
	w.Forget(t, workflows.TransferWorkflowID(in.ID))
	refuseAll(t)
	refuseShape(t)
	attach(t)
	refuseAll(t)
	refuseShape(t)
	require.Equal(t, []string{"us withdraw applied", "eu deposit applied"}, w.Steps(t, in.ID))
	require.Equal(t, []string{"10.00", "10.00", "20.00", "20.00"}, w.Balances(t, alice, bob, carol, dave))
}

// Case 13 (mojaloop/project#460): while the first is unfinished, a duplicate is told that it is pending, never that it is
// done.
func TestDuplicateOfUnfinished(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"us"}})
	destination := w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	in := workflows.TransferInput{ID: "rent", From: alice, To: bob, Amount: "10", Asset: "USD"}

	require.Equal(t, 0, destination.Stop(t))
	accepted := w.CLITransfer(t, in, "--wait=false")
	require.Equal(t, exitDone, accepted.Code, "to be accepted is what was asked for")
	require.Equal(t, workflows.StateRunning, accepted.Transfer(t).State)
	w.AwaitStep(t, in.ID, "us withdraw applied")

	harness.Eventually(t, "a duplicate is told that it is pending", func() bool {
		duplicate := w.CLITransfer(t, in, "--timeout=2s")
		require.Equal(t, exitPending, duplicate.Code)
		var told harness.Transfer
		require.NoError(t, json.Unmarshal([]byte(duplicate.Stdout), &told))
		require.False(t, told.State.Ended())
		return told.State == workflows.StateRunning
	})
	harness.Eventually(t, "it says where it stands, and why it does not get on", func() bool {
		status := w.CLI(t, "status", in.ID)
		require.Equal(t, exitPending, status.Code)
		got := status.Transfer(t)
		require.Equal(t, workflows.StateRunning, got.State)
		return got.Step == workflows.StepDeposit && slices.Equal([]string{"us withdraw applied"}, reported(got.Steps)) &&
			strings.Contains(strings.Join(got.Notes, "; "), "does a worker hold the ledger eu?")
	})

	w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
	require.Equal(t, exitDone, w.CLITransfer(t, in).Code)
	require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, alice, bob))
}

// Cases 7 (square/connect-api-examples#135) and 8 (temporalio/sdk-go#220): keys outlive Temporal's retention. Whatever its
// end was, a transfer that Temporal has forgotten ends the same again, and nothing moves.
func TestForgotten(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := w.StartFaultWorker(t, harness.FaultConfig{
		Faults: []string{
			"withdraw/before=fail:3;transfer=failed",
			"deposit/before=fail:3;transfer=exhausted",
			"withdraw/before=hold;transfer=cancelled",
		},
		Options: patiently,
	})
	alice := w.Account(t, "us", "100.00")
	exhausted := []string{"us withdraw applied", "us refund applied", "eu deposit sealed attempts_exhausted"}
	for _, row := range []struct {
		id    string
		to    string
		exit  int
		state workflows.State
		steps []string
	}{
		{"posted", w.Account(t, "us", ""), exitDone, workflows.StateCompleted, []string{"us post applied"}},
		{"completed", w.Account(t, "eu", ""), exitDone, workflows.StateCompleted, []string{"us withdraw applied", "eu deposit applied"}},
		{"rejected", "us/nobody", exitRejected, workflows.StateRejected, []string{"us post refused account_unknown"}},
		{"compensated", "eu/nobody", exitFailed, workflows.StateCompensated, compensated("account_unknown")},
		{"failed", w.Account(t, "eu", ""), exitFailed, workflows.StateFailed, []string{"us withdraw sealed attempts_exhausted"}},
		{"exhausted", w.Account(t, "eu", ""), exitFailed, workflows.StateCompensated, exhausted},
		{"cancelled", w.Account(t, "eu", ""), exitFailed, workflows.StateCancelled, []string{"us withdraw sealed cancelled"}},
	} {
		t.Run(row.id, func(t *testing.T) {
			t.Parallel()
			in := workflows.TransferInput{ID: row.id, From: alice, To: row.to, Amount: "10", Asset: "USD"}
			w.Start(t, in)
			if row.state == workflows.StateCancelled {
				worker.AwaitStrike(t, "withdraw/before", in.ID)
				require.NoError(t, w.Transfers.Cancel(t.Context(), in.ID))
			}
			original := w.AwaitEnd(t, in.ID)
			require.Equal(t, row.state, original.State)
			require.Equal(t, row.steps, w.Steps(t, in.ID))
			recorded := w.Operations(t, in.ID)

			w.Forget(t, workflows.TransferWorkflowID(in.ID))
			remembered := w.CLI(t, "status", in.ID)
			require.Equal(t, row.exit, remembered.Code, "the ledgers know its end")
			require.Equal(t, row.state, remembered.Transfer(t).State)

			again := w.CLITransfer(t, in)
			require.Equal(t, row.exit, again.Code)
			got := again.Transfer(t)
			require.Equal(t, new(false), got.Attached, "it has been started anew")
			require.Equal(t, row.state, got.State)
			require.Equal(t, original.Code, got.Code)
			require.Equal(t, original.Detail, got.Detail)
			require.Equal(t, recorded, w.Operations(t, in.ID), "nothing is new in the ledgers")
			for _, step := range got.Steps {
				require.True(t, step.Repeat, "%s is the recorded outcome", step.Step)
			}
		})
	}
}

// Asking for what is not there is an error of the input.
func TestUnknownTransfer(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	unknown := w.CLI(t, "status", "nothing")
	require.Equal(t, exitUsage, unknown.Code)
	require.Contains(t, unknown.Failure(t).Error, `there is no transfer "nothing"`)
	_, err := w.Transfers.Decide(t.Context(), "nothing", workflows.Decision{Action: workflows.ActionRetry, By: "a test"})
	require.ErrorIs(t, err, transfers.ErrUnknown)
	require.ErrorIs(t, w.Transfers.Cancel(t.Context(), "nothing"), transfers.ErrUnknown)
}
