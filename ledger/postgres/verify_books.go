package postgres

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// checkBooks holds one ledger against itself.
func (a *audit) checkBooks(ctx context.Context) error {
	for _, check := range []func(context.Context) error{
		a.checkAssets, a.checkChains, a.checkAccounts, a.checkOperations, a.checkReversals,
	} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// each runs a query and calls do for every row, holding one at a time.
func (a *audit) each(ctx context.Context, sql string, do func(pgx.Rows) error) error {
	rows, err := a.conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

const assetSumsSQL = `
select a.asset, sum(e.amount)::text
from entries e
join accounts a on a.id = e.account_id
group by a.asset
having sum(e.amount) <> 0`

func (a *audit) checkAssets(ctx context.Context) error {
	return a.each(ctx, assetSumsSQL, func(rows pgx.Rows) error {
		var asset, sum string
		if err := rows.Scan(&asset, &sum); err != nil {
			return err
		}
		a.found(CheckAssetSum, asset, "its entries sum to %s smallest units, not to zero", sum)
		return nil
	})
}

const brokenChainsSQL = `
select coalesce(a.name, 'account ' || e.account_id), coalesce(a.asset, ''), e.version, e.amount::text, e.balance::text,
	e.version_before, e.balance_before::text, a.id is not null, e.version = e.version_before + 1,
	e.balance = e.balance_before + e.amount, e.at >= coalesce(e.at_before, e.at)
from (
	select
		e.account_id, e.version, e.amount, e.balance, o.at,
		lag(e.version, 1, 0::bigint) over account as version_before,
		lag(e.balance, 1, 0::numeric) over account as balance_before,
		lag(o.at) over account as at_before
	from entries e
	left join operations o on o.id = e.operation_id
	window account as (partition by e.account_id order by e.version)
) e
left join accounts a on a.id = e.account_id
where a.id is null
	or e.version <> e.version_before + 1
	or e.balance <> e.balance_before + e.amount
	or e.at < e.at_before`

func (a *audit) checkChains(ctx context.Context) error {
	return a.each(ctx, brokenChainsSQL, func(rows pgx.Rows) error {
		var name, asset, amount, balance, balanceBefore string
		var version, versionBefore int64
		var exists, gapless, adds, later bool
		err := rows.Scan(&name, &asset, &version, &amount, &balance, &versionBefore, &balanceBefore, &exists, &gapless, &adds, &later)
		if err != nil {
			return err
		}
		subject := fmt.Sprintf("%s version %d", strings.TrimSpace(name+" "+asset), version)
		switch {
		case !exists:
			a.found(CheckEntryChain, subject, "there is no such account")
		case !gapless:
			a.found(CheckEntryChain, subject, "the entry before it has version %d", versionBefore)
		case !adds:
			a.found(CheckEntryChain, subject, "the balance %s is not %s and %s more", balance, balanceBefore, amount)
		case !later:
			a.found(CheckEntryChain, subject, "it is earlier than the entry before it")
		}
		return nil
	})
}

const brokenAccountsSQL = `
select a.name, a.asset, a.version, a.balance::text, coalesce(e.entries, 0), coalesce(e.sum, 0)::text,
	coalesce(last.balance, 0)::text, a.floor::text, a.ceiling::text,
	a.version = coalesce(e.entries, 0), a.balance = coalesce(e.sum, 0), a.balance = coalesce(last.balance, 0),
	a.entry_at is not distinct from o.at,
	a.balance >= coalesce(a.floor, a.balance) and a.balance <= coalesce(a.ceiling, a.balance)
from accounts a
left join (select account_id, count(*) as entries, sum(amount) as sum from entries group by account_id) e on e.account_id = a.id
left join entries last on last.account_id = a.id and last.version = a.version
left join operations o on o.id = last.operation_id
where a.version <> coalesce(e.entries, 0)
	or a.balance <> coalesce(e.sum, 0)
	or a.balance <> coalesce(last.balance, 0)
	or a.entry_at is distinct from o.at
	or a.balance < a.floor
	or a.balance > a.ceiling`

func (a *audit) checkAccounts(ctx context.Context) error {
	return a.each(ctx, brokenAccountsSQL, func(rows pgx.Rows) error {
		var name, asset, balance, sum, last string
		var version, entries int64
		var floor, ceiling *string
		var counts, sums, lasts, times, within bool
		err := rows.Scan(&name, &asset, &version, &balance, &entries, &sum, &last, &floor, &ceiling, &counts, &sums, &lasts, &times, &within)
		if err != nil {
			return err
		}
		subject := name + " " + asset
		if !counts {
			a.found(CheckAccountBalance, subject, "its version is %d, and it has %d entries", version, entries)
		}
		if !sums {
			a.found(CheckAccountBalance, subject, "its balance is %s, and its entries sum to %s", balance, sum)
		}
		if !lasts {
			a.found(CheckAccountBalance, subject, "its balance is %s, and its entry of version %d left %s", balance, version, last)
		}
		if !times {
			a.found(CheckAccountBalance, subject, "the time of its last entry is not that of the entry of version %d", version)
		}
		if !within {
			a.found(CheckAccountLimit, subject, "its balance %s is not between its floor %s and its ceiling %s",
				balance, orNone(floor), orNone(ceiling))
		}
		return nil
	})
}

func orNone(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

// The join is on what both sides can be sorted by, and the result in no particular order, so neither side is ever held
// as a whole.
const operationsWithEntriesSQL = `
select o.id, o.key, o.kind, o.state, o.request_hash, o.legs, coalesce(o.reverses, ''), coalesce(o.counterparty, ''), o.memo,
	o.metadata, e.operation_id, e.legs, e.names, e.assets, e.amounts
from operations o
full join (
	select
		e.operation_id,
		array_agg(e.leg order by e.leg, e.amount) as legs,
		array_agg(coalesce(a.name, '') order by e.leg, e.amount) as names,
		array_agg(coalesce(a.asset, '') order by e.leg, e.amount) as assets,
		array_agg(e.amount::text order by e.leg, e.amount) as amounts
	from entries e
	left join accounts a on a.id = e.account_id
	group by e.operation_id
) e on e.operation_id = o.id`

// entryLine is what an operation's leg and the entry that it left have in common.
type entryLine struct {
	leg           int16
	name          string
	asset, amount string
}

func (a *audit) checkOperations(ctx context.Context) error {
	return a.each(ctx, operationsWithEntriesSQL, func(rows pgx.Rows) error {
		var id, operationID *int64
		var key, kind, state, reverses, counterparty, memo *string
		var hash, legs, metadata []byte
		var entryLegs []int16
		var names, assets, amounts []string
		err := rows.Scan(&id, &key, &kind, &state, &hash, &legs, &reverses, &counterparty, &memo, &metadata,
			&operationID, &entryLegs, &names, &assets, &amounts)
		if err != nil {
			return err
		}
		if id == nil {
			a.found(CheckOperationEntries, fmt.Sprintf("operation %d", *operationID), "there are %d entries and no operation", len(entryLegs))
			return nil
		}
		o := ledger.Operation{
			Key: ledger.Key(*key), Kind: ledger.Kind(*kind), Reverses: ledger.Key(*reverses), Counterparty: *counterparty, Memo: *memo,
		}
		if o.Legs, err = decodeLegs(legs); err != nil {
			a.found(CheckOperationForm, *key, "%v", err)
			return nil
		}
		if o.Metadata, err = decodeMetadata(metadata); err != nil {
			a.found(CheckOperationForm, *key, "%v", err)
			return nil
		}
		if err := o.Validate(); err != nil {
			a.found(CheckOperationForm, *key, "%v", err)
		}
		if want := o.RequestHash(); !bytes.Equal(hash, want[:]) {
			a.found(CheckOperationHash, *key, "the recorded hash is not that of the recorded operation")
		}
		got := make([]entryLine, len(entryLegs))
		for i := range got {
			got[i] = entryLine{leg: entryLegs[i], name: names[i], asset: assets[i], amount: amounts[i]}
		}
		a.checkOperationEntries(&o, ledger.OutcomeState(*state), got)
		return nil
	})
}

// checkOperationEntries compares the entries of an operation, ordered by leg and amount, with what its legs say.
func (a *audit) checkOperationEntries(o *ledger.Operation, state ledger.OutcomeState, got []entryLine) {
	if state != ledger.OutcomeApplied {
		if len(got) > 0 {
			a.found(CheckOperationEntries, string(o.Key), "it is %s, and has %d entries", state, len(got))
		}
		return
	}
	var want []entryLine
	for i := range o.Legs {
		leg, asset := &o.Legs[i], o.Legs[i].Asset.String()
		want = append(want,
			entryLine{leg: int16(i + 1), name: leg.From, asset: asset, amount: leg.Amount.Neg().String()},
			entryLine{leg: int16(i + 1), name: leg.To, asset: asset, amount: leg.Amount.String()})
	}
	if len(got) != len(want) {
		a.found(CheckOperationEntries, string(o.Key), "it has %d entries; its legs make %d", len(got), len(want))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			a.found(CheckOperationEntries, string(o.Key), "leg %d gives %s %s %s, and the entry of leg %d gives %s %s %s",
				want[i].leg, want[i].name, want[i].amount, want[i].asset, got[i].leg, got[i].name, got[i].amount, got[i].asset)
			return
		}
	}
}

const reversalsInOrderSQL = `
select r.reverses, r.key, r.legs, o.state is not distinct from 'applied', o.legs
from operations r
left join operations o on operation_claim(o.key) = operation_claim(r.reverses) and o.key = r.reverses
where r.reverses is not null and r.state = 'applied'
order by r.reverses, r.id`

// route is a way that money takes. What is reversed takes the opposite one.
type route struct {
	from, to string
	asset    ledger.Asset
}

func (a *audit) checkReversals(ctx context.Context) error {
	var original ledger.Key
	var left map[route]ledger.Amount // of the original: it has at most ledger.LegsMax
	return a.each(ctx, reversalsInOrderSQL, func(rows pgx.Rows) error {
		var reverses, key ledger.Key
		var legs, originalLegs []byte
		var applied bool
		if err := rows.Scan(&reverses, &key, &legs, &applied, &originalLegs); err != nil {
			return err
		}
		if !applied {
			a.found(CheckReversal, string(key), "it reverses %q, which did not apply", reverses)
			return nil
		}
		if reverses != original {
			original, left = reverses, make(map[route]ledger.Amount)
			for _, leg := range legsOrNone(originalLegs) {
				r := route{from: leg.From, to: leg.To, asset: leg.Asset}
				left[r], _ = left[r].Add(leg.Amount)
			}
		}
		for _, leg := range legsOrNone(legs) {
			reversed := leg.Reversed()
			r := route{from: reversed.From, to: reversed.To, asset: leg.Asset}
			left[r], _ = left[r].Sub(leg.Amount)
			if left[r].Sign() < 0 {
				a.found(CheckReversal, string(key), "with it, the reversals of %q exceed it by %s %s", reverses,
					left[r].Neg().Format(leg.Asset), leg.Asset)
			}
		}
		return nil
	})
}

// legsOrNone decodes the legs of an operation. Malformed ones are reported by checkOperations, and count for nothing
// elsewhere.
func legsOrNone(encoded []byte) []ledger.Leg {
	legs, err := decodeLegs(encoded)
	if err != nil {
		return nil
	}
	return legs
}
