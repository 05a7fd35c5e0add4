package workflows_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
	"payonce/workflows"
)

// groupWorld runs a TransferGroup whose posts are answered by a script.
type groupWorld struct {
	*testsuite.TestWorkflowEnvironment

	asked  []string // the calls of PostGroup: "fast us 2", "durable us 2"
	handed []string // the transfers that went on as workflows of their own
}

func newGroupWorld(t *testing.T, options workflows.Options, post func(call int, in activities.PostGroupInput) (activities.PostGroupOutput, error)) *groupWorld {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	w := &groupWorld{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment()}
	workflows.New(options).Register(w)
	w.RegisterActivityWithOptions(func(ctx context.Context, in activities.PostGroupInput) (activities.PostGroupOutput, error) {
		way := "durable "
		if activity.GetInfo(ctx).IsLocalActivity {
			way = "fast "
		}
		w.asked = append(w.asked, way+in.Ledger)
		return post(len(w.asked), in)
	}, activity.RegisterOptions{Name: "PostGroup"})
	w.OnWorkflow(workflows.TransferWorkflow, mock.Anything, mock.Anything).Return(workflows.TransferResult{}, nil).Maybe()
	w.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		w.handed = append(w.handed, info.WorkflowExecution.ID)
	})
	return w
}

func (w *groupWorld) run(t *testing.T, transfers ...workflows.TransferInput) ([]workflows.GroupEnd, error) {
	t.Helper()
	w.ExecuteWorkflow(workflows.TransferGroupWorkflow, workflows.GroupInput{Transfers: transfers})
	require.True(t, w.IsWorkflowCompleted())
	var result workflows.GroupResult
	err := w.GetWorkflowError()
	if err == nil {
		require.NoError(t, w.GetWorkflowResult(&result))
		require.Len(t, result.Ends, len(transfers))
	}
	slices.Sort(w.handed)
	return result.Ends, err
}

// requests are transfers within us, with these IDs.
func requests(ids ...string) []workflows.TransferInput {
	var all []workflows.TransferInput
	for _, id := range ids {
		in := within
		in.ID = id
		all = append(all, in)
	}
	return all
}

func answered(answers ...activities.PostAnswer) activities.PostGroupOutput {
	return activities.PostGroupOutput{Answers: answers}
}

// Each answer leads to one end; what has no outcome goes on alone.
func TestGroupEnds(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	rows := []struct {
		id     string
		answer activities.PostAnswer
		want   workflows.GroupEnd
	}{
		{"applied", activities.PostAnswer{State: ledger.OutcomeApplied, At: at}, workflows.GroupEnd{State: workflows.StateCompleted, At: at}},
		{"repeat", activities.PostAnswer{State: ledger.OutcomeApplied, At: at, Repeat: true}, workflows.GroupEnd{State: workflows.StateCompleted, At: at, Repeat: true}},
		{
			"refused",
			activities.PostAnswer{State: ledger.OutcomeRefused, Code: ledger.CodeInsufficientFunds, Detail: "too little", At: at},
			workflows.GroupEnd{State: workflows.StateRejected, Code: ledger.CodeInsufficientFunds, Detail: "too little", At: at},
		},
		{
			"exhausted",
			activities.PostAnswer{State: ledger.OutcomeSealed, Code: ledger.CodeAttemptsExhausted, At: at},
			workflows.GroupEnd{State: workflows.StateFailed, Code: ledger.CodeAttemptsExhausted, At: at},
		},
		{
			"cancelled",
			activities.PostAnswer{State: ledger.OutcomeSealed, Code: ledger.CodeCancelled, At: at},
			workflows.GroupEnd{State: workflows.StateCancelled, Code: ledger.CodeCancelled, At: at},
		},
		{"conflict", activities.PostAnswer{Error: activities.ErrorKeyConflict}, workflows.GroupEnd{Error: workflows.ErrorKeyConflict}},
		{"lost", activities.PostAnswer{Error: activities.ErrorUnknownOutcome}, workflows.GroupEnd{State: workflows.StateRunning}},
		{"poison", activities.PostAnswer{Error: activities.ErrorPanic}, workflows.GroupEnd{State: workflows.StateRunning}},
	}
	var ids []string
	var answers []activities.PostAnswer
	for _, row := range rows {
		ids, answers = append(ids, row.id), append(answers, row.answer)
	}
	w := newGroupWorld(t, workflows.DefaultOptions(), func(_ int, in activities.PostGroupInput) (activities.PostGroupOutput, error) {
		for i, step := range in.Steps {
			require.Equal(t, workflows.StepKey(workflows.TransferWorkflowID(ids[i]), workflows.StepPost), step.Key, "the key that it has alone")
		}
		return answered(answers...), nil
	})
	got, err := w.run(t, requests(ids...)...)
	require.NoError(t, err)
	for i, row := range rows {
		require.Equal(t, row.want, got[i], row.id)
	}
	require.Equal(t, []string{"fast us"}, w.asked)
	require.Equal(t, []string{"transfer/lost", "transfer/poison"}, w.handed)
}

