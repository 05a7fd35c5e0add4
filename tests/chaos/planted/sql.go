package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/ledger"
)

// What the planted faults do behind the walls, as the owner of the tables.

const insertOperationSQL = `
insert into operations (id, key, kind, request_hash, state, code, detail, reverses, counterparty, legs, memo, at)
values ($1, $2, $3, $4, $5, nullif($6, ''), nullif($7, ''), nullif($8, ''), nullif($9, ''), $10, $11, $12)`

const nextIDSQL = `select nextval('operations_id_seq')`

func (b *books) nextID(ctx context.Context) (id int64, err error) {
	err = b.owner.QueryRow(ctx, nextIDSQL).Scan(&id)
	return id, err
}

// recordKey records an operation as applied, before anything is done.
func (b *books) recordKey(ctx context.Context, o *ledger.Operation) (id int64, err error) {
	if id, err = b.nextID(ctx); err != nil {
		return 0, err
	}
	return id, b.recordOutcome(ctx, id, o, ledger.Outcome{Key: o.Key, State: ledger.OutcomeApplied, At: time.Now()})
}

func (b *books) recordOutcome(ctx context.Context, id int64, o *ledger.Operation, outcome ledger.Outcome) error {
	leg := &o.Legs[0]
	legs, err := json.Marshal([]map[string]string{{
		"from": leg.From, "to": leg.To, "asset": leg.Asset.String(), "amount": leg.Amount.String(),
	}})
	if err != nil {
		return err
	}
	hash := o.RequestHash()
	_, err = b.owner.Exec(ctx, insertOperationSQL, id, o.Key, o.Kind, hash[:], outcome.State, outcome.Code, outcome.Detail,
		o.Reverses, o.Counterparty, legs, o.Memo, outcome.At)
	return err
}

const (
	openTransitSQL  = `insert into accounts (name, asset, floor) values ($1, $2, null) on conflict do nothing`
	lockBothSQL     = `select id, name from accounts where name = any ($1) and asset = $2 and status = 'open' order by id for update`
	changeSQL       = `update accounts set balance = balance + $2::numeric, version = version + 1, entry_at = clock_timestamp() where id = $1`
	insertEntrySQL  = `insert into entries (account_id, version, operation_id, leg, amount, balance) select id, version, $2, 1, $3::numeric, balance from accounts where id = $1`
	refuseSQL       = `update operations set state = 'refused', code = $2, detail = 'it had to be' where id = $1`
	stateCheck      = "23514" // check_violation: a floor or a ceiling
	constraintFloor = "accounts_floor_check"
)

// move moves the money of an operation, whose key is none of its business.
func (b *books) move(ctx context.Context, id int64, o *ledger.Operation) (ledger.Outcome, error) {
	leg := &o.Legs[0]
	outcome := ledger.Outcome{Key: o.Key, State: ledger.OutcomeApplied, At: time.Now()}
	code := ledger.Code("")
	for _, name := range []string{leg.From, leg.To} {
		if ledger.IsTransit(name) {
			if _, err := b.owner.Exec(ctx, openTransitSQL, name, leg.Asset.String()); err != nil {
				return ledger.Outcome{}, err
			}
		}
	}
	err := pgx.BeginFunc(ctx, b.owner, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, lockBothSQL, []string{leg.From, leg.To}, leg.Asset.String())
		if err != nil {
			return err
		}
		ids := make(map[string]int64)
		var account int64
		var name string
		_, err = pgx.ForEachRow(rows, []any{&account, &name}, func() error {
			ids[name] = account
			return nil
		})
		if err != nil {
			return err
		}
		if len(ids) < 2 {
			code = ledger.CodeAccountClosed
			return errRefused
		}
		for name, amount := range map[string]string{leg.From: leg.Amount.Neg().String(), leg.To: leg.Amount.String()} {
			if _, err := tx.Exec(ctx, changeSQL, ids[name], amount); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, insertEntrySQL, ids[name], id, amount); err != nil {
				return err
			}
		}
		return nil
	})
	if constraint, ok := checkViolation(err); ok {
		code, err = ledger.CodeCeilingExceeded, errRefused
		if constraint == constraintFloor {
			code = ledger.CodeInsufficientFunds
		}
	}
	if errors.Is(err, errRefused) {
		outcome.State, outcome.Code, outcome.Detail = ledger.OutcomeRefused, code, "it had to be"
		_, err = b.owner.Exec(ctx, refuseSQL, id, code)
	}
	return outcome, err
}

var errRefused = errors.New("refused")

const keyWithPrefixSQL = `select key from operations where starts_with(key, $1) and state = 'applied' order by id limit 1`

// keyWithPrefix is the first key that applied and begins with another one, or that one.
func (b *books) keyWithPrefix(ctx context.Context, key ledger.Key) (found ledger.Key, err error) {
	err = b.owner.QueryRow(ctx, keyWithPrefixSQL, key+"/").Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return key, nil
	}
	return found, err
}

const forgetSQL = `delete from operations where key = $1`

func (b *books) forget(ctx context.Context, key ledger.Key) error {
	_, err := b.owner.Exec(ctx, forgetSQL, key)
	return err
}

const loseEntrySQL = `delete from entries where amount > 0 and operation_id = (select id from operations where key = $1)`

func (b *books) loseEntry(ctx context.Context, key ledger.Key) error {
	_, err := b.owner.Exec(ctx, loseEntrySQL, key)
	return err
}

const changeFirstEntrySQL = `
update entries set amount = amount + 1, balance = balance + 1
where version = 1 and account_id = (select min(id) from accounts where name = $1)`

func (b *books) changeFirstEntry(ctx context.Context, account string) error {
	_, err := b.owner.Exec(ctx, changeFirstEntrySQL, account)
	return err
}

const balanceSQL = `select coalesce(max(balance), 0)::text from accounts where name = $1`

func (b *books) balance(ctx context.Context, account string) (balance string, err error) {
	err = b.owner.QueryRow(ctx, balanceSQL, account).Scan(&balance)
	return balance, err
}

const (
	overwriteEntrySQL = `
		update entries e set balance = $2::numeric + e.amount
		from accounts a, operations o
		where a.id = e.account_id and o.id = e.operation_id and o.key = $1 and a.name = $3
		returning a.id, e.balance::text`
	overwriteAccountSQL = `update accounts set balance = $2::numeric where id = $1`
)

// overwriteBalance has an operation's entry continue a balance that is not the account's any more.
func (b *books) overwriteBalance(ctx context.Context, key ledger.Key, account, cached string) error {
	var id int64
	var balance string
	err := b.owner.QueryRow(ctx, overwriteEntrySQL, key, cached, account).Scan(&id, &balance)
	if err != nil {
		return fmt.Errorf("overwrite the balance of %s: %w", account, err)
	}
	_, err = b.owner.Exec(ctx, overwriteAccountSQL, id, balance)
	return err
}

// checkViolation is the constraint that a row did not meet.
func checkViolation(err error) (constraint string, ok bool) {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == stateCheck {
		return pgErr.ConstraintName, true
	}
	return "", false
}
