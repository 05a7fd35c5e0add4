package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
	"payonce/workflows"
)

const batchID = "b1"

// batchOf is a batch of some chunks with one row each.
func batchOf(chunks int) workflows.BatchInput {
	return workflows.BatchInput{ID: batchID, Rows: chunks, Chunks: chunks, Totals: []workflows.AssetAmount{{Asset: "USD/2", Amount: "1.00"}}}
}

// completed is the report of a chunk with one row that has completed.
func completed(chunk int) workflows.BatchChunkReport {
	return workflows.BatchChunkReport{Chunk: chunk, Counts: workflows.BatchCounts{
		Rows: 1, Completed: 1, Arrived: []workflows.AssetAmount{{Asset: "USD/2", Amount: "1.50"}},
	}}
}

// going is the report of a chunk whose row goes on.
func going(chunk int, id string) workflows.BatchChunkReport {
	return workflows.BatchChunkReport{Chunk: chunk, Counts: workflows.BatchCounts{Rows: 1, Running: 1, Arrived: []workflows.AssetAmount{}}, Going: []string{id}}
}

func newBatchEnv() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	workflows.New(workflows.DefaultOptions()).Register(env)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.BatchWorkflowID(batchID), TaskQueue: workflows.TaskQueue})
	return env
}

// tellBatch has reports come, a second apart.
func tellBatch(env *testsuite.TestWorkflowEnvironment, reports ...workflows.BatchChunkReport) {
	for i, report := range reports {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.BatchChunkSignal, report) }, time.Duration(i+1)*time.Second)
	}
}

func batchStatus(t *testing.T, env *testsuite.TestWorkflowEnvironment) workflows.BatchStatus {
	t.Helper()
	answer, err := env.QueryWorkflow(workflows.BatchStatusQuery)
	require.NoError(t, err)
	var status workflows.BatchStatus
	require.NoError(t, answer.Get(&status))
	return status
}

// A batch ends when all chunks have; each counts once, however often it tells, and a chunk that there is not counts never.
func TestBatchCountsEachChunkOnce(t *testing.T) {
	t.Parallel()
	env := newBatchEnv()
	other := completed(2)
	other.Counts = workflows.BatchCounts{Rows: 1, Rejected: 1, Repeats: 1, Arrived: []workflows.AssetAmount{}}
	tellBatch(env, completed(0), completed(0), completed(7), completed(-1), going(2, "slow"), going(2, "slow"), going(1, "slower"), completed(1), other)
	env.RegisterDelayedCallback(func() {
		status := batchStatus(t, env)
		require.True(t, status.Progress.HasEnded(0))
		require.False(t, status.Progress.HasEnded(1))
		require.True(t, status.Progress.Tried(2))
		require.False(t, status.Progress.HasEnded(2))
		now := status.Progress.Now()
		require.Equal(t, 3, now.Rows)
		require.Equal(t, 2, now.Running)
		require.Equal(t, 1, now.Completed)
	}, 7500*time.Millisecond)
	env.ExecuteWorkflow(workflows.BatchWorkflow, batchOf(3))
	require.NoError(t, env.GetWorkflowError())
	var result workflows.BatchResult
	require.NoError(t, env.GetWorkflowResult(&result))
	require.Equal(t, workflows.BatchCounts{
		Rows: 3, Completed: 2, Rejected: 1, Repeats: 1, Arrived: []workflows.AssetAmount{{Asset: "USD/2", Amount: "3.00"}},
	}, result.Counts)
}

// What a run was told, the next one knows. Case 68: no batch meets the limit of a history.
func TestBatchContinuesAsNew(t *testing.T) {
	t.Parallel()
	env := newBatchEnv()
	tellBatch(env, completed(0), going(1, "slow"))
	env.RegisterDelayedCallback(func() { env.SetContinueAsNewSuggested(true) }, 1500*time.Millisecond)
	env.ExecuteWorkflow(workflows.BatchWorkflow, batchOf(3))
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	require.Equal(t, workflows.BatchWorkflow, next.WorkflowType.Name)
	var in workflows.BatchInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, 1, in.Progress.Counts.Completed)
	require.Equal(t, []workflows.BatchChunkReport{going(1, "slow")}, in.Progress.Going)

	env = newBatchEnv()
	tellBatch(env, completed(0), completed(2), completed(1))
	env.ExecuteWorkflow(workflows.BatchWorkflow, in)
	require.NoError(t, env.GetWorkflowError())
	var result workflows.BatchResult
	require.NoError(t, env.GetWorkflowResult(&result))
	require.Equal(t, 3, result.Counts.Completed)
	require.Equal(t, 3, result.Counts.Rows)
}

