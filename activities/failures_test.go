package activities_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"payonce/activities"
	"payonce/ledger"
)

// failing is a ledger whose every write goes wrong in one way.
type failing struct {
	activities.Ledger

	post func() error
}

func (f *failing) Post(context.Context, ledger.Operation) (ledger.Outcome, error) {
	return ledger.Outcome{}, f.post()
}

var posting = activities.StepInput{Ledger: "us", Key: "transfer/t1/post", From: "alice", To: "bob", Amount: "10", Asset: "USD"}

// runPost runs an activity as a worker does, and returns its error as Temporal records it.
func runPost(t *testing.T, post func() error) (*temporal.ApplicationError, activities.Failure) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	acts := activities.New(map[string]activities.Ledger{"us": &failing{post: post}})
	env.RegisterActivity(acts)
	_, err := env.ExecuteActivity(acts.Post, posting)
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	var failure activities.Failure
	require.NoError(t, application.Details(&failure))
	require.EqualValues(t, 1, failure.Attempt)
	return application, failure
}

// joined wraps in a way of its own.
type joined struct{ first, second error }

func (j joined) Error() string   { return "joined" }
func (j joined) Unwrap() []error { return []error{j.first, j.second} }

// Case 81 (PeerDB#3461): what can't succeed costs one attempt, however it is wrapped.
func TestPoisonWrapped(t *testing.T) {
	for name, row := range map[string]struct {
		err   error
		typ   string
		retry bool
	}{
		"conflict":   {ledger.ErrKeyConflict, activities.ErrorKeyConflict, false},
		"malformed":  {&ledger.InvalidError{Field: "amount", Reason: "no"}, activities.ErrorInvalidInput, false},
		"reversal":   {ledger.ErrReversalBlocked, activities.ErrorReversalBlocked, true},
		"outage":     {ledger.ErrUnavailable, activities.ErrorLedgerUnavailable, true},
		"unknown":    {ledger.ErrUnknownOutcome, activities.ErrorUnknownOutcome, true},
		"constraint": {errors.New("violates check constraint"), activities.ErrorLedger, true},
		"another activity's": {
			temporal.NewNonRetryableApplicationError("no", activities.ErrorInvalidInput, nil), activities.ErrorInvalidInput, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, err := range []error{
				fmt.Errorf("around it: %w", row.err),
				fmt.Errorf("twice: %w", fmt.Errorf("around it: %w: %w", io.EOF, row.err)),
				errors.Join(io.EOF, row.err),
				joined{io.EOF, row.err},
			} {
				got, _ := runPost(t, func() error { return err })
				require.Equal(t, row.typ, got.Type(), "%v", err)
				require.Equal(t, row.retry, !got.NonRetryable(), "%v", err)
			}
		})
	}
}

// A panic is an error like others: it costs an attempt, and takes no worker with it.
func TestPoisonPanicIsAnError(t *testing.T) {
	got, failure := runPost(t, func() error { panic("the invariant of postgres://app:hunter2@db/us is broken") })
	require.Equal(t, activities.ErrorPanic, got.Type())
	require.False(t, got.NonRetryable())
	require.Equal(t, "post on ledger us: panic: the invariant of postgres://app:***@db/us is broken", got.Message())
	require.Empty(t, failure.Error)

	got, failure = runPost(t, func() error {
		none := make([]error, 0, 1)
		return none[len(none)]
	})
	require.Equal(t, activities.ErrorPanic, got.Type())
	require.Len(t, failure.Causes, 1)
	require.Contains(t, failure.Causes[0].Type, "runtime.")
}

// An error is kept whole with the types of its chain, without secrets, and Temporal's own message is short.
func TestErrorKeptWhole(t *testing.T) {
	root := errors.New("password=hunter2 " + strings.Repeat("<root>", 20_000) + " the end")
	got, failure := runPost(t, func() error {
		return fmt.Errorf("insert entries: %w", fmt.Errorf("%w: %w", ledger.ErrUnknownOutcome, root))
	})
	require.LessOrEqual(t, len(got.Message()), 2_000)
	require.True(t, strings.HasPrefix(got.Message(), "post on ledger us: insert entries: the outcome is unknown: password=*** <root>"))
	require.True(t, strings.HasSuffix(got.Message(), "the end"))
	require.Equal(t, "post on ledger us: insert entries: the outcome is unknown: password=*** "+strings.Repeat("<root>", 20_000)+" the end", failure.Error)
	require.Equal(t, []ledger.ErrorCause{
		{Type: "*fmt.wrapError"}, {Type: "*fmt.wrapErrors"}, {Type: "*errors.errorString", Text: "the outcome is unknown"}, {Type: "*errors.errorString"},
	}, failure.Causes)

	_, failure = runPost(t, func() error { return errors.New(strings.Repeat("x", 5_000_000)) })
	require.LessOrEqual(t, len(failure.Error), ledger.ErrorBytesMax)
	require.Greater(t, len(failure.Error), ledger.ErrorBytesMax-200)
	require.Contains(t, failure.Error, "bytes left out")
}
