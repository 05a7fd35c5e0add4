package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

func TestAccountOpen(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	ceiling := amount("1000")
	wanted := ledger.NewAccount("alice", usd)
	wanted.Ceiling, wanted.Metadata = &ceiling, map[string]string{"tier": "gold"}
	opened, err := b.AccountOpen(t.Context(), wanted)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), opened.OpenedAt, time.Minute)
	wanted.ID, wanted.OpenedAt = opened.ID, opened.OpenedAt
	require.Equal(t, wanted, opened)

	t.Run("a repeat returns it as it is", func(t *testing.T) {
		again, err := b.AccountOpen(t.Context(), wanted)
		require.NoError(t, err)
		require.Equal(t, opened, again)
		b.open(t, "world", unlimited)
		b.apply(t, post("k", "world", "alice", "10"))
		frozen := ledger.AccountFrozen
		set, err := b.AccountSet(t.Context(), "alice", ledger.AccountChange{Status: &frozen})
		require.NoError(t, err)
		again, err = b.AccountOpen(t.Context(), wanted)
		require.NoError(t, err)
		require.Equal(t, set, again)
		require.Equal(t, "10.00", again.Balance.Format(usd))
	})
	for name, change := range map[string]func(*ledger.Account){
		"asset":    in(jpy),
		"scale":    in(mustAsset("USD/3")),
		"floor":    unlimited,
		"ceiling":  func(a *ledger.Account) { a.Ceiling = nil },
		"metadata": func(a *ledger.Account) { a.Metadata = nil },
	} {
		t.Run("with another "+name, func(t *testing.T) {
			other := wanted
			change(&other)
			_, err := b.AccountOpen(t.Context(), other)
			require.ErrorIs(t, err, ledger.ErrAccountConflict)
			require.ErrorContains(t, err, "alice")
		})
	}
	t.Run("malformed", func(t *testing.T) {
		_, err := b.AccountOpen(t.Context(), ledger.NewAccount("transit:eu", usd))
		var invalid *ledger.InvalidError
		require.ErrorAs(t, err, &invalid)
	})
	t.Run("fifty at once, in two assets", func(t *testing.T) {
		errs := make([]error, 50)
		atOnce(50, func(i int) {
			a := ledger.NewAccount("new", usd)
			if i%2 == 1 {
				a.Asset = jpy
			}
			_, errs[i] = b.AccountOpen(t.Context(), a)
		})
		there, err := b.Account(t.Context(), "new", ledger.Asset{})
		require.NoError(t, err)
		for i, err := range errs {
			if mine := (i%2 == 1) == (there.Asset == jpy); mine {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ledger.ErrAccountConflict)
			}
		}
	})
}

func TestAccountSet(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "10")
	limit := func(s string) *ledger.Limit { return &ledger.Limit{Amount: amount(s)} }
	status := func(s ledger.AccountStatus) *ledger.AccountStatus { return &s }

	set, err := b.AccountSet(t.Context(), "alice", ledger.AccountChange{
		Floor: limit("-5"), Ceiling: limit("50"), Metadata: map[string]string{"a": "b"},
	})
	require.NoError(t, err)
	read, err := b.Account(t.Context(), "alice", usd)
	require.NoError(t, err)
	require.Equal(t, read, set)
	require.Equal(t, "-5.00", read.Floor.Format(usd))
	require.Equal(t, "50.00", read.Ceiling.Format(usd))
	require.Equal(t, map[string]string{"a": "b"}, read.Metadata)
	again, err := b.AccountSet(t.Context(), "alice", ledger.AccountChange{})
	require.NoError(t, err)
	require.Equal(t, set, again, "nothing named, nothing changed")

	b.apply(t, post("k1", "alice", "world", "15"))
	b.refuse(t, post("k2", "alice", "world", "0.01"), ledger.CodeInsufficientFunds)
	b.apply(t, post("k3", "world", "alice", "55"))
	b.refuse(t, post("k4", "world", "alice", "0.01"), ledger.CodeCeilingExceeded)

	for name, change := range map[string]ledger.AccountChange{
		"floor beyond the balance":   {Floor: limit("50.01")},
		"ceiling beyond the balance": {Ceiling: limit("49.99")},
		"closing it with money":      {Status: status(ledger.AccountClosed)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.AccountSet(t.Context(), "alice", change)
			require.ErrorIs(t, err, ledger.ErrAccountConflict)
		})
	}
	_, err = b.AccountSet(t.Context(), "alice", ledger.AccountChange{Status: status(ledger.AccountFrozen)})
	require.NoError(t, err)
	b.refuse(t, post("k5", "alice", "world", "1"), ledger.CodeAccountFrozen)
	b.refuse(t, post("k6", "world", "alice", "1"), ledger.CodeAccountFrozen)
	_, err = b.AccountSet(t.Context(), "alice", ledger.AccountChange{Status: status(ledger.AccountOpen), Ceiling: &ledger.Limit{None: true}})
	require.NoError(t, err)
	b.apply(t, post("k7", "alice", "world", "50"))
	_, err = b.AccountSet(t.Context(), "alice", ledger.AccountChange{Status: status(ledger.AccountClosed)})
	require.NoError(t, err)
	b.refuse(t, post("k8", "world", "alice", "1"), ledger.CodeAccountClosed)

	_, err = b.AccountSet(t.Context(), "nobody", ledger.AccountChange{})
	require.ErrorIs(t, err, ledger.ErrAccountUnknown)
	_, err = b.AccountSet(t.Context(), "transit:eu", ledger.AccountChange{})
	var invalid *ledger.InvalidError
	require.ErrorAs(t, err, &invalid)
	sound(t, b)
}

