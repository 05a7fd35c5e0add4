package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/internal/pgtest"
	"payonce/ledger"
	"payonce/ledger/postgres"
)

var bob = map[string]string{"iban": "DE89", "name": "Bob"}

// payout has the steps of a payout of some USD from alice to bob.
type payout struct{ reserve, settle, returned, bounce ledger.Operation }

func payoutOf(id, howMuch string) payout {
	step := func(kind ledger.Kind, from, to string) ledger.Operation {
		o := post("payout/"+id+"/"+string(kind), from, to, howMuch)
		o.Kind, o.Counterparty = kind, ledger.PayoutCounterparty("bank", bob)
		if kind == ledger.KindReturn || kind == ledger.KindBounce {
			o.Reverses = ledger.Key("payout/" + id + "/reserve")
		}
		return o
	}
	return payout{
		reserve: step(ledger.KindReserve, "alice", "rail:bank"), settle: step(ledger.KindSettle, "rail:bank", "settled:bank"),
		returned: step(ledger.KindReturn, "rail:bank", "alice"), bounce: step(ledger.KindBounce, "settled:bank", "alice"),
	}
}

// What is reserved is settled or goes back, and what is settled may come back: each once.
func TestPayout(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	conflict := func(t *testing.T, o ledger.Operation) {
		t.Helper()
		_, err := b.Post(t.Context(), o)
		require.ErrorIs(t, err, ledger.ErrKeyConflict)
		_, err = b.Resolve(t.Context(), seal(o))
		require.ErrorIs(t, err, ledger.ErrKeyConflict)
	}
	open := payoutOf("open", "5")
	b.apply(t, open.reserve)

	t.Run("settled", func(t *testing.T) {
		p := payoutOf("settled", "10")
		b.apply(t, p.reserve)
		b.apply(t, p.settle)
		conflict(t, p.returned)
		b.has(t, "rail:bank", "5.00")
		b.has(t, "settled:bank", "10.00")
	})
	t.Run("returned", func(t *testing.T) {
		p := payoutOf("returned", "10")
		b.apply(t, p.reserve)
		b.apply(t, p.returned)
		conflict(t, p.settle)
		b.refuse(t, p.bounce, ledger.CodeReversalExceeds)
		b.has(t, "rail:bank", "5.00")
		b.has(t, "alice", "85.00")
	})
	t.Run("bounced, to a frozen account", func(t *testing.T) {
		p := payoutOf("bounced", "10")
		b.apply(t, p.reserve)
		b.apply(t, p.settle)
		frozen, opened := ledger.AccountFrozen, ledger.AccountOpen
		_, err := b.AccountSet(t.Context(), "alice", ledger.AccountChange{Status: &frozen})
		require.NoError(t, err)
		first := b.apply(t, p.bounce)
		require.Equal(t, repeated(first), b.apply(t, p.bounce))
		_, err = b.AccountSet(t.Context(), "alice", ledger.AccountChange{Status: &opened})
		require.NoError(t, err)
		again := p.bounce
		again.Key += "-again"
		b.refuse(t, again, ledger.CodeReversalExceeds)
		b.has(t, "settled:bank", "10.00")
		b.has(t, "alice", "85.00")
	})
	t.Run("what was not reserved is not settled with others' money", func(t *testing.T) {
		p := payoutOf("nothing", "6")
		b.refuse(t, p.returned, ledger.CodeReversalUnknown)
		b.refuse(t, payoutOf("too-much", "6").settle, ledger.CodeInsufficientFunds)
	})
	t.Run("another payee", func(t *testing.T) {
		other := open.reserve
		other.Counterparty = ledger.PayoutCounterparty("bank", map[string]string{"iban": "DE90", "name": "Bob"})
		conflict(t, other)
	})
	t.Run("both ways at once", func(t *testing.T) {
		p := payoutOf("both", "1")
		b.apply(t, p.reserve)
		atOnce(20, func(i int) {
			o := p.settle
			if i%2 == 0 {
				o = p.returned
			}
			if _, err := b.Post(t.Context(), o); err != nil {
				assert.ErrorIs(t, err, ledger.ErrKeyConflict)
			}
		})
	})

	var reserved []postgres.Reserved
	summary, err := postgres.Verify(t.Context(), []*postgres.Ledger{b.Ledger}, postgres.Report{
		Finding:  func(f postgres.Finding) { assert.Fail(t, "the books are wrong", f.String()) },
		Reserved: func(r postgres.Reserved) { reserved = append(reserved, r) },
	})
	require.NoError(t, err)
	require.Len(t, reserved, 1)
	require.Equal(t, []any{"payout/open", "us/alice", "us/rail:bank", "5.00"},
		[]any{reserved[0].Payout, reserved[0].From.String(), reserved[0].Account.String(), reserved[0].Amount.Format(usd)})
	require.Equal(t, []postgres.ReservedTotal{
		{Account: ledger.AccountRef{Ledger: "us", Name: "rail:bank"}, Asset: usd, Amount: amount("5"), Payouts: 1},
	}, summary.Reserved)
	require.Empty(t, summary.NotChecked)
}

