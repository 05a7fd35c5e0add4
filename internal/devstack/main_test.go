package devstack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// helperEnv turns the test binary into a program that runs a stack: see helper.
const helperEnv = "PAYONCE_DEVSTACK_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		run := helper
		if os.Getenv(helperEnv) == "watchdog" {
			run = watchdogHelper
		}
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The tests bring their own servers.
	os.Unsetenv("DATABASE_URL")
	os.Unsetenv("TEMPORAL_ADDRESS")
	os.Unsetenv("TEMPORAL_NAMESPACE")
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "servers that are stopped leave no goroutines:", err)
		code = 1
	}
	os.Exit(code)
}

// helperReport is what the helper says once its stack runs.
type helperReport struct {
	PIDs []int
	Dirs []string
	User int
}

// helper starts a stack, reports it, and waits for an interrupt, as the
// programs do. Killed while it waits, it leaves the clearing up to others.
func helper() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := Start(ctx, Config{Dir: os.Getenv(helperEnv + "_DIR"), Log: os.Stderr})
	if err != nil {
		return err
	}
	err = json.NewEncoder(os.Stdout).Encode(helperReport{
		PIDs: []int{s.Postgres.PID(), s.Temporal.PID()},
		Dirs: []string{s.Postgres.dir.path, s.Temporal.dir.path},
		User: os.Geteuid(),
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return s.Close()
}

// watchdogHelper runs a server that a watchdog watches, until it is killed.
func watchdogHelper() error {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = childAttributes(nil)
	dog, err := watch(cmd, syscall.SIGINT)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	dog.started()
	if err := json.NewEncoder(os.Stdout).Encode(helperReport{PIDs: []int{cmd.Process.Pid, dog.process.Pid}}); err != nil {
		return err
	}
	return cmd.Wait()
}

// patience is how long one thing may take: far longer than it does, also on a
// busy machine.
const patience = 4 * time.Minute

// within returns a context for one test, longer than anything takes on a busy
// machine and shorter than the test binary's time-out.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	require.Eventually(t, done, patience, pollInterval, what)
}

// gone reports whether a process has ended; one that nobody has waited for yet
// has ended too.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return os.IsNotExist(err)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// publicDir returns a folder that other accounts may enter, unlike TempDir's.
func publicDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "payonce-test-") //nolint:usetesting // TempDir is closed to other accounts
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// script writes an executable shell script.
func script(t testing.TB, path, body string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	return path
}

// testLog shows a server's progress with the test's own output.
func testLog(t testing.TB) io.Writer { return &lineWriter{w: t.Output()} }

// logBuffer is a log to look into.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
