package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC)

func deadLetter(transfer string) ledger.DeadLetter {
	return ledger.DeadLetter{
		Key: ledger.Key("transfer/" + transfer + "/deposit"), Transfer: transfer, Step: "deposit", State: ledger.DeadLetterOpen,
		Parked: true, Error: "deposit on ledger eu: the ledger is on fire", Attempts: 10, FirstAt: noon.Add(-time.Hour), LastAt: noon,
		Place: ledger.PlaceTransit, Account: "us/transit:eu", Asset: usd, Amount: amount("10"), Choices: []string{"retry", "compensate"},
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	owner := b.owner(t)
	actions := func() int { return queryInt(t, owner, "select count(*) from dead_letter_actions") }
	read := func(t *testing.T, page ledger.DeadLettersPage) []ledger.DeadLetter {
		t.Helper()
		page.Limit = 100
		letters, err := b.DeadLetters(t.Context(), page)
		require.NoError(t, err)
		return letters
	}
	put := func(t *testing.T, d ledger.DeadLetter) {
		t.Helper()
		require.NoError(t, b.DeadLetterPut(t.Context(), d))
	}

	open := deadLetter("t1")
	put(t, open)
	require.Equal(t, []ledger.DeadLetter{open}, read(t, ledger.DeadLettersPage{}))

	t.Run("a repeat changes nothing", func(t *testing.T) {
		put(t, open)
		require.Equal(t, 1, actions())
	})
	closed := open
	closed.State, closed.Parked, closed.Choices, closed.Resolution = ledger.DeadLetterClosed, false, []string{}, "retry by ann"
	t.Run("newer content replaces it", func(t *testing.T) {
		put(t, closed)
		require.Equal(t, []ledger.DeadLetter{closed}, read(t, ledger.DeadLettersPage{}))
		require.Equal(t, 2, actions())
	})
	t.Run("a repeat that arrives late does not open it again", func(t *testing.T) {
		put(t, open)
		earlier := open
		earlier.LastAt, earlier.Attempts = noon.Add(-time.Minute), 9
		put(t, earlier)
		require.Equal(t, []ledger.DeadLetter{closed}, read(t, ledger.DeadLettersPage{}))
		require.Equal(t, 2, actions())
	})
	t.Run("a later failure does", func(t *testing.T) {
		again := open
		again.LastAt, again.Attempts = noon.Add(time.Minute), 3
		put(t, again)
		require.Equal(t, []ledger.DeadLetter{again}, read(t, ledger.DeadLettersPage{}))
		put(t, closed)
		require.Equal(t, []ledger.DeadLetter{again}, read(t, ledger.DeadLettersPage{}), "its closing was of the failure before")
		require.Equal(t, 3, actions())
	})
	t.Run("newest first, filtered, cut", func(t *testing.T) {
		for i := range 5 {
			d := deadLetter(fmt.Sprint("n", i))
			d.LastAt = noon.Add(time.Duration(i) * time.Hour)
			if i%2 == 1 {
				d.State, d.Resolution = ledger.DeadLetterClosed, "done"
			}
			put(t, d)
		}
		var got []string
		for _, d := range read(t, ledger.DeadLettersPage{State: ledger.DeadLetterOpen}) {
			got = append(got, d.Transfer)
		}
		require.Equal(t, []string{"n4", "n2", "t1", "n0"}, got)
		one := read(t, ledger.DeadLettersPage{Key: "transfer/n3/deposit"})
		require.Len(t, one, 1)
		require.Equal(t, "n3", one[0].Transfer)
		require.Empty(t, read(t, ledger.DeadLettersPage{Key: "transfer/n3/deposit", State: ledger.DeadLetterOpen}))
		page, err := b.DeadLetters(t.Context(), ledger.DeadLettersPage{Limit: 2})
		require.NoError(t, err)
		require.Len(t, page, 2)
		_, err = b.DeadLetters(t.Context(), ledger.DeadLettersPage{})
		var invalid *ledger.InvalidError
		require.ErrorAs(t, err, &invalid)
	})
	t.Run("an error is evidence, whatever it contains", func(t *testing.T) {
		d := deadLetter("evidence")
		d.Error = "bad \x00\xff bytes " + strings.Repeat("é", 100_000)
		put(t, d)
		got := read(t, ledger.DeadLettersPage{Key: d.Key})
		require.Equal(t, ledger.ClipError(d.Error), got[0].Error)
	})
	t.Run("at once", func(t *testing.T) {
		before := actions()
		atOnce(20, func(i int) {
			d := deadLetter("at once")
			d.LastAt = noon.Add(time.Duration(i%4) * time.Second)
			assert.NoError(t, b.DeadLetterPut(t.Context(), d))
		})
		got := read(t, ledger.DeadLettersPage{Key: deadLetter("at once").Key})
		require.Equal(t, noon.Add(3*time.Second), got[0].LastAt)
		require.LessOrEqual(t, actions()-before, 4)
	})
	t.Run("malformed", func(t *testing.T) {
		d := deadLetter("x")
		d.Place = "moon"
		var invalid *ledger.InvalidError
		require.ErrorAs(t, b.DeadLetterPut(t.Context(), d), &invalid)
	})
}