// What can't come from the work of payonce, verify finds.
func TestVerifyPayouts(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		plant func(*testing.T, *books)
		want  string
	}{
		"settled, never reserved": {func(t *testing.T, b *books) {
			t.Helper()
			b.apply(t, payoutOf("other", "10").reserve)
			b.apply(t, payoutOf("p", "10").settle)
		}, "us payout: payout/p"},
		"less settled than reserved": {func(t *testing.T, b *books) {
			t.Helper()
			b.apply(t, payoutOf("p", "10").reserve)
			b.apply(t, payoutOf("p", "9").settle)
		}, "us payout: payout/p"},
		"bounced, never settled": {func(t *testing.T, b *books) {
			t.Helper()
			other := payoutOf("other", "10")
			b.apply(t, other.reserve)
			b.apply(t, other.settle)
			b.apply(t, payoutOf("p", "10").reserve)
			b.apply(t, payoutOf("p", "10").bounce)
		}, "us payout: payout/p"},
		"settled and given back": {func(t *testing.T, b *books) {
			t.Helper()
			p := payoutOf("p", "10")
			b.apply(t, payoutOf("other", "10").reserve)
			b.apply(t, p.reserve)
			b.apply(t, p.settle)
			p.returned.Key = "payout/p/return-again"
			b.apply(t, p.returned)
		}, "us payout: payout/p"},
		"an account of a rail that somebody wrote to": {func(t *testing.T, b *books) {
			t.Helper()
			b.apply(t, payoutOf("p", "10").reserve)
			owner := b.owner(t)
			exec(t, owner, "alter table accounts disable trigger all")
			exec(t, owner, "update accounts set balance = balance + 1 where name = 'rail:bank'")
		}, "us payout: rail:bank USD/2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBooks(t)
			b.fund(t, "alice", "100")
			row.plant(t, b)
			findings, _, _ := verify(t, b)
			require.True(t, slices.ContainsFunc(findings, func(f string) bool { return strings.HasPrefix(f, row.want) }), "%v", findings)
		})
	}
}

// A ledger of before has no account that is the ledger's own from now on.
func TestMigratePayouts(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ account, fails string }{
		"free": {"rails", ""}, "taken": {"rail:bank", "rail:bank has a name that is the ledger's own"}, "settled": {"settled:x", "settled:x has a name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmptyDatabase(t)
			owner := connect(t, db.OwnerURL)
			require.NoError(t, postgres.MigrateTo(t.Context(), db.OwnerURL, 1))
			exec(t, owner, "insert into accounts (name, asset) values ($1, 'USD/2')", row.account)
			err := postgres.Migrate(t.Context(), db.OwnerURL, postgres.MigrateOptions{WorkerRole: pgtest.WorkerRole()})
			if row.fails != "" {
				require.ErrorContains(t, err, row.fails)
				return
			}
			require.NoError(t, err)
			b := &books{Ledger: openLedger(t, "us", db.WorkerURL), Database: db}
			b.fund(t, "alice", "10")
			b.apply(t, payoutOf("p", "10").reserve)
			sound(t, b)
		})
	}
}
