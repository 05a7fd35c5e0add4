package postgres

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// queueOperations queues the insert of the new operations, and returns their time: all have the Book's.
func queueOperations(batch *pgx.Batch, decided []ledger.Decided, ids []int64) time.Time {
	n := len(decided)
	keys, kinds, hashes, states := make([]string, n), make([]string, n), make([][]byte, n), make([]string, n)
	codes, details, reverses := make([]string, n), make([]string, n), make([]string, n)
	counterparties, legs, memos, metadata := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i := range decided {
		d := &decided[i]
		o := d.Operation
		keys[i], kinds[i], hashes[i], states[i] = string(o.Key), string(o.Kind), d.RequestHash[:], string(d.Outcome.State)
		codes[i], details[i], reverses[i] = string(d.Outcome.Code), d.Outcome.Detail, string(o.Reverses)
		counterparties[i], legs[i], memos[i], metadata[i] = o.Counterparty, encodeLegs(o.Legs), o.Memo, encodeMetadata(o.Metadata)
	}
	at := decided[0].Outcome.At
	batch.Queue(insertOperationsSQL, ids[:n], keys, kinds, hashes, states, codes, details, reverses, counterparties, legs,
		memos, metadata, at)
	return at
}

// queueEntries queues the insert of the new entries, in the order of the primary key: a batch of 500 takes a tenth less time
// than in the order of the operations.
func queueEntries(batch *pgx.Batch, book *ledger.Book, ids []int64) {
	// The Book has them in the order of its operations.
	decided := book.Decided()
	type row struct {
		*ledger.Entry
		operation int64
	}
	rows := make([]row, len(book.Entries()))
	operation := 0
	for i := range rows {
		e := &book.Entries()[i]
		for decided[operation].Operation.Key != e.Key {
			operation++
		}
		rows[i] = row{Entry: e, operation: ids[operation]}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.Version, b.Version))
	})

	n := len(rows)
	accounts, versions, operations := make([]int64, n), make([]int64, n), make([]int64, n)
	legs, amounts, balances := make([]int16, n), make([]string, n), make([]string, n)
	for i, r := range rows {
		accounts[i], versions[i], operations[i] = r.AccountID, r.Version, r.operation
		legs[i], amounts[i], balances[i] = int16(r.Leg), r.Amount.String(), r.Balance.String() //nolint:gosec // at most LegsMax
	}
	batch.Queue(insertEntriesSQL, accounts, versions, operations, legs, amounts, balances)
}

func queueBalances(batch *pgx.Batch, touched []*ledger.Account, at time.Time) {
	n := len(touched)
	ids, balances, versions := make([]int64, n), make([]string, n), make([]int64, n)
	for i, a := range touched {
		ids[i], balances[i], versions[i] = a.ID, a.Balance.String(), a.Version
	}
	batch.Queue(updateAccountsSQL, ids, balances, versions, at)
}

// legJSON is a leg as the column operations.legs holds it. The amount is in the asset's smallest unit.
type legJSON struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Asset  string `json:"asset"`
	Amount string `json:"amount"`
}

// encodeLegs writes JSON by hand, for speed: no part of a valid leg needs escaping.
func encodeLegs(legs []ledger.Leg) string {
	encoded := make([]byte, 0, 96*len(legs))
	separator := `[{"from":"`
	for i := range legs {
		leg := &legs[i]
		encoded = append(encoded, separator...)
		encoded = append(encoded, leg.From...)
		encoded = append(encoded, `","to":"`...)
		encoded = append(encoded, leg.To...)
		encoded = append(encoded, `","asset":"`...)
		encoded = append(encoded, leg.Asset.String()...)
		encoded = append(encoded, `","amount":"`...)
		encoded = append(encoded, leg.Amount.String()...)
		encoded = append(encoded, '"')
		separator = `},{"from":"`
	}
	return string(append(encoded, `}]`...))
}

func decodeLegs(encoded []byte) ([]ledger.Leg, error) {
	var all []legJSON
	if err := json.Unmarshal(encoded, &all); err != nil {
		return nil, fmt.Errorf("operations.legs: %w", err)
	}
	legs := make([]ledger.Leg, len(all))
	for i, l := range all {
		asset, err := ledger.ParseAsset(l.Asset)
		if err != nil {
			return nil, fmt.Errorf("operations.legs: %w", err)
		}
		amount, err := parseUnits("operations.legs", l.Amount)
		if err != nil {
			return nil, err
		}
		legs[i] = ledger.Leg{From: l.From, To: l.To, Asset: asset, Amount: amount}
	}
	return legs, nil
}

// encodeMetadata is "" for none, which the column holds as null.
func encodeMetadata(metadata map[string]string) string {
	if len(metadata) == 0 {
		return ""
	}
	encoded, err := json.Marshal(metadata)
	if err != nil {
		panic("postgres: a map of strings was not JSON: " + err.Error())
	}
	return string(encoded)
}

func decodeMetadata(encoded []byte) (map[string]string, error) {
	if encoded == nil {
		return nil, nil
	}
	var metadata map[string]string
	if err := json.Unmarshal(encoded, &metadata); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return metadata, nil
}

// fillAccount completes an account with the columns that need conversion.
func fillAccount(a *ledger.Account, asset, balance string, floor, ceiling *string, entryAt *time.Time) (err error) {
	if a.Asset, err = ledger.ParseAsset(asset); err != nil {
		return fmt.Errorf("accounts.asset: %w", err)
	}
	if a.Balance, err = parseUnits("accounts.balance", balance); err != nil {
		return err
	}
	if a.Floor, err = parseLimit("accounts.floor", floor); err != nil {
		return err
	}
	if a.Ceiling, err = parseLimit("accounts.ceiling", ceiling); err != nil {
		return err
	}
	if entryAt != nil {
		a.EntryAt = entryAt.UTC()
	}
	return nil
}

func parseLimit(column string, units *string) (*ledger.Amount, error) {
	if units == nil {
		return nil, nil
	}
	amount, err := parseUnits(column, *units)
	return &amount, err
}

func parseUnits(column, units string) (ledger.Amount, error) {
	amount, ok := ledger.ParseUnits(units)
	if !ok {
		return ledger.Amount{}, fmt.Errorf("%s: %q is not a whole number of at most %d digits", column, units, ledger.AmountDigitsMax)
	}
	return amount, nil
}
