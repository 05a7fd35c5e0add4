package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

const balanceAtSQL = `
select coalesce(
	(select balance::text from entries where account_id = $1 and version = account_version_before($1, $2)),
	'0')`

// BalanceAt is the balance of an account at a moment: after the last entry that is not later. Before the first entry it
// is zero. The asset may be zero, unless name is a transit account that has several. Level 1.
func (l *Ledger) BalanceAt(ctx context.Context, name string, asset ledger.Asset, at time.Time) (ledger.Amount, error) {
	var balance ledger.Amount
	err := l.withConn(ctx, "read balance", func(ctx context.Context, conn *pgx.Conn) error {
		account, err := readAccount(ctx, conn, name, asset)
		if err != nil {
			return err
		}
		var units string
		// Entries' times are whole microseconds, so "not later than at" is "before the next microsecond".
		before := at.Truncate(time.Microsecond).Add(time.Microsecond)
		if err := conn.QueryRow(ctx, balanceAtSQL, account.ID, before).Scan(&units); err != nil {
			return translate(err)
		}
		balance, err = parseUnits("entries.balance", units)
		return err
	})
	return balance, err
}

const entriesPageSQL = `
select e.version, e.amount::text, e.balance::text, e.operation_id, e.leg, o.key, o.kind,
	case when e.amount < 0 then o.legs -> (e.leg - 1) ->> 'to' else o.legs -> (e.leg - 1) ->> 'from' end,
	coalesce(o.counterparty, ''), o.memo, o.at
from entries e
join operations o on o.id = e.operation_id
where e.account_id = $1
	and e.version > case when $3::timestamptz is null then $2 else greatest($2, account_version_before($1, $3)) end
	and e.version <= case when $4::timestamptz is null then 9223372036854775807 else account_version_before($1, $4) end
order by e.version
limit $5`

// Entries reads entries of an account in the order of their versions. Level 1.
func (l *Ledger) Entries(ctx context.Context, page ledger.EntriesPage) ([]ledger.Entry, error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, err
	}
	var entries []ledger.Entry
	err := l.withConn(ctx, "read entries", func(ctx context.Context, conn *pgx.Conn) error {
		account, err := readAccount(ctx, conn, page.Account, page.Asset)
		if err != nil {
			return err
		}
		rows, err := conn.Query(ctx, entriesPageSQL, account.ID, page.AfterVersion, boundary(page.From), boundary(page.To), page.Limit)
		if err == nil {
			entries, err = pgx.CollectRows(rows, scanEntry)
		}
		for i := range entries {
			entries[i].AccountID = account.ID
		}
		return translate(err)
	})
	return entries, err
}

// boundary is the first whole microsecond that is not before t, or nil for an unbounded side.
func boundary(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	whole := t.Truncate(time.Microsecond)
	if whole.Before(t) {
		whole = whole.Add(time.Microsecond)
	}
	return &whole
}

func scanEntry(row pgx.CollectableRow) (ledger.Entry, error) {
	var e ledger.Entry
	var amount, balance string
	err := row.Scan(&e.Version, &amount, &balance, &e.OperationID, &e.Leg, &e.Key, &e.Kind, &e.Other, &e.Counterparty, &e.Memo, &e.At)
	if err != nil {
		return ledger.Entry{}, err
	}
	e.At = e.At.UTC()
	if e.Amount, err = parseUnits("entries.amount", amount); err != nil {
		return ledger.Entry{}, err
	}
	e.Balance, err = parseUnits("entries.balance", balance)
	return e, err
}
