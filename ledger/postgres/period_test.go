package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

func TestPeriod(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.open(t, "world", unlimited)
	b.open(t, "alice")
	var at []time.Time
	for _, key := range []string{"a", "b", "c", "d"} {
		at = append(at, b.apply(t, post(key, "world", "alice", "5")).At)
	}
	_, err := b.AccountSet(t.Context(), "alice", ledger.AccountChange{Status: new(ledger.AccountFrozen)})
	require.NoError(t, err)
	long := at[0].Add(-24 * time.Hour)
	query := func(from, to time.Time) ledger.PeriodQuery {
		return ledger.PeriodQuery{Account: "alice", From: from, To: to}
	}

	for name, want := range map[string]struct {
		from, to         time.Time
		opening, closing string
		before, entries  int64
	}{
		"from the beginning":  {long, at[2], "0", "10", 0, 2},
		"the middle":          {at[1], at[3], "5", "15", 1, 2},
		"from after an entry": {at[1].Add(time.Microsecond), at[3], "10", "15", 2, 1},
		"without an entry":    {at[1].Add(time.Microsecond), at[2], "10", "10", 2, 0},
		"before it was there": {long, long.Add(time.Hour), "0", "0", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := b.Period(t.Context(), query(want.from, want.to))
			require.NoError(t, err)
			asked := query(want.from, want.to)
			asked.Asset = usd
			require.Equal(t, ledger.Period{
				PeriodQuery: asked, Opening: amount(want.opening), Closing: amount(want.closing), VersionBefore: want.before, Entries: want.entries,
			}, got)
		})
	}
	t.Run("what is not over", func(t *testing.T) {
		for _, to := range []time.Time{at[3].Add(time.Microsecond), at[3].Add(24 * time.Hour)} {
			_, err := b.Period(t.Context(), query(long, to))
			require.ErrorIs(t, err, ledger.ErrPeriodUnfinished)
		}
		// Without a later entry there is only the clock, which must be past the end by more than it is ever set back.
		b.open(t, "quiet")
		quiet := ledger.PeriodQuery{Account: "quiet", From: long, To: time.Now().Add(-ledger.PeriodMargin / 2).Truncate(time.Microsecond)}
		_, err := b.Period(t.Context(), quiet)
		require.ErrorIs(t, err, ledger.ErrPeriodUnfinished)
		quiet.To = time.Now().Add(-ledger.PeriodMargin).Truncate(time.Microsecond)
		_, err = b.Period(t.Context(), quiet)
		require.NoError(t, err)
	})
	t.Run("a period that is none", func(t *testing.T) {
		for _, wrong := range []ledger.PeriodQuery{
			query(time.Time{}, at[3]), query(long, time.Time{}), query(at[3], at[3]), query(at[3], long), query(long.Add(time.Nanosecond), at[3]),
			{Account: "no/name", From: long, To: at[3]},
		} {
			_, err := b.Period(t.Context(), wrong)
			var invalid *ledger.InvalidError
			require.ErrorAs(t, err, &invalid)
		}
		_, err := b.Period(t.Context(), ledger.PeriodQuery{Account: "nobody", From: long, To: at[3]})
		require.ErrorIs(t, err, ledger.ErrAccountUnknown)
	})
	t.Run("a transit account has several", func(t *testing.T) {
		b.open(t, "yen", unlimited, in(jpy))
		for i, asset := range []ledger.Asset{usd, jpy} {
			o := withdraw([]string{"w1", "w2"}[i], []string{"world", "yen"}[i], "eu/bob", "1")
			o.Legs[0].Asset = asset
			b.apply(t, o)
		}
		transit := ledger.PeriodQuery{Account: "transit:eu", From: long, To: at[0]}
		_, err := b.Period(t.Context(), transit)
		var invalid *ledger.InvalidError
		require.ErrorAs(t, err, &invalid)
		transit.Asset = jpy
		_, err = b.Period(t.Context(), transit)
		require.NoError(t, err)
	})
	sound(t, b)
}

// Somebody has read the clock, holds the account, and commits late. Whoever asks for the period in which that was waits for
// it, and has its entry.
func TestPeriodWaitsForThoseWhoPost(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.open(t, "world", unlimited)
	b.open(t, "alice")
	late := b.owner(t)
	hourAgo := time.Now().Add(-time.Hour).Truncate(time.Microsecond).UTC()
	exec(t, late, "set session_replication_role = replica") // the wall would not let an operation be so late
	exec(t, late, "begin")
	exec(t, late, "select from accounts where name = 'alice' for no key update")
	exec(t, late, `insert into operations (id, key, kind, request_hash, state, legs, memo, at)
		values (1000, 'late', 'post', sha256('late'), 'applied', '[{"from":"world","to":"alice","asset":"USD/2","amount":"700"}]', '', $1)`, hourAgo)
	exec(t, late, "insert into entries select id, 1, 1000, 1, 700, 700 from accounts where name = 'alice'")
	exec(t, late, "update accounts set balance = 700, version = 1, entry_at = $1 where name = 'alice'", hourAgo)

	type answer struct {
		period ledger.Period
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		period, err := b.Period(t.Context(), ledger.PeriodQuery{
			Account: "alice", From: hourAgo.Add(-time.Minute), To: hourAgo.Add(time.Minute),
		})
		answers <- answer{period, err}
	}()
	waitFor(t, b.owner(t), blocked(1))
	exec(t, late, "commit")
	got := <-answers
	require.NoError(t, got.err)
	require.Equal(t, []string{"0.00", "7.00"}, []string{got.period.Opening.Format(usd), got.period.Closing.Format(usd)})
	require.EqualValues(t, 1, got.period.Entries)
}

// A clock that is set back can't put an entry into a period that is over: the account's last entry is the measure then.
func TestPeriodWithAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "10")
	owner := b.owner(t)
	future := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	exec(t, owner, "set session_replication_role = replica")
	exec(t, owner, "update operations set at = $1", future)
	exec(t, owner, "update accounts set entry_at = $1 where version > 0", future)
	query := ledger.PeriodQuery{Account: "alice", From: future.Add(-24 * time.Hour), To: future}
	before, err := b.Period(t.Context(), query)
	require.NoError(t, err)
	require.Zero(t, before.Entries)

	require.Equal(t, future, b.apply(t, post("k", "alice", "world", "1")).At)
	after, err := b.Period(t.Context(), query)
	require.NoError(t, err)
	require.Equal(t, before, after)
	query.To = future.Add(time.Microsecond)
	_, err = b.Period(t.Context(), query)
	require.ErrorIs(t, err, ledger.ErrPeriodUnfinished)
}
