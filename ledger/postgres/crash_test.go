package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/internal/devstack"
	"payonce/internal/pgtest"
	"payonce/ledger"
	"payonce/ledger/postgres"
)

// The server is killed in the middle of everything, three times. What was answered is there afterwards, once; what was
// not is found out by asking again; and no money was made or lost.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server, err := devstack.StartPostgres(t.Context(), devstack.PostgresConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	if server.External() {
		t.Skip("a server that DATABASE_URL names is not killed")
	}
	require.NoError(t, server.CreateDatabase(t.Context(), "us", ""))
	require.NoError(t, postgres.Migrate(t.Context(), server.URL("us"), postgres.MigrateOptions{}))
	b := &books{Ledger: openLedger(t, "us", server.URL("us")), Database: pgtest.Database{OwnerURL: server.URL("us")}}
	b.open(t, "world", unlimited)
	for i := range 4 {
		b.open(t, fmt.Sprint("a", i))
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	answered := make([]map[ledger.Key]ledger.Outcome, 4)
	progress := make(chan int, 1_000_000)
	for worker := range answered {
		answered[worker] = make(map[ledger.Key]ledger.Outcome)
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				o := post(fmt.Sprintf("k%d-%d", worker, i), "world", fmt.Sprint("a", (worker+i)%4), "1")
				for {
					outcome, err := b.Post(t.Context(), o)
					if err == nil {
						answered[worker][o.Key] = outcome
						progress <- worker
						break
					}
					known := errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrUnknownOutcome)
					if !assert.True(t, known, "%v", err) {
						return
					}
				}
			}
		})
	}
	for range 3 {
		for range 50 {
			<-progress
		}
		require.NoError(t, server.Kill(t.Context()))
		require.NoError(t, server.Restart(t.Context()))
	}
	for range 50 {
		<-progress
	}
	cancel()
	running.Wait()
	total := 0
	for _, outcomes := range answered {
		total += len(outcomes)
		for key, outcome := range outcomes {
			record, err := b.Operation(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, repeated(outcome), record.Outcome)
		}
	}
	summary := sound(t, b)
	require.Equal(t, int64(total), summary.Ledgers[0].Operations, "nothing but what was answered")
	require.Equal(t, int64(2*total), summary.Ledgers[0].Entries)
}
