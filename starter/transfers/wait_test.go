package transfers_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"payonce/internal/devstack"
	"payonce/ledger"
	"payonce/starter/internal/standin"
	"payonce/starter/transfers"
	"payonce/workflows"
)

const (
	eventually = 5 * time.Minute
	tick       = 20 * time.Millisecond
)

type assertCollect = assert.CollectT

func requireNotFound(t require.TestingT, err error) {
	var notFound *serviceerror.NotFound
	require.ErrorAs(t, err, &notFound)
}

// requirePending waits for a transfer that does not end, until what is said about it is what holds.
func requirePending(t *testing.T, handle *transfers.Handle, holds func(c *assertCollect, status transfers.Status)) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assertCollect) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := handle.Wait(ctx)
		var pending *transfers.PendingError
		require.ErrorAs(c, err, &pending)
		require.ErrorIs(c, err, context.DeadlineExceeded)
		holds(c, pending.Status)
	}, eventually, tick)
}

// stuck keeps a ledger from answering until the test lets it.
func stuck(b *standin.Books) (open func()) {
	gate := make(chan struct{})
	b.Before(func(ctx context.Context, _ *ledger.Operation, _ bool) error {
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return func() { close(gate) }
}

// Case 13: while the original is unfinished, a duplicate is told so.
func TestPendingIsNotDone(t *testing.T) {
	w := newWorld(t, server)
	in := payBob(t)
	open := stuck(w.eu)
	for range 2 {
		require.EventuallyWithT(t, func(c *assertCollect) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := w.client.Transfer(ctx, in)
			var pending *transfers.PendingError
			require.ErrorAs(c, err, &pending)
			// A second may be too short for a busy machine to get so far, and to say so.
			require.Equal(c, workflows.StateRunning, pending.Status.State)
			require.Equal(c, workflows.StepDeposit, pending.Status.Step)
		}, eventually, tick)
	}
	open()
	result, err := w.client.Transfer(within(t), in)
	require.NoError(t, err)
	require.Equal(t, workflows.StateCompleted, result.State)
	w.requireBalances(t, "10.00", "10.00")
}

// Cases 14 and 22: a transfer that was terminated half-way says so, and goes on when it is started again.
func TestTerminatedHalfWay(t *testing.T) {
	w := newWorld(t, server)
	in := payBob(t)
	open := stuck(w.eu)
	handle, err := w.client.Start(within(t), in)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := handle.Wait(within(t))
		ended <- err
	}()
	w.awaitStep(t, in.ID, workflows.StepDeposit)
	require.NoError(t, w.temporal.TerminateWorkflow(within(t), workflows.TransferWorkflowID(in.ID), "", "a test"))
	var closed *transfers.ClosedError
	require.ErrorAs(t, <-ended, &closed)
	require.Equal(t, transfers.ClosedTerminated, closed.How)

	// A busy worker may not answer for the ledgers in time.
	require.EventuallyWithT(t, func(c *assertCollect) {
		status, err := w.client.Status(within(t), in.ID)
		require.NoError(c, err)
		require.Equal(c, transfers.StateUnknown, status.State)
		require.False(c, status.Ended())
		require.Contains(c, status.Detail, "start it again with the same ID")
		require.Len(c, status.Steps, 1, "the withdraw is in the books")
	}, eventually, tick)

	open()
	result, err := w.client.Transfer(within(t), in)
	require.NoError(t, err)
	require.Equal(t, workflows.StateCompleted, result.State)
	require.True(t, result.Steps[0].Repeat, "the withdraw was met, not repeated")
	w.requireBalances(t, "10.00", "10.00")
}

// awaitStep returns when the transfer is at a step.
func (w *world) awaitStep(t *testing.T, id string, step workflows.Step) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assertCollect) {
		status, err := w.client.Status(t.Context(), id)
		require.NoError(c, err)
		require.Equal(c, step, status.Step)
	}, eventually, tick)
}

// Case 23: a reset ends a run and goes on in another, and the wait follows.
func TestWaitFollowsReset(t *testing.T) {
	w := newWorld(t, server)
	in := payBob(t)
	open := stuck(w.eu)
	handle, err := w.client.Start(within(t), in)
	require.NoError(t, err)
	type end struct {
		result workflows.TransferResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		result, err := handle.Wait(within(t))
		ended <- end{result, err}
	}()
	w.awaitStep(t, in.ID, workflows.StepDeposit)
	_, err = w.temporal.ResetWorkflowExecution(within(t), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace:         server.Namespace,
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflows.TransferWorkflowID(in.ID)},
		Reason:            "a test", RequestId: in.ID,
		// The first workflow task: before the withdraw.
		WorkflowTaskFinishEventId: 3,
	})
	require.NoError(t, err)
	open()
	got := <-ended
	require.NoError(t, got.err)
	require.Equal(t, workflows.StateCompleted, got.result.State)
	w.requireBalances(t, "10.00", "10.00")
}

