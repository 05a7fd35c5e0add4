package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"payonce/activities"
)

// Config is a worker to run.
type Config struct {
	Settings
	Log *slog.Logger
	// Version is told to those who ask for metrics.
	Version string

	// WrapLedger puts something between the activities and a ledger; nil for nothing. What it returns is behind the
	// ledger's gate, so its ledger.ErrUnavailable counts as an outage.
	WrapLedger func(name string, books activities.Ledger) activities.Ledger
	// WrapRail puts something between the activities and a rail; nil for nothing.
	WrapRail func(name string, rail activities.Rail) activities.Rail
	// Register adds activities to the worker of each task queue, and workflows to that of workflows.TaskQueue; on the
	// others a workflow that it registers is left out. It is called once for each of them. Nil for nothing.
	Register func(registry worker.Registry)
}

// ErrStopTimeout is returned when the worker was told to stop and still held work after StopTimeout. Nothing is lost by
// it: Temporal hands the work to another worker after its time-out, and its key protects what had been done.
var ErrStopTimeout = errors.New("not finished within the stop time-out")

// Run runs the worker until ctx ends, and then stops it in order: it takes no more work, finishes what it holds, and
// closes its connections. It returns nil after that, and ErrStopTimeout when there was work left.
//
// Other errors: a ledger's tables are older or newer than this program knows; Temporal refuses it, or lacks the namespace
// or the search attributes; no address to listen on; the worker failed for good. A ledger or a Temporal server that can't
// be reached is no error: Run goes on trying, and says so.
func Run(ctx context.Context, config Config) error {
	s := &server{config: config, log: config.Log}
	return s.run(ctx)
}

// server is a worker that runs.
type server struct {
	config  Config
	log     *slog.Logger
	ledgers []*servedLedger
	rails   []*servedRail
	notify  *activities.Notifications // nil: without endpoints
	state   state
	// temporal is there once Temporal was reached.
	temporal atomic.Pointer[client.Client]
}

func (s *server) run(ctx context.Context) (err error) {
	defer func() {
		s.state.set(stateStopped)
		s.closeLedgers(errors.Is(err, ErrStopTimeout))
		s.closeRails()
	}()
	if err := s.openRails(); err != nil {
		return err
	}
	if err := s.openEndpoints(); err != nil {
		return err
	}
	if err := s.openLedgers(ctx); err != nil {
		return err
	}
	metrics, err := newMetrics(s)
	if err != nil {
		return err
	}
	defer metrics.close()
	closeHTTP, err := s.listen(ctx, metrics)
	if err != nil {
		return err
	}
	defer closeHTTP()

	if err := s.checkLedgers(ctx); err != nil {
		return unlessStopped(ctx, err)
	}
	monitors, stopMonitors := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stopMonitors()
	for _, l := range s.ledgers {
		watching.Go(func() { l.monitor.run(monitors) })
	}

	options := s.config.Temporal
	options.Logger = sdklog.NewStructuredLogger(s.log)
	options.MetricsHandler = metrics.temporal
	if options.Identity == "" {
		options.Identity = identity()
	}
	temporal, err := connect(ctx, options, s.log)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer temporal.Close()
	s.temporal.Store(&temporal)
	return s.work(ctx, temporal)
}

// work runs the task queues' workers until ctx ends or one of them fails.
func (s *server) work(ctx context.Context, temporal client.Client) error {
	activity, cancelActivities := context.WithCancel(context.Background())
	defer cancelActivities()
	fatal := make(chan error, 1)
	workers := s.newWorkers(temporal, activity, func(err error) {
		select {
		case fatal <- err:
		default:
		}
	})
	for i, w := range workers {
		if err := w.worker.Start(); err != nil {
			_ = s.stop(workers[:i])
			return fmt.Errorf("task queue %s: %w", w.queue, err)
		}
	}
	queues := make([]string, len(workers))
	for i, w := range workers {
		queues[i] = w.queue
	}
	s.state.set(stateServing)
	s.log.Info("serving", "task_queues", queues, "namespace", s.config.Temporal.Namespace)

	select {
	case err := <-fatal:
		s.state.set(stateStopping)
		s.log.Error("the worker has failed and stops", "error", err)
		return errors.Join(fmt.Errorf("temporal: %w", err), s.stop(workers))
	case <-ctx.Done():
		s.state.set(stateStopping)
		s.log.Info("stopping: taking no more work, finishing what is held", "limit", s.config.StopTimeout.String())
		return s.stop(workers)
	}
}

// stop stops the workers side by side. Their own limit is a little above the one that is kept here, so that all of them
// returning in time means that all their work is done.
func (s *server) stop(workers []queueWorker) error {
	begun := time.Now()
	var stopping sync.WaitGroup
	for _, w := range workers {
		stopping.Go(w.worker.Stop)
	}
	done := make(chan struct{})
	go func() {
		stopping.Wait()
		close(done)
	}()
	limit := time.NewTimer(s.config.StopTimeout)
	defer limit.Stop()
	select {
	case <-done:
		s.log.Info("stopped", "after", time.Since(begun).Round(time.Millisecond).String())
		return nil
	case <-limit.C:
		return fmt.Errorf("%w of %s", ErrStopTimeout, s.config.StopTimeout)
	}
}

// unlessStopped is err, or nil when the worker was told to stop while it was starting: then the error says no more.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
