package postgres

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// accountColumns are what scanAccount reads, of accounts a.
const accountColumns = `a.id, a.name, a.asset, a.balance::text, a.version, a.floor::text, a.ceiling::text, a.status, ` +
	`a.metadata, a.opened_at, a.entry_at`

func scanAccount(row pgx.CollectableRow) (ledger.Account, error) {
	var a ledger.Account
	var asset, balance string
	var floor, ceiling *string
	var metadata []byte
	var entryAt *time.Time
	err := row.Scan(&a.ID, &a.Name, &asset, &balance, &a.Version, &floor, &ceiling, &a.Status, &metadata, &a.OpenedAt, &entryAt)
	if err != nil {
		return ledger.Account{}, err
	}
	a.OpenedAt = a.OpenedAt.UTC()
	if a.Metadata, err = decodeMetadata(metadata); err != nil {
		return ledger.Account{}, err
	}
	return a, fillAccount(&a, asset, balance, floor, ceiling, entryAt)
}

// A name that is taken, in whatever asset, is left as it is.
const openAccountSQL = `
insert into accounts as a (name, asset, floor, ceiling, metadata)
values ($1, $2, $3::text::numeric, $4::text::numeric, nullif($5::text, '')::jsonb)
on conflict do nothing`

const accountByNameSQL = `select ` + accountColumns + ` from accounts a where a.name = $1`

// AccountOpen opens an account. One that is there already with the same asset, limits and metadata is returned as it is,
// whatever its status; with others the error is ledger.ErrAccountConflict. Level 1.
func (l *Ledger) AccountOpen(ctx context.Context, account ledger.Account) (ledger.Account, error) {
	if err := account.Validate(); err != nil {
		return ledger.Account{}, err
	}
	var opened ledger.Account
	err := l.withConn(ctx, "open account", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := transact(ctx, conn, func(ctx context.Context) (bool, error) {
			batch := begin(ctx)
			batch.Queue(openAccountSQL, account.Name, account.Asset.String(), limitText(account.Floor), limitText(account.Ceiling),
				encodeMetadata(account.Metadata))
			batch.Queue(accountByNameSQL, account.Name).Query(func(rows pgx.Rows) (err error) {
				opened, err = pgx.CollectExactlyOneRow(rows, scanAccount)
				return err
			})
			return commit(ctx, conn, batch)
		})
		if err != nil {
			return err
		}
		if difference := differs(&opened, &account); difference != "" {
			return fmt.Errorf("%w: %s is open already, with %s", ledger.ErrAccountConflict, account.Name, difference)
		}
		return nil
	})
	if err != nil {
		return ledger.Account{}, err
	}
	return opened, nil
}

// differs says in which setting of AccountOpen there is other than wanted, or "".
func differs(there, wanted *ledger.Account) string {
	switch {
	case there.Asset != wanted.Asset:
		return "the asset " + there.Asset.String()
	case !sameLimit(there.Floor, wanted.Floor):
		return "the floor " + limitView(there.Floor, there.Asset)
	case !sameLimit(there.Ceiling, wanted.Ceiling):
		return "the ceiling " + limitView(there.Ceiling, there.Asset)
	case !maps.Equal(there.Metadata, wanted.Metadata):
		return "other metadata"
	}
	return ""
}

func sameLimit(a, b *ledger.Amount) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Cmp(*b) == 0
}

func limitText(limit *ledger.Amount) *string {
	if limit == nil {
		return nil
	}
	text := limit.String()
	return &text
}

func limitView(limit *ledger.Amount, asset ledger.Asset) string {
	if limit == nil {
		return "none"
	}
	return limit.Format(asset)
}

// The lock is that of a batch: nobody moves the account's money while its settings are decided.
const lockAccountSQL = accountByNameSQL + ` for no key update`

const setAccountSQL = `
update accounts as a
set floor = $2::text::numeric, ceiling = $3::text::numeric, status = $4, metadata = nullif($5::text, '')::jsonb
where a.id = $1`

