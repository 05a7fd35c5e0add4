package devstack

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// childConfig describes a server to run as a child process.
type childConfig struct {
	name        string // for messages
	path        string
	args        []string
	env         []string
	dir         string
	logPath     string // where its output is appended
	account     *account
	deathSignal syscall.Signal // what it gets when we die
	lock        *os.File       // inherited by it and its children; may be nil
}

// child is a server's process. It ends when we do.
type child struct {
	name    string
	pid     int
	logPath string
	logFrom int64 // where its own lines begin
	process *os.Process
	ended   chan struct{}
	state   string // how it ended, and its exit code; read them after ended is closed
	code    int
}

func startChild(c childConfig) (*child, error) {
	out, err := os.OpenFile(c.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	logFrom, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.path, c.args...)
	cmd.Env = c.env
	cmd.Dir = c.dir
	// A file, not a pipe: a server must be able to say its last words when we
	// are no longer there to read them.
	cmd.Stdout, cmd.Stderr = out, out
	if c.lock != nil {
		cmd.ExtraFiles = []*os.File{c.lock}
	}
	cmd.SysProcAttr = childAttributes(c.account)
	guard, err := endWithParent(cmd, c.deathSignal)
	if err != nil {
		return nil, err
	}

	ch := &child{name: c.name, logPath: c.logPath, logFrom: logFrom, ended: make(chan struct{})}
	result := make(chan error, 1)
	go func() {
		// The kernel counts the thread that forked as the parent: were it to end
		// before the child, the child would get its death signal.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			guard.ended()
			result <- fmt.Errorf("start %s: %w", c.name, err)
			return
		}
		guard.started()
		ch.pid, ch.process = cmd.Process.Pid, cmd.Process
		result <- nil
		_ = cmd.Wait()
		guard.ended()
		ch.state, ch.code = cmd.ProcessState.String(), cmd.ProcessState.ExitCode()
		close(ch.ended)
	}()
	if err := <-result; err != nil {
		return nil, err
	}
	return ch, nil
}

func (c *child) alive() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// exit returns the error of a server that ended unasked. Call it after ended
// is closed.
func (c *child) exit() error {
	return &exitError{name: c.name, state: c.state, tail: tailOf(c.logPath, c.logFrom)}
}

// wait returns when the process is gone, or with the context's error.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to end: %w", c.name, context.Cause(ctx))
	}
}

// killTimeout is how long the kernel may take to end a process: one that waits
// for a disk ends when that has answered.
const killTimeout = time.Minute

// farewell is a signal and the time a process has to heed it.
type farewell struct {
	signal syscall.Signal
	within time.Duration
}

// end sends one signal after the other until the process is gone. When the
// context ends it returns early, with the process still alive.
func (c *child) end(ctx context.Context, farewells ...farewell) error {
	if !c.alive() {
		return nil
	}
	for _, f := range append(farewells, farewell{syscall.SIGKILL, killTimeout}) {
		// An error means that the process has just ended, which wait will see.
		_ = c.process.Signal(f.signal)
		patience, cancel := context.WithTimeout(ctx, f.within)
		err := c.wait(patience)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("%s (process %d) does not end", c.name, c.pid)
}

// environment returns what a server gets to see of our environment: nothing
// that would change its behaviour, and no secrets.
func environment(extra ...string) []string {
	var env []string
	for _, name := range []string{"PATH", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, extra...)
}
