package faults

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"payonce/internal/faultworker/fault"
	"payonce/internal/pgtest"
	"payonce/tests/harness"
	"payonce/workflows"
)

// secondRun brings a transfer to where its deposit is under way, has it run again from its start by rerun, and holds that
// both runs make one transfer. Nobody has told the old run's attempt: it goes on beside the new run, and comes to the ledger
// before it or after it.
func secondRun(t *testing.T, rerun func(t *testing.T, w *harness.World, in workflows.TransferInput)) {
	t.Helper()
	for _, row := range []struct {
		name  string
		hold  func(pgtest.Message) bool // where the old run's attempt is held up
		first bool                      // it is the first to commit
	}{
		{"the old run has committed", hasCommitted, true},
		{"the old run is still to commit", begins, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			proxy := pgtest.NewProxy(t, patientURL(w, "eu"))
			worker := w.StartFaultWorker(t, harness.FaultConfig{
				Options: unhurriedDurable,
				Env:     []string{ledgers(patientURL(w, "us"), proxy.URL)},
			})
			in := between(t, w, "rent")
			reached, release := proxy.HoldBefore(row.hold)
			defer release()
			old := start(t, w, in)
			<-reached
			rerun(t, w, in)
			result := once(t, w, in, workflows.StateCompleted, arrived)
			require.True(t, result.Steps[0].Repeat, "the withdraw is that of the old run")
			require.Equal(t, row.first, result.Steps[1].Repeat)
			description, err := w.Temporal.DescribeWorkflow(t.Context(), workflows.TransferWorkflowID(in.ID), old.GetRunID())
			require.NoError(t, err)
			require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, description.Status, "the old run")
			firstMoved(t, awaitAnswers(t, 2, fault.KindWithdraw, in.ID, worker))
			deposits := answersTo(fault.KindDeposit, in.ID, worker)
			require.Len(t, deposits, 1, "the old run's deposit has no answer yet")

			release()
			deposits = awaitAnswers(t, 2, fault.KindDeposit, in.ID, worker)
			require.Empty(t, deposits[1].Error)
			require.Equal(t, !row.first, deposits[1].Repeat, "the old run's")
			require.EqualValues(t, 1, deposits[0].Attempt)
			require.EqualValues(t, 1, deposits[1].Attempt, "each run counts from 1")
			once(t, w, in, workflows.StateCompleted, arrived)
		})
	}
}

// Case 23 (temporalio/temporal#8901): a transfer is reset to before its withdraw. All its steps are run again, and meet their
// keys.
func TestResetBeforeWithdraw(t *testing.T) {
	t.Parallel()
	secondRun(t, func(t *testing.T, w *harness.World, in workflows.TransferInput) {
		t.Helper()
		w.Reset(t, workflows.TransferWorkflowID(in.ID))
	})
}

// Case 22 (temporalio/temporal#1412): a transfer is terminated between withdraw and deposit, and nothing cleans up. Started
// again with the same ID, it goes on from where it stopped.
func TestTerminatedBetweenWithdrawAndDeposit(t *testing.T) {
	t.Parallel()
	secondRun(t, func(t *testing.T, w *harness.World, in workflows.TransferInput) {
		t.Helper()
		require.NoError(t, w.Temporal.TerminateWorkflow(t.Context(), workflows.TransferWorkflowID(in.ID), "", "a test"))
		if deposited := len(w.Steps(t, in.ID)) == len(arrived); !deposited {
			code, verified := w.Verify(t)
			require.Equal(t, exitDone, code, "money in transit is no fault")
			require.Len(t, verified.InTransit, 1)
			require.Equal(t, workflows.TransferWorkflowID(in.ID), verified.InTransit[0].Transfer)
			require.Equal(t, in.From, verified.InTransit[0].From, "whose it is")
		}
		start(t, w, in)
	})
}

