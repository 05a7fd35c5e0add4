package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/activity"

	"payonce/internal/faultworker/fault"
	"payonce/internal/faultworker/naive"
	"payonce/ledger"
)

// naiveStore is the books of the naive transfer: one table of balances in a database of its own, beside every ledger and
// part of none. Its SQL stands here, for contrast with that of ledger/postgres: there is no key, no entry, no floor.
type naiveStore struct {
	pool *pgxpool.Pool
	plan *plan
}

var _ naive.Steps = (*naiveStore)(nil)

const createNaiveAccountsSQL = `
create table if not exists demo_naive_accounts (
	name    text primary key,
	asset   text not null,
	balance numeric(38, 0) not null
)`

// openNaiveStore connects and makes the table. The URL's role must be allowed to.
func openNaiveStore(ctx context.Context, url string, plan *plan) (*naiveStore, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, errors.New("the naive accounts' database: its URL can't be read")
	}
	if _, err := pool.Exec(ctx, createNaiveAccountsSQL); err != nil {
		pool.Close()
		return nil, fmt.Errorf("the naive accounts' table: %w", err)
	}
	return &naiveStore{pool: pool, plan: plan}, nil
}

func (s *naiveStore) close() { s.pool.Close() }

// Withdraw takes money from an account, each time that it is run.
func (s *naiveStore) Withdraw(ctx context.Context, change naive.Change) error {
	return s.change(ctx, fault.KindNaiveWithdraw, change, ledger.Amount.Neg)
}

// Deposit gives money to an account, each time that it is run.
func (s *naiveStore) Deposit(ctx context.Context, change naive.Change) error {
	return s.change(ctx, fault.KindNaiveDeposit, change, func(a ledger.Amount) ledger.Amount { return a })
}

const changeNaiveAccountSQL = `update demo_naive_accounts set balance = balance + $2::numeric where name = $1`

func (s *naiveStore) change(ctx context.Context, kind fault.Kind, change naive.Change, signed func(ledger.Amount) ledger.Amount) error {
	_, amount, err := parseNaive(change.Amount, change.Asset)
	if err != nil {
		return err
	}
	// Not an idempotence key, nobody stores it: a name for the announcements.
	name := activity.GetInfo(ctx).WorkflowExecution.ID + "/" + string(kind)
	if ctx, err = s.plan.strike(ctx, fault.Point{Kind: kind, Moment: fault.Before}, name); err != nil {
		return err
	}
	tag, err := s.pool.Exec(ctx, changeNaiveAccountSQL, change.Account, signed(amount).String())
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("no account %q", change.Account)
	}
	s.plan.answered(ctx, kind, name, ledger.Outcome{State: ledger.OutcomeApplied}, err)
	if err != nil {
		return err
	}
	_, err = s.plan.strike(ctx, fault.Point{Kind: kind, Moment: fault.After}, name)
	return err
}

const openNaiveAccountSQL = `
insert into demo_naive_accounts (name, asset, balance) values ($1, $2, $3::numeric)
on conflict (name) do update set asset = excluded.asset, balance = excluded.balance`

// Open writes accounts.
func (s *naiveStore) Open(ctx context.Context, accounts []naive.Account) error {
	for _, account := range accounts {
		asset, balance, err := parseNaive(account.Balance, account.Asset)
		if err != nil {
			return err
		}
		if _, err := s.pool.Exec(ctx, openNaiveAccountSQL, account.Name, asset.String(), balance.String()); err != nil {
			return err
		}
	}
	return nil
}

const showNaiveAccountsSQL = `select name, asset, balance::text from demo_naive_accounts where name = any ($1) order by name`

// Show reads accounts.
func (s *naiveStore) Show(ctx context.Context, names []string) ([]naive.Account, error) {
	rows, err := s.pool.Query(ctx, showNaiveAccountsSQL, names)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (naive.Account, error) {
		var account naive.Account
		var units string
		if err := row.Scan(&account.Name, &account.Asset, &units); err != nil {
			return account, err
		}
		asset, err := ledger.ParseAsset(account.Asset)
		if err != nil {
			return account, err
		}
		balance, ok := ledger.ParseUnits(units)
		if !ok {
			return account, fmt.Errorf("the balance of %q is not an amount: %q", account.Name, units)
		}
		account.Balance = balance.Format(asset)
		return account, nil
	})
}

func parseNaive(amount, asset string) (ledger.Asset, ledger.Amount, error) {
	parsedAsset, err := ledger.ParseAsset(asset)
	if err != nil {
		return ledger.Asset{}, ledger.Amount{}, err
	}
	parsed, err := ledger.ParseAmount(amount, parsedAsset)
	return parsedAsset, parsed, err
}
