package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/tests/chaos/checker"
	"payonce/tests/chaos/storm"
)

// settle is how long everything may take to settle in tests, on a machine however busy.
const settle = 5 * time.Minute

// A short run of what `make chaos` does, with fixed seeds. The servers are its own, because it kills them.
func TestChaos(t *testing.T) {
	t.Parallel()
	programs, err := build()
	require.NoError(t, err)
	servers, err := storm.StartServers(t.Context(), storm.ServersConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, servers.Close()) })
	world, err := storm.NewWorld(t.Context(), storm.Config{
		Servers: servers, Worker: programs.faultWorker, Starter: programs.starter, Workers: 3,
	})
	require.NoError(t, err)
	t.Cleanup(world.Close)

	tally := storm.NewTally(1)
	for _, seed := range []uint64{1, 2} {
		config := storm.DefaultRound(seed)
		config.Transfers, config.Batches, config.Payouts, config.Strikes, config.Witnesses, config.Repeats = 50, 2, 8, storm.AllStrikes(6), 4, 10
		// Longer than a busy machine needs; a transfer that is stuck never ends.
		config.Settle, config.Prompt = settle, settle
		begun := time.Now()
		outcome, err := world.Round(t.Context(), config)
		require.NoError(t, err)
		violations := checker.Check(&outcome.Evidence)
		tally.Add(outcome, len(violations))
		t.Logf("seed %d: %s, %s", seed, outcome, time.Since(begun).Round(100*time.Millisecond))
		if len(violations) > 0 {
			_, story := checker.Smallest(&outcome.Evidence, violations)
			require.Empty(t, violations, "seed %d\n%s", seed, story)
		}
	}
	require.GreaterOrEqual(t, len(tally.Faults), 20, "faults of many kinds have struck: %v", tally.Faults)
}
