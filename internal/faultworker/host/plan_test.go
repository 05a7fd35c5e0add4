package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/internal/faultworker/fault"
	"payonce/ledger"
)

// fakeLedger applies whatever it is asked to.
type fakeLedger struct {
	activities.Ledger

	onPost func(context.Context)
	err    error

	mu    sync.Mutex
	posts int
	seals int
}

func (l *fakeLedger) Post(ctx context.Context, operation ledger.Operation) (ledger.Outcome, error) {
	l.mu.Lock()
	l.posts++
	repeat := l.posts > 1
	l.mu.Unlock()
	if l.onPost != nil {
		l.onPost(ctx)
	}
	return ledger.Outcome{Key: operation.Key, State: ledger.OutcomeApplied, Repeat: repeat}, l.err
}

func (l *fakeLedger) Resolve(_ context.Context, seal ledger.Seal) (ledger.Outcome, error) {
	l.seals++
	return ledger.Outcome{Key: seal.Operation.Key, State: ledger.OutcomeSealed, Code: seal.Code}, l.err
}

// broken is a fake ledger under faults, and what is announced.
func broken(t *testing.T, faults ...string) (*faultyLedger, *fakeLedger, func() []fault.Event) {
	t.Helper()
	var parsed []fault.Fault
	for _, text := range faults {
		f, err := fault.Parse(text)
		require.NoError(t, err)
		parsed = append(parsed, f)
	}
	var out bytes.Buffer
	books := &fakeLedger{}
	l := &faultyLedger{Ledger: books, plan: newPlan(parsed, newAnnouncer(&out), newPolls(nil, true, nil), nil)}
	return l, books, func() []fault.Event {
		var events []fault.Event
		for decoder := json.NewDecoder(bytes.NewReader(out.Bytes())); decoder.More(); {
			var e fault.Event
			require.NoError(t, decoder.Decode(&e))
			events = append(events, e)
		}
		return events
	}
}

func post(l *faultyLedger, key ledger.Key) (ledger.Outcome, error) {
	return l.Post(context.Background(), anOperation(key))
}

func TestWithoutFaultsAnswersAreAnnounced(t *testing.T) {
	t.Parallel()
	l, _, events := broken(t)
	outcome, err := post(l, "transfer/a/withdraw")
	require.NoError(t, err)
	require.Equal(t, ledger.OutcomeApplied, outcome.State)
	_, err = l.Resolve(t.Context(), ledger.Seal{Operation: anOperation("transfer/a/deposit"), Code: ledger.CodeCancelled})
	require.NoError(t, err)

	got := events()
	require.Len(t, got, 2)
	require.Equal(t, fault.EventAnswer, got[0].Event)
	require.Equal(t, "withdraw/after", got[0].Point.String())
	require.Equal(t, "transfer/a/withdraw", got[0].Key)
	require.Equal(t, ledger.OutcomeApplied, got[0].State)
	require.False(t, got[0].Repeat)
	require.Equal(t, "resolve/after", got[1].Point.String())
	require.Equal(t, ledger.OutcomeSealed, got[1].State)
	require.Equal(t, ledger.CodeCancelled, got[1].Code)
}

func TestFailBeforeKeepsTheWriteFromTheLedger(t *testing.T) {
	t.Parallel()
	l, books, events := broken(t, "withdraw/before=fail")
	_, err := post(l, "transfer/a/withdraw")
	require.Error(t, err)
	require.Zero(t, books.posts)
	require.Equal(t, fault.EventFault, events()[0].Event)
	require.Equal(t, fault.ActionFail, events()[0].Action)

	_, err = post(l, "transfer/a/withdraw")
	require.NoError(t, err, "it strikes once")
	require.Equal(t, 1, books.posts)
}

func TestDropLosesTheAnswerOfAWriteThatWasMade(t *testing.T) {
	t.Parallel()
	l, books, events := broken(t, "withdraw/after=drop")
	outcome, err := post(l, "transfer/a/withdraw")
	require.ErrorIs(t, err, ledger.ErrUnknownOutcome)
	require.Zero(t, outcome)
	require.Equal(t, 1, books.posts)
	require.Equal(t, []fault.EventName{fault.EventAnswer, fault.EventFault}, names(events()))
}

