package host

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

func pollActivity(queue string) *workflowservice.PollActivityTaskQueueRequest {
	return &workflowservice.PollActivityTaskQueueRequest{TaskQueue: &taskqueue.TaskQueue{Name: queue}}
}

func pollWorkflow(queue string) *workflowservice.PollWorkflowTaskQueueRequest {
	return &workflowservice.PollWorkflowTaskQueueRequest{TaskQueue: &taskqueue.TaskQueue{Name: queue}}
}

// call sends a request that the server keeps open until the context ends.
func call(ctx context.Context, p *polls, request any) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- p.intercept(ctx, "", request, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	return done
}

func TestReadyWhenAllQueuesAreAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ready := 0
		p := newPolls([]pollQueue{
			{"payonce", enums.TASK_QUEUE_TYPE_WORKFLOW}, {"payonce-us", enums.TASK_QUEUE_TYPE_ACTIVITY},
		}, true, func() { ready++ })
		call(t.Context(), p, pollActivity("payonce"))
		sticky := pollWorkflow("host:1")
		sticky.TaskQueue.Kind, sticky.TaskQueue.NormalName = enums.TASK_QUEUE_KIND_STICKY, "payonce"
		call(t.Context(), p, sticky)
		call(t.Context(), p, pollWorkflow("payonce"))
		synctest.Wait()
		require.Zero(t, ready)
		call(t.Context(), p, pollActivity("payonce-us"))
		synctest.Wait()
		require.Equal(t, 1, ready)
		call(t.Context(), p, pollActivity("payonce-us"))
		synctest.Wait()
		require.Equal(t, 1, ready, "once")
	})
}

func TestHangUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPolls(nil, true, nil)
		open := call(t.Context(), p, pollActivity("payonce-us"))
		synctest.Wait()
		p.hangUp()
		require.ErrorIs(t, <-open, context.Canceled)

		ctx, cancel := context.WithCancel(t.Context())
		given := call(ctx, p, pollWorkflow("payonce"))
		kept := call(t.Context(), p, pollWorkflow("payonce"))
		synctest.Wait()
		require.Empty(t, p.open, "no request goes while hung up")
		cancel()
		require.ErrorIs(t, <-given, context.Canceled)

		p.resume()
		synctest.Wait()
		require.Len(t, p.open, 1)
		select {
		case err := <-kept:
			require.Fail(t, "the request that waited is open", "%v", err)
		default:
		}
	})
}

func TestSticky(t *testing.T) {
	t.Parallel()
	for _, sticky := range []bool{true, false} {
		p := newPolls(nil, sticky, nil)
		request := &workflowservice.RespondWorkflowTaskCompletedRequest{StickyAttributes: &taskqueue.StickyExecutionAttributes{}}
		err := p.intercept(t.Context(), "", request, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil })
		require.NoError(t, err)
		require.Equal(t, sticky, request.GetStickyAttributes() != nil)
	}
}
