package transfers_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"payonce/internal/devstack"
	"payonce/ledger"
	"payonce/starter/internal/standin"
	"payonce/starter/transfers"
	"payonce/workflows"
)

// Case 5: rerunning the same call finds the same transfer.
func TestTransferTwiceGivesOneResult(t *testing.T) {
	w := newWorld(t, server)
	in := payBob(t)
	handle, err := w.client.Start(within(t), in)
	require.NoError(t, err)
	require.False(t, handle.Attached)
	first, err := handle.Wait(within(t))
	require.NoError(t, err)
	require.Equal(t, workflows.StateCompleted, first.State)
	require.Len(t, first.Steps, 2)

	in.Amount, in.Memo = "10", "written otherwise, and the same request"
	again, err := w.client.Start(within(t), in)
	require.NoError(t, err)
	require.True(t, again.Attached)
	require.Equal(t, handle.RunID, again.RunID)
	second, err := again.Wait(within(t))
	require.NoError(t, err)
	require.Equal(t, first, second)
	w.requireBalances(t, "10.00", "10.00")
}

// Case 5, at once.
func TestTransfersAtOnceGiveOneResult(t *testing.T) {
	w := newWorld(t, server)
	in := payBob(t)
	const callers = 8
	results := make([]workflows.TransferResult, callers)
	errs := make([]error, callers)
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() { results[i], errs[i] = w.client.Transfer(within(t), in) })
	}
	wait.Wait()
	for i := range callers {
		require.NoError(t, errs[i])
		require.Equal(t, results[0], results[i])
	}
	w.requireBalances(t, "10.00", "10.00")
}

// Case 12: the same ID with other parameters is a distinct conflict, and the original is unchanged.
func TestDifferentRequestMovesNothing(t *testing.T) {
	w := newWorld(t, server)
	in := payBob(t)
	open := stuck(w.eu)
	handle, err := w.client.Start(within(t), in)
	require.NoError(t, err)

	requireDifferent := func(t *testing.T) {
		t.Helper()
		for _, change := range []func(*workflows.TransferInput){
			func(in *workflows.TransferInput) { in.Amount = "11.00" },
			func(in *workflows.TransferInput) { in.To = "us/carol" },
			func(in *workflows.TransferInput) { in.From = "us/carol" },
			func(in *workflows.TransferInput) { in.Asset = "EUR" },
		} {
			other := in
			change(&other)
			_, err := w.client.Transfer(within(t), other)
			require.ErrorIs(t, err, transfers.ErrDifferentRequest)
			var different *transfers.DifferentRequestError
			require.ErrorAs(t, err, &different)
			require.Equal(t, other, different.Asked)
			require.Equal(t, &in, different.Known)
		}
	}
	t.Run("while it runs", requireDifferent)
	open()
	result, err := handle.Wait(within(t))
	require.NoError(t, err)
	require.Equal(t, workflows.StateCompleted, result.State)
	t.Run("after its end", requireDifferent)
	w.requireBalances(t, "10.00", "10.00")
}

// Cases 7 and 8: Temporal forgets a transfer, the ledger does not.
func TestForgottenByTemporal(t *testing.T) {
	t.Parallel() // The server takes half a minute to delete a workflow.
	w := newWorld(t, ownServer(t, devstack.TemporalConfig{SearchAttributes: transfers.SearchAttributes()}))
	in := payBob(t)
	first, err := w.client.Transfer(within(t), in)
	require.NoError(t, err)
	w.forget(t, in.ID)

	t.Run("its state is read from the ledgers", func(t *testing.T) {
		got, err := w.client.Status(within(t), in.ID)
		require.NoError(t, err)
		require.True(t, got.Ended())
		requireSameEnd(t, first, *got.Result)
	})
	t.Run("another request is refused", func(t *testing.T) {
		other := in
		other.Amount = "11.00"
		var different *transfers.DifferentRequestError
		require.EventuallyWithT(t, func(c *assertCollect) {
			_, err := w.client.Transfer(within(t), other)
			require.ErrorAs(c, err, &different)
			require.NotNil(c, different.Known, "a busy worker may not tell in time")
		}, eventually, tick)
		require.Equal(t, "10.00", different.Known.Amount)

		got, err := w.client.Status(within(t), in.ID)
		require.NoError(t, err)
		require.Equal(t, workflows.StateCompleted, got.State, "the last start was refused; the transfer of that ID is what the ledgers say")
	})
	t.Run("the same request has the same result", func(t *testing.T) {
		again, err := w.client.Transfer(within(t), in)
		require.NoError(t, err)
		requireSameEnd(t, first, again)
	})
	w.requireBalances(t, "10.00", "10.00")
}

// requireSameEnd compares two results of a transfer by what the ledgers recorded.
func requireSameEnd(t *testing.T, want, got workflows.TransferResult) {
	t.Helper()
	for _, result := range []*workflows.TransferResult{&want, &got} {
		for i := range result.Steps {
			result.Steps[i].Repeat = false
			result.Steps[i].At = result.Steps[i].At.UTC().Round(0)
		}
	}
	require.Equal(t, want, got)
}

func (w *world) forget(t *testing.T, id string) {
	t.Helper()
	ctx := within(t)
	_, err := w.temporal.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: w.server.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflows.TransferWorkflowID(id)},
	})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assertCollect) {
		_, err := w.temporal.DescribeWorkflow(ctx, workflows.TransferWorkflowID(id), "")
		requireNotFound(c, err)
	}, eventually, tick)
}

