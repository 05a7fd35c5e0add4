package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
	"payonce/tests/harness"
	"payonce/workflows"
)

// skew is how far a wrong clock is off.
const skew = 5 * time.Minute

// skewOf is how far a worker's announcements are off, which carry its clock's time.
func skewOf(t *testing.T, worker *harness.FaultWorker) time.Duration {
	t.Helper()
	ready := worker.AwaitEvent(t, "it is ready", func(e fault.Event) bool { return e.Event == fault.EventReady })
	return time.Until(ready.At)
}

// Two workers have clocks that are five minutes off, one ahead and one behind, and each makes one half of every transfer:
// one on the fast path, the other on the durable one. No time that is kept or decided by is a worker's own. The ledger's are
// PostgreSQL's, a workflow's are Temporal's, and time-outs are durations.
func TestWorkerClockFiveMinutesOff(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	ahead := w.StartSkewedWorker(t, skew, harness.FaultConfig{Ledgers: []string{"us"}})
	behind := w.StartSkewedWorker(t, -skew, harness.FaultConfig{Ledgers: []string{"eu"}})
	// Some time has gone by since they were ready.
	require.InDelta(t, skew.Seconds(), skewOf(t, ahead).Seconds(), patience.Seconds())
	require.InDelta(t, -skew.Seconds(), skewOf(t, behind).Seconds(), patience.Seconds())

	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "20.00")
	var there []workflows.TransferInput
	for range 4 {
		there = append(there,
			workflows.TransferInput{ID: w.Unique("east"), From: alice, To: bob, Amount: "1", Asset: "USD"},
			workflows.TransferInput{ID: w.Unique("west"), From: bob, To: alice, Amount: "2", Asset: "USD"})
	}
	local := make(map[bool]int) // answers on the fast path, and on the durable one
	for _, in := range there {
		start(t, w, in)
		result := w.AwaitEnd(t, in.ID)
		require.Equal(t, workflows.StateCompleted, result.State)
		for _, step := range result.Steps {
			require.False(t, step.Repeat)
			require.Less(t, time.Since(step.At).Abs(), patience, "the time of %s is the ledger's", step.Key)
		}
		require.False(t, result.Steps[1].At.Before(result.Steps[0].At), "the money arrives after it has left")
		for _, kind := range []fault.Kind{fault.KindWithdraw, fault.KindDeposit} {
			for _, answer := range awaitAnswers(t, 1, kind, in.ID, ahead, behind) {
				local[answer.Local]++
			}
		}
	}
	require.Equal(t, []string{"24.00", "16.00"}, w.Balances(t, alice, bob))
	require.Equal(t, len(there), local[true], "each transfer has a step on either path")
	require.Equal(t, len(there), local[false])
}

// There is one decision that a worker's clock enters. A step's attempts together have a time, the outage budget, and
// Temporal's SDK in the worker works out when that ends from the server's time of the step's beginning. When less of the
// budget is left than the clock is ahead, the worker gives its attempts up before they have begun. That costs the step its
// attempts, and then a person's patience; it moves no money, and neither does it hide any.
func TestWorkerClockAheadOfOutageBudget(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	budget := func(o *workflows.Options) {
		harness.Durable(o)
		o.Outage.Budget = skew / 2
	}
	right := w.StartFaultWorker(t, harness.FaultConfig{Options: budget})
	in := between(t, w, "rent")
	require.NoError(t, right.Stop(t.Context()))
	ahead := w.StartSkewedWorker(t, skew, harness.FaultConfig{Options: budget})
	start(t, w, in)
	parking := w.AwaitParked(t, in.ID, 1).Parking
	require.Equal(t, workflows.StepResolveWithdraw, parking.Step)
	require.Equal(t, ledger.PlaceUnknown, parking.Place)
	attempts := awaitAnswers(t, 3, fault.KindWithdraw, in.ID, ahead)
	for _, answer := range attempts {
		require.Contains(t, answer.Error, "deadline exceeded")
	}
	require.Empty(t, w.Steps(t, in.ID))

	require.NoError(t, ahead.Stop(t.Context()))
	w.StartFaultWorker(t, harness.FaultConfig{Options: budget})
	_, err := decide(t, w, in.ID, "ann-1", workflows.Decision{Action: workflows.ActionRetry, By: "ann"})
	require.NoError(t, err)
	result := once(t, w, in, workflows.StateFailed, []string{"us withdraw sealed attempts_exhausted"})
	require.True(t, strings.Contains(result.Detail, "deadline exceeded"), "%q", result.Detail)
}
