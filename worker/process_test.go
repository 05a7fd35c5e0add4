package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/internal/devstack"
)

// patience is how long a test waits for what has to happen, on a machine however busy.
const patience = 3 * time.Minute

// process is a worker process that runs, with a JSON log.
type process struct {
	cmd    *exec.Cmd
	output *syncBuffer // stdout and stderr
	ended  chan struct{}
	code   int // read it after ended is closed
}

// startWorker starts `worker run`. It is killed at the test's end if it still runs.
func startWorker(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{output: &syncBuffer{}, ended: make(chan struct{})}
	// Not CommandContext: the test's context ends before its clean-ups run.
	p.cmd = exec.Command(program, append([]string{"run", "--log-format", "json"}, args...)...)
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		err := p.cmd.Wait()
		var exit *exec.ExitError
		switch {
		case err == nil:
		case errors.As(err, &exit):
			p.code = exit.ExitCode()
		default:
			p.code = -2
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("the log of worker %d:\n%s", p.cmd.Process.Pid, p.output)
		}
	})
	return p
}

// serving starts a worker and waits until it serves.
func serving(t *testing.T, stack *devstack.Stack, args ...string) *process {
	t.Helper()
	p := startWorker(t, environment(stack), args...)
	p.awaitLog(t, `"msg":"serving"`)
	return p
}

// awaitLog waits until the log has a text.
func (p *process) awaitLog(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !strings.Contains(p.output.String(), text) {
		select {
		case <-p.output.written():
		case <-p.ended:
			if !strings.Contains(p.output.String(), text) {
				t.Fatalf("the worker ended with %d before it logged %s", p.code, text)
			}
		case <-ctx.Done():
			t.Fatalf("the worker does not log %s", text)
		}
	}
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s))
}

// stop sends SIGTERM and returns the exit code.
func (p *process) stop(t *testing.T) int {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	return p.exit(t)
}

// exit waits for the end and returns the exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.code
	case <-time.After(patience):
		t.Fatal("the worker does not end")
		return -1
	}
}

// address is where the worker answers HTTP.
func (p *process) address(t *testing.T) string {
	t.Helper()
	p.awaitLog(t, "answering /metrics")
	for _, line := range lines(p.output.String()) {
		if address, ok := line["address"].(string); ok {
			return address
		}
	}
	t.Fatal("the log does not say where")
	return ""
}

// runWorker runs a command to its end.
func runWorker(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// syncBuffer is a buffer that several may use, and wait for.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	news   chan struct{} // closed at the next write
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.news != nil {
		close(b.news)
		b.news = nil
	}
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// written returns a channel that is closed at the next write, or soon: between a look at the text and this call a
// write may have gone unseen.
func (b *syncBuffer) written() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.news == nil {
		b.news = make(chan struct{})
		news := b.news
		time.AfterFunc(50*time.Millisecond, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.news == news {
				close(news)
				b.news = nil
			}
		})
	}
	return b.news
}
