package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"payonce/internal/faultworker/fault"
	"payonce/workflows"
)

const (
	// stopTime is how long a worker that is told to stop may take.
	stopTime = 5 * time.Second
	// killTime is how long the kernel may take to end a process: one that waits for a disk ends when that has answered.
	killTime = time.Minute
)

// Config is a fault worker to start.
type Config struct {
	// Binary is the path of the faultworker program.
	Binary string
	// Env is its whole environment: LEDGERS, TEMPORAL_ADDRESS and the other settings of a worker.
	Env     []string
	Faults  []fault.Fault
	Options workflows.Options
	// Sticky lets the server prefer this worker for the workflows that it has in memory. It costs seconds when that worker
	// is dead.
	Sticky bool
	// Log gets the worker's log; nil: nobody.
	Log io.Writer
	// OnEvent is called with each announcement, one at a time and in order; nil: nobody is.
	OnEvent func(fault.Event)
}

// Worker is a fault worker's process. Its methods may be called from several goroutines.
type Worker struct {
	PID int

	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{}
	state string // how it ended; read it after ended is closed

	mu     sync.Mutex
	events []fault.Event
	news   chan struct{} // closed, and replaced, at each event
}

// Start starts a worker and returns at once: see AwaitReady. Always call Stop or Kill, also after it has ended.
func Start(c Config) (*Worker, error) {
	args := append([]string{"--" + FlagUntilInputEnds, fmt.Sprintf("--%s=%t", FlagSticky, c.Sticky)}, OptionArgs(c.Options)...)
	for _, f := range c.Faults {
		args = append(args, "--"+FlagFault, f.String())
	}
	cmd := exec.Command(c.Binary, args...)
	cmd.Env = c.Env
	cmd.Stderr = c.Log
	cmd.SysProcAttr = attributes()
	// A killed worker's child, if it had one, could hold its output open.
	cmd.WaitDelay = time.Second
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w := &Worker{cmd: cmd, input: input, ended: make(chan struct{}), news: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel counts the thread that started the process as its parent: it has to live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		// All announcements are read before the end is told, so that what is not there by then never will be.
		w.listen(output, c.OnEvent)
		_ = cmd.Wait()
		w.state = cmd.ProcessState.String()
		close(w.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	w.PID = cmd.Process.Pid
	return w, nil
}

func (w *Worker) listen(output io.Reader, onEvent func(fault.Event)) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var event fault.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			// The last line of a process that was killed while it wrote.
			continue
		}
		if onEvent != nil {
			onEvent(event)
		}
		w.mu.Lock()
		w.events = append(w.events, event)
		close(w.news)
		w.news = make(chan struct{})
		w.mu.Unlock()
	}
}

// Events are all announcements so far.
func (w *Worker) Events() []fault.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// Await returns the first announcement that fits, whether it has been made or is still to come. The error says that the
// context ended first, or the worker.
func (w *Worker) Await(ctx context.Context, fits func(fault.Event) bool) (fault.Event, error) {
	for seen := 0; ; {
		w.mu.Lock()
		fresh, news := w.events[seen:], w.news
		w.mu.Unlock()
		for _, event := range fresh {
			if fits(event) {
				return event, nil
			}
		}
		seen += len(fresh)
		select {
		case <-news:
			continue
		default:
		}
		select {
		case <-news:
		case <-w.ended:
			w.mu.Lock()
			complete := seen == len(w.events)
			w.mu.Unlock()
			if complete {
				return fault.Event{}, fmt.Errorf("worker %d ended: %s", w.PID, w.state)
			}
		case <-ctx.Done():
			return fault.Event{}, context.Cause(ctx)
		}
	}
}

// AwaitReady waits until the worker asks for work on all its task queues. Errors are those of Await.
func (w *Worker) AwaitReady(ctx context.Context) error {
	_, err := w.Await(ctx, func(e fault.Event) bool { return e.Event == fault.EventReady })
	return err
}

// AwaitFault waits until the worker announces that a fault strikes at a point. Errors are those of Await.
func (w *Worker) AwaitFault(ctx context.Context, point fault.Point) (fault.Event, error) {
	return w.Await(ctx, func(e fault.Event) bool { return e.Event == fault.EventFault && e.Point == point })
}

// AwaitEnd waits until the process is gone, and all that it announced is known, and returns how it ended: "signal:
// killed".
func (w *Worker) AwaitEnd(ctx context.Context) (string, error) {
	select {
	case <-w.ended:
		return w.state, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Alive says whether the process is there; a frozen one is.
func (w *Worker) Alive() bool {
	select {
	case <-w.ended:
		return false
	default:
		return true
	}
}

// Freeze stops the process where it is (SIGSTOP).
func (w *Worker) Freeze() error { return w.cmd.Process.Signal(freeze) }

// Thaw continues a frozen process (SIGCONT).
func (w *Worker) Thaw() error { return w.cmd.Process.Signal(thaw) }

// LetGo lets what fault.ActionHold holds go on, and holds nothing from now on. Safe to call twice.
func (w *Worker) LetGo() error {
	_, err := io.WriteString(w.input, "let go\n")
	return err
}

// Stop tells the worker to stop, frozen or not, and kills it when it does not in time, or when the context ends. Safe to
// call twice.
func (w *Worker) Stop(ctx context.Context) error {
	if !w.Alive() {
		return w.Kill()
	}
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	_ = w.Thaw()
	patience, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	_, _ = w.AwaitEnd(patience)
	return w.Kill()
}

// Kill ends the process at once (SIGKILL), frozen or not, and returns when it is gone. Safe to call twice.
func (w *Worker) Kill() error {
	defer w.input.Close()
	if !w.Alive() {
		return nil
	}
	// An error means that it has just ended, which the wait sees.
	_ = w.cmd.Process.Signal(os.Kill)
	limit := time.NewTimer(killTime)
	defer limit.Stop()
	select {
	case <-w.ended:
		return nil
	case <-limit.C:
		return fmt.Errorf("worker %d does not end", w.PID)
	}
}
