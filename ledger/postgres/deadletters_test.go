package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC)

// deadLetter is that of a parked refund.
func deadLetter(transfer string) ledger.DeadLetter {
	return ledger.DeadLetter{
		Key: ledger.Key("transfer/" + transfer + "/refund"), Transfer: transfer, Step: "refund", State: ledger.DeadLetterOpen,
		Parked: true, Run: "run-1", Parking: 1,
		Error: "refund on ledger us: the ledger is on fire", ErrorType: "LedgerError",
		Causes:   []ledger.ErrorCause{{Type: "*fmt.wrapError"}, {Type: "*errors.errorString", Text: "fire"}},
		Attempts: 10, FirstAt: noon.Add(-time.Hour), LastAt: noon, AsOf: noon,
		Place: ledger.PlaceTransit, Account: "us/transit:eu", Asset: usd, Amount: amount("10"),
		From: "us/alice", To: "eu/bob", Memo: "rent", Metadata: map[string]string{"k": "v"},
		Choices: []string{"retry", "compensate", "discard"},
	}
}

// endedLetter is that of a transfer that was compensated.
func endedLetter(transfer string) ledger.DeadLetter {
	d := deadLetter(transfer)
	d.Key, d.Step = ledger.Key("transfer/"+transfer+"/deposit"), "deposit"
	d.Parked, d.Parking, d.Ended = false, 0, "compensated"
	d.Place, d.Account = ledger.PlaceSource, "us/alice"
	d.Choices, d.Resolution = []string{"retry", "discard"}, "the transfer ended as compensated"
	return d
}

// closedBy is a letter after a person's decision, a moment later.
func closedBy(d ledger.DeadLetter, by string) ledger.DeadLetter {
	d.State, d.Parked, d.Choices, d.Resolution, d.AsOf = ledger.DeadLetterClosed, false, []string{}, "retry by "+by, d.AsOf.Add(time.Second)
	d.Decision = &ledger.Decision{ID: "retry-parking-1-" + by, Action: "retry", By: by, Reason: "it may work now"}
	return d
}

func (b *books) put(t *testing.T, d ledger.DeadLetter) {
	t.Helper()
	require.NoError(t, b.DeadLetterPut(t.Context(), d))
}

func (b *books) letter(t *testing.T, key ledger.Key) ledger.DeadLetterRecord {
	t.Helper()
	record, err := b.DeadLetter(t.Context(), key)
	require.NoError(t, err)
	return record
}

// asRead is a letter as the ledger gives it back.
func asRead(d ledger.DeadLetter, id, version int64) ledger.DeadLetter {
	d.Decision, d.ID, d.Version = nil, id, version
	return d
}

func actionsOf(record ledger.DeadLetterRecord) []string {
	var actions []string
	for _, action := range record.Actions {
		actions = append(actions, strings.TrimSpace(action.Action+" "+action.By))
	}
	return actions
}

