package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bookCheck is one promise of a ledger: a query for what breaks it, in words.
type bookCheck struct {
	name string
	sql  string
}

// bookChecks know the tables, and nothing of the product's code.
var bookChecks = []bookCheck{
	{"entries sum to zero", `
		select a.asset || ': ' || sum(e.amount)
		from entries e join accounts a on a.id = e.account_id
		group by a.asset having sum(e.amount) <> 0`},
	{"a balance is the sum of its entries", `
		select format('%s: balance %s, entries %s', a.name, a.balance, coalesce(sum(e.amount), 0))
		from accounts a left join entries e on e.account_id = a.id
		group by a.id having a.balance <> coalesce(sum(e.amount), 0)`},
	{"versions have no gaps", `
		select format('%s: version %s, %s entries from %s to %s', a.name, a.version, count(e.version), min(e.version), max(e.version))
		from accounts a left join entries e on e.account_id = a.id
		group by a.id
		having a.version <> count(e.version) or coalesce(min(e.version), 1) <> 1 or coalesce(max(e.version), 0) <> count(e.version)`},
	{"an entry's balance is the sum up to it", `
		select format('account %s version %s: balance %s, sum %s', account_id, version, balance, sum)
		from (select *, sum(amount) over (partition by account_id order by version) from entries) e
		where balance <> sum`},
	{"entries belong to accounts and operations", `
		select format('account %s version %s', e.account_id, e.version)
		from entries e left join accounts a on a.id = e.account_id left join operations o on o.id = e.operation_id
		where a.id is null or o.id is null`},
	{"a leg takes from one account what it gives another", `
		select format('operation %s leg %s: %s entries, sum %s', operation_id, leg, count(*), sum(amount))
		from entries group by operation_id, leg having count(*) <> 2 or sum(amount) <> 0`},
	{"applied operations have their entries, and no other has any", `
		select format('%s is %s and has %s entries', o.key, o.state, count(e.version))
		from operations o left join entries e on e.operation_id = o.id
		group by o.id
		having count(e.version) <> case o.state when 'applied' then 2 * jsonb_array_length(o.legs::jsonb) else 0 end`},
	{"an entry has its leg's amount", `
		select format('%s leg %s: entry %s, leg %s', o.key, e.leg, e.amount, o.legs::jsonb -> (e.leg - 1) ->> 'amount')
		from entries e join operations o on o.id = e.operation_id
		where abs(e.amount) is distinct from (o.legs::jsonb -> (e.leg - 1) ->> 'amount')::numeric`},
	{"times rise with versions", `
		select format('account %s version %s', account_id, version)
		from (
			select e.account_id, e.version, o.at, lag(o.at) over (partition by e.account_id order by e.version) as before
			from entries e join operations o on o.id = e.operation_id
		) e
		where at < before`},
	{"balances are within their limits", `
		select format('%s: balance %s, floor %s, ceiling %s', name, balance, floor, ceiling)
		from accounts where balance < floor or balance > ceiling`},
	{"what is refunded was withdrawn, once", `
		select format('%s reverses %s', o.key, o.reverses)
		from operations o
		where o.kind = 'refund' and o.state = 'applied' and (
			not exists (select from operations w where w.key = o.reverses and w.kind = 'withdraw' and w.state = 'applied')
			or (select count(*) from operations r where r.reverses = o.reverses and r.state = 'applied') > 1)`},
	{"what is reserved is settled or goes back, once", `
		select format('%s: %s reserved, %s settled, %s returned, %s bounced', payout, reserved, settled, returned, bounced)
		from (
			select regexp_replace(key, '/[^/]*$', '') as payout, count(*) filter (where kind = 'reserve') as reserved,
				count(*) filter (where kind = 'settle') as settled, count(*) filter (where kind = 'return') as returned,
				count(*) filter (where kind = 'bounce') as bounced
			from operations where state = 'applied' and kind in ('reserve', 'settle', 'return', 'bounce') group by 1
		) p
		where reserved <> 1 or settled + returned > 1 or bounced > settled`},
	{"a rail's account holds what is reserved", `
		select format('%s %s: %s, payouts %s', a.name, a.asset, a.balance, coalesce(sum(o.amount), 0))
		from accounts a left join (
			select case when kind = 'reserve' then legs::jsonb -> 0 ->> 'to' else legs::jsonb -> 0 ->> 'from' end as name,
				legs::jsonb -> 0 ->> 'asset' as asset,
				(legs::jsonb -> 0 ->> 'amount')::numeric * case when kind = 'reserve' then 1 else -1 end as amount
			from operations where state = 'applied' and kind in ('reserve', 'settle', 'return')
		) o on o.name = a.name and o.asset = a.asset
		where a.name like 'rail:%'
		group by a.id having a.balance <> coalesce(sum(o.amount), 0)`},
}

