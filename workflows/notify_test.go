package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
	"payonce/workflows"
)

// toldBy runs a transfer and returns what its notifications were started with.
func toldBy(t *testing.T, l *ledgers, in workflows.TransferInput, started error) (told []workflows.NotificationInput, result workflows.TransferResult) {
	t.Helper()
	w := newWorld(t, l)
	w.listen(t, started, &told)
	result = w.transfer(t, in)
	return told, result
}

// listen keeps what notifications are started with, and has them end with err.
func (w *world) listen(t *testing.T, err error, told *[]workflows.NotificationInput) {
	t.Helper()
	w.OnWorkflow(workflows.NotificationWorkflow, mock.Anything, mock.Anything).Return(workflows.NotificationResult{}, err).Maybe()
	w.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
		var in workflows.NotificationInput
		require.NoError(t, args.Get(&in))
		require.Equal(t, workflows.NotificationWorkflowID(in.Endpoint, in.About, in.End), info.WorkflowExecution.ID)
		*told = append(*told, in)
	})
}

// Whatever its end is, each endpoint that a transfer names is told of it once.
func TestTransferTellsItsEnd(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		in      workflows.TransferInput
		ledgers ledgers
		state   workflows.State
		at      ledger.Place
	}{
		"completed":   {between, ledgers{withdraw: applied, deposit: applied}, workflows.StateCompleted, ledger.PlaceDestination},
		"rejected":    {within, ledgers{post: refused}, workflows.StateRejected, ledger.PlaceSource},
		"failed":      {within, ledgers{post: poison, resolvePost: sealedNow}, workflows.StateFailed, ledger.PlaceSource},
		"compensated": {between, ledgers{withdraw: applied, deposit: refused, refund: applied}, workflows.StateCompensated, ledger.PlaceSource},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := row.in
			in.Notify, in.Memo = []string{"ops", "mail"}, "a memo"
			told, result := toldBy(t, &row.ledgers, in, nil)
			require.Equal(t, row.state, result.State)
			require.Len(t, told, 2)
			// Both are started at once, and the environment runs them in whichever order.
			require.ElementsMatch(t, []string{"ops", "mail"}, []string{told[0].Endpoint, told[1].Endpoint})
			one := told[0]
			require.Equal(t, "transfer."+name, one.Event.Type)
			require.Equal(t, []any{"transfer/t1", row.state}, []any{one.About, one.End})
			want, err := json.Marshal(result)
			require.NoError(t, err)
			require.Equal(t, string(want), string(one.Event.Data))
			require.False(t, one.Event.Timestamp.IsZero())
			require.Contains(t, one.Text, "transfer t1: "+name+": 10.00 USD/2 from us/alice to ")
			require.Equal(t, []any{"t1", row.at, "a memo"}, []any{one.Letter.Transfer, one.Letter.Money.Place, one.Letter.Memo})
			told[1].Endpoint = one.Endpoint
			require.Equal(t, one, told[1], "all are told the same")
		})
	}
}

// That nobody could be told changes nothing.
func TestTransferEndsWhoeverIsTold(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"not started": testsuite.ErrMockStartChildWorkflowFailed,
		"failed":      errors.New("broken"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := within
			want := newWorld(t, &ledgers{post: applied}).transfer(t, in)
			in.Notify = []string{"ops"}
			_, got := toldBy(t, &ledgers{post: applied}, in, err)
			require.Equal(t, want, got)
		})
	}
	told, _ := toldBy(t, &ledgers{post: applied}, within, nil)
	require.Empty(t, told, "nobody asked")
}

// A cancelled transfer tells its end too.
func TestCancelledTransferTells(t *testing.T) {
	t.Parallel()
	in := within
	in.Notify = []string{"ops"}
	l := &ledgers{post: poison, resolvePost: sealedNow}
	w := newWorld(t, l)
	var told []workflows.NotificationInput
	w.listen(t, nil, &told)
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Second)
	require.Equal(t, workflows.StateCancelled, w.transfer(t, in).State)
	require.Len(t, told, 1)
	require.Equal(t, "transfer.cancelled", told[0].Event.Type)
}

