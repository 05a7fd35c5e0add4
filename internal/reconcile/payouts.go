package reconcile

import (
	"context"
	"fmt"
	"strings"

	"payonce/activities"
	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/workflows"
)

// payout takes a payout that the snapshots have. One that has money reserved must have a workflow that asks its rail; what the
// rail has to say about it is that workflow's to find out.
func (r *run) payout(ctx context.Context, payout string, records []postgres.Record) error {
	reserve, reserved := reservedBy(records)
	if !reserved {
		return nil
	}
	w, still, err := r.abandoned(ctx, payout, &r.summary.PayoutsUnderWay, func() (bool, error) {
		now, err := r.recordsBy(ctx, []string{payout}, (*postgres.Ledger).PayoutRecords)
		_, reserved := reservedBy(now[payout])
		return reserved, err
	})
	if err != nil || !still {
		return err
	}
	leg := &reserve.Operation.Legs[0]
	f := Finding{
		Check: CheckUnfinished, Transfer: payout,
		Detail: fmt.Sprintf("%s; the books have %s %s reserved in %s/%s", w, leg.Amount.Format(leg.Asset), leg.Asset, reserve.Ledger, leg.To),
	}
	in, ok := payoutRequest(reserve)
	switch {
	case !ok:
		f.Detail += "; no payout has such a reserve"
	case w.completed():
		f.Check, f.Command = CheckOutcome, resetCommand(r.Namespace, payout)
	default:
		f.Command = payoutCommand(in)
	}
	r.found(f)
	return nil
}

// reservedBy says whether money is reserved and has neither been settled nor gone back, and by which record.
func reservedBy(records []postgres.Record) (reserve *postgres.Record, reserved bool) {
	for i := range records {
		if record := &records[i]; applied(record) {
			switch record.Operation.Kind { //nolint:exhaustive // the others are no steps of a payout
			case ledger.KindReserve:
				reserve = record
			case ledger.KindSettle, ledger.KindReturn:
				return nil, false
			}
		}
	}
	return reserve, reserve != nil && len(reserve.Operation.Legs) == 1
}

// payoutRequest is the payout that a reserve is the first step of, as whoever asked for it would ask again.
func payoutRequest(reserve *postgres.Record) (workflows.PayoutInput, bool) {
	o := &reserve.Operation
	leg := &o.Legs[0]
	in, ok := workflows.PayoutOf(strings.TrimPrefix(reserve.Transfer, workflows.PayoutWorkflowID("")), &activities.OperationView{
		Kind: o.Kind, From: reserve.Ledger + "/" + leg.From, Other: o.Counterparty,
		Amount: leg.Amount.Format(leg.Asset), Asset: leg.Asset.String(), Memo: o.Memo,
	})
	_, err := workflows.ParsePayout(in)
	return in, ok && err == nil
}