// What does not belong into the group spoils nobody: a malformed request ends with its reason, and transfers to, or on,
// another ledger go on alone.
func TestGroupMixed(t *testing.T) {
	t.Parallel()
	all := requests("one", "malformed", "away", "elsewhere", "two")
	all[1].Amount = "1e3"
	all[2].To = "eu/bob"
	all[3].From, all[3].To = "eu/alice", "eu/bob"
	w := newGroupWorld(t, workflows.DefaultOptions(), func(_ int, in activities.PostGroupInput) (activities.PostGroupOutput, error) {
		require.Len(t, in.Steps, 2)
		applied := activities.PostAnswer{State: ledger.OutcomeApplied}
		return answered(applied, applied), nil
	})
	got, err := w.run(t, all...)
	require.NoError(t, err)
	require.Equal(t, workflows.StateCompleted, got[0].State)
	require.Equal(t, workflows.ErrorInvalidInput, got[1].Error)
	require.Contains(t, got[1].Detail, "1e3")
	require.Equal(t, workflows.StateRunning, got[2].State)
	require.Equal(t, workflows.StateRunning, got[3].State)
	require.Equal(t, workflows.StateCompleted, got[4].State)
	require.Equal(t, []string{"transfer/away", "transfer/elsewhere"}, w.handed)
}

// An outage is waited out by the group, and uses up no attempts.
func TestGroupWaitsOutAnOutage(t *testing.T) {
	t.Parallel()
	const outages = 30
	w := newGroupWorld(t, workflows.DefaultOptions(), func(call int, in activities.PostGroupInput) (activities.PostGroupOutput, error) {
		if call <= outages {
			return activities.PostGroupOutput{}, temporal.NewApplicationError("down", activities.ErrorLedgerUnavailable)
		}
		return answered(slices.Repeat([]activities.PostAnswer{{State: ledger.OutcomeApplied}}, len(in.Steps))...), nil
	})
	require.Greater(t, outages, int(workflows.DefaultOptions().Forward.AttemptsMax))
	got, err := w.run(t, requests("one", "two")...)
	require.NoError(t, err)
	require.Equal(t, []workflows.GroupEnd{{State: workflows.StateCompleted}, {State: workflows.StateCompleted}}, got)
	require.Empty(t, w.handed)
	require.Len(t, w.asked, outages+1)
}

// When the group's attempts have run out, each transfer goes on alone: it alone can decide its outcome.
func TestGroupGivesUp(t *testing.T) {
	t.Parallel()
	w := newGroupWorld(t, workflows.DefaultOptions(), func(int, activities.PostGroupInput) (activities.PostGroupOutput, error) {
		return activities.PostGroupOutput{}, errors.New("constraint violated")
	})
	got, err := w.run(t, requests("one", "two")...)
	require.NoError(t, err)
	require.Equal(t, []workflows.GroupEnd{{State: workflows.StateRunning}, {State: workflows.StateRunning}}, got)
	require.Equal(t, []string{"transfer/one", "transfer/two"}, w.handed)
	options := workflows.DefaultOptions()
	require.Len(t, w.asked, int(options.Fast.AttemptsMax+options.Forward.AttemptsMax))
}

// A group that is cancelled loses none of its transfers.
func TestGroupIsCancelled(t *testing.T) {
	t.Parallel()
	w := newGroupWorld(t, workflows.DefaultOptions(), func(int, activities.PostGroupInput) (activities.PostGroupOutput, error) {
		return activities.PostGroupOutput{}, temporal.NewApplicationError("down", activities.ErrorLedgerUnavailable)
	})
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Minute)
	got, err := w.run(t, requests("one", "two")...)
	require.NoError(t, err)
	require.Equal(t, []workflows.GroupEnd{{State: workflows.StateRunning}, {State: workflows.StateRunning}}, got)
	require.Equal(t, []string{"transfer/one", "transfer/two"}, w.handed)
}

func TestGroupSize(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, workflows.GroupMax + 1} {
		w := newGroupWorld(t, workflows.DefaultOptions(), func(int, activities.PostGroupInput) (activities.PostGroupOutput, error) {
			return activities.PostGroupOutput{}, errors.New("not to be called")
		})
		_, err := w.run(t, requests(make([]string, size)...)...)
		require.Equal(t, workflows.ErrorInvalidInput, applicationErrorType(t, err))
		require.Empty(t, w.asked)
	}
}