// Faults of the books, in words; none if they are right. Every check holds at any moment, except that money may be in
// transit while transfers run.
func (w *World) bookFaults(t testing.TB) (faults, inTransit []string) {
	t.Helper()
	transit := make(map[string][2]string) // balances in both directions, as text
	ends := make(map[string]map[string]string)
	for _, ledger := range w.Ledgers {
		w.snapshot(t, ledger, func(ctx context.Context, tx pgx.Tx) error {
			for _, check := range bookChecks {
				rows, err := tx.Query(ctx, check.sql)
				if err != nil {
					return fmt.Errorf("%s: %w", check.name, err)
				}
				found, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					return fmt.Errorf("%s: %w", check.name, err)
				}
				for _, what := range found {
					faults = append(faults, fmt.Sprintf("ledger %s: %s: %s", ledger, check.name, what))
				}
			}
			if err := readEnds(ctx, tx, ends); err != nil {
				return err
			}
			return w.readTransit(ctx, tx, ledger, transit)
		})
	}
	for key, balances := range transit {
		if balances[0] != negated(balances[1]) {
			inTransit = append(inTransit, fmt.Sprintf("%s: %s and %s", key, balances[0], balances[1]))
		}
	}
	for workflow, steps := range ends {
		if steps["deposit"] == "applied" && steps["refund"] == "applied" {
			faults = append(faults, workflow+" has both arrived and been refunded")
		}
	}
	return faults, inTransit
}

const transitSQL = `select name, asset, balance::text from accounts where starts_with(name, 'transit:')`

// readTransit notes what a ledger has in transit, from the view of the ledger of the pair that comes first.
func (w *World) readTransit(ctx context.Context, tx pgx.Tx, ledger string, transit map[string][2]string) error {
	rows, err := tx.Query(ctx, transitSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, asset, balance string
		if err := rows.Scan(&name, &asset, &balance); err != nil {
			return err
		}
		other := strings.TrimPrefix(name, "transit:")
		first, second, side := ledger, other, 0
		if other < ledger {
			first, second, side = other, ledger, 1
		}
		key := fmt.Sprintf("in transit between %s and %s, %s", first, second, asset)
		balances, ok := transit[key]
		if !ok {
			balances = [2]string{"0", "0"}
		}
		balances[side] = balance
		transit[key] = balances
	}
	return rows.Err()
}

func negated(units string) string {
	switch {
	case units == "0":
		return units
	case units[0] == '-':
		return units[1:]
	default:
		return "-" + units
	}
}

const endsSQL = `select key, kind, state from operations where kind in ('deposit', 'refund')`

// readEnds notes the deposits and refunds by the transfers' workflows.
func readEnds(ctx context.Context, tx pgx.Tx, ends map[string]map[string]string) error {
	rows, err := tx.Query(ctx, endsSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key, kind, state string
		if err := rows.Scan(&key, &kind, &state); err != nil {
			return err
		}
		workflow := strings.TrimSuffix(key, "/"+kind)
		if ends[workflow] == nil {
			ends[workflow] = make(map[string]string)
		}
		ends[workflow][kind] = state
	}
	return rows.Err()
}

// BookFaults returns what is wrong with the books, in words; nothing if they are right. It holds at any moment, also while
// transfers run.
func (w *World) BookFaults(t testing.TB) []string {
	t.Helper()
	faults, _ := w.bookFaults(t)
	return faults
}

// AssertBooks audits the books, now that all transfers have ended: with SQL, and with `worker verify`. A world does it by
// itself when its test ends.
func (w *World) AssertBooks(t testing.TB) {
	t.Helper()
	faults, inTransit := w.bookFaults(t)
	assert.Empty(t, faults, "the books are wrong")
	assert.Empty(t, inTransit, "money is in transit")
	verify := w.Worker(t, "verify", "--output", "json")
	require.Equal(t, 0, verify.Code, "worker verify")
}

// Verification is what `worker verify --output json` says, as far as tests look at it.
type Verification struct {
	OK       bool `json:"ok"`
	Findings []struct {
		Ledger  string `json:"ledger"`
		Check   string `json:"check"`
		Subject string `json:"subject"`
		Detail  string `json:"detail"`
	} `json:"findings"`
	FindingsCount int `json:"findings_count"`
	InTransit     []struct {
		Transfer string `json:"transfer"` // the workflow ID
		From     string `json:"from"`
		To       string `json:"to"`
		Amount   string `json:"amount"`
		Asset    string `json:"asset"`
	} `json:"in_transit"`
	NotChecked []string `json:"not_checked"`
}

// Verify runs `worker verify` and returns its exit code and what it says.
func (w *World) Verify(t testing.TB) (code int, v Verification) {
	t.Helper()
	result := w.Worker(t, "verify", "--output", "json")
	require.NoError(t, json.Unmarshal([]byte(result.Stdout), &v), "%s", result.Stderr)
	require.Equal(t, result.Code == 0, v.OK)
	return result.Code, v
}