func TestBatchInput(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*workflows.BatchInput){
		"another ID":      func(in *workflows.BatchInput) { in.ID = "b2" },
		"no ID":           func(in *workflows.BatchInput) { in.ID = "" },
		"slash":           func(in *workflows.BatchInput) { in.ID = "b/1" },
		"no rows":         func(in *workflows.BatchInput) { in.Rows = 0 },
		"no chunks":       func(in *workflows.BatchInput) { in.Chunks = 0 },
		"too many chunks": func(in *workflows.BatchInput) { in.Chunks = workflows.BatchChunksMax + 1 },
		"other progress":  func(in *workflows.BatchInput) { in.Progress = &workflows.BatchProgress{Ended: make([]byte, 9)} },
	} {
		env := newBatchEnv()
		in := batchOf(3)
		change(&in)
		env.ExecuteWorkflow(workflows.BatchWorkflow, in)
		require.Equal(t, workflows.ErrorInvalidInput, applicationErrorType(t, env.GetWorkflowError()), name)
	}
}

// A batch that nobody sends the rest of can be closed. What was sent goes on.
func TestBatchIsCancelled(t *testing.T) {
	t.Parallel()
	env := newBatchEnv()
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Second)
	env.ExecuteWorkflow(workflows.BatchWorkflow, batchOf(3))
	var canceled *temporal.CanceledError
	require.ErrorAs(t, env.GetWorkflowError(), &canceled)
}

// chunkWorld runs a BatchChunk whose posts, transfers and look-ups are answered by scripts.
type chunkWorld struct {
	*groupWorld

	told []workflows.BatchChunkReport
}

func newChunkWorld(t *testing.T, post func(call int, in activities.PostGroupInput) (activities.PostGroupOutput, error)) *chunkWorld {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	w := &chunkWorld{groupWorld: &groupWorld{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment()}}
	workflows.New(workflows.DefaultOptions()).Register(w)
	w.RegisterActivityWithOptions(func(ctx context.Context, in activities.PostGroupInput) (activities.PostGroupOutput, error) {
		way := "durable "
		if activity.GetInfo(ctx).IsLocalActivity {
			way = "fast "
		}
		w.asked = append(w.asked, fmt.Sprintf("%s%s %d", way, in.Ledger, len(in.Steps)))
		return post(len(w.asked), in)
	}, activity.RegisterOptions{Name: "PostGroup"})
	w.OnSignalExternalWorkflow(mock.Anything, workflows.BatchWorkflowID(batchID), "", workflows.BatchChunkSignal, mock.Anything).Return(
		func(_, _, _, _ string, report any) error {
			told, ok := report.(workflows.BatchChunkReport)
			require.True(t, ok)
			w.told = append(w.told, told)
			return nil
		}).Maybe()
	return w
}

// run runs the chunk and returns the rows' ends.
func (w *chunkWorld) run(t *testing.T, transfers ...workflows.TransferInput) []workflows.GroupEnd {
	t.Helper()
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.BatchChunkWorkflowID(batchID, 4), TaskQueue: workflows.TaskQueue})
	w.ExecuteWorkflow(workflows.BatchChunkWorkflow, workflows.BatchChunkInput{Batch: batchID, Chunk: 4, Transfers: transfers})
	require.True(t, w.IsWorkflowCompleted())
	require.NoError(t, w.GetWorkflowError())
	var result workflows.BatchChunkResult
	require.NoError(t, w.GetWorkflowResult(&result))
	ends := make([]workflows.GroupEnd, len(transfers))
	for _, end := range result.Ends {
		for _, i := range end.Rows {
			require.Empty(t, ends[i], "an end each")
			ends[i] = end.GroupEnd
		}
	}
	for i, end := range ends {
		require.NotEmpty(t, end, transfers[i].ID)
	}
	return ends
}