func TestDeadLetterPut(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	open := deadLetter("t1")
	b.put(t, open)
	require.Equal(t, asRead(open, 1, 1), b.letter(t, open.Key).Letter)

	closed := closedBy(open, "ann")
	t.Run("a repeat changes nothing", func(t *testing.T) {
		b.put(t, open)
		require.Equal(t, []string{"set-aside"}, actionsOf(b.letter(t, open.Key)))
	})
	t.Run("a decision closes it, and says who and why", func(t *testing.T) {
		b.put(t, closed)
		b.put(t, closed)
		record := b.letter(t, open.Key)
		require.Equal(t, asRead(closed, 1, 2), record.Letter)
		require.Equal(t, []string{"set-aside", "retry ann"}, actionsOf(record))
		last := record.Decided()
		require.Equal(t, []string{"ann", "it may work now", "retry-parking-1-ann", "run-1"}, []string{last.By, last.Reason, last.UpdateID, last.Run})
		require.WithinDuration(t, time.Now(), last.At, time.Minute, "the database's clock, not the workflow's")
	})
	t.Run("a write that arrives late does not open it again", func(t *testing.T) {
		b.put(t, open)
		require.Equal(t, asRead(closed, 1, 2), b.letter(t, open.Key).Letter)
	})
	again := open
	again.Parking, again.LastAt, again.AsOf, again.Attempts = 2, noon.Add(time.Minute), noon.Add(time.Minute), 20
	t.Run("a later failure does", func(t *testing.T) {
		b.put(t, again)
		b.put(t, closed)
		record := b.letter(t, open.Key)
		require.Equal(t, asRead(again, 1, 3), record.Letter, "its closing was of the failure before")
		require.Equal(t, []string{"set-aside", "retry ann", "set-aside"}, actionsOf(record))
	})
	t.Run("a decision that arrives late is recorded all the same", func(t *testing.T) {
		late := closedBy(open, "bob")
		late.AsOf, late.Run = noon.Add(30*time.Second), "run-0"
		b.put(t, late)
		b.put(t, late)
		record := b.letter(t, open.Key)
		require.Equal(t, asRead(again, 1, 3), record.Letter)
		require.Equal(t, []string{"set-aside", "retry ann", "set-aside", "retry bob"}, actionsOf(record))
	})
	t.Run("the same decision as of another moment is the same", func(t *testing.T) {
		replayed := closed
		replayed.AsOf = noon.Add(20 * time.Second)
		b.put(t, replayed)
		require.Len(t, b.letter(t, open.Key).Actions, 4)
	})
	t.Run("the end says where the money is", func(t *testing.T) {
		ended := closedBy(again, "ann")
		ended.Decision, ended.Ended, ended.Place, ended.Account = nil, "compensated", ledger.PlaceSource, "us/alice"
		b.put(t, ended)
		record := b.letter(t, open.Key)
		require.Equal(t, asRead(ended, 1, 4), record.Letter)
		require.Equal(t, "end", actionsOf(record)[4])
	})
	t.Run("an error is evidence, whole, whatever it contains", func(t *testing.T) {
		d := deadLetter("evidence")
		d.Error = "bad \x00\xff bytes " + strings.Repeat("é", 90_000)
		b.put(t, d)
		require.Equal(t, strings.NewReplacer("\x00", "�", "\xff", "�").Replace(d.Error), b.letter(t, d.Key).Letter.Error)
		d.Error, d.AsOf = strings.Repeat("é", 1_000_000)+"the end", noon.Add(time.Second)
		b.put(t, d)
		require.Equal(t, ledger.ClipError(d.Error, ledger.ErrorBytesMax), b.letter(t, d.Key).Letter.Error)
	})
	t.Run("at once", func(t *testing.T) {
		atOnce(20, func(i int) {
			d := deadLetter("at once")
			d.AsOf = noon.Add(time.Duration(i%4) * time.Second)
			d.LastAt = d.AsOf
			assert.NoError(t, b.DeadLetterPut(t.Context(), d))
		})
		record := b.letter(t, deadLetter("at once").Key)
		require.Equal(t, noon.Add(3*time.Second), record.Letter.LastAt)
		require.Len(t, record.Actions, 4, "each write is one action, however often it arrives")
	})
	t.Run("malformed", func(t *testing.T) {
		for _, change := range []func(*ledger.DeadLetter){
			func(d *ledger.DeadLetter) { d.Place = "moon" },
			func(d *ledger.DeadLetter) { d.Decision = &ledger.Decision{Action: "retry"} },
			func(d *ledger.DeadLetter) { d.Memo = "\x00" },
		} {
			d := deadLetter("x")
			change(&d)
			var invalid *ledger.InvalidError
			require.ErrorAs(t, b.DeadLetterPut(t.Context(), d), &invalid)
		}
	})
	t.Run("none", func(t *testing.T) {
		_, err := b.DeadLetter(t.Context(), "transfer/nothing/post")
		require.ErrorIs(t, err, ledger.ErrDeadLetterUnknown)
	})
}