func TestNotifyIsChecked(t *testing.T) {
	t.Parallel()
	nine := strings.Split("a,b,c,d,e,f,g,h,i", ",")
	for name, row := range map[string]struct {
		notify []string
		err    string
	}{
		"none":    {nil, ""},
		"eight":   {nine[:8], ""},
		"longest": {[]string{strings.Repeat("a", 20)}, ""},
		"nine":    {nine, "there are 9; at most 8 are told"},
		"twice":   {[]string{"a", "b", "a"}, `"a" is there twice`},
		"longer":  {[]string{strings.Repeat("a", 21)}, "does not name an endpoint"},
		"empty":   {[]string{""}, "does not name an endpoint"},
		"upper":   {[]string{"Ops"}, "does not name an endpoint"},
		"slash":   {[]string{"a/b"}, "does not name an endpoint"},
		"digit":   {[]string{"1a"}, "does not name an endpoint"},
	} {
		in := within
		in.Notify = row.notify
		_, err := workflows.ParseTransfer(in)
		if row.err == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, row.err, name)
		var invalid *ledger.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "notify", invalid.Field)
	}
	told := within
	told.Notify = []string{"ops"}
	require.True(t, within.SameRequest(told), "who is told is not part of what is asked for")
}

// The longest of all keys fits into a dead letter; a notification's ID is nobody else's, and tells what it is about.
func TestNotificationWorkflowID(t *testing.T) {
	t.Parallel()
	about := workflows.TransferWorkflowID(strings.Repeat("x", workflows.TransferIDBytesMax))
	longest := workflows.NotificationWorkflowID(strings.Repeat("a", workflows.EndpointBytesMax), about, workflows.StateCompensated)
	require.LessOrEqual(t, len(workflows.StepKey(longest, workflows.StepNotify)), ledger.KeyBytesMax)
	for _, id := range []string{"rent", "a/b", "rent/notify/completed", "notify/ops/transfer/rent/completed"} {
		about, ok := workflows.NotifiedAbout(workflows.NotificationWorkflowID("ops", workflows.TransferWorkflowID(id), workflows.StateFailed))
		require.True(t, ok)
		require.Equal(t, workflows.TransferWorkflowID(id), about)
		_, ok = workflows.NotifiedAbout(workflows.TransferWorkflowID(id))
		require.False(t, ok)
	}
	for _, other := range []string{"", "notify/", "notify/ops", "notify/ops/completed", "notify/Ops/transfer/rent/completed", "notify/ops/transfer/rent/running"} {
		_, ok := workflows.NotifiedAbout(other)
		require.False(t, ok, other)
	}
}

// A transfer that tells somebody does not travel in a group.
func TestGroupHandsOnWhatTells(t *testing.T) {
	t.Parallel()
	w := newGroupWorld(t, workflows.DefaultOptions(), func(_ int, in activities.PostGroupInput) (activities.PostGroupOutput, error) {
		require.Len(t, in.Steps, 1)
		return activities.PostGroupOutput{Answers: []activities.PostAnswer{{State: ledger.OutcomeApplied}}}, nil
	})
	tells, other := within, within
	tells.Notify, other.ID = []string{"ops"}, "t2"
	ends, err := w.run(t, tells, other)
	require.NoError(t, err)
	require.Equal(t, []workflows.State{workflows.StateRunning, workflows.StateCompleted}, []workflows.State{ends[0].State, ends[1].State})
	require.Equal(t, []string{"transfer/t1"}, w.handed)
}

var notificationIn = workflows.NotificationInput{
	Endpoint: "ops", About: "transfer/t1", End: workflows.StateCompleted,
	Event: activities.NotifyEvent{Type: "transfer.completed", Timestamp: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Data: json.RawMessage(`{"id":"t1"}`)},
	Text:  "transfer t1: completed: 10.00 USD/2 from us/alice to eu/bob",
	Letter: workflows.NotificationLetter{
		Transfer: "t1", From: "us/alice", To: "eu/bob", Memo: "a memo",
		Money: workflows.Whereabouts{Place: ledger.PlaceDestination, Account: "eu/bob", Amount: "10.00", Asset: "USD/2"},
	},
}

// notificationWorld runs a Notification whose endpoint answers by a script; the last answer is repeated.
type notificationWorld struct {
	*testsuite.TestWorkflowEnvironment

	answers []error
	asked   []activities.Notification
	at      []time.Time
	letters []activities.DeadLetterView
}

func (w *notificationWorld) Notify(_ context.Context, n activities.Notification) error {
	w.asked = append(w.asked, n)
	w.at = append(w.at, w.Now())
	return w.answers[min(len(w.asked), len(w.answers))-1]
}

func newNotificationWorld(answers ...error) *notificationWorld {
	var suite testsuite.WorkflowTestSuite
	w := &notificationWorld{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), answers: answers}
	w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	workflows.New(workflows.DefaultOptions()).Register(w)
	w.RegisterActivity(activities.NewNotifications(map[string]activities.Notifier{"ops": w}))
	w.RegisterActivityWithOptions(func(_ context.Context, in activities.DeadLetterView) error {
		w.letters = append(w.letters, in)
		return nil
	}, activity.RegisterOptions{Name: "DeadLetterRecord"})
	return w
}