func TestInvalidRequestIsNotSent(t *testing.T) {
	nowhere, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1"})
	require.NoError(t, err)
	defer nowhere.Close()
	in := payBob(t)
	in.Amount = "10.001"
	_, err = transfers.New(nowhere, transfers.Options{}).Transfer(within(t), in)
	var invalid *ledger.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "amount", invalid.Field)
}

// A start whose answer is lost is sent again, by the SDK or by the client: it is one transfer all the same.
func TestStartWithItsAnswerLost(t *testing.T) {
	w := newWorld(t, server)
	for _, row := range []struct {
		name     string
		code     codes.Code
		attached bool
	}{
		{"the SDK asks again, in the name of the same request", codes.Unavailable, false},
		{"the client asks again", codes.DeadlineExceeded, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var starts atomic.Int32
			lose := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				err := invoke(ctx, method, req, reply, conn, opts...)
				if strings.HasSuffix(method, "/StartWorkflowExecution") && starts.Add(1) == 1 {
					return status.Error(row.code, "the answer is lost")
				}
				return err
			}
			connection := client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(lose)}}
			in := payBob(t)
			in.To = "us/carol"
			handle, err := transfers.New(dial(t, server, connection), transfers.Options{}).Start(within(t), in)
			require.NoError(t, err)
			require.Equal(t, row.attached, handle.Attached)
			result, err := handle.Wait(within(t))
			require.NoError(t, err)
			require.Equal(t, workflows.StateCompleted, result.State)
			require.EqualValues(t, 2, starts.Load())
		})
	}
	w.requireBalances(t, "0.00", "0.00")
}

func TestEagerStart(t *testing.T) {
	w := newWorld(t, server)
	result, err := transfers.New(w.temporal, transfers.Options{EagerStart: true}).Transfer(within(t), payBob(t))
	require.NoError(t, err)
	require.Equal(t, workflows.StateCompleted, result.State)
}

func TestWorkflowIsLabelled(t *testing.T) {
	w := newWorld(t, server)
	in := payBob(t)
	_, err := w.client.Transfer(within(t), in)
	require.NoError(t, err)
	description, err := w.temporal.DescribeWorkflow(within(t), workflows.TransferWorkflowID(in.ID), "")
	require.NoError(t, err)
	summary, err := description.GetStaticSummary()
	require.NoError(t, err)
	require.Equal(t, "10.00 USD/2 from us/alice to eu/bob", summary)
	id, _ := description.TypedSearchAttributes.GetKeyword(workflows.SearchAttributeTransferID)
	require.Equal(t, in.ID, id)
	state, _ := description.TypedSearchAttributes.GetKeyword(workflows.SearchAttributeState)
	require.Equal(t, string(workflows.StateCompleted), state)
}

// On a server that is not prepared, the errors say what to do, one after the other.
func TestNewServer(t *testing.T) {
	t.Parallel()
	bare := ownServer(t, devstack.TemporalConfig{})
	c := dial(t, bare, client.ConnectionOptions{})
	client := transfers.New(c, transfers.Options{})
	in := payBob(t)

	handle, err := client.Start(within(t), in)
	require.NoError(t, err)
	requirePending(t, handle, func(c *assertCollect, status transfers.Status) {
		require.Equal(c, []string{"no worker polls the task queue payonce, and none will start before the namespace has the search attributes of " +
			"transfers; make them, once: temporal operator search-attribute create --name PayonceState --type Keyword --name PayonceTransferID --type Keyword"},
			status.Notes)
	})

	_, err = c.OperatorService().AddSearchAttributes(within(t), &operatorservice.AddSearchAttributesRequest{
		Namespace: bare.Namespace,
		SearchAttributes: map[string]enums.IndexedValueType{
			"PayonceState": enums.INDEXED_VALUE_TYPE_KEYWORD, "PayonceTransferID": enums.INDEXED_VALUE_TYPE_KEYWORD,
		},
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := c.CountWorkflow(within(t), &workflowservice.CountWorkflowExecutionsRequest{Query: "PayonceState is not null and PayonceTransferID is not null"})
		return err == nil
	}, eventually, tick)

	t.Run("no worker", func(t *testing.T) {
		requirePending(t, handle, func(c *assertCollect, status transfers.Status) {
			require.Equal(c, workflows.StateRunning, status.State)
			require.Equal(c, in, status.Request)
			require.Equal(c, []string{"no worker polls the task queue payonce: is a worker running?"}, status.Notes)
		})
	})
	t.Run("no worker for one of the ledgers", func(t *testing.T) {
		us := standin.NewBooks()
		(&world{us: us, eu: standin.NewBooks()}).fund(t)
		stop, err := standin.Worker(c, standin.Options(), map[string]*standin.Books{"us": us})
		require.NoError(t, err)
		defer stop()
		requirePending(t, handle, func(c *assertCollect, status transfers.Status) {
			require.Equal(c, workflows.StateRunning, status.State)
			require.Equal(c, workflows.StepDeposit, status.Step)
			require.Equal(c, []string{"no worker polls the task queue payonce-eu: does a worker hold the ledger eu?"}, status.Notes)
		})
	})
}