func TestDeadLetterDecide(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	decision := func(d ledger.DeadLetter, action, by string) ledger.DeadLetterDecision {
		return ledger.DeadLetterDecision{
			Decision: ledger.Decision{ID: action + "-version-1-" + by, Action: action, By: by, Reason: "because"},
			Key:      d.Key, Version: 1, Resolution: action + " by " + by,
		}
	}
	refused := func(t *testing.T, decision ledger.DeadLetterDecision) string {
		t.Helper()
		_, err := b.DeadLetterDecide(t.Context(), decision)
		require.ErrorIs(t, err, ledger.ErrDecisionRefused)
		return err.Error()
	}

	t.Run("once, however often it is asked", func(t *testing.T) {
		d := endedLetter("once")
		b.put(t, d)
		for range 3 {
			record, err := b.DeadLetterDecide(t.Context(), decision(d, "retry", "ann"))
			require.NoError(t, err)
			require.Equal(t, []any{ledger.DeadLetterClosed, "retry by ann", int64(2)}, []any{record.Letter.State, record.Letter.Resolution, record.Letter.Version})
			require.Equal(t, []string{"set-aside", "retry ann"}, actionsOf(record))
			require.Equal(t, ledger.PlaceSource, record.Letter.Place)
			require.Equal(t, map[string]string{"k": "v"}, record.Letter.Metadata, "the request, to be made anew")
		}
		require.Contains(t, refused(t, decision(d, "discard", "bob")), "ann decided to retry on 20")
		require.Contains(t, refused(t, decision(d, "retry", "bob")), "(because)")
		require.Len(t, b.letter(t, d.Key).Actions, 2)

		// Another run of that transfer meets the same end, which is decided about already.
		d.AsOf, d.Run = time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond), "run-2"
		b.put(t, d)
		require.Equal(t, ledger.DeadLetterClosed, b.letter(t, d.Key).Letter.State)
	})
	t.Run("one of many at once", func(t *testing.T) {
		d := endedLetter("many")
		b.put(t, d)
		var taken atomic.Int32
		atOnce(20, func(i int) {
			record, err := b.DeadLetterDecide(t.Context(), decision(d, []string{"retry", "discard"}[i%2], fmt.Sprint("person-", i)))
			if err == nil {
				taken.Add(1)
				return
			}
			assert.ErrorIs(t, err, ledger.ErrDecisionRefused)
			assert.ErrorContains(t, err, "person-")
			assert.Len(t, record.Actions, 2)
		})
		require.EqualValues(t, 1, taken.Load())
		require.Len(t, b.letter(t, d.Key).Actions, 2)
	})
	t.Run("not about what is past", func(t *testing.T) {
		d := endedLetter("stale")
		b.put(t, d)
		d.AsOf = d.AsOf.Add(time.Second)
		b.put(t, d)
		require.Contains(t, refused(t, decision(d, "retry", "ann")), "it is at version 2, and the decision is about version 1")
	})
	t.Run("not about what waits for its workflow", func(t *testing.T) {
		d := deadLetter("parked")
		b.put(t, d)
		require.Contains(t, refused(t, decision(d, "retry", "ann")), "has not ended")
		require.True(t, b.letter(t, d.Key).Letter.Parked)
	})
	t.Run("unless the transfer has ended in another run", func(t *testing.T) {
		for ended, want := range map[string][]any{
			"completed": {ledger.PlaceDestination, "eu/bob"}, "compensated": {ledger.PlaceSource, "us/alice"}, "discarded": {ledger.PlaceTransit, "us/transit:eu"},
		} {
			d := deadLetter("closed by force, " + ended)
			b.put(t, d)
			about := decision(d, "discard", "ann")
			about.Ended = ended
			record, err := b.DeadLetterDecide(t.Context(), about)
			require.NoError(t, err)
			require.Equal(t, ended, record.Letter.Ended)
			require.Equal(t, want, []any{record.Letter.Place, record.Letter.Account})
		}
	})
	t.Run("not what is no choice", func(t *testing.T) {
		d := endedLetter("choice")
		b.put(t, d)
		require.Contains(t, refused(t, decision(d, "compensate", "ann")), "choose retry or discard")
	})
	t.Run("none", func(t *testing.T) {
		_, err := b.DeadLetterDecide(t.Context(), decision(endedLetter("nothing"), "retry", "ann"))
		require.ErrorIs(t, err, ledger.ErrDeadLetterUnknown)
		nobody := decision(endedLetter("once"), "retry", "")
		var invalid *ledger.InvalidError
		_, err = b.DeadLetterDecide(t.Context(), nobody)
		require.ErrorAs(t, err, &invalid)
	})
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	for i := range 5 {
		d := deadLetter(fmt.Sprint("n", i))
		d.LastAt = noon.Add(time.Duration(i) * time.Hour)
		switch i {
		case 1:
			d.State, d.Parked, d.Resolution = ledger.DeadLetterClosed, false, "done"
		case 2:
			d.Step, d.Place, d.Parked, d.Ended = "deposit", ledger.PlaceSource, false, "compensated"
		case 3:
			d.Error, d.ErrorType = "Out of PAPER "+strings.Repeat("ü", 5_000), "Timeout"
		}
		b.put(t, d)
	}
	list := func(t *testing.T, page ledger.DeadLettersPage) []string {
		t.Helper()
		page.Limit = 100
		letters, err := b.DeadLetters(t.Context(), page)
		require.NoError(t, err)
		names := []string{}
		for i := range letters {
			names = append(names, letters[i].Transfer)
		}
		return names
	}
	for name, row := range map[string]struct {
		page ledger.DeadLettersPage
		want string
	}{
		"all, newest first": {ledger.DeadLettersPage{}, "n4 n3 n2 n1 n0"},
		"open":              {ledger.DeadLettersPage{State: ledger.DeadLetterOpen}, "n4 n3 n2 n0"},
		"closed":            {ledger.DeadLettersPage{State: ledger.DeadLetterClosed}, "n1"},
		"parked":            {ledger.DeadLettersPage{Parked: true}, "n4 n3 n0"},
		"transfer":          {ledger.DeadLettersPage{Transfer: "n3"}, "n3"},
		"step":              {ledger.DeadLettersPage{Step: "deposit"}, "n2"},
		"place":             {ledger.DeadLettersPage{Place: ledger.PlaceSource}, "n2"},
		"error text":        {ledger.DeadLettersPage{Error: "out of paper"}, "n3"},
		"error type":        {ledger.DeadLettersPage{Error: "LedgerError"}, "n4 n2 n1 n0"},
		"no part of a type": {ledger.DeadLettersPage{Error: "LedgerErr"}, ""},
		"since":             {ledger.DeadLettersPage{Since: noon.Add(3 * time.Hour)}, "n4 n3"},
		"until":             {ledger.DeadLettersPage{Until: noon.Add(time.Hour)}, "n0"},
		"several":           {ledger.DeadLettersPage{State: ledger.DeadLetterOpen, Parked: true, Error: "fire", Until: noon.Add(time.Hour)}, "n0"},
	} {
		require.Equal(t, strings.Fields(row.want), list(t, row.page), name)
	}

	t.Run("pages", func(t *testing.T) {
		// Several with one time: the cursor tells them apart.
		for i := range 7 {
			d := deadLetter(fmt.Sprint("same-", i))
			d.LastAt = noon.Add(2 * time.Hour)
			b.put(t, d)
		}
		var got []string
		page := ledger.DeadLettersPage{Limit: 2}
		for {
			letters, err := b.DeadLetters(t.Context(), page)
			require.NoError(t, err)
			for i := range letters {
				got = append(got, letters[i].Transfer)
			}
			if len(letters) < page.Limit {
				break
			}
			last := letters[len(letters)-1]
			page.After = &ledger.DeadLetterCursor{LastAt: last.LastAt, ID: last.ID}
		}
		require.Equal(t, list(t, ledger.DeadLettersPage{}), got)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(got))), 12)
		_, err := b.DeadLetters(t.Context(), ledger.DeadLettersPage{})
		var invalid *ledger.InvalidError
		require.ErrorAs(t, err, &invalid)
	})
	t.Run("brief", func(t *testing.T) {
		letters, err := b.DeadLetters(t.Context(), ledger.DeadLettersPage{Transfer: "n3", Limit: 1, Brief: true})
		require.NoError(t, err)
		require.LessOrEqual(t, len(letters[0].Error), ledger.ErrorBriefBytesMax)
		require.True(t, strings.HasPrefix(letters[0].Error, "Out of PAPER ü"))
		require.Empty(t, letters[0].Causes)
		require.Nil(t, letters[0].Metadata)
		whole, err := b.DeadLetters(t.Context(), ledger.DeadLettersPage{Transfer: "n3", Limit: 1})
		require.NoError(t, err)
		require.Len(t, whole[0].Error, len("Out of PAPER ")+10_000)
		require.Len(t, whole[0].Causes, 2)
	})
}
