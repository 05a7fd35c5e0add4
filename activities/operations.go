package activities

import (
	"context"
	"errors"

	"payonce/ledger"
)

// OperationListInput asks for what the ledgers of a worker have recorded under some keys.
type OperationListInput struct {
	Keys []string `json:"keys"`
}

// OperationList has the outcomes that were found, by ledger name and then in the order of the keys asked for.
type OperationList struct {
	Operations []OperationView `json:"operations"`
}

// OperationView is a recorded operation.
type OperationView struct {
	StepOutcome
	Kind   ledger.Kind `json:"kind"`
	From   string      `json:"from"` // "eu/alice"
	To     string      `json:"to"`
	Amount string      `json:"amount"`
	Asset  string      `json:"asset"`
	Other  string      `json:"other,omitempty"` // the account on the other ledger, or a payout's rail and payee
	Memo   string      `json:"memo,omitempty"`
	// Metadata is that of a payout's reserve alone.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// OperationList looks keys up in all ledgers that this worker holds: the ledgers remember a transfer after Temporal has
// forgotten it. Level 1: a read.
func (a *Activities) OperationList(ctx context.Context, in OperationListInput) (OperationList, error) {
	list := OperationList{Operations: []OperationView{}}
	for _, name := range a.served() {
		for _, key := range in.Keys {
			record, err := a.ledgers[name].Operation(ctx, ledger.Key(key))
			if errors.Is(err, ledger.ErrOperationUnknown) {
				continue
			}
			if err != nil {
				return OperationList{}, toTemporal(ctx, "look up "+key+" on ledger "+name, err)
			}
			list.Operations = append(list.Operations, operationView(name, &record))
		}
	}
	return list, nil
}

func operationView(ledgerName string, r *ledger.Record) OperationView {
	view := OperationView{StepOutcome: stepOutcome(ledgerName, r.Outcome), Kind: r.Operation.Kind, Other: r.Operation.Counterparty, Memo: r.Operation.Memo}
	if r.Operation.Kind == ledger.KindReserve {
		view.Metadata = r.Operation.Metadata
	}
	// The steps have one leg each.
	if len(r.Operation.Legs) > 0 {
		leg := &r.Operation.Legs[0]
		view.From = ledger.AccountRef{Ledger: ledgerName, Name: leg.From}.String()
		view.To = ledger.AccountRef{Ledger: ledgerName, Name: leg.To}.String()
		view.Amount, view.Asset = leg.Amount.Format(leg.Asset), leg.Asset.String()
	}
	return view
}
