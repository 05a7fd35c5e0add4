package host

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"payonce/workflows"
)

// hangUpTime is how long the server gets to learn that requests for work were hung up.
const hangUpTime = 100 * time.Millisecond

// polls watches the process's requests for work: it says when there is one on each task queue, and can hang them all up.
type polls struct {
	sticky bool
	ready  func()

	mu      sync.Mutex
	missing map[pollQueue]bool // not asked yet
	open    map[*context.CancelFunc]bool
	hungUp  chan struct{} // not nil while hung up; closed when that ends
}

// pollQueue is a task queue and what is asked of it.
type pollQueue struct {
	name string
	kind enums.TaskQueueType
}

// queues are those that the worker asks for work.
func (c *config) queues() []pollQueue {
	queues := []pollQueue{{workflows.TaskQueue, enums.TASK_QUEUE_TYPE_WORKFLOW}}
	for _, l := range c.settings.Ledgers {
		queues = append(queues, pollQueue{workflows.LedgerTaskQueue(l.Name), enums.TASK_QUEUE_TYPE_ACTIVITY})
	}
	return queues
}

// newPolls returns polls that call ready once all the queues are asked.
func newPolls(queues []pollQueue, sticky bool, ready func()) *polls {
	p := &polls{sticky: sticky, ready: ready, missing: make(map[pollQueue]bool), open: make(map[*context.CancelFunc]bool)}
	for _, q := range queues {
		p.missing[q] = true
	}
	return p
}

// intercept is the interceptor of the client's calls.
func (p *polls) intercept(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	var queue pollQueue
	switch r := request.(type) {
	case *workflowservice.PollWorkflowTaskQueueRequest:
		queue = pollQueue{nameOf(r.GetTaskQueue()), enums.TASK_QUEUE_TYPE_WORKFLOW}
	case *workflowservice.PollActivityTaskQueueRequest:
		queue = pollQueue{nameOf(r.GetTaskQueue()), enums.TASK_QUEUE_TYPE_ACTIVITY}
	case *workflowservice.RespondWorkflowTaskCompletedRequest:
		if !p.sticky {
			// The server then offers the workflow's next task to every worker, and not for some seconds to this one alone,
			// which may be gone by then.
			r.StickyAttributes = nil
		}
		return invoke(ctx, method, request, reply, conn, options...)
	default:
		return invoke(ctx, method, request, reply, conn, options...)
	}
	ctx, done, err := p.begin(ctx, queue)
	if err != nil {
		return err
	}
	defer done()
	return invoke(ctx, method, request, reply, conn, options...)
}

func nameOf(queue *taskqueue.TaskQueue) string {
	if queue.GetKind() == enums.TASK_QUEUE_KIND_STICKY {
		return queue.GetNormalName() + " (sticky)"
	}
	return queue.GetName()
}

// begin lets a request go as soon as the polls are not hung up, under a context that hanging up ends.
func (p *polls) begin(ctx context.Context, queue pollQueue) (context.Context, func(), error) {
	p.mu.Lock()
	for p.hungUp != nil {
		hungUp := p.hungUp
		p.mu.Unlock()
		select {
		case <-hungUp:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	p.open[&cancel] = true
	if p.missing[queue] {
		delete(p.missing, queue)
		if len(p.missing) == 0 {
			p.ready()
		}
	}
	return ctx, func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, &cancel)
	}, nil
}

// hangUp ends all requests for work, and lets none go until resume.
func (p *polls) hangUp() {
	p.mu.Lock()
	if p.hungUp == nil {
		p.hungUp = make(chan struct{})
	}
	for cancel := range p.open {
		(*cancel)()
	}
	p.mu.Unlock()
	timer := time.NewTimer(hangUpTime)
	defer timer.Stop()
	<-timer.C
}

// resume lets requests go again.
func (p *polls) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hungUp != nil {
		close(p.hungUp)
		p.hungUp = nil
	}
}