// Closing needs an empty account, also when money arrives at the same time.
func TestCloseAndPostAtOnce(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.open(t, "world", unlimited)
	closed := ledger.AccountClosed
	for round := range 20 {
		name := fmt.Sprint("a", round)
		b.open(t, name)
		var outcome ledger.Outcome
		var setErr error
		atOnce(2, func(i int) {
			var err error
			if i == 0 {
				outcome, err = b.Post(t.Context(), post("k"+name, "world", name, "1"))
				assert.NoError(t, err)
			} else {
				_, setErr = b.AccountSet(t.Context(), name, ledger.AccountChange{Status: &closed})
			}
		})
		if outcome.State == ledger.OutcomeApplied {
			require.ErrorIs(t, setErr, ledger.ErrAccountConflict)
		} else {
			require.Equal(t, ledger.CodeAccountClosed, outcome.Code)
			require.NoError(t, setErr)
		}
	}
	sound(t, b)
}

func TestAccount(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "10")
	b.open(t, "yen", unlimited, in(jpy))
	b.apply(t, withdraw("w1", "alice", "eu/bob", "1"))

	_, err := b.Account(t.Context(), "nobody", ledger.Asset{})
	require.ErrorIs(t, err, ledger.ErrAccountUnknown)
	_, err = b.Account(t.Context(), "alice", jpy)
	require.ErrorIs(t, err, ledger.ErrAccountUnknown)
	transit, err := b.Account(t.Context(), "transit:eu", ledger.Asset{})
	require.NoError(t, err, "it has one asset so far")
	require.Nil(t, transit.Floor)
	require.Nil(t, transit.Ceiling)

	o := withdraw("w2", "yen", "eu/bob", "1")
	o.Legs[0].Asset = jpy
	b.apply(t, o)
	_, err = b.Account(t.Context(), "transit:eu", ledger.Asset{})
	var invalid *ledger.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "asset", invalid.Field)
	transit, err = b.Account(t.Context(), "transit:eu", jpy)
	require.NoError(t, err)
	require.Equal(t, "100", transit.Balance.Format(jpy))
	sound(t, b)
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprint("a", 99-i))
		b.open(t, want[i])
	}
	var got []string
	for after := int64(0); ; {
		page, err := b.Accounts(t.Context(), ledger.AccountsPage{AfterID: after, Limit: 10})
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, a := range page {
			got = append(got, a.Name)
			after = a.ID
		}
	}
	require.Equal(t, want, got)
	for _, limit := range []int{0, -1, ledger.PageSizeMax + 1} {
		_, err := b.Accounts(t.Context(), ledger.AccountsPage{Limit: limit})
		var invalid *ledger.InvalidError
		require.ErrorAs(t, err, &invalid)
	}
}