// Each row has its end, and the batch is told once when no row takes longer than the others.
func TestBatchChunkEnds(t *testing.T) {
	t.Parallel()
	long := time.Now().Add(-time.Hour)
	later := time.Now().Add(time.Hour)
	answers := []activities.PostAnswer{
		{State: ledger.OutcomeApplied, At: later},
		{State: ledger.OutcomeApplied, At: long, Repeat: true},
		{State: ledger.OutcomeApplied, At: later, Repeat: true},
		{State: ledger.OutcomeRefused, Code: ledger.CodeInsufficientFunds, Detail: "too little", At: later},
		{Error: activities.ErrorKeyConflict},
		{State: ledger.OutcomeSealed, Code: ledger.CodeAttemptsExhausted, At: later},
	}
	w := newChunkWorld(t, func(int, activities.PostGroupInput) (activities.PostGroupOutput, error) {
		return answered(answers...), nil
	})
	rows := requests("one", "paid-before", "answer-lost", "poor", "taken", "given-up")
	malformed := rows[0]
	malformed.ID, malformed.Amount = "malformed", "1e3"
	ends := w.run(t, append(rows, malformed)...)
	require.Equal(t, workflows.StateCompleted, ends[0].State)
	require.True(t, ends[1].Repeat)
	require.False(t, ends[2].Repeat, "an earlier attempt of this chunk has posted it")
	require.Equal(t, workflows.StateRejected, ends[3].State)
	require.Equal(t, workflows.ErrorKeyConflict, ends[4].Error)
	require.Equal(t, workflows.StateFailed, ends[5].State)
	require.Equal(t, workflows.ErrorInvalidInput, ends[6].Error)
	require.Equal(t, []string{"fast us 6"}, w.asked)
	require.Equal(t, []workflows.BatchChunkReport{{Chunk: 4, Counts: workflows.BatchCounts{
		Rows: 7, Completed: 3, Rejected: 1, Failed: 1, Conflicts: 1, Invalid: 1, Repeats: 1,
		Arrived: []workflows.AssetAmount{{Asset: "USD/2", Amount: "30.00"}},
	}}}, w.told)
}

// A row without an outcome is posted again, without those that have one, before it goes on alone.
func TestBatchChunkPostsAgain(t *testing.T) {
	t.Parallel()
	w := newChunkWorld(t, func(call int, in activities.PostGroupInput) (activities.PostGroupOutput, error) {
		out := make([]activities.PostAnswer, len(in.Steps))
		for i := range in.Steps {
			out[i] = activities.PostAnswer{State: ledger.OutcomeApplied}
			if i > 1 && call < 3 || in.Steps[i].Key == "transfer/poison/post" {
				out[i] = activities.PostAnswer{Error: activities.ErrorUnknownOutcome}
			}
		}
		return answered(out...), nil
	})
	w.OnWorkflow(workflows.TransferWorkflow, mock.Anything, mock.Anything).Return(
		workflows.TransferResult{State: workflows.StateFailed, Code: ledger.CodeAttemptsExhausted}, nil).Once()
	ends := w.run(t, requests("poison", "one", "two", "three")...)
	require.Equal(t, workflows.StateFailed, ends[0].State)
	for _, end := range ends[1:] {
		require.Equal(t, workflows.StateCompleted, end.State)
	}
	require.Equal(t, []string{"fast us 4", "durable us 3", "durable us 2"}, w.asked)
}

// transferAnswers has transfers end after a while, by their IDs.
func (w *chunkWorld) transferAnswers(after map[string]time.Duration) {
	w.OnWorkflow(workflows.TransferWorkflow, mock.Anything, mock.Anything).Return(
		func(ctx workflow.Context, request converter.RawValue) (workflows.TransferResult, error) {
			var in workflows.TransferInput
			if err := json.Unmarshal(request.Payload().GetData(), &in); err != nil {
				return workflows.TransferResult{}, err
			}
			w.handed = append(w.handed, in.ID)
			if err := workflow.Sleep(ctx, after[in.ID]); err != nil {
				return workflows.TransferResult{}, err
			}
			return workflows.TransferResult{ID: in.ID, State: workflows.StateCompleted}, nil
		})
}

// Rows between ledgers are transfers of their own. One that waits for a person for a day holds up the others for a moment; the
// batch is told that it goes on, and in the end how it ended.
func TestBatchChunkWaitsForOthers(t *testing.T) {
	t.Parallel()
	w := newChunkWorld(t, nil)
	w.transferAnswers(map[string]time.Duration{"away-3": 24 * time.Hour})
	var rows []workflows.TransferInput
	for i := range 120 {
		in := between
		in.ID = fmt.Sprintf("away-%d", i)
		rows = append(rows, in)
	}
	var others time.Duration
	begun := w.Now()
	w.RegisterDelayedCallback(func() {
		others = w.Now().Sub(begun)
		require.Len(t, w.handed, 120)
		require.Len(t, w.told, 1)
		require.Equal(t, []string{"away-3"}, w.told[0].Going)
		require.Equal(t, 1, w.told[0].Counts.Running)
		require.Equal(t, 119, w.told[0].Counts.Completed)
		answer, err := w.QueryWorkflow(workflows.BatchChunkQuery)
		require.NoError(t, err)
		var now workflows.BatchChunkResult
		require.NoError(t, answer.Get(&now))
		require.Len(t, now.Ends[0].Rows, 119)
	}, time.Minute)
	ends := w.run(t, rows...)
	require.Equal(t, time.Minute, others)
	require.Len(t, w.told, 2)
	require.Equal(t, 120, w.told[1].Counts.Completed)
	require.Equal(t, workflows.StateCompleted, ends[3].State)
	require.Empty(t, w.asked)
}

