package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/internal/faultworker/fault"
	"payonce/internal/faultworker/process"
	"payonce/workflows"
)

// WorkerConfig is a worker to run.
type WorkerConfig struct {
	// Ledgers are those that it holds; nil is all.
	Ledgers []string
	// Env are further settings, NAME=value; they win over the world's.
	Env []string
	// PanicsExpected: its log may tell of panics of workflows or activities, which otherwise fail the test.
	PanicsExpected bool
}

// Worker is the worker program that runs.
type Worker struct{ *Process }

// StartWorker runs the worker program, and returns when it serves. It is stopped when the world ends; that it ends earlier
// by itself fails the test.
func (w *World) StartWorker(t testing.TB, c WorkerConfig) *Worker {
	t.Helper()
	worker := w.LaunchWorker(t, c)
	worker.AwaitOutput(t, "msg=serving")
	return worker
}

// LaunchWorker is StartWorker without waiting.
func (w *World) LaunchWorker(t testing.TB, c WorkerConfig) *Worker {
	t.Helper()
	p, err := startProcess(ProcessConfig{Path: Binary(t, worker), Args: []string{"run"}, Env: append(w.WorkerEnv(c.Ledgers...), c.Env...)})
	require.NoError(t, err)
	w.atEnd(func(t testing.TB) {
		assert.False(t, p.endedByItself(), "%s (process %d) has ended by itself: %v", p, p.PID, p.state)
		assert.NoError(t, p.Kill())
		noPanics(t, p.Output, c.PanicsExpected)
		p.show(t)
	})
	return &Worker{p}
}

func noPanics(t testing.TB, output *Output, expected bool) {
	t.Helper()
	if expected {
		return
	}
	// On a busy machine a workflow that does nothing wrong may not get on for a second, which the SDK takes for a deadlock.
	const slow = "TMPRL1101"
	for line := range strings.Lines(output.String()) {
		panicked := strings.Contains(line, "Workflow panic") || strings.Contains(line, "Activity panic")
		assert.False(t, panicked && !strings.Contains(line, slow), "a worker's log tells of a panic: %s", line)
	}
}

// ShortOptions are the workflows' options for tests in which time-outs and caps are reached: short. A test that is about something
// else gives its attempts more time.
func ShortOptions() workflows.Options {
	return workflows.Options{
		Fast:    workflows.FastOptions{TimeoutStartToClose: time.Second, AttemptsMax: 2, Backoff: 20 * time.Millisecond},
		Forward: workflows.StepOptions{TimeoutStartToClose: 2 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, AttemptsMax: 3},
		Settle:  workflows.StepOptions{TimeoutStartToClose: 2 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, AttemptsMax: 4},
		Record:  workflows.StepOptions{TimeoutStartToClose: 5 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: 500 * time.Millisecond},
		Outage:  workflows.OutageOptions{Budget: 5 * time.Minute, BackoffFirst: 100 * time.Millisecond, BackoffMax: time.Second},
		Notify:  workflows.StepOptions{TimeoutStartToClose: 5 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, AttemptsMax: 4},
		Ask:     workflows.StepOptions{TimeoutStartToClose: 5 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: time.Second},
		Write:   workflows.WriteOptions{TimeoutHeartbeat: 2 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: time.Second, Within: 5 * time.Minute},
		Rail: workflows.RailOptions{
			Submit:    workflows.StepOptions{TimeoutStartToClose: 5 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, AttemptsMax: 2},
			Ask:       workflows.StepOptions{TimeoutStartToClose: 5 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, AttemptsMax: 2},
			PollFirst: 100 * time.Millisecond, PollMax: 500 * time.Millisecond, Patience: 5 * time.Minute,
		},
	}
}

// FaultConfig is a worker with faults to run.
type FaultConfig struct {
	// Ledgers are those that it holds; nil is all.
	Ledgers []string
	// Faults are in the words of fault.Parse: "withdraw/after=kill;transfer=rent".
	Faults []string
	// FaultsMayMiss: a fault that does not strike does not fail the test.
	FaultsMayMiss bool
	// Options change the workflows' options, which are ShortOptions.
	Options func(*workflows.Options)
	// Env are further settings, NAME=value; they win over the world's.
	Env []string
	// Sticky lets the server prefer this worker for the workflows that it has in memory, as it does with the real one.
	Sticky bool

	binary string // the program; "" is faultworker as it is built for all tests
}

// Durable turns the fast path off: a FaultConfig.Options. An attempt that is lost then costs its own time-out, and not that
// of a workflow task, which is 10 s.
func Durable(o *workflows.Options) { o.Fast.AttemptsMax = 0 }

