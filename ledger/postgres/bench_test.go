package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// BenchmarkPostBatch measures transfers per second on a server of its own with durable commits, which shares the machine
// with the client. It runs without a manual ANALYZE and with autovacuum off, so that no statistics ever appear: what a
// fresh ledger is like.
//
//	go test ./ledger/postgres -run '^$' -bench PostBatch -benchtime 5s
//
// accounts: how many accounts take part. payers: how many of them pay; 0 is all. workers: how many batches are under
// way at once. before: how many operations the ledger has already.
func BenchmarkPostBatch(b *testing.B) {
	type conditions struct {
		batch, workers, accounts, payers, before int
	}
	run := func(name string, c conditions) {
		b.Run(name, func(b *testing.B) { benchmarkPostBatch(b, c.batch, c.workers, c.accounts, c.payers, c.before) })
	}
	for _, batch := range []int{1, 10, 50, 100, 500, 1_000, 2_000} {
		run(fmt.Sprint("batch=", batch), conditions{batch: batch, workers: 2, accounts: 1_000})
	}
	run("batch=1/workers=1", conditions{batch: 1, workers: 1, accounts: 1_000})
	run("batch=1/workers=16", conditions{batch: 1, workers: 16, accounts: 1_000})
	run("batch=500/workers=1", conditions{batch: 500, workers: 1, accounts: 1_000})
	run("batch=1/workers=16/payers=1", conditions{batch: 1, workers: 16, accounts: 1_000, payers: 1})
	run("batch=500/payers=1", conditions{batch: 500, workers: 2, accounts: 1_000, payers: 1})
	run("batch=500/accounts=10", conditions{batch: 500, workers: 2, accounts: 10})
	run("batch=500/accounts=100000", conditions{batch: 500, workers: 2, accounts: 100_000})
	for _, batch := range []int{1, 50, 500} {
		run(fmt.Sprintf("batch=%d/before=1000000", batch), conditions{batch: batch, workers: 2, accounts: 1_000, before: 1_000_000})
	}
}

// BenchmarkPost measures single calls, which share database transactions, on the same terms. callers: how many calls are
// under way at once.
func BenchmarkPost(b *testing.B) {
	const accounts = 1_000
	for _, callers := range []int{1, 4, 16, 64, 256, 1_024} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) { benchmarkPost(b, callers, accounts, 0) })
	}
	b.Run("callers=256/payers=1", func(b *testing.B) { benchmarkPost(b, 256, accounts, 1) })
}

func benchmarkPost(b *testing.B, callers, accounts, payers int) {
	books := openBenchBooks(b, accounts)
	seed := rand.Uint64()
	b.Logf("seed %d", seed)
	var number atomic.Int64
	var calling sync.WaitGroup
	b.ResetTimer()
	for caller := range callers {
		calling.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(caller)))
			for {
				n := number.Add(1)
				if n > int64(b.N) || b.Failed() {
					return
				}
				outcome, err := books.Post(b.Context(), randomOperation(random, n, accounts, payers))
				if err != nil || outcome.State != ledger.OutcomeApplied || outcome.Repeat {
					b.Errorf("%+v: %v", outcome, err)
				}
			}
		})
	}
	calling.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "transfers/s")
}

// openBenchBooks opens books with accounts a0, a1, … that may go below zero, and whose tables never get statistics.
func openBenchBooks(b *testing.B, accounts int) *books {
	b.Helper()
	books := openBooks(b)
	owner := books.owner(b)
	for _, table := range []string{"accounts", "operations", "entries"} {
		exec(b, owner, "alter table "+table+" set (autovacuum_enabled = off)")
	}
	exec(b, owner, `insert into accounts (name, asset, floor) select 'a' || i, 'USD/2', null from generate_series(0, $1 - 1) i`, accounts)
	return books
}

// randomOperation is a new operation between two of the accounts. payers: how many of them pay; 0 is all.
func randomOperation(random *rand.Rand, number int64, accounts, payers int) ledger.Operation {
	from, to := random.IntN(accounts), random.IntN(accounts-1)
	if payers > 0 {
		from = random.IntN(payers)
	}
	if to >= from {
		to++
	}
	return ledger.Operation{
		// Keys in random order, as clients' keys are.
		Key:  ledger.Key(fmt.Sprintf("transfer/%016x-%d/post", random.Uint64(), number)),
		Kind: ledger.KindPost,
		Legs: []ledger.Leg{{
			From: "a" + strconv.Itoa(from), To: "a" + strconv.Itoa(to), Asset: usd,
			Amount: ledger.AmountFromUnits(random.Int64N(100_000) + 1),
		}},
	}
}

func benchmarkPostBatch(b *testing.B, batch, workers, accounts, payers, before int) {
	books := openBenchBooks(b, accounts)
	run := new(atomic.Int64)
	operations := func(random *rand.Rand, n int) []ledger.Operation {
		list := make([]ledger.Operation, n)
		for i := range list {
			list[i] = randomOperation(random, run.Add(1), accounts, payers)
		}
		return list
	}
	post := func(list []ledger.Operation) {
		results, err := books.PostBatch(b.Context(), list)
		if err != nil {
			b.Error(err)
			return
		}
		for _, r := range results {
			if r.Err != nil || r.Outcome.State != ledger.OutcomeApplied || r.Outcome.Repeat {
				b.Errorf("%+v", r)
				return
			}
		}
	}
	seed := rand.Uint64()
	b.Logf("seed %d", seed)
	for random := rand.New(rand.NewPCG(seed, 0)); before > 0; before -= 2_000 {
		post(operations(random, 2_000))
	}
	require.False(b, b.Failed())

	b.ResetTimer()
	var batches atomic.Int64
	var working sync.WaitGroup
	for worker := range workers {
		working.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(worker)+1))
			for batches.Add(1) <= int64(b.N) && !b.Failed() {
				post(operations(random, batch))
			}
		})
	}
	working.Wait()
	b.ReportMetric(float64(b.N)*float64(batch)/b.Elapsed().Seconds(), "transfers/s")
}
