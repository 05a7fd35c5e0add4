package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
)

// The bulk-load limit is what PostgreSQL does when nothing is decided: rows that are there already are inserted into tables
// with the same columns, constraints and indexes, in database transactions of as many transfers.
//
//nolint:unqueryvet // whatever columns there are
const (
	bulkTablesSQL = `
drop table if exists bulk_operations, bulk_entries, bulk_source;
create table bulk_operations (like operations including all);
create table bulk_entries (like entries including all);
create table bulk_source as
	select row_number() over (order by id) - 1 as n, id from operations where state = 'applied' order by id limit 500000;
create unique index on bulk_source (n);
create index if not exists bulk_entries_by_operation on entries (operation_id);
analyze bulk_source, operations, entries;
`
	bulkOperationsSQL = `
insert into bulk_operations select o.* from bulk_source s join operations o using (id) where s.n >= $1 and s.n < $1 + $2`
	bulkEntriesSQL = `
insert into bulk_entries select e.* from bulk_source s join entries e on e.operation_id = s.id where s.n >= $1 and s.n < $1 + $2`
	bulkEmptySQL = `truncate bulk_operations, bulk_entries`
	bulkEndSQL   = `drop table bulk_operations, bulk_entries, bulk_source; drop index bulk_entries_by_operation`
)

// bulk measures batches of the usual size in turn with the bulk-load limit. Batches over the same accounts are fastest one after
// the other, inserts two at once; both are also measured the other way.
func (l *ledgerBench) bulk(ctx context.Context) error {
	const one, two = 1, 2
	ours, limits := make(map[int][]float64), make(map[int][]float64)
	for range l.runs {
		for _, atOnce := range []int{one, two} {
			rate, err := l.postBatches(ctx, l.books, atOnce, batchUsual, false)
			if err != nil {
				return err
			}
			ours[atOnce] = append(ours[atOnce], rate)
			limit, err := l.bulkLoad(ctx, atOnce)
			if err != nil {
				return fmt.Errorf("bulk load: %w", err)
			}
			limits[atOnce] = append(limits[atOnce], limit)
		}
	}
	hot, err := l.postBatches(ctx, l.books, batchesAtOnce, batchUsual, true)
	if err != nil {
		return err
	}
	r := &l.results.Ledger
	r.Batch500, r.Batch500Two, r.HotBatch500 = median(ours[one]), median(ours[two]), hot
	r.BulkLimit, r.BulkLimitOne = median(limits[two]), median(limits[one])
	r.ByBatch[strconv.Itoa(batchUsual)] = r.Batch500
	l.say("ledger: %.0f transfers/s in batches of 500 (two at once %.0f); the bulk-load limit is %.0f (%.0f %%), with one at a time %.0f (%.0f %%)",
		r.Batch500, r.Batch500Two, r.BulkLimit, 100*r.Batch500/r.BulkLimit, r.BulkLimitOne, 100*r.Batch500/r.BulkLimitOne)
	return nil
}

// bulkLoad is the rate of transfers at the limit, with so many database transactions at once.
func (l *ledgerBench) bulkLoad(ctx context.Context, atOnce int) (float64, error) {
	if _, err := l.owner.Exec(ctx, bulkTablesSQL); err != nil {
		return 0, err
	}
	var rows int64
	if err := l.owner.QueryRow(ctx, `select count(*) from bulk_source`).Scan(&rows); err != nil {
		return 0, err
	}
	var from atomic.Int64
	m, err := load(ctx, atOnce, l.while, func(ctx context.Context, _ int64) error {
		start := from.Add(batchUsual) - batchUsual
		if start+batchUsual > rows {
			return errEnough
		}
		tx, err := l.owner.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }() // after the commit it does nothing
		for _, sql := range []string{bulkOperationsSQL, bulkEntriesSQL} {
			if _, err := tx.Exec(ctx, sql, start, batchUsual); err != nil {
				return err
			}
		}
		return tx.Commit(ctx)
	})
	if err != nil {
		return 0, err
	}
	_, err = l.owner.Exec(ctx, bulkEndSQL)
	return m.PerSecond * batchUsual, err
}