func (w *notificationWorld) run(t *testing.T, in workflows.NotificationInput) (result workflows.NotificationResult) {
	t.Helper()
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{
		ID: workflows.NotificationWorkflowID(in.Endpoint, in.About, in.End), TaskQueue: workflows.TaskQueue,
	})
	w.ExecuteWorkflow(workflows.NotificationWorkflow, in)
	require.True(t, w.IsWorkflowCompleted())
	require.NoError(t, w.GetWorkflowError())
	require.NoError(t, w.GetWorkflowResult(&result))
	return result
}

// decideAfter decides about the parking that is there by then.
func (w *notificationWorld) decideAfter(t *testing.T, after time.Duration, decision workflows.Decision) {
	t.Helper()
	w.RegisterDelayedCallback(func() {
		w.UpdateWorkflow(workflows.DecideUpdate, decision.UpdateID(), &testsuite.TestUpdateCallback{
			OnAccept:   func() {},
			OnReject:   func(err error) { t.Errorf("refused: %v", err) },
			OnComplete: func(any, error) {},
		}, decision)
	}, after)
}

func TestNotificationDelivered(t *testing.T) {
	t.Parallel()
	w := newNotificationWorld(errors.New("connection reset"), errors.New("connection reset"), nil)
	result := w.run(t, notificationIn)
	require.Equal(t, workflows.StateDelivered, result.State)
	require.Len(t, w.asked, 3)
	require.Equal(t, "notify/ops/transfer/t1/completed", w.asked[0].Key)
	require.Equal(t, w.asked[0], w.asked[1])
	require.Equal(t, w.asked[0], w.asked[2])
	require.Empty(t, w.letters)
}

// When attempts run out, or are refused, a dead letter waits for a person. A retry makes fresh attempts under the same key.
func TestNotificationParked(t *testing.T) {
	t.Parallel()
	refused := &activities.NotifyError{Err: errors.New("the reply is 410 Gone"), Refused: true}
	for name, row := range map[string]struct {
		answer   error
		attempts int
		typ      string
		text     string
	}{
		"attempts": {errors.New("connection refused"), 12, activities.ErrorLedger, "tell ops: connection refused"},
		"no reply": {&activities.NotifyError{Err: errors.New("connection refused")}, 12, activities.ErrorNotify, "tell ops: connection refused"},
		"refused":  {refused, 1, activities.ErrorNotifyRefused, "tell ops: the reply is 410 Gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newNotificationWorld(append(slices.Repeat([]error{row.answer}, row.attempts), nil)...)
			w.decideAfter(t, 24*time.Hour, workflows.Decision{Action: workflows.ActionRetry, Parking: 1, By: "ann"})
			require.Equal(t, workflows.StateDelivered, w.run(t, notificationIn).State)
			require.Len(t, w.asked, row.attempts+1)
			require.Equal(t, w.asked[0], w.asked[row.attempts])
			require.Len(t, w.letters, 3)
			open, decided, ended := w.letters[0], w.letters[1], w.letters[2]
			require.Equal(t, []any{"us", "notify/ops/transfer/t1/completed/notify", "t1", "notify"}, []any{open.Ledger, open.Key, open.Transfer, open.Step})
			require.Equal(t, []any{ledger.DeadLetterOpen, true, row.attempts, row.typ, row.text}, []any{open.State, open.Parked, open.Attempts, open.ErrorType, open.Error})
			require.Equal(t, []any{ledger.PlaceDestination, "eu/bob", "10.00", "USD/2"}, []any{open.Place, open.Account, open.Amount, open.Asset})
			require.Equal(t, []string{"retry", "discard"}, open.Choices)
			require.Equal(t, []any{ledger.DeadLetterClosed, "ann"}, []any{decided.State, decided.Decision.By})
			require.Equal(t, []any{"delivered", "retry by ann; the notification ended as delivered"}, []any{ended.Ended, ended.Resolution})
		})
	}
}

// A discard ends it. No money is in question, so nobody has to say that it was settled.
func TestNotificationDiscarded(t *testing.T) {
	t.Parallel()
	w := newNotificationWorld(&activities.NotifyError{Err: errors.New("gone"), Refused: true})
	w.decideAfter(t, time.Hour, workflows.Decision{Action: workflows.ActionDiscard, Parking: 1, By: "ann", Reason: "told by phone"})
	require.Equal(t, workflows.StateDiscarded, w.run(t, notificationIn).State)
	require.Len(t, w.asked, 1)
	require.Equal(t, "discarded", w.letters[len(w.letters)-1].Ended)
}

