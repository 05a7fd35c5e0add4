package faults

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"payonce/internal/faultworker/fault"
	"payonce/tests/harness"
	"payonce/workflows"
)

// A signal arrives while a step runs on the fast path, and the workflow wants to complete. The server refuses, because of the
// news, and has the workflow task done again: with it the step, which meets its key. The signals themselves, which a transfer
// knows nothing of, do no harm, however often they come.
func TestSignalsRepeated(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := startFaulty(t, w, harness.FaultConfig{Options: unhurried, Faults: []string{"post/after=hold;transfer=rent"}})
	in := within(t, w, "rent")
	startUnhurried(t, w, in) // a task that takes most of its time is reported, and sees the news
	require.True(t, worker.AwaitStrike(t, "post/after", in.ID).Local)
	signal := func() error {
		return w.Temporal.SignalWorkflow(t.Context(), workflows.TransferWorkflowID(in.ID), "", "pay", in)
	}
	const signals = 5
	for range signals {
		require.NoError(t, signal())
	}
	worker.LetGo(t)
	once(t, w, in, workflows.StateCompleted, posted)

	failed := eventsOf(t, w, in.ID, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED)
	require.NotEmpty(t, failed, "the server has refused the first end")
	require.Equal(t, enums.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, failed[0].GetWorkflowTaskFailedEventAttributes().GetCause())
	require.Len(t, eventsOf(t, w, in.ID, enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED), signals)
	firstMoved(t, awaitAnswers(t, 2, fault.KindPost, in.ID, worker))

	var notFound *serviceerror.NotFound
	require.ErrorAs(t, signal(), &notFound, "the transfer has ended")
	once(t, w, in, workflows.StateCompleted, posted)
}

// decision is a person's word about the first parking of a transfer, under an update ID.
func decide(t *testing.T, w *harness.World, id, updateID string, decision workflows.Decision) (workflows.TransferStatus, error) {
	t.Helper()
	decision.Parking = 1
	ctx := harness.Within(t, patience)
	var status workflows.TransferStatus
	handle, err := w.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflows.TransferWorkflowID(id), UpdateName: workflows.DecideUpdate, UpdateID: updateID,
		Args: []any{decision}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &status)
	}
	return status, err
}

// parkedWorker is a worker with which transfers of some IDs are parked once: their deposits fail, and so does resolving
// them until its attempts have run out.
func parkedWorker(t *testing.T, w *harness.World, ids ...string) *harness.FaultWorker {
	t.Helper()
	require.EqualValues(t, 4, harness.ShortOptions().Settle.AttemptsMax)
	var faults []string
	for _, id := range ids {
		faults = append(faults, "deposit/before=fail:always;transfer="+id, "resolve/before=fail:4;transfer="+id)
	}
	return startFaulty(t, w, harness.FaultConfig{Options: unhurriedDurable, Faults: faults})
}

// A decision about a parked transfer is sent several times at once, and again after the end, as one whose answer was lost. It
// is one decision: it is taken once, and answered each time as the first time.
func TestUpdatesRepeated(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := parkedWorker(t, w, "rent")
	in := between(t, w, "rent")
	start(t, w, in)
	w.AwaitParked(t, in.ID, 1)
	ann := workflows.Decision{Action: workflows.ActionCompensate, By: "ann"}

	const times = 5
	statuses, errs := make([]workflows.TransferStatus, times), make([]error, times)
	var sending sync.WaitGroup
	for i := range times {
		sending.Go(func() { statuses[i], errs[i] = decide(t, w, in.ID, "ann-1", ann) })
	}
	sending.Wait()
	for i := range times {
		require.NoError(t, errs[i])
		require.Equal(t, statuses[0], statuses[i])
	}
	once(t, w, in, workflows.StateCompensated, givenUpBack)
	late, err := decide(t, w, in.ID, "ann-1", ann)
	require.NoError(t, err)
	require.Equal(t, statuses[0], late)
	require.Len(t, eventsOf(t, w, in.ID, enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED), 1, "one decision")
	require.Len(t, answersTo(fault.KindRefund, in.ID, worker), 1)
	once(t, w, in, workflows.StateCompensated, givenUpBack)
}

// Two people decide about a parked transfer at once, one to try again and one to take it back. One of them decides; the other
// is told that it is too late.
func TestTwoDecidersAtOnce(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := parkedWorker(t, w, "rent")
	in := between(t, w, "rent")
	start(t, w, in)
	w.AwaitParked(t, in.ID, 1)

	decisions := []workflows.Decision{
		{Action: workflows.ActionRetry, By: "ann"},
		{Action: workflows.ActionCompensate, By: "ben"},
		{Action: workflows.ActionRetry, By: "cid"},
		{Action: workflows.ActionCompensate, By: "dan"},
	}
	errs := make([]error, len(decisions))
	var deciding sync.WaitGroup
	for i, decision := range decisions {
		deciding.Go(func() { _, errs[i] = decide(t, w, in.ID, decision.By, decision) })
	}
	deciding.Wait()
	taken := 0
	for i, err := range errs {
		if err == nil {
			taken++
			continue
		}
		// Refused by the transfer, or, after its end, by the server.
		if _, ended := errors.AsType[*serviceerror.NotFound](err); ended {
			continue
		}
		var refused *temporal.ApplicationError
		require.ErrorAs(t, err, &refused, "%s", decisions[i].By)
		require.Equal(t, workflows.ErrorDecisionRefused, refused.Type())
	}
	require.Equal(t, 1, taken, "%v", errs)
	once(t, w, in, workflows.StateCompensated, givenUpBack)
	require.Len(t, answersTo(fault.KindRefund, in.ID, worker), 1)
}
