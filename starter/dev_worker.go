package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"payonce/internal/devstack"
)

const (
	// timeoutWorkerStop is how long the worker finishes what it holds, timeoutWorkerGrace how long we wait for that.
	timeoutWorkerStop  = 10 * time.Second
	timeoutWorkerGrace = 15 * time.Second
)

// findWorker finds the worker program: beside this one, or on PATH.
func findWorker() (string, error) {
	const name = "worker"
	if self, err := os.Executable(); err == nil {
		if program, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return program, nil
		}
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("there is no program %q beside this one or on PATH: build it with make build", name)
	}
	return program, nil
}

// migrate brings the ledgers' tables up to date.
func migrate(ctx context.Context, program string, env []string, output io.Writer) error {
	migration, err := startChild(childConfig{program: program, args: []string{"migrate", "--worker-role", devstack.WorkerRole}, env: env, output: output})
	if err != nil {
		return err
	}
	select {
	case <-migration.ended:
	case <-ctx.Done():
		migration.stop()
	}
	if !migration.ok {
		return fmt.Errorf("worker migrate failed: %s", migration.state)
	}
	return nil
}

// childConfig describes a program to run.
type childConfig struct {
	program string
	args    []string
	env     []string
	output  io.Writer // gets its stdout and stderr
}

// child is a program that runs beside us, in a process group of its own: a terminal's Ctrl-C reaches us alone, and we end
// it in order. It ends when we do.
type child struct {
	process *os.Process
	ended   chan struct{}
	// How it ended; read them after ended is closed.
	ok    bool
	state string
}

func startChild(config childConfig) (*child, error) {
	cmd := exec.Command(config.program, config.args...)
	cmd.Env = config.env
	cmd.Stdout, cmd.Stderr = config.output, config.output
	cmd.SysProcAttr = childAttributes()
	cmd.WaitDelay = time.Second
	c := &child{ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel takes the thread that started the child for its parent: were it to end first, the child would get its
		// death signal.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", config.program, err)
			return
		}
		c.process = cmd.Process
		started <- nil
		err := cmd.Wait()
		c.ok, c.state = err == nil, cmd.ProcessState.String()
		close(c.ended)
	}()
	return c, <-started
}

// stop asks the child to end, and returns when it has. After a while it is made to.
func (c *child) stop() {
	if err := c.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = c.process.Kill()
	}
	patience := time.NewTimer(timeoutWorkerGrace)
	defer patience.Stop()
	select {
	case <-c.ended:
	case <-patience.C:
		_ = c.process.Kill()
		<-c.ended
	}
}

// prefixWriter passes whole lines on, each with a prefix. Several may share a writer.
type prefixWriter struct {
	mu      sync.Mutex
	w       io.Writer
	prefix  string
	pending []byte
}

// Write never fails: a log that can't be written must not end what it is about.
func (p *prefixWriter) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = append(p.pending, text...)
	for {
		end := bytes.IndexByte(p.pending, '\n')
		if end < 0 {
			return len(text), nil
		}
		// One call for one line, so that the lines of two writers stay apart.
		_, _ = p.w.Write(append([]byte(p.prefix), p.pending[:end+1]...))
		p.pending = p.pending[end+1:]
	}
}

func (p *prefixWriter) say(text string) { _, _ = p.Write([]byte(text + "\n")) }