// Case 82: a transfer that waits for a person says so at once, and does what the person decides.
func TestParked(t *testing.T) {
	w := newWorld(t, server)
	in := payBob(t)
	w.eu.Before(func(context.Context, *ledger.Operation, bool) error { return ledger.ErrUnknownOutcome })
	handle, err := w.client.Start(within(t), in)
	require.NoError(t, err)
	_, err = handle.Wait(within(t))
	var pending *transfers.PendingError
	require.ErrorAs(t, err, &pending)
	require.NoError(t, pending.Cause)
	require.Equal(t, workflows.StateParked, pending.Status.State)
	var parking *workflows.Parking
	require.EventuallyWithT(t, func(c *assertCollect) {
		// A busy worker may not answer for it in time.
		status, err := w.client.Status(within(t), in.ID)
		require.NoError(c, err)
		require.Equal(c, workflows.StateParked, status.State)
		parking = status.Parking
		require.NotNil(c, parking)
	}, eventually, tick)
	require.Equal(t, workflows.StepResolveDeposit, parking.Step)

	_, err = w.client.Decide(within(t), in.ID, workflows.Decision{Action: workflows.ActionRetry, Parking: parking.Number + 1, By: "a test"})
	var refused *temporal.ApplicationError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, workflows.ErrorDecisionRefused, refused.Type())

	w.eu.Before(nil)
	decision := workflows.Decision{Action: workflows.ActionRetry, Parking: parking.Number, By: "a test"}
	for range 2 {
		_, err = w.client.Decide(within(t), in.ID, decision)
		if err != nil {
			// The transfer may have ended before the decision was repeated.
			require.ErrorIs(t, err, transfers.ErrEnded)
		}
	}
	result, err := handle.Wait(within(t))
	require.NoError(t, err)
	require.Equal(t, workflows.StateCompensated, result.State)
	w.requireBalances(t, "20.00", "0.00")
	_, err = w.client.Decide(within(t), in.ID, workflows.Decision{Action: workflows.ActionCompensate, Parking: parking.Number, By: "a test"})
	require.ErrorIs(t, err, transfers.ErrEnded)
}

func TestCancel(t *testing.T) {
	w := newWorld(t, server)
	in := payBob(t)
	require.ErrorIs(t, w.client.Cancel(within(t), in.ID), transfers.ErrUnknown)
	open := stuck(w.eu)
	handle, err := w.client.Start(within(t), in)
	require.NoError(t, err)
	w.awaitStep(t, in.ID, workflows.StepDeposit)
	require.NoError(t, w.client.Cancel(within(t), in.ID))
	open()
	result, err := handle.Wait(within(t))
	require.NoError(t, err)
	require.Contains(t, []workflows.State{workflows.StateCancelled, workflows.StateCompleted}, result.State)
	require.ErrorIs(t, w.client.Cancel(within(t), in.ID), transfers.ErrEnded)
}

func TestUnknownTransfer(t *testing.T) {
	w := newWorld(t, server)
	_, err := w.client.Status(within(t), t.Name())
	require.ErrorIs(t, err, transfers.ErrUnknown)
	_, err = w.client.Request(within(t), t.Name())
	require.ErrorIs(t, err, transfers.ErrUnknown)
	_, err = w.client.Decide(within(t), t.Name(), workflows.Decision{Action: workflows.ActionRetry, Parking: 1, By: "a test"})
	require.ErrorIs(t, err, transfers.ErrUnknown)
}

// A workflow of that type can fail otherwise only by a defect, so another one stands in for it.
func TestFailedWorkflow(t *testing.T) {
	c := dial(t, server, client.ConnectionOptions{})
	for _, row := range []struct {
		name string
		err  error
		want transfers.Closed
	}{
		{"malformed", temporal.NewNonRetryableApplicationError("id: no", workflows.ErrorInvalidInput, nil), transfers.ClosedInvalid},
		{"defect", temporal.NewNonRetryableApplicationError("oops", "panic", nil), transfers.ClosedFailed},
		{"cancelled by force", temporal.NewCanceledError(), transfers.ClosedCancelled},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := worker.New(c, workflows.TaskQueue, worker.Options{})
			w.RegisterWorkflowWithOptions(
				func(workflow.Context, workflows.TransferInput) (workflows.TransferResult, error) {
					return workflows.TransferResult{}, row.err
				}, workflow.RegisterOptions{Name: workflows.TransferWorkflow})
			require.NoError(t, w.Start())
			defer w.Stop()
			in := payBob(t)
			_, err := transfers.New(c, transfers.Options{}).Transfer(within(t), in)
			var closed *transfers.ClosedError
			require.ErrorAs(t, err, &closed)
			require.Equal(t, row.want, closed.How)
		})
	}
}

// A server that goes away while a transfer is waited for is waited for too.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	s := ownServer(t, devstack.TemporalConfig{DBFile: filepath.Join(t.TempDir(), "temporal.db"), SearchAttributes: transfers.SearchAttributes()})
	w := newWorld(t, s)
	open := stuck(w.eu)
	in := payBob(t)
	handle, err := w.client.Start(within(t), in)
	require.NoError(t, err)
	type end struct {
		result workflows.TransferResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		result, err := handle.Wait(within(t))
		ended <- end{result, err}
	}()
	w.awaitStep(t, in.ID, workflows.StepDeposit)
	require.NoError(t, s.Kill())

	away, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	other := in
	other.ID += " while it is away"
	_, err = w.client.Start(away, other)
	var pending *transfers.PendingError
	require.ErrorAs(t, err, &pending)
	require.Equal(t, transfers.StateUnknown, pending.Status.State)

	require.NoError(t, s.Restart(within(t)))
	open()
	got := <-ended
	require.NoError(t, got.err)
	require.Equal(t, workflows.StateCompleted, got.result.State)
	w.requireBalances(t, "10.00", "10.00")
}
