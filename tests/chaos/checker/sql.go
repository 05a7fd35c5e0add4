package checker

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/jackc/pgx/v5"
)

const (
	accountsSQL = `
		select id, name, asset, balance::text, version, floor::text, ceiling::text, status
		from accounts
		order by id`
	operationsSQL = `
		select id, key, kind, state, coalesce(code, ''), coalesce(detail, ''), coalesce(reverses, ''), coalesce(counterparty, ''), legs, at
		from operations
		order by id`
	entriesSQL = `
		select account_id, version, operation_id, leg, amount::text, balance::text
		from entries
		order by account_id, version`
	deadLettersSQL = `
		select key, transfer, step, state, parked, error, attempts, place, account, resolution
		from dead_letters
		order by id`
)

// ReadLedger reads all the books of a ledger as they are at one moment.
func ReadLedger(ctx context.Context, url, name string) (l Ledger, err error) {
	l.Name = name
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return l, fmt.Errorf("read ledger %s: connect: %w", name, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if l.Accounts, err = read(ctx, tx, accountsSQL, scanAccount); err != nil {
			return err
		}
		if l.Operations, err = read(ctx, tx, operationsSQL, scanOperation); err != nil {
			return err
		}
		if l.Entries, err = read(ctx, tx, entriesSQL, scanEntry); err != nil {
			return err
		}
		l.DeadLetters, err = read(ctx, tx, deadLettersSQL, scanDeadLetter)
		return err
	})
	if err != nil {
		return l, fmt.Errorf("read ledger %s: %w", name, err)
	}
	return l, nil
}

func read[T any](ctx context.Context, tx pgx.Tx, sql string, scan pgx.RowToFunc[T]) ([]T, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

func scanAccount(row pgx.CollectableRow) (a Account, err error) {
	var balance string
	var floor, ceiling *string
	if err = row.Scan(&a.ID, &a.Name, &a.Asset, &balance, &a.Version, &floor, &ceiling, &a.Status); err != nil {
		return a, err
	}
	if a.Balance, err = number(balance); err != nil {
		return a, err
	}
	if floor != nil {
		if a.Floor, err = number(*floor); err != nil {
			return a, err
		}
	}
	if ceiling != nil {
		a.Ceiling, err = number(*ceiling)
	}
	return a, err
}

func scanOperation(row pgx.CollectableRow) (o Operation, err error) {
	var legs []byte
	if err = row.Scan(&o.ID, &o.Key, &o.Kind, &o.State, &o.Code, &o.Detail, &o.Reverses, &o.Counterparty, &legs, &o.At); err != nil {
		return o, err
	}
	var list []struct {
		From   string `json:"from"`
		To     string `json:"to"`
		Asset  string `json:"asset"`
		Amount string `json:"amount"`
	}
	if err = json.Unmarshal(legs, &list); err != nil {
		return o, fmt.Errorf("the legs of %s: %w", o.Key, err)
	}
	for _, l := range list {
		leg := Leg{From: l.From, To: l.To, Asset: l.Asset}
		if leg.Amount, err = number(l.Amount); err != nil {
			return o, fmt.Errorf("the legs of %s: %w", o.Key, err)
		}
		o.Legs = append(o.Legs, leg)
	}
	return o, nil
}

func scanEntry(row pgx.CollectableRow) (e Entry, err error) {
	var amount, balance string
	if err = row.Scan(&e.AccountID, &e.Version, &e.OperationID, &e.Leg, &amount, &balance); err != nil {
		return e, err
	}
	if e.Amount, err = number(amount); err != nil {
		return e, err
	}
	e.Balance, err = number(balance)
	return e, err
}

func scanDeadLetter(row pgx.CollectableRow) (d DeadLetter, err error) {
	err = row.Scan(&d.Key, &d.Transfer, &d.Step, &d.State, &d.Parked, &d.Error, &d.Attempts, &d.Place, &d.Account, &d.Resolution)
	return d, err
}

func number(s string) (*big.Int, error) {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}
