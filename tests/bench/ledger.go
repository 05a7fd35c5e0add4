package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/ledger"
	"payonce/ledger/postgres"
)

const (
	// batchesAtOnce is how many batches are under way at once. A second one would only wait for the accounts of the first.
	batchesAtOnce = 1
	callersMany   = 256
	batchUsual    = 500
	// fullEntries is the size of the ledger that is full, and fewEntries of the one that it is compared with.
	fullEntries = 10_000_000
	fewEntries  = 100_000
	// fullPairsMin is how often the two are compared at least: with three pairs a machine that is slower now and then said anything from
	// 0.77 to 1.00, and with eight 0.93.
	fullPairsMin = 5
	fillBatch    = 2_000
)

// batchSizes are those at which throughput must not fall as batches grow.
var batchSizes = []int{1, 10, 50, 100, 500, 1_000, 5_000}

// ledgerBench is the part about the ledger alone.
type ledgerBench struct {
	*bench

	books  *postgres.Ledger
	owner  *pgxpool.Pool
	number atomic.Int64 // of keys
}

func (b *bench) ledger(ctx context.Context) (err error) {
	if err := newBooks(ctx, b.world.database()); err != nil {
		return err
	}
	l := &ledgerBench{bench: b}
	if l.books, err = b.world.openBooks(ctx); err != nil {
		return err
	}
	defer l.books.Close()
	if l.owner, err = pgxpool.New(ctx, b.world.database()); err != nil {
		return err
	}
	defer l.owner.Close()
	for _, part := range []func(context.Context) error{l.batches, l.bulk, l.singles, l.full} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// operation is a new one between two of the accounts; the first pays all of them if hot.
func (l *ledgerBench) operation(hot bool) ledger.Operation {
	o := operation("bench", l.number.Add(1))
	if hot {
		o.Legs[0].From = "a0"
		if o.Legs[0].To == "a0" {
			o.Legs[0].To = "a1"
		}
	}
	return o
}

func applied(outcome ledger.Outcome, err error) error {
	if err == nil && (outcome.State != ledger.OutcomeApplied || outcome.Repeat) {
		err = fmt.Errorf("%+v", outcome)
	}
	return err
}

// postBatches is the rate of transfers in batches of a size, of which so many are under way at once.
func (l *ledgerBench) postBatches(ctx context.Context, books *postgres.Ledger, atOnce, size int, hot bool) (float64, error) {
	m, err := load(ctx, atOnce, l.while, func(ctx context.Context, _ int64) error {
		return l.postBatch(ctx, books, size, hot)
	})
	return m.PerSecond * float64(size), err
}

func (l *ledgerBench) postBatch(ctx context.Context, books *postgres.Ledger, size int, hot bool) error {
	operations := make([]ledger.Operation, size)
	for i := range operations {
		operations[i] = l.operation(hot)
	}
	results, err := books.PostBatch(ctx, operations)
	if err != nil {
		return err
	}
	for _, r := range results {
		if err := applied(r.Outcome, r.Err); err != nil {
			return err
		}
	}
	return nil
}

// postSingles is the rate of single calls, which share database transactions.
func (l *ledgerBench) postSingles(ctx context.Context, hot bool) (measured, error) {
	return load(ctx, callersMany, l.while, func(ctx context.Context, _ int64) error {
		return applied(l.books.Post(ctx, l.operation(hot)))
	})
}

// batches measures throughput by batch size, from the fresh ledger on.
func (l *ledgerBench) batches(ctx context.Context) error {
	rates := make(map[int][]float64)
	for range l.runs {
		for _, size := range batchSizes {
			rate, err := l.postBatches(ctx, l.books, batchesAtOnce, size, false)
			if err != nil {
				return fmt.Errorf("batches of %d: %w", size, err)
			}
			rates[size] = append(rates[size], rate)
		}
	}
	l.results.Ledger.ByBatch = make(map[string]float64)
	for size, all := range rates {
		l.results.Ledger.ByBatch[strconv.Itoa(size)] = median(all)
	}
	l.say("ledger: batches of 500: %.0f transfers/s", l.results.Ledger.ByBatch[strconv.Itoa(batchUsual)])
	return nil
}

// singles measures single calls at once, against the usual way, and against an account that all pay from.
func (l *ledgerBench) singles(ctx context.Context) error {
	baseline, err := newBaseline(ctx, l.world)
	if err != nil {
		return err
	}
	defer baseline.close()
	var single, p50, usual, spread, hot []float64
	for range l.runs {
		m, err := l.postSingles(ctx, false)
		if err != nil {
			return fmt.Errorf("single calls: %w", err)
		}
		single, p50 = append(single, m.PerSecond), append(p50, milliseconds(m.P50))
		if m, err = load(ctx, callersMany, l.while, baseline.transfer); err != nil {
			return fmt.Errorf("baseline: %w", err)
		}
		usual = append(usual, m.PerSecond)
		m, err = l.postSingles(ctx, true)
		if err != nil {
			return fmt.Errorf("one hot account: %w", err)
		}
		hot = append(hot, m.PerSecond)
		m, err = l.postSingles(ctx, false)
		if err != nil {
			return fmt.Errorf("single calls: %w", err)
		}
		spread = append(spread, m.PerSecond)
	}
	r := &l.results.Ledger
	r.Single256, r.Single256P50, r.Baseline256, r.Hot = median(single), median(p50), median(usual), median(hot)
	r.HotRatio = median(hot) / median(spread)
	l.say("ledger: single calls, 256 at once: %.0f/s; the usual way: %.0f/s; one hot account: %.0f/s", r.Single256, r.Baseline256, r.Hot)
	return nil
}

// full compares a ledger of ten million entries with one of a hundred thousand, in turn, and verifies it.
func (l *ledgerBench) full(ctx context.Context) error {
	if l.quick {
		return nil
	}
	few, err := l.otherLedger(ctx)
	if err != nil {
		return err
	}
	defer few.Close()
	if err := l.fill(ctx, few, fewEntries); err != nil {
		return err
	}
	var there int
	if err := l.owner.QueryRow(ctx, `select count(*) from entries`).Scan(&there); err != nil {
		return err
	}
	if err := l.fill(ctx, l.books, fullEntries-there); err != nil {
		return err
	}
	// What so much at once has left the server to do is not what this is about.
	for _, sql := range []string{`vacuum operations, entries, accounts`, `checkpoint`} {
		if _, err := l.owner.Exec(ctx, sql); err != nil {
			return err
		}
	}
	var ratios []float64
	for range max(l.runs, fullPairsMin) {
		small, err := l.postBatches(ctx, few, batchesAtOnce, batchUsual, false)
		if err != nil {
			return err
		}
		large, err := l.postBatches(ctx, l.books, batchesAtOnce, batchUsual, false)
		if err != nil {
			return err
		}
		ratios = append(ratios, large/small)
	}
	r := &l.results.Ledger
	r.Entries10MRatio = median(ratios)
	peak := watchMemory(ctx)
	begun := time.Now()
	summary, err := postgres.Verify(ctx, []*postgres.Ledger{l.books}, postgres.Report{})
	if err != nil {
		return err
	}
	if summary.Findings > 0 {
		return fmt.Errorf("the books are wrong: %+v", summary)
	}
	r.VerifySeconds, r.VerifyPeakMB = time.Since(begun).Seconds(), peak()
	l.say("ledger: %d entries: %.2f of the speed at %d; verified in %.0f s, memory of the process at most %.0f MB",
		fullEntries, r.Entries10MRatio, fewEntries, r.VerifySeconds, r.VerifyPeakMB)
	return nil
}

// otherLedger is one more ledger, on the same server.
func (l *ledgerBench) otherLedger(ctx context.Context) (*postgres.Ledger, error) {
	const name = "bench_few"
	server := l.world.stack.Postgres
	if err := server.CreateDatabase(ctx, name, ""); err != nil {
		return nil, err
	}
	if err := newBooks(ctx, server.URL(name)); err != nil {
		return nil, err
	}
	return postgres.Open(ctx, postgres.Config{Name: ledgerName, URL: server.URL(name)})
}

// fill adds so many entries to a ledger.
func (l *ledgerBench) fill(ctx context.Context, books *postgres.Ledger, entries int) error {
	batches := int64(entries / 2 / fillBatch)
	var filled atomic.Int64
	_, err := load(ctx, batchesAtOnce, time.Hour, func(ctx context.Context, _ int64) error {
		if filled.Add(1) > batches {
			return errEnough
		}
		return l.postBatch(ctx, books, fillBatch, false)
	})
	return err
}
