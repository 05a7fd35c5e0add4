package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// timeoutStop is how long a program may take that is told to stop.
	timeoutStop = 45 * time.Second
	// shownBytes is how much of a program's output is shown when a test has failed.
	shownBytes = 16 << 10
)

// ProcessConfig is a program to run.
type ProcessConfig struct {
	Path string
	Args []string
	Env  []string // all of it
	Dir  string   // "" is that of the tests
}

// Process is a program that runs. Its methods may be called from several goroutines.
type Process struct {
	PID int
	// Output is all that it has printed.
	Output *Output
	// Stdout is what it has printed on standard output alone.
	Stdout *Output

	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	state *os.ProcessState // how it ended; read it after ended is closed

	mu       sync.Mutex
	expected bool // somebody has ended it, or waits for its end
}

// StartProcess runs a program until it ends, is stopped, or the test ends, which kills it. Its output is shown if the test
// fails.
func StartProcess(t testing.TB, c ProcessConfig) *Process {
	t.Helper()
	p, err := startProcess(c)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.Kill()
		p.show(t)
	})
	return p
}

func startProcess(c ProcessConfig) (*Process, error) {
	p := &Process{
		Output: newOutput(), Stdout: newOutput(), name: strings.Join(append([]string{programName(c.Path)}, c.Args...), " "),
		ended: make(chan struct{}),
	}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env, p.cmd.Dir = c.Env, c.Dir
	p.cmd.Stdout, p.cmd.Stderr = both{p.Output, p.Stdout}, p.Output
	p.cmd.SysProcAttr = childAttributes()
	// A killed program's child may hold its output open.
	p.cmd.WaitDelay = time.Second
	forgotten := make(chan func(), 1)
	forget, err := shared.watch(func() (func() error, error) {
		started := make(chan error, 1)
		go func() {
			// The kernel takes the thread that starts a process for its parent: it has to live as long.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := p.cmd.Start()
			started <- err
			if err != nil {
				return
			}
			_ = p.cmd.Wait()
			p.state = p.cmd.ProcessState
			close(p.ended)
			(<-forgotten)()
		}()
		return p.Kill, <-started
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	p.PID = p.cmd.Process.Pid
	forgotten <- forget
	return p, nil
}

func programName(path string) string { return path[strings.LastIndexByte(path, os.PathSeparator)+1:] }

// String is the command line.
func (p *Process) String() string { return p.name }

// Alive says whether the process is there; a frozen one is.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Signal sends a signal. One to a process that has ended is an error.
func (p *Process) Signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// Freeze stops the process where it is (SIGSTOP); Thaw continues it (SIGCONT).
func (p *Process) Freeze(t testing.TB) {
	t.Helper()
	require.NoError(t, p.Signal(syscall.SIGSTOP))
}

// Thaw continues a frozen process.
func (p *Process) Thaw(t testing.TB) {
	t.Helper()
	require.NoError(t, p.Signal(syscall.SIGCONT))
}

// Kill ends the process at once (SIGKILL), frozen or not, and returns when it is gone. Safe to call twice.
func (p *Process) Kill() error {
	p.expect()
	if err := p.Signal(os.Kill); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_, err := p.awaitEnd(timeoutStop)
	return err
}

// Stop tells the process to stop in order (SIGTERM), and returns its exit code, or -1 if a signal ended it.
func (p *Process) Stop(t testing.TB) int {
	t.Helper()
	p.expect()
	require.NoError(t, p.Signal(syscall.SIGTERM))
	return p.AwaitExit(t)
}

// AwaitExit waits until the process has ended, and returns its exit code, or -1 if a signal ended it.
func (p *Process) AwaitExit(t testing.TB) int {
	t.Helper()
	p.expect()
	state, err := p.awaitEnd(timeoutStop)
	require.NoError(t, err)
	return state.ExitCode()
}

func (p *Process) expect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

// endedByItself says that the process has ended although nobody wanted it to.
func (p *Process) endedByItself() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.expected && !p.Alive()
}

func (p *Process) awaitEnd(limit time.Duration) (*os.ProcessState, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return p.state, nil
	case <-timer.C:
		return nil, fmt.Errorf("%s (process %d) does not end", p.name, p.PID)
	}
}

// AwaitOutput waits until the process has printed a text. The test fails if it ends before.
func (p *Process) AwaitOutput(t testing.TB, text string) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%s prints %q", p.name, text), func() bool {
		alive := p.Alive()
		if p.Output.Contains(text) {
			return true
		}
		require.True(t, alive, "%s has ended (%v) before it printed %q; it printed:\n%s", p.name, p.state, text, p.Output)
		return false
	})
}

// show prints the process's output if the test has failed.
func (p *Process) show(t testing.TB) {
	t.Helper()
	if t.Failed() {
		t.Logf("%s (process %d) printed:\n%s", p.name, p.PID, p.Output.tail(shownBytes))
	}
}

// Output is what a program has printed so far.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newOutput() *Output { return &Output{} }

// Write makes it an io.Writer.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

// String is the whole text.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Contains says whether a text has been printed.
func (o *Output) Contains(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Contains(o.text.Bytes(), []byte(text))
}

func (o *Output) tail(bytesMax int) string {
	text := o.String()
	if len(text) > bytesMax {
		return "…" + text[len(text)-bytesMax:]
	}
	return text
}

// both writes to two outputs.
type both [2]*Output

func (b both) Write(text []byte) (int, error) {
	_, _ = b[0].Write(text)
	return b[1].Write(text)
}
