package standin

import (
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"payonce/activities"
	"payonce/workflows"
)

// Options are workflows.DefaultOptions with short waits, so that what runs out does so at once. An attempt may take as long as a
// ledger that is told to keep it does.
func Options() workflows.Options {
	options := workflows.DefaultOptions()
	options.Fast = workflows.FastOptions{TimeoutStartToClose: time.Second, AttemptsMax: 1, Backoff: 10 * time.Millisecond}
	for _, step := range []*workflows.StepOptions{&options.Forward, &options.Settle} {
		step.AttemptsMax, step.BackoffFirst, step.BackoffMax = 2, 10*time.Millisecond, 100*time.Millisecond
		step.TimeoutStartToClose = 10 * time.Minute
	}
	return options
}

// Worker runs the workflows, and the activities of some ledgers, until stop is called.
func Worker(c client.Client, options workflows.Options, books map[string]*Books) (stop func(), err error) {
	held := make(map[string]activities.Ledger, len(books))
	for name, b := range books {
		held[name] = b
	}
	acts := activities.New(held)
	queues := []string{workflows.TaskQueue}
	for name := range books {
		queues = append(queues, workflows.LedgerTaskQueue(name))
	}
	var started []worker.Worker
	stop = func() {
		for _, w := range started {
			w.Stop()
		}
	}
	for _, queue := range queues {
		w := worker.New(c, queue, worker.Options{DisableWorkflowWorker: queue != workflows.TaskQueue, WorkerStopTimeout: time.Second})
		if queue == workflows.TaskQueue {
			workflows.New(options).Register(w)
		}
		w.RegisterActivity(acts)
		if err := w.Start(); err != nil {
			stop()
			return nil, err
		}
		started = append(started, w)
	}
	return stop, nil
}
