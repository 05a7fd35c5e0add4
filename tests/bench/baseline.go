package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// baseline is the usual way to move money: one database transaction for each transfer, which locks both accounts in order,
// looks at the balance, updates both, and inserts the transfer under its unique key with two entries. It is written as a good
// engineer would: prepared statements, as few round trips as it takes, as many connections as go fastest here.
type baseline struct {
	pool *pgxpool.Pool
}

// baselineConns is some for each core, so that while one waits for the disk others work.
const baselineConns = 16

const baselineTablesSQL = `
drop schema if exists baseline cascade;
create schema baseline;
create table baseline.accounts (
	id bigint primary key, asset text not null, balance numeric(38, 0) not null, overdraft boolean not null,
	check (overdraft or balance >= 0));
create table baseline.transfers (
	id bigint generated always as identity primary key, key text not null unique, from_id bigint not null references baseline.accounts,
	to_id bigint not null references baseline.accounts, amount numeric(38, 0) not null check (amount > 0), at timestamptz not null default now());
create table baseline.entries (
	id bigint generated always as identity primary key, transfer_id bigint not null references baseline.transfers,
	account_id bigint not null references baseline.accounts, amount numeric(38, 0) not null, balance numeric(38, 0) not null);
create index on baseline.entries (account_id, id);
insert into baseline.accounts select i, 'USD/2', 0, true from generate_series(0, 999) i;
`

func newBaseline(ctx context.Context, w *world) (*baseline, error) {
	config, err := pgxpool.ParseConfig(w.database())
	if err != nil {
		return nil, err
	}
	config.MaxConns = baselineConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, baselineTablesSQL); err != nil {
		pool.Close()
		return nil, err
	}
	return &baseline{pool: pool}, nil
}

func (b *baseline) close() { b.pool.Close() }

const (
	baselineLockSQL     = `select id, balance::bigint from baseline.accounts where id in ($1, $2) order by id for update`
	baselineTransferSQL = `insert into baseline.transfers (key, from_id, to_id, amount) values ($1, $2, $3, $4)`
	baselineBalanceSQL  = `update baseline.accounts set balance = $2 where id = $1`
	baselineEntrySQL    = `
insert into baseline.entries (transfer_id, account_id, amount, balance)
values (currval(pg_get_serial_sequence('baseline.transfers', 'id')), $1, $2, $3)`
)

// transfer makes one transfer, in two round trips.
func (b *baseline) transfer(ctx context.Context, _ int64) error {
	from, to := rand.Int64N(accounts), rand.Int64N(accounts-1)
	if to >= from {
		to++
	}
	amount := rand.Int64N(100_000) + 1
	key := strconv.FormatUint(rand.Uint64(), 36)
	return b.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		balances := make(map[int64]int64, 2)
		look := &pgx.Batch{}
		look.Queue("begin")
		look.Queue(baselineLockSQL, from, to).Query(func(rows pgx.Rows) error {
			var id, balance int64
			_, err := pgx.ForEachRow(rows, []any{&id, &balance}, func() error {
				balances[id] = balance
				return nil
			})
			return err
		})
		if err := conn.SendBatch(ctx, look).Close(); err != nil {
			return err
		}
		if len(balances) != 2 {
			return errors.New("an account is missing")
		}
		write := &pgx.Batch{}
		write.Queue(baselineTransferSQL, key, from, to, amount)
		write.Queue(baselineBalanceSQL, from, balances[from]-amount)
		write.Queue(baselineBalanceSQL, to, balances[to]+amount)
		write.Queue(baselineEntrySQL, from, -amount, balances[from]-amount)
		write.Queue(baselineEntrySQL, to, amount, balances[to]+amount)
		write.Queue("commit")
		return conn.SendBatch(ctx, write).Close()
	})
}
