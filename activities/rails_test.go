package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"payonce/activities"
)

// scriptedRail answers everything alike.
type scriptedRail struct {
	answer activities.RailAnswer
	err    error
	asked  int
	until  time.Time // the deadline of the last call
}

func (r *scriptedRail) Submit(ctx context.Context, _ activities.RailPayment) (activities.RailAnswer, error) {
	r.asked++
	r.until, _ = ctx.Deadline()
	return r.answer, r.err
}

func (r *scriptedRail) Lookup(context.Context, string) (activities.RailAnswer, error) {
	r.asked++
	return r.answer, r.err
}

// railError is an error as a rail's adapter has it.
type railError struct{ outage, conflict, invalid bool }

func (e *railError) Error() string             { return "no word" }
func (e *railError) Outage() bool              { return e.outage }
func (e *railError) KeyConflict() bool         { return e.conflict }
func (e *railError) Invalid() bool             { return e.invalid }
func (e *railError) RetryAfter() time.Duration { return 7 * time.Second }

// run executes an activity of the rail "bank".
func (r *scriptedRail) run(t *testing.T, name string, kept time.Duration, in any) error {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(activities.NewRails(map[string]activities.ServedRail{"bank": {Rail: r, KeysKept: kept}}))
	_, err := env.ExecuteActivity(name, in)
	return err
}

// Past the time for which the rail keeps the key, nothing is sent; before it, nothing is sent for longer than that.
func TestRailKeyExpires(t *testing.T) {
	t.Parallel()
	submit := func(age time.Duration) (*scriptedRail, error) {
		r := &scriptedRail{answer: activities.RailAnswer{State: activities.RailPending}}
		err := r.run(t, "RailSubmit", 10*time.Minute, activities.RailSubmitInput{Rail: "bank", Since: time.Now().Add(-age)})
		return r, err
	}
	for _, age := range []time.Duration{9*time.Minute + time.Second, 10 * time.Minute, 1000 * time.Hour} {
		r, err := submit(age)
		var application *temporal.ApplicationError
		require.ErrorAs(t, err, &application)
		require.Equal(t, activities.ErrorRailKeyExpired, application.Type())
		require.True(t, application.NonRetryable())
		require.Zero(t, r.asked, "a tenth of the time is for clocks that differ")
	}
	r, err := submit(8 * time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, r.asked)
	require.WithinDuration(t, time.Now().Add(time.Minute), r.until, 30*time.Second)
}

// What a rail's error says of itself decides what is done about it, however it is wrapped.
func TestRailErrors(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err   error
		typ   string
		retry bool
	}{
		{&railError{outage: true}, activities.ErrorRailUnavailable, true},
		{&railError{conflict: true}, activities.ErrorRailKeyConflict, false},
		{&railError{invalid: true}, activities.ErrorRailInvalid, false},
		{&railError{}, activities.ErrorRail, true},
		{errors.New("a defect"), activities.ErrorLedger, true},
	} {
		r := &scriptedRail{err: fmt.Errorf("wrapped: %w", row.err)}
		err := r.run(t, "RailLookup", time.Hour, activities.RailAskInput{Rail: "bank", Reference: "p1"})
		var application *temporal.ApplicationError
		require.ErrorAs(t, err, &application)
		require.Equal(t, row.typ, application.Type())
		require.Equal(t, row.retry, !application.NonRetryable())
		var failure activities.Failure
		require.NoError(t, application.Details(&failure))
		if row.typ != activities.ErrorLedger {
			require.Equal(t, 7*time.Second, failure.RetryAfter)
		}
	}
}

// A word that is none is no word, and what the rail can't do it is not asked.
func TestRailWords(t *testing.T) {
	t.Parallel()
	ask := activities.RailAskInput{Rail: "bank", Reference: "p1"}
	for _, word := range []activities.RailState{"", "paid", "SETTLED"} {
		err := (&scriptedRail{answer: activities.RailAnswer{State: word}}).run(t, "RailLookup", time.Hour, ask)
		require.ErrorContains(t, err, "none that is known")
	}
	err := (&scriptedRail{}).run(t, "RailCancel", time.Hour, ask)
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	require.Equal(t, activities.ErrorRailCantCancel, application.Type())
	ask.Rail = "another"
	err = (&scriptedRail{}).run(t, "RailLookup", time.Hour, ask)
	require.ErrorAs(t, err, &application)
	require.Equal(t, activities.ErrorRailNotServed, application.Type())
}
