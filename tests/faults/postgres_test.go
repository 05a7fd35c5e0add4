package faults

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/tests/harness"
)

// PostgreSQL crashes under load and is started again: "immediate", so that all it can do is to recover from its log. What
// clients were told before stands, what was under way ends, and nobody pays twice.
func TestPostgresCrash(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{OwnPostgres: true})
	worker := w.StartWorker(t, harness.WorkerConfig{})
	l := newLoad(t, w)
	l.send(t, 10)
	l.awaitTold(t, 20)
	first := w.Postgres.PID()
	require.NoError(t, w.Postgres.Kill(t.Context()))
	toldBefore := l.toldSoFar()
	l.underWay(t)
	worker.AwaitOutput(t, "the ledger can't be reached")
	require.NoError(t, w.Postgres.Restart(t.Context()))
	require.NotEqual(t, first, w.Postgres.PID())
	log, err := os.ReadFile(w.Postgres.LogFile())
	require.NoError(t, err)
	require.Contains(t, string(log), "was not properly shut down; automatic recovery in progress")
	l.stands(t, toldBefore)

	l.ends(t)
	require.True(t, worker.Alive())
	for _, ledgerName := range w.Ledgers {
		var letters int
		require.NoError(t, w.DB(t, ledgerName).QueryRow(t.Context(), `select count(*) from dead_letters`).Scan(&letters))
		require.Zero(t, letters, "an outage is no fault of a transfer")
	}
	require.Contains(t, worker.Output.String(), "the ledger is back")
}
