package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// Whoever posts to the account has its row locked, from before its clock is read until the end. So when this lock is held
// nobody is posting, and what is posted afterwards has a time that is not before the one read below.
const periodAccountSQL = accountSQL + ` for share`

// A statement of its own: its snapshot is taken after the lock is held, so it sees what committed while it was waited for.
const periodSQL = `
select clock_timestamp(), before, upto - before,
	coalesce((select balance::text from entries where account_id = $1 and version = before), '0'),
	coalesce((select balance::text from entries where account_id = $1 and version = upto), '0')
from account_version_before($1, $2) as before, account_version_before($1, $3) as upto`

// Period reads what an account had at the two ends of a time that is over. It waits for those that are posting to the
// account, and keeps nobody waiting for longer than it takes to read. While entries may still be added the error is
// ledger.ErrPeriodUnfinished: see ledger.PeriodQuery.Finished. Level 1.
func (l *Ledger) Period(ctx context.Context, query ledger.PeriodQuery) (ledger.Period, error) {
	if err := query.Validate(); err != nil {
		return ledger.Period{}, err
	}
	var period ledger.Period
	err := l.withConn(ctx, "read period", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := transact(ctx, conn, func(ctx context.Context) (bool, error) {
			// There is nothing to commit.
			defer rollback(ctx, conn)
			var err error
			period, err = readPeriod(ctx, conn, query)
			return false, err
		})
		return err
	})
	return period, err
}

func readPeriod(ctx context.Context, conn *pgx.Conn, query ledger.PeriodQuery) (ledger.Period, error) {
	batch := begin(ctx)
	var accounts []ledger.Account
	batch.Queue(periodAccountSQL, query.Account, query.Asset.String()).Query(func(rows pgx.Rows) (err error) {
		accounts, err = pgx.CollectRows(rows, scanAccount)
		return err
	})
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return ledger.Period{}, err
	}
	account, err := theAccount(accounts, query.Account, query.Asset)
	if err != nil {
		return ledger.Period{}, err
	}
	query.Asset = account.Asset
	period := ledger.Period{PeriodQuery: query}
	var now time.Time
	var opening, closing string
	if err := conn.QueryRow(ctx, periodSQL, account.ID, query.From, query.To).
		Scan(&now, &period.VersionBefore, &period.Entries, &opening, &closing); err != nil {
		return ledger.Period{}, err
	}
	if err := query.Finished(now, account.EntryAt); err != nil {
		return ledger.Period{}, err
	}
	if period.Opening, err = parseUnits("entries.balance", opening); err != nil {
		return ledger.Period{}, err
	}
	period.Closing, err = parseUnits("entries.balance", closing)
	return period, err
}
