package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// Record is what one ledger has recorded of a transfer's step.
type Record struct {
	Transfer  string // the workflow ID: the key without its last segment
	Ledger    string
	Operation ledger.Operation
	Outcome   ledger.Outcome
}

func (r *Record) transferID() string { return r.Transfer }

const recordColumns = transferExpression + ` as transfer, key, kind, legs, coalesce(reverses, ''), coalesce(counterparty, ''), memo,
	metadata, state, coalesce(code, ''), coalesce(detail, ''), at`

const recordsSQL = `
select ` + recordColumns + `
from operations
order by transfer, id`

// scanRecord leaves out what is malformed: checkOperations reports it.
func (l *Ledger) scanRecord(row pgx.CollectableRow) (Record, error) {
	r := Record{Ledger: l.name}
	o := &r.Operation
	var legs, metadata []byte
	err := row.Scan(&r.Transfer, &o.Key, &o.Kind, &legs, &o.Reverses, &o.Counterparty, &o.Memo, &metadata,
		&r.Outcome.State, &r.Outcome.Code, &r.Outcome.Detail, &r.Outcome.At)
	if err != nil {
		return r, err
	}
	o.Legs = legsOrNone(legs)
	if decoded, err := decodeMetadata(metadata); err == nil {
		o.Metadata = decoded
	}
	r.Outcome.Key, r.Outcome.At, r.Outcome.Repeat = o.Key, r.Outcome.At.UTC(), true
	return r, nil
}

// readTransfers hands out what the snapshots have of each transfer.
func (v *verification) readTransfers(ctx context.Context) error {
	if v.report.Transfer == nil {
		return nil
	}
	scan := func(a *audit, row pgx.CollectableRow) (*Record, error) {
		r, err := a.ledger.scanRecord(row)
		return &r, err
	}
	var records []Record
	add := func(_ *audit, r *Record) {
		// More than that has no transfer, and has been reported by checkTransfers.
		if len(records) < movementsMax {
			records = append(records, *r)
		}
	}
	done := func() error {
		err := v.report.Transfer(records[0].Transfer, records)
		records = nil
		return err
	}
	return byTransfer(ctx, v, recordsSQL, scan, add, done)
}

const recordsOfTransfersSQL = `
select ` + recordColumns + `
from operations
where operation_claim(key) = any($1)
order by id`

// TransferRecords reads what the ledger has recorded of transfers, by their workflow IDs: those of their own four keys. A
// transfer that it knows nothing of is left out. Level 1.
func (l *Ledger) TransferRecords(ctx context.Context, transfers []string) (map[string][]Record, error) {
	return l.records(ctx, transfers, ledger.KindPost, ledger.KindDeposit, ledger.KindRefund)
}

// PayoutRecords is TransferRecords for payouts.
func (l *Ledger) PayoutRecords(ctx context.Context, payouts []string) (map[string][]Record, error) {
	return l.records(ctx, payouts, ledger.KindReserve, ledger.KindSettle, ledger.KindBounce)
}

// records reads what is recorded under the keys of steps, and under those that take the same keys.
func (l *Ledger) records(ctx context.Context, workflowIDs []string, kinds ...ledger.Kind) (map[string][]Record, error) {
	claims := make([]ledger.Key, 0, len(kinds)*len(workflowIDs))
	for _, workflowID := range workflowIDs {
		for _, kind := range kinds {
			claims = append(claims, ledger.Key(workflowID+"/"+string(kind)))
		}
	}
	found := make(map[string][]Record)
	err := l.withConn(ctx, "read transfers", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, recordsOfTransfersSQL, claims)
		if err != nil {
			return translate(err)
		}
		records, err := pgx.CollectRows(rows, l.scanRecord)
		for i := range records {
			r := &records[i]
			found[r.Transfer] = append(found[r.Transfer], *r)
		}
		return translate(err)
	})
	return found, err
}