// A name that the worker does not have is not tried for ever, and the letter says what to set.
func TestNotificationOfUnknownEndpoint(t *testing.T) {
	t.Parallel()
	in := notificationIn
	in.Endpoint = "opps"
	w := newNotificationWorld(nil)
	w.decideAfter(t, time.Minute, workflows.Decision{Action: workflows.ActionDiscard, Parking: 1, By: "ann", Reason: "misspelt"})
	w.run(t, in)
	require.Equal(t, []any{activities.ErrorEndpointUnknown, 1}, []any{w.letters[0].ErrorType, w.letters[0].Attempts})
	require.Contains(t, w.letters[0].Error, "set it in NOTIFY")
}

// Without a worker that has endpoints, the wait is bounded too.
func TestNotificationThatNoWorkerTakes(t *testing.T) {
	t.Parallel()
	w := newNotificationWorld(nil)
	w.OnActivity("Notify", mock.Anything, mock.Anything).Return(func(context.Context, activities.NotifyInput) error {
		return temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	}).Maybe()
	w.decideAfter(t, time.Hour, workflows.Decision{Action: workflows.ActionDiscard, Parking: 1, By: "ann", Reason: "nobody to tell"})
	w.run(t, notificationIn)
	require.Equal(t, []any{activities.ErrorEndpointUnknown, 0}, []any{w.letters[0].ErrorType, w.letters[0].Attempts})
	require.Contains(t, w.letters[0].Error, "set NOTIFY")
}

// Retry-After is honoured within bounds.
func TestNotificationRetryAfter(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) error {
		return &activities.NotifyError{Err: errors.New("the reply is 503"), RetryAfter: d}
	}
	w := newNotificationWorld(after(90*time.Second), after(100*24*time.Hour), nil)
	w.run(t, notificationIn)
	require.Len(t, w.at, 3)
	require.Equal(t, 90*time.Second, w.at[1].Sub(w.at[0]).Round(time.Second))
	require.Equal(t, time.Hour, w.at[2].Sub(w.at[1]).Round(time.Second))
}

// Cancelling a notification does not keep it from telling.
func TestNotificationIsNotCancelled(t *testing.T) {
	t.Parallel()
	w := newNotificationWorld(errors.New("not yet"), nil)
	w.RegisterDelayedCallback(w.CancelWorkflow, 500*time.Millisecond)
	require.Equal(t, workflows.StateDelivered, w.run(t, notificationIn).State)
}

func TestNotificationMalformed(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*workflows.NotificationInput){
		"endpoint": func(in *workflows.NotificationInput) { in.Endpoint = "Ops" },
		"account":  func(in *workflows.NotificationInput) { in.Letter.From = "" },
	} {
		in := notificationIn
		spoil(&in)
		w := newNotificationWorld(nil)
		w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.NotificationWorkflowID(in.Endpoint, in.About, in.End)})
		w.ExecuteWorkflow(workflows.NotificationWorkflow, in)
		require.Equal(t, workflows.ErrorInvalidInput, applicationErrorType(t, w.GetWorkflowError()), name)
	}
	w := newNotificationWorld(nil)
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "notify/other/transfer/t1/completed"})
	w.ExecuteWorkflow(workflows.NotificationWorkflow, notificationIn)
	require.Equal(t, workflows.ErrorInvalidInput, applicationErrorType(t, w.GetWorkflowError()))
	require.Empty(t, w.asked)
}

// A payout tells each of its ends: what it is paid, and days later that it bounced.
func TestPayoutTellsItsEnds(t *testing.T) {
	t.Parallel()
	in := payoutIn
	in.Notify = []string{"ops"}
	for _, row := range []struct {
		script payoutScript
		end    workflows.State
		place  ledger.Place
	}{
		{payoutScript{rail: []string{"submit settled"}}, workflows.StateSettled, ledger.PlaceDestination},
		{
			payoutScript{
				books: map[ledger.Kind]ledger.OutcomeState{ledger.KindReserve: ledger.OutcomeApplied, ledger.KindSettle: ledger.OutcomeApplied},
				run:   "another", rail: []string{"lookup returned"},
			},
			workflows.StateReturned, ledger.PlaceSource,
		},
	} {
		w := newPayoutWorld(t, &row.script)
		var told []workflows.NotificationInput
		(&world{TestWorkflowEnvironment: w.TestWorkflowEnvironment}).listen(t, nil, &told)
		w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.PayoutWorkflowID(in.ID), TaskQueue: workflows.TaskQueue})
		w.ExecuteWorkflow(workflows.PayoutWorkflow, in)
		require.NoError(t, w.GetWorkflowError())
		require.Len(t, told, 1)
		require.Equal(t, []any{"payout." + string(row.end), "payout/p1", row.end}, []any{told[0].Event.Type, told[0].About, told[0].End})
		require.Equal(t, []any{"payout/p1", row.place}, []any{told[0].Letter.Transfer, told[0].Letter.Money.Place})
	}
}