// A row that somebody else has asked for is looked up until the ledgers tell its end.
func TestBatchChunkLooksUp(t *testing.T) {
	t.Parallel()
	in := between
	in.ID = "before"
	view := func(kind ledger.Kind, state ledger.OutcomeState, from, to, other string) activities.OperationView {
		return activities.OperationView{
			StepOutcome: activities.StepOutcome{Ledger: from[:2], State: state, At: time.Now().Add(-time.Hour)},
			Kind:        kind, From: from, To: to, Amount: "10.00", Asset: "USD/2", Other: other,
		}
	}
	withdraw := view(ledger.KindWithdraw, ledger.OutcomeApplied, "us/alice", "us/transit:eu", "eu/bob")
	refused := view(ledger.KindWithdraw, ledger.OutcomeRefused, "us/alice", "us/transit:eu", "eu/bob")
	refused.Code = ledger.CodeInsufficientFunds
	deposit := view(ledger.KindDeposit, ledger.OutcomeApplied, "eu/transit:us", "eu/bob", "us/alice")
	noDeposit := view(ledger.KindDeposit, ledger.OutcomeRefused, "eu/transit:us", "eu/bob", "us/alice")
	noDeposit.Code = ledger.CodeAccountClosed
	refund := view(ledger.KindRefund, ledger.OutcomeApplied, "us/transit:eu", "us/alice", "eu/bob")
	other := view(ledger.KindWithdraw, ledger.OutcomeApplied, "us/alice", "us/transit:eu", "eu/carol")
	for name, row := range map[string]struct {
		rounds []activities.OperationView // one more is recorded at each look
		want   workflows.GroupEnd
	}{
		"completed":   {[]activities.OperationView{withdraw, deposit}, workflows.GroupEnd{State: workflows.StateCompleted, Repeat: true}},
		"rejected":    {[]activities.OperationView{refused}, workflows.GroupEnd{State: workflows.StateRejected, Code: ledger.CodeInsufficientFunds, Repeat: true}},
		"compensated": {[]activities.OperationView{withdraw, noDeposit, refund}, workflows.GroupEnd{State: workflows.StateCompensated, Code: ledger.CodeAccountClosed, Repeat: true}},
		"other":       {[]activities.OperationView{other}, workflows.GroupEnd{Error: workflows.ErrorKeyConflict}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newChunkWorld(t, nil)
			// The same ID once more is one that is there already.
			w.transferAnswers(map[string]time.Duration{"before": 24 * time.Hour})
			looks := 0
			w.RegisterActivityWithOptions(func(_ context.Context, in activities.OperationListInput) (activities.OperationList, error) {
				require.Contains(t, in.Keys, "transfer/before/withdraw")
				looks++
				return activities.OperationList{Operations: slices.Clone(row.rounds[:min(looks/2, len(row.rounds))])}, nil
			}, activity.RegisterOptions{Name: workflows.OperationListWorkflow})
			end := w.run(t, in, in)[1]
			if row.want.Error != "" {
				require.Equal(t, row.want.Error, end.Error)
				return
			}
			end.At, end.Detail = time.Time{}, ""
			require.Equal(t, row.want, end)
			require.Greater(t, looks, len(row.rounds))
		})
	}
}

// Cancelling a chunk loses none of its rows, and a terminated transfer is started again.
func TestBatchChunkGoesOn(t *testing.T) {
	t.Parallel()
	w := newChunkWorld(t, nil)
	calls := 0
	w.OnWorkflow(workflows.TransferWorkflow, mock.Anything, mock.Anything).Return(
		func(ctx workflow.Context, _ converter.RawValue) (workflows.TransferResult, error) {
			calls++
			if calls == 1 {
				return workflows.TransferResult{}, temporal.NewCanceledError()
			}
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return workflows.TransferResult{}, err
			}
			return workflows.TransferResult{State: workflows.StateCompleted}, nil
		})
	w.RegisterDelayedCallback(w.CancelWorkflow, 10*time.Minute)
	require.Equal(t, workflows.StateCompleted, w.run(t, between)[0].State)
	require.Equal(t, 2, calls)
}

func TestBatchChunkSize(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, workflows.GroupMax + 1} {
		w := newChunkWorld(t, func(int, activities.PostGroupInput) (activities.PostGroupOutput, error) {
			return activities.PostGroupOutput{}, errors.New("not to be called")
		})
		w.ExecuteWorkflow(workflows.BatchChunkWorkflow, workflows.BatchChunkInput{Batch: batchID, Transfers: requests(make([]string, size)...)})
		require.Equal(t, workflows.ErrorInvalidInput, applicationErrorType(t, w.GetWorkflowError()))
		require.Empty(t, w.asked)
	}
}
