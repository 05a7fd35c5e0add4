package serve

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"payonce/internal/reconcile"
	"payonce/workflows"
)

const (
	// workflowSlots bounds workflow tasks at once. A task holds its slot while the fast path runs, so it is well above
	// what the ledgers can do at once.
	workflowSlots = 400

	// workflowCacheSize is how many workflows are kept in memory between their tasks. One that is not is replayed when
	// something happens to it, which costs time and nothing else.
	workflowCacheSize = 4_000

	// askSlots bounds the activities of workflows.TaskQueue itself, which are look-ups for people.
	askSlots = 10

	// A task queue has four partitions unless the server is told otherwise, and a poller waits at one of them: with
	// fewer pollers than this, a task could lie where nobody looks.
	pollersMin   = 5
	pollersFirst = 8
	pollersMax   = 50

	// stopMargin is how much longer the SDK's own limit is than the one that is kept.
	stopMargin = 2 * time.Second
)

// queueWorker is the worker of one task queue.
type queueWorker struct {
	queue  string
	worker worker.Worker
}

// tasksPerConnection: posts share database transactions, so that far more tasks can be under way than there are connections.
// The others take turns.
const tasksPerConnection = 10

// slotsPerLedger is how many tasks of a ledger run at once.
func (s *server) slotsPerLedger() int { return tasksPerConnection * s.config.PoolSize }

// newWorkers makes the workers: one for the workflows, with the fast path and the look-ups, and one for the activities of each
// ledger, each rail, and the endpoints. Activities run under a context of their own, so that being told to stop does not cancel them.
func (s *server) newWorkers(temporal client.Client, activity context.Context, failed func(error)) []queueWorker { //nolint:revive // not the context of this call
	setCacheSize()
	acts := s.activities()
	fast := fixedSlots(s.slotsPerLedger() * len(s.ledgers))
	options := func(tasks worker.SlotSupplier) worker.Options {
		return worker.Options{
			Tuner:                      tuner{workflow: fixedSlots(workflowSlots), activity: tasks, local: fast},
			WorkflowTaskPollerBehavior: pollers(workflowSlots),
			ActivityTaskPollerBehavior: pollers(tasks.MaxSlots()),
			BackgroundActivityContext:  activity,
			WorkerStopTimeout:          s.config.StopTimeout + stopMargin,
			WorkflowPanicPolicy:        worker.BlockWorkflow,
			OnFatalError:               failed,
		}
	}

	main := worker.New(temporal, workflows.TaskQueue, options(fixedSlots(askSlots)))
	workflows.New(s.config.Workflows).Register(main)
	main.RegisterActivity(acts)
	main.RegisterActivity(s.reconcile(temporal))
	s.register(main)
	workers := []queueWorker{{queue: workflows.TaskQueue, worker: main}}
	serve := func(queue string, tasks worker.SlotSupplier, acts any) {
		o := options(tasks)
		o.DisableWorkflowWorker = true
		w := worker.New(temporal, queue, o)
		w.RegisterActivity(acts)
		s.register(activitiesOnly{w})
		workers = append(workers, queueWorker{queue: queue, worker: w})
	}
	for _, l := range s.ledgers {
		serve(workflows.LedgerTaskQueue(l.name), l.gate.slots, acts)
	}
	for _, r := range s.rails {
		serve(workflows.RailTaskQueue(r.name), fixedSlots(railSlots), r.acts)
	}
	if s.notify != nil {
		serve(workflows.NotifyTaskQueue, fixedSlots(notifySlots), s.notify)
	}
	return workers
}

// reconcile is the activity that holds the worker's ledgers against Temporal. It reads the books past the gates: in an outage
// it fails, and is tried again.
func (s *server) reconcile(temporal client.Client) *reconcile.Activity {
	a := &reconcile.Activity{Temporal: temporal, Namespace: s.config.Temporal.Namespace}
	for _, l := range s.ledgers {
		a.Ledgers = append(a.Ledgers, l.books)
	}
	return a
}

func (s *server) register(registry worker.Registry) {
	if s.config.Register != nil {
		s.config.Register(registry)
	}
}

// pollers lets the SDK choose how many pollers it has. Each holds a slot while it waits.
func pollers(slots int) worker.PollerBehavior {
	most := max(min(pollersMax, slots), 1)
	return worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: min(pollersFirst, most),
		MinimumNumberOfPollers: min(pollersMin, most),
		MaximumNumberOfPollers: most,
	})
}

// tuner says how much a worker does at once.
type tuner struct {
	workflow, activity, local worker.SlotSupplier
}

func (t tuner) GetWorkflowTaskSlotSupplier() worker.SlotSupplier    { return t.workflow }
func (t tuner) GetActivityTaskSlotSupplier() worker.SlotSupplier    { return t.activity }
func (t tuner) GetLocalActivitySlotSupplier() worker.SlotSupplier   { return t.local }
func (t tuner) GetNexusSlotSupplier() worker.SlotSupplier           { return fixedSlots(1) }
func (t tuner) GetSessionActivitySlotSupplier() worker.SlotSupplier { return fixedSlots(1) }

func fixedSlots(n int) worker.SlotSupplier {
	s := newSlots(n)
	s.setLimit(n)
	return s
}

// setCacheSize sets what the SDK has once per process.
var setCacheSize = sync.OnceFunc(func() { worker.SetStickyWorkflowCacheSize(workflowCacheSize) })

// identity names this process in Temporal's histories and lists of pollers.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("payonce-worker@%s/%d", host, os.Getpid())
}

// activitiesOnly leaves workflows out: a ledger's worker has none.
type activitiesOnly struct{ worker.Registry }

func (activitiesOnly) RegisterWorkflow(any) {}

func (activitiesOnly) RegisterWorkflowWithOptions(any, workflow.RegisterOptions) {}

func (activitiesOnly) RegisterDynamicWorkflow(any, workflow.DynamicRegisterOptions) {}
