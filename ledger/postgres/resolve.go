package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// The insert waits for a database transaction that has inserted the key and not yet ended: if that commits, its outcome
// stands and nothing is inserted; if it rolls back, the seal stands. It waits for nothing else, no account's lock
// either, so a key can be sealed while a late attempt is stuck behind such a lock. That attempt then runs into the key.
const sealSQL = `
insert into operations (key, kind, request_hash, state, code, detail, reverses, counterparty, legs, memo, metadata, at)
values ($1, $2, $3, 'sealed', $4, nullif($5, ''), nullif($6, ''), nullif($7, ''), $8::text::json, $9,
	nullif($10::text, '')::jsonb, clock_timestamp())
on conflict (operation_claim(key)) do nothing`

// Resolve returns the outcome that is recorded under the operation's key. If there is none it seals the key: then it
// never gets one, and a late attempt is told so. The answer is final. Level 2.
func (l *Ledger) Resolve(ctx context.Context, seal ledger.Seal) (ledger.Outcome, error) {
	if err := seal.Validate(); err != nil {
		return ledger.Outcome{}, err
	}
	o := &seal.Operation
	hash := o.RequestHash()
	detail := ledger.ClipNote(seal.Detail)
	var known knownOperation
	var sealed bool
	err := l.withConn(ctx, "resolve", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := transact(ctx, conn, func(ctx context.Context) (bool, error) {
			var f found
			batch := begin(ctx)
			batch.Queue(sealSQL, o.Key, o.Kind, hash[:], seal.Code, detail, o.Reverses, o.Counterparty,
				encodeLegs(o.Legs), o.Memo, encodeMetadata(o.Metadata)).Query(func(rows pgx.Rows) error {
				rows.Close()
				sealed = rows.CommandTag().RowsAffected() == 1
				return rows.Err()
			})
			// A statement of its own, whose snapshot is taken after the wait.
			batch.Queue(knownOperationsSQL, []ledger.Key{o.Key.Claim()}).Query(f.scanKnown)
			commitSent, err := commit(ctx, conn, batch)
			if err == nil {
				if len(f.known) != 1 {
					return false, fmt.Errorf("key %q is neither free nor taken", o.Key)
				}
				known = f.known[0]
			}
			return commitSent, err
		})
		return err
	})
	switch {
	case err != nil:
		return ledger.Outcome{}, err
	case known.hash != hash || known.outcome.Key != o.Key:
		return ledger.Outcome{}, fmt.Errorf("ledger %s: resolve: %w: %q", l.name, ledger.ErrKeyConflict, o.Key)
	}
	known.outcome.Repeat = !sealed
	return known.outcome, nil
}

const operationSQL = `
select id, kind, legs, coalesce(reverses, ''), coalesce(counterparty, ''), memo, metadata,
	request_hash, state, coalesce(code, ''), coalesce(detail, ''), at
from operations
where operation_claim(key) = operation_claim($1) and key = $1`

// Operation reads what is recorded under a key. Without an outcome the error is ledger.ErrOperationUnknown: there is
// none now, which says nothing about a running attempt. Level 1.
func (l *Ledger) Operation(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	r := ledger.Record{Operation: ledger.Operation{Key: key}, Outcome: ledger.Outcome{Key: key, Repeat: true}}
	err := l.withConn(ctx, "read operation", func(ctx context.Context, conn *pgx.Conn) error {
		var legs, metadata, hash []byte
		err := conn.QueryRow(ctx, operationSQL, key).Scan(&r.ID, &r.Operation.Kind, &legs, &r.Operation.Reverses,
			&r.Operation.Counterparty, &r.Operation.Memo, &metadata,
			&hash, &r.Outcome.State, &r.Outcome.Code, &r.Outcome.Detail, &r.Outcome.At)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: %q", ledger.ErrOperationUnknown, key)
		}
		if err != nil {
			return translate(err)
		}
		copy(r.RequestHash[:], hash)
		r.Outcome.At = r.Outcome.At.UTC()
		if r.Operation.Legs, err = decodeLegs(legs); err != nil {
			return err
		}
		r.Operation.Metadata, err = decodeMetadata(metadata)
		return err
	})
	if err != nil {
		return ledger.Record{}, err
	}
	return r, nil
}