// FaultWorker is the worker with faults that runs. The methods of process.Worker are there too.
type FaultWorker struct {
	*process.Worker

	Log    *Output
	faults []fault.Fault
}

// StartFaultWorker runs the worker with faults, and returns when it asks for work. It is killed when the world ends. A
// fault that has not struck by then fails the test: it would prove nothing.
func (w *World) StartFaultWorker(t testing.TB, c FaultConfig) *FaultWorker {
	t.Helper()
	options := ShortOptions()
	if c.Options != nil {
		c.Options(&options)
	}
	f := &FaultWorker{Log: newOutput()}
	panics := false
	for _, text := range c.Faults {
		parsed, err := fault.Parse(text)
		require.NoError(t, err)
		f.faults = append(f.faults, parsed)
		panics = panics || parsed.Action == fault.ActionPanic
	}
	binary := c.binary
	if binary == "" {
		binary = Binary(t, faultWorker)
	}
	forget, err := shared.watch(func() (func() error, error) {
		var err error
		f.Worker, err = process.Start(process.Config{
			Binary: binary, Env: append(w.WorkerEnv(c.Ledgers...), c.Env...), Faults: f.faults, Options: options, Sticky: c.Sticky, Log: f.Log,
		})
		if err != nil {
			return nil, err
		}
		return f.Kill, nil
	})
	require.NoError(t, err)
	w.atEnd(func(t testing.TB) {
		defer forget()
		assert.NoError(t, f.Kill())
		if !c.FaultsMayMiss {
			f.assertStruck(t)
		}
		noPanics(t, f.Log, panics)
		if t.Failed() {
			t.Logf("faultworker %d announced:\n%s", f.PID, f.told())
			t.Logf("faultworker %d printed:\n%s", f.PID, f.Log.tail(shownBytes))
		}
	})
	require.NoError(t, f.AwaitReady(Within(t, patience)), "it printed: %s", f.Log)
	return f
}

func (f *FaultWorker) assertStruck(t testing.TB) {
	t.Helper()
	events := f.Events()
	for i := range f.faults {
		one := &f.faults[i]
		struck := slices.ContainsFunc(events, func(e fault.Event) bool {
			return e.Event == fault.EventFault && e.Action == one.Action && one.Matches(e.Point, e.Key)
		})
		assert.True(t, struck, "the fault %s did not strike", one)
	}
}

func (f *FaultWorker) told() string {
	var lines strings.Builder
	for _, e := range f.Events() {
		fmt.Fprintf(&lines, "  %s %-7s %-16s %s attempt %d local %t %s %s %s %s\n", e.At.Format("15:04:05.000"), e.Event, e.Point, e.Key,
			e.Attempt, e.Local, e.Action, e.State, e.Code, e.Error)
	}
	return lines.String()
}

// AwaitStrike waits until a fault strikes at a point, "deposit/before", for a transfer; "" is any.
func (f *FaultWorker) AwaitStrike(t testing.TB, point, transfer string) fault.Event {
	t.Helper()
	at, err := fault.ParsePoint(point)
	require.NoError(t, err)
	match := fault.Fault{Point: at, Transfer: transfer}
	return f.AwaitEvent(t, "the fault at "+point+" strikes", func(e fault.Event) bool {
		return e.Event == fault.EventFault && match.Matches(e.Point, e.Key)
	})
}

// AwaitAnswer waits until a ledger has answered a write of a kind for a transfer.
func (f *FaultWorker) AwaitAnswer(t testing.TB, kind fault.Kind, transfer string) fault.Event {
	t.Helper()
	match := fault.Fault{Point: fault.Point{Kind: kind, Moment: fault.After}, Transfer: transfer}
	return f.AwaitEvent(t, "a "+string(kind)+" is answered", func(e fault.Event) bool {
		return e.Event == fault.EventAnswer && match.Matches(e.Point, e.Key)
	})
}

// AwaitEvent waits for an announcement that fits; what says which.
func (f *FaultWorker) AwaitEvent(t testing.TB, what string, fits func(fault.Event) bool) fault.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	event, err := f.Await(ctx, fits)
	require.NoError(t, err, "waited in vain: %s", what)
	return event
}

// LetGo lets what the fault "hold" holds go on.
func (f *FaultWorker) LetGo(t testing.TB) {
	t.Helper()
	require.NoError(t, f.Worker.LetGo())
}

// AwaitKilled waits until the process is gone, as by SIGKILL.
func (f *FaultWorker) AwaitKilled(t testing.TB) {
	t.Helper()
	state, err := f.AwaitEnd(Within(t, patience))
	require.NoError(t, err)
	require.Contains(t, state, "killed")
}