// AccountSet writes the settings that change names, absolutely. A limit that the balance is already beyond, and closing
// an account that holds money, are ledger.ErrAccountConflict; an account that is not there is ledger.ErrAccountUnknown.
// Level 1.
func (l *Ledger) AccountSet(ctx context.Context, name string, change ledger.AccountChange) (ledger.Account, error) {
	if err := change.Validate(name); err != nil {
		return ledger.Account{}, err
	}
	var set ledger.Account
	err := l.withConn(ctx, "set account", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := transact(ctx, conn, func(ctx context.Context) (bool, error) {
			accounts, err := lockAccount(ctx, conn, name)
			if err != nil {
				return false, err
			}
			if len(accounts) == 0 {
				return false, fmt.Errorf("%w: %s", ledger.ErrAccountUnknown, name)
			}
			set = accounts[0]
			if err := change.Apply(&set); err != nil {
				return false, err
			}
			batch := &pgx.Batch{}
			batch.Queue(setAccountSQL, set.ID, limitText(set.Floor), limitText(set.Ceiling), set.Status, encodeMetadata(set.Metadata))
			return commit(ctx, conn, batch)
		})
		return err
	})
	if err != nil {
		return ledger.Account{}, err
	}
	return set, nil
}

func lockAccount(ctx context.Context, conn *pgx.Conn, name string) (accounts []ledger.Account, err error) {
	batch := begin(ctx)
	batch.Queue(lockAccountSQL, name).Query(func(rows pgx.Rows) (err error) {
		accounts, err = pgx.CollectRows(rows, scanAccount)
		return err
	})
	return accounts, conn.SendBatch(ctx, batch).Close()
}

const accountSQL = accountByNameSQL + ` and $2 in ('', a.asset) limit 2`

// Account reads an account as it is now. The asset may be zero, unless name is a transit account that has several. An
// account that is not there is ledger.ErrAccountUnknown. Level 1.
func (l *Ledger) Account(ctx context.Context, name string, asset ledger.Asset) (ledger.Account, error) {
	var account ledger.Account
	err := l.withConn(ctx, "read account", func(ctx context.Context, conn *pgx.Conn) (err error) {
		account, err = readAccount(ctx, conn, name, asset)
		return err
	})
	return account, err
}

func readAccount(ctx context.Context, conn *pgx.Conn, name string, asset ledger.Asset) (ledger.Account, error) {
	rows, err := conn.Query(ctx, accountSQL, name, asset.String())
	if err != nil {
		return ledger.Account{}, translate(err)
	}
	accounts, err := pgx.CollectRows(rows, scanAccount)
	if err != nil {
		return ledger.Account{}, translate(err)
	}
	return theAccount(accounts, name, asset)
}

// theAccount is the one that accountSQL has found.
func theAccount(accounts []ledger.Account, name string, asset ledger.Asset) (ledger.Account, error) {
	switch {
	case len(accounts) == 0:
		return ledger.Account{}, fmt.Errorf("%w: %s", ledger.ErrAccountUnknown, accountView(name, asset))
	case len(accounts) > 1:
		return ledger.Account{}, &ledger.InvalidError{Field: "asset", Reason: name + " has several assets: name one"}
	}
	return accounts[0], nil
}

func accountView(name string, asset ledger.Asset) string {
	if asset.IsZero() {
		return name
	}
	return name + " in " + asset.String()
}

const accountsPageSQL = `select ` + accountColumns + ` from accounts a where a.id > $1 order by a.id limit $2`

// Accounts reads accounts in the order in which they were opened, transit accounts too. Level 1.
func (l *Ledger) Accounts(ctx context.Context, page ledger.AccountsPage) ([]ledger.Account, error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, err
	}
	var accounts []ledger.Account
	err := l.withConn(ctx, "list accounts", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, accountsPageSQL, page.AfterID, page.Limit)
		if err == nil {
			accounts, err = pgx.CollectRows(rows, scanAccount)
		}
		return translate(err)
	})
	return accounts, err
}

func checkLimit(limit int) error {
	if limit < 1 || limit > ledger.PageSizeMax {
		return &ledger.InvalidError{Field: "limit", Reason: fmt.Sprintf("it is from 1 to %d", ledger.PageSizeMax)}
	}
	return nil
}