// After means after COMMIT: a write that was not made has no answer to lose.
func TestAfterDoesNotStrikeAWriteThatFailed(t *testing.T) {
	t.Parallel()
	l, books, events := broken(t, "withdraw/after=drop")
	books.err = errors.New("the ledger is on fire")
	_, err := post(l, "transfer/a/withdraw")
	require.ErrorIs(t, err, books.err)
	require.Equal(t, []fault.EventName{fault.EventAnswer}, names(events()))
	require.Equal(t, "the ledger is on fire", events()[0].Error)
}

func TestFailReturnsTheErrorThatItIsTold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"withdraw/before=fail;error=unavailable": ledger.ErrUnavailable,
		"withdraw/before=fail;error=unknown":     ledger.ErrUnknownOutcome,
	} {
		l, _, _ := broken(t, text)
		_, err := post(l, "transfer/a/withdraw")
		require.ErrorIs(t, err, want)
	}
	l, _, _ := broken(t, "withdraw/before=fail")
	_, err := post(l, "transfer/a/withdraw")
	require.NotErrorIs(t, err, ledger.ErrUnavailable)
	require.NotErrorIs(t, err, ledger.ErrUnknownOutcome)
}

func TestPanic(t *testing.T) {
	t.Parallel()
	l, books, events := broken(t, "withdraw/after=panic")
	require.Panics(t, func() { _, _ = post(l, "transfer/a/withdraw") })
	require.Equal(t, 1, books.posts)
	require.Equal(t, []fault.EventName{fault.EventAnswer, fault.EventFault}, names(events()))
}

func TestHowOftenFaultsStrike(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		faults []string
		want   string // of six writes: x fails
	}{
		"once":            {[]string{"withdraw/before=fail"}, "x....."},
		"three times":     {[]string{"withdraw/before=fail:3"}, "xxx..."},
		"always":          {[]string{"withdraw/before=fail:always"}, "xxxxxx"},
		"after two":       {[]string{"withdraw/before=fail:2;skip=2"}, "..xx.."},
		"two faults":      {[]string{"withdraw/before=fail", "withdraw/before=fail;skip=1"}, "x.x..."},
		"another's":       {[]string{"withdraw/before=fail:always;transfer=b"}, "......"},
		"another's point": {[]string{"deposit/before=fail:always"}, "......"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _, events := broken(t, row.faults...)
			got := ""
			for range len(row.want) {
				if _, err := post(l, "transfer/a/withdraw"); err != nil {
					got += "x"
				} else {
					got += "."
				}
			}
			require.Equal(t, row.want, got)
			struck := 0
			for _, e := range events() {
				if e.Event == fault.EventFault {
					struck++
				}
			}
			require.Equal(t, len(row.want)-len(bytes.ReplaceAll([]byte(row.want), []byte("x"), nil)), struck, "each is announced")
		})
	}
}

// A blocked attempt outlives its deadline, and then asks the ledger all the same.
func TestBlockIgnoresTheDeadline(t *testing.T) {
	t.Parallel()
	l, books, events := broken(t, "withdraw/before=block")
	var late error
	books.onPost = func(ctx context.Context) { late = ctx.Err() }
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	outcome, err := l.Post(ctx, anOperation("transfer/a/withdraw"))
	require.NoError(t, err)
	require.Equal(t, ledger.OutcomeApplied, outcome.State)
	require.Error(t, ctx.Err(), "it went on after the deadline")
	require.NoError(t, late, "the ledger did not see the deadline")
	require.Equal(t, []fault.EventName{fault.EventFault, fault.EventResumed, fault.EventAnswer}, names(events()))
	require.Greater(t, events()[1].At.Sub(events()[0].At), blockExcess)
}

func TestBlockForATime(t *testing.T) {
	t.Parallel()
	l, _, events := broken(t, "withdraw/after=block;for=30ms")
	_, err := post(l, "transfer/a/withdraw")
	require.NoError(t, err)
	require.Equal(t, []fault.EventName{fault.EventAnswer, fault.EventFault, fault.EventResumed}, names(events()))
	require.GreaterOrEqual(t, events()[2].At.Sub(events()[1].At), 30*time.Millisecond)
}

func names(events []fault.Event) []fault.EventName {
	all := make([]fault.EventName, 0, len(events))
	for i := range events {
		all = append(all, events[i].Event)
	}
	return all
}