// Cases 7 (square/connect-api-examples#135) and 8 (temporalio/sdk-go#220): Temporal has forgotten a transfer, as it does after
// its retention, and the same transfer is started again. The ledgers have not forgotten: nothing moves, and its end is the
// same.
func TestHistoryDeletedAndStartedAgain(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	for _, row := range []struct {
		name  string
		open  func(*testing.T, *harness.World, string) workflows.TransferInput
		state workflows.State
		steps []string
	}{
		{"posted", within, workflows.StateCompleted, posted},
		{"arrived", between, workflows.StateCompleted, arrived},
		{"sent back", toNobody, workflows.StateCompensated, sentBack},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			in := row.open(t, w, w.Unique("rent"))
			old := start(t, w, in)
			original := once(t, w, in, row.state, row.steps)
			recorded := w.Operations(t, in.ID)
			w.Forget(t, workflows.TransferWorkflowID(in.ID))
			_, err := w.Temporal.DescribeWorkflow(t.Context(), workflows.TransferWorkflowID(in.ID), "")
			var notFound *serviceerror.NotFound
			require.ErrorAs(t, err, &notFound, "Temporal has forgotten it")

			require.NotEqual(t, old.GetRunID(), start(t, w, in).GetRunID(), "it is not told that there was one")
			again := once(t, w, in, row.state, row.steps)
			require.Equal(t, recorded, w.Operations(t, in.ID))
			for i := range again.Steps {
				require.True(t, again.Steps[i].Repeat, "%s is the recorded outcome", again.Steps[i].Step)
				again.Steps[i].Repeat = original.Steps[i].Repeat
			}
			require.Equal(t, original, again)
		})
	}
}

// An operator resets an activity that runs, which leaves no event in the history and sets its attempts back to 1: the cap of
// attempts is no hard bound, and the step meets its key however often it is run.
func TestActivityResetByOperator(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := startFaulty(t, w, harness.FaultConfig{
		Options: func(o *workflows.Options) {
			timedOutDurable(o)
			o.Forward.AttemptsMax = 2
		},
		Faults: []string{"deposit/after=fail;transfer=rent", "deposit/after=hold;transfer=rent"},
	})
	in := between(t, w, "rent")
	start(t, w, in)
	worker.AwaitEvent(t, "the last attempt is under way", func(e fault.Event) bool {
		return e.Event == fault.EventFault && e.Action == fault.ActionHold && e.Attempt == 2
	})
	_, err := w.Temporal.WorkflowService().ResetActivity(t.Context(), &workflowservice.ResetActivityRequest{
		Namespace: w.Namespace, Execution: &common.WorkflowExecution{WorkflowId: workflows.TransferWorkflowID(in.ID)},
		Activity: &workflowservice.ResetActivityRequest_Type{Type: "Deposit"},
	})
	require.NoError(t, err)
	once(t, w, in, workflows.StateCompleted, arrived)
	answers := awaitAnswers(t, 3, fault.KindDeposit, in.ID, worker)
	firstMoved(t, answers)
	require.Len(t, answers, 3, "one more than the cap of attempts")
	require.LessOrEqual(t, answers[2].Attempt, int32(2), "the server has begun to count anew")
	require.Empty(t, answersTo(fault.KindResolve, in.ID, worker))
}

// Somebody has given a transfer a schedule, so that the server starts it again whenever it has ended. Each run meets the keys
// of the first.
func TestTransferOnSchedule(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := startFaulty(t, w, harness.FaultConfig{Options: unhurried})
	in := between(t, w, "rent")
	workflowID := workflows.TransferWorkflowID(in.ID)
	_, err := w.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: workflowID, TaskQueue: workflows.TaskQueue, CronSchedule: "@every 1s", WorkflowTaskTimeout: patience,
	}, workflows.TransferWorkflow, in)
	require.NoError(t, err)
	const runs = 3
	for _, kind := range []fault.Kind{fault.KindWithdraw, fault.KindDeposit} {
		firstMoved(t, awaitAnswers(t, runs, kind, in.ID, worker))
	}
	require.NoError(t, w.Temporal.TerminateWorkflow(t.Context(), workflowID, "", "the test has seen enough"))
	require.Equal(t, arrived, w.Steps(t, in.ID))
	require.Equal(t, []string{"2000", "-1000"}, movements(t, w, in.From))
	require.Equal(t, []string{"1000"}, movements(t, w, in.To))
}
