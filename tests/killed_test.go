package tests

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/tests/harness"
	"payonce/workflows"
)

// Case 14 (archivematica PR#2352): a worker that is killed at any point of a transfer leaves nothing behind that keeps
// another from finishing it, and no step happens twice. Case 76: what is
// missing is done, and nothing else.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, path := range []struct {
		name    string
		options func(*workflows.Options)
		points  []string
	}{
		{"durable path", losing, []string{"post/before", "post/after", "withdraw/before", "withdraw/after", "deposit/before", "deposit/after"}},
		// Here a step is lost with the workflow task that runs it, which costs the task's time-out.
		{"fast path", unhurried, []string{"post/after", "withdraw/after", "deposit/before", "deposit/after"}},
	} {
		for _, point := range path.points {
			t.Run(path.name+", "+point, func(t *testing.T) {
				t.Parallel()
				w := harness.New(t, harness.Config{})
				dying := w.StartFaultWorker(t, harness.FaultConfig{Options: path.options, Faults: []string{point + "=kill;transfer=rent"}})
				in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "us", ""), Amount: "10", Asset: "USD"}
				steps := []string{"us post applied"}
				if !strings.HasPrefix(point, "post") {
					in.To = w.Account(t, "eu", "")
					steps = []string{"us withdraw applied", "eu deposit applied"}
				}
				w.Start(t, in)
				dying.AwaitKilled(t)
				require.NotEqual(t, 0, w.CLITransfer(t, in, "--timeout=300ms").Code, "nobody can finish it now")

				w.StartFaultWorker(t, harness.FaultConfig{Options: path.options})
				rerun := w.CLITransfer(t, in, timeoutLong)
				require.Equal(t, exitDone, rerun.Code)
				require.Equal(t, steps, reported(rerun.Transfer(t).Steps))
				require.Equal(t, steps, w.Steps(t, in.ID))
				require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, in.From, in.To))
			})
		}
	}
}

// Two workers share the work; one is killed in the middle of it, the other finishes everything. Case 40 (blnk#240): at
// whatever statement it dies, the balances are the sums of the entries.
func TestOneOfTwoWorkersKilled(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	first, second := w.StartWorker(t, harness.WorkerConfig{}), w.StartWorker(t, harness.WorkerConfig{})
	const transfers = 40
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "eu", "")
	ids := make([]string, transfers)
	for i := range ids {
		ids[i] = w.Unique("coffee")
		w.Start(t, workflows.TransferInput{ID: ids[i], From: alice, To: bob, Amount: "1", Asset: "USD"})
	}
	killed := 1 + rand.IntN(transfers/2)
	harness.Eventually(t, "some have ended", func() bool {
		var n int
		sql := `select count(*) from operations where kind = 'deposit'`
		require.NoError(t, w.DB(t, "eu").QueryRow(t.Context(), sql).Scan(&n))
		return n >= killed
	})
	require.NoError(t, first.Kill())
	require.Empty(t, w.BookFaults(t), "killed after %d", killed)
	for _, id := range ids {
		require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, id).State)
	}
	require.True(t, second.Alive())
	require.Equal(t, []string{"60.00", "40.00"}, w.Balances(t, alice, bob))
}
