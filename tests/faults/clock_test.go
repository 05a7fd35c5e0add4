package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/internal/faultworker/fault"
	"payonce/tests/harness"
	"payonce/workflows"
)

// skew is how far a wrong clock is off.
const skew = 5 * time.Minute

// startSkewed starts a worker whose clock is off, and holds that it is.
func startSkewed(t *testing.T, w *harness.World, by time.Duration, c harness.FaultConfig) *harness.FaultWorker {
	t.Helper()
	worker := w.StartSkewedWorker(t, by, c)
	ready := worker.AwaitEvent(t, "it is ready", func(e fault.Event) bool { return e.Event == fault.EventReady })
	// Announcements carry the time of the worker's clock. A moment has gone by since.
	require.InDelta(t, by.Seconds(), time.Until(ready.At).Seconds(), patience.Seconds())
	return worker
}

// Two workers have clocks that are five minutes off, one ahead and one behind, and each makes one half of every transfer:
// one on the fast path, the other on the durable one. No time that is kept or decided by is a worker's own. The ledger's are
// PostgreSQL's, a workflow's are Temporal's, and time-outs are durations.
func TestWorkerClockFiveMinutesOff(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	right := startFaulty(t, w, harness.FaultConfig{})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "20.00")
	require.NoError(t, right.Stop(t.Context()))
	budget := func(o *workflows.Options) {
		unhurried(o)
		o.Outage.Budget = workflows.DefaultOptions().Outage.Budget
	}
	ahead := startSkewed(t, w, skew, harness.FaultConfig{Ledgers: []string{"us"}, Options: budget})
	behind := startSkewed(t, w, -skew, harness.FaultConfig{Ledgers: []string{"eu"}, Options: budget})

	var there []workflows.TransferInput
	for range 4 {
		there = append(there,
			workflows.TransferInput{ID: w.Unique("east"), From: alice, To: bob, Amount: "1", Asset: "USD"},
			workflows.TransferInput{ID: w.Unique("west"), From: bob, To: alice, Amount: "2", Asset: "USD"})
	}
	local := make(map[bool]int) // answers on the fast path, and on the durable one
	for _, in := range there {
		startUnhurried(t, w, in)
		result := w.AwaitEnd(t, in.ID)
		require.Equal(t, workflows.StateCompleted, result.State)
		for _, step := range result.Steps {
			require.Less(t, time.Since(step.At).Abs(), skew/2, "the time of %s is the ledger's", step.Key)
		}
		require.False(t, result.Steps[1].At.Before(result.Steps[0].At), "the money arrives after it has left")
		for _, kind := range []fault.Kind{fault.KindWithdraw, fault.KindDeposit} {
			for _, answer := range awaitAnswers(t, 1, kind, in.ID, ahead, behind) {
				require.Empty(t, answer.Error)
				local[answer.Local]++
			}
		}
	}
	require.Equal(t, []string{"24.00", "16.00"}, w.Balances(t, alice, bob))
	require.Len(t, movements(t, w, alice), 1+len(there))
	require.Len(t, movements(t, w, bob), 1+len(there))
	require.GreaterOrEqual(t, local[true], len(there), "each transfer has a step on either path")
	require.GreaterOrEqual(t, local[false], len(there))
}

// There is one decision that a worker's clock enters. A step's attempts together have a time, the outage budget, and
// Temporal's SDK in the worker works out when that ends from the server's time at which the step began. A worker whose clock
// is ahead by more than is left of it gives each attempt up as it begins, and reports nothing. That uses up the attempts, and
// then waits for a person; it moves no money, and hides none.
func TestWorkerClockAheadOfOutageBudget(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	options := func(o *workflows.Options) {
		harness.Durable(o)
		o.Forward.AttemptsMax, o.Settle.AttemptsMax = 1, 1
		o.Outage.Budget = skew / 2
	}
	right := startFaulty(t, w, harness.FaultConfig{})
	in := between(t, w, "rent")
	require.NoError(t, right.Stop(t.Context()))
	ahead := startSkewed(t, w, skew, harness.FaultConfig{Options: options})
	start(t, w, in)
	require.Equal(t, workflows.StepResolveWithdraw, w.AwaitParked(t, in.ID, 1).Parking.Step)
	for _, kind := range []fault.Kind{fault.KindWithdraw, fault.KindResolve} {
		require.Contains(t, awaitAnswers(t, 1, kind, in.ID, ahead)[0].Error, "deadline exceeded")
	}
	require.Empty(t, w.Steps(t, in.ID))

	require.NoError(t, ahead.Stop(t.Context()))
	startFaulty(t, w, harness.FaultConfig{Options: unhurriedDurable})
	_, err := decide(t, w, in.ID, "ann-1", workflows.Decision{Action: workflows.ActionRetry, By: "ann"})
	require.NoError(t, err)
	once(t, w, in, workflows.StateFailed, []string{"us withdraw sealed attempts_exhausted"})
}
