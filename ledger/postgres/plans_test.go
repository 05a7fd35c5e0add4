package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
	"payonce/ledger/postgres"
)

// Plans that are made while the tables are empty, and kept, must be right for full tables: what one operation makes the
// server read does not grow with the books.
func TestReadsDoNotGrowWithTheBooks(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	owner := b.owner(t)
	for _, table := range []string{"accounts", "operations", "entries"} {
		exec(t, owner, "alter table "+table+" set (autovacuum_enabled = off)") // no statistics, ever
	}
	l, err := postgres.Open(t.Context(), postgres.Config{Name: "us", URL: patient(t, b.WorkerURL), ConnsMax: 1})
	require.NoError(t, err)
	number := 0
	run := func(batch int) {
		t.Helper()
		operations := make([]ledger.Operation, batch)
		for i := range operations {
			number++
			o := post(fmt.Sprint("k", number), fmt.Sprint("a", number*7%2000), fmt.Sprint("a", number*11%2000+2000), "1")
			if number%10 == 0 {
				o = withdraw(fmt.Sprint("k", number), fmt.Sprint("a", number%2000), "eu/bob", "1")
			}
			if number%10 == 1 && number > 1000 {
				o = refund(fmt.Sprint("k", number), withdraw(fmt.Sprint("k", number-1), fmt.Sprint("a", (number-1)%2000), "eu/bob", "1"), "1")
			}
			operations[i] = o
		}
		results, err := l.PostBatch(t.Context(), operations)
		require.NoError(t, err)
		for _, r := range results {
			require.NoError(t, r.Err)
		}
	}
	run(1) // plans, and finds no account
	exec(t, owner, `insert into accounts (name, asset, floor) select 'a' || i, 'USD/2', null from generate_series(0, 4999) i`)
	for range 10 {
		run(500)
	}
	for range 100 {
		run(10)
	}
	for range 300 {
		run(1)
	}
	_, err = l.Resolve(t.Context(), seal(post("sealed", "a1", "a2", "1")))
	require.NoError(t, err)
	_, err = l.Entries(t.Context(), ledger.EntriesPage{Account: "a7", Limit: 10})
	require.NoError(t, err)
	_, err = l.Period(t.Context(), ledger.PeriodQuery{Account: "a7", From: time.Now().Add(-time.Hour).Truncate(time.Second), To: time.Now().Add(-time.Minute * 2).Truncate(time.Second)})
	require.NoError(t, err)
	l.Close() // the session reports what it has read when it ends

	const tables = `from pg_stat_user_tables where relname in ('accounts', 'operations', 'entries')`
	waitFor(t, owner, `(select sum(n_tup_ins) > 20000 `+tables+`)`)
	require.Zero(t, queryInt(t, owner, `select sum(seq_scan)::int `+tables), "no table is read from end to end")
	reads := queryInt(t, owner, `select sum(idx_tup_read)::int from pg_stat_user_indexes where relname in ('accounts', 'operations', 'entries')`)
	t.Logf("%d index entries read for %d operations", reads, number)
	require.Less(t, reads/number, 25)
}
