package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

func TestBalanceAtAndEntries(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.open(t, "world", unlimited)
	b.open(t, "alice")
	var times []time.Time
	const count = 23
	for i := range count {
		o := post(fmt.Sprint("k", i), "world", "alice", "1")
		o.Memo = fmt.Sprint("memo ", i)
		times = append(times, b.apply(t, o).At)
	}
	// Several entries of one moment.
	results, err := b.PostBatch(t.Context(), []ledger.Operation{
		post("m1", "world", "alice", "1"), post("m2", "world", "alice", "1"), withdraw("m3", "alice", "eu/bob", "2"),
	})
	require.NoError(t, err)
	last := results[2].Outcome.At

	balance := func(at time.Time) string {
		t.Helper()
		got, err := b.BalanceAt(t.Context(), "alice", ledger.Asset{}, at)
		require.NoError(t, err)
		return got.Format(usd)
	}
	require.Equal(t, "0.00", balance(time.Time{}))
	require.Equal(t, "0.00", balance(times[0].Add(-time.Microsecond)))
	for i, at := range times {
		want := fmt.Sprintf("%d.00", i+1)
		require.Equal(t, want, balance(at), "an entry counts at its own time")
		require.Equal(t, want, balance(at.Add(999*time.Nanosecond)))
		require.Equal(t, fmt.Sprintf("%d.00", i), balance(at.Add(-time.Nanosecond)))
	}
	require.Equal(t, "23.00", balance(last))
	require.Equal(t, "23.00", balance(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)))
	_, err = b.BalanceAt(t.Context(), "nobody", usd, last)
	require.ErrorIs(t, err, ledger.ErrAccountUnknown)

	entries := func(page ledger.EntriesPage) []ledger.Entry {
		t.Helper()
		page.Account = "alice"
		if page.Limit == 0 {
			page.Limit = ledger.PageSizeMax
		}
		got, err := b.Entries(t.Context(), page)
		require.NoError(t, err)
		return got
	}
	versions := func(page ledger.EntriesPage) (first, last int64) {
		t.Helper()
		got := entries(page)
		if len(got) == 0 {
			return 0, 0
		}
		for i := range got {
			require.Equal(t, got[0].Version+int64(i), got[i].Version)
		}
		return got[0].Version, got[len(got)-1].Version
	}
	requireRange := func(wantFirst, wantLast int64, page ledger.EntriesPage) {
		t.Helper()
		first, last := versions(page)
		require.Equal(t, []int64{wantFirst, wantLast}, []int64{first, last})
	}
	requireRange(1, 26, ledger.EntriesPage{})
	requireRange(11, 15, ledger.EntriesPage{AfterVersion: 10, Limit: 5})
	requireRange(6, 10, ledger.EntriesPage{From: times[5], To: times[10]})
	requireRange(7, 11, ledger.EntriesPage{From: times[5].Add(time.Nanosecond), To: times[10].Add(time.Nanosecond)})
	requireRange(9, 10, ledger.EntriesPage{AfterVersion: 8, From: times[5], To: times[10]})
	requireRange(24, 26, ledger.EntriesPage{From: last})
	requireRange(1, 23, ledger.EntriesPage{To: last})
	requireRange(0, 0, ledger.EntriesPage{From: last.Add(time.Microsecond)})
	requireRange(0, 0, ledger.EntriesPage{AfterVersion: 26})
	requireRange(0, 0, ledger.EntriesPage{From: times[10], To: times[5]})

	all := entries(ledger.EntriesPage{})
	world, err := b.Account(t.Context(), "alice", usd)
	require.NoError(t, err)
	require.Equal(t, ledger.Entry{
		AccountID: world.ID, Version: 3, Amount: amount("1"), Balance: amount("3"), OperationID: all[2].OperationID, Leg: 1,
		Key: "k2", Kind: ledger.KindPost, Other: "world", Memo: "memo 2", At: times[2],
	}, all[2])
	require.Equal(t, "transit:eu", all[25].Other)
	require.Equal(t, "eu/bob", all[25].Counterparty)
	require.Equal(t, ledger.KindWithdraw, all[25].Kind)
	require.Equal(t, amount("-2"), all[25].Amount)

	_, err = b.Entries(t.Context(), ledger.EntriesPage{Account: "nobody", Limit: 1})
	require.ErrorIs(t, err, ledger.ErrAccountUnknown)
	_, err = b.Entries(t.Context(), ledger.EntriesPage{Account: "alice"})
	var invalid *ledger.InvalidError
	require.ErrorAs(t, err, &invalid)
	sound(t, b)
}

// Times rise with versions even when the server's clock goes back.
func TestClockThatGoesBack(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "10")
	owner := b.owner(t)
	future := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	exec(t, owner, "set session_replication_role = replica")
	exec(t, owner, "update operations set at = $1", future)
	exec(t, owner, "update accounts set entry_at = $1 where version > 0", future)

	require.Equal(t, future, b.apply(t, post("k", "alice", "world", "1")).At)
	b.open(t, "bob")
	require.Equal(t, future, b.apply(t, post("k2", "alice", "bob", "1")).At)
	sound(t, b)
}
