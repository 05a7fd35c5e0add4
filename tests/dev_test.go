package tests

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/tests/harness"
	"payonce/workflows"
)

// The stack for development comes up with one command, its settings work in another shell, and a signal takes all of it
// down.
func TestDev(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		args     []string
		from, to string
		signal   os.Signal
	}{
		{"two ledgers, SIGTERM", []string{"--ledgers", "us,eu"}, "us", "eu", syscall.SIGTERM},
		{"the default ledger, SIGINT", nil, "main", "main", syscall.SIGINT},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			starter := harness.Binary(t, "starter")
			settings := filepath.Join(harness.TempDir(t), "it's dev.env")
			dev := harness.StartProcess(t, harness.ProcessConfig{
				Path: starter, Args: append([]string{"--output", "json", "dev", "--headless", "--env-file", settings}, row.args...), Env: harness.BasicEnv(),
			})
			harness.EventuallyWithin(t, 10*time.Minute, "the settings are written", func() bool {
				require.True(t, dev.Alive(), "dev has ended: %s", dev.Output)
				_, err := os.Stat(settings)
				return err == nil
			})
			info, err := os.Stat(settings)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "there are passwords in it")

			// In a shell, as a person does.
			in := func(program string, args ...string) *harness.Result {
				return harness.Run(t, harness.ProcessConfig{
					Path: "/bin/sh", Args: append([]string{"-eu", "-c", `. "$0"; exec "$@"`, settings, program}, args...), Env: harness.BasicEnv(),
				})
			}
			account := func(name string) string { return row.from + "/" + name }
			bob := row.to + "/bob"
			require.Equal(t, exitDone, in(starter, "account", "open", account("world"), "--asset", "USD", "--floor", "none").Code)
			require.Equal(t, exitDone, in(starter, "account", "open", account("alice"), "--asset", "USD").Code)
			require.Equal(t, exitDone, in(starter, "account", "open", bob, "--asset", "USD").Code)
			for _, payment := range []workflows.TransferInput{
				{ID: "fund-1", From: account("world"), To: account("alice"), Amount: "20.00", Asset: "USD"},
				{ID: "rent-1", From: account("alice"), To: bob, Amount: "10.00", Asset: "USD"},
			} {
				require.Equal(t, exitDone, in(starter, harness.TransferArgs(payment)...).Code)
			}
			require.Contains(t, in(starter, "account", "show", bob).Stdout, "10.00")
			require.Equal(t, 0, in(harness.Binary(t, "worker"), "verify").Code)

			running := descendants(t, dev.PID)
			require.GreaterOrEqual(t, len(running), 3, "PostgreSQL, Temporal and a worker: %v", running)
			folder := regexp.MustCompile(`cluster in (\S+)`).FindStringSubmatch(dev.Output.String())
			require.Len(t, folder, 2)
			require.DirExists(t, folder[1])

			require.NoError(t, dev.Signal(row.signal))
			require.Equal(t, 0, dev.AwaitExit(t))
			awaitGone(t, running)
			require.NoFileExists(t, settings)
			require.NoDirExists(t, folder[1])
		})
	}
}

// awaitGone waits until processes have ended. One that nobody has waited for yet has ended too.
func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		harness.Eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool {
			if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				return true
			}
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err == nil && strings.Contains(string(stat), ") Z ")
		})
	}
}

// descendants are the processes that a process has started, and those that they have.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	children := make(map[int][]int)
	for child, parent := range parents(t) {
		children[parent] = append(children[parent], child)
	}
	var all []int
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		all = append(all, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return all
}

// parents are all processes' parents.
func parents(t *testing.T) map[int]int {
	t.Helper()
	list := make(map[int]int)
	if runtime.GOOS != "linux" {
		out, err := exec.CommandContext(t.Context(), "ps", "-A", "-o", "pid=,ppid=").Output()
		require.NoError(t, err)
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			child, errChild := strconv.Atoi(fields[0])
			parent, errParent := strconv.Atoi(fields[1])
			require.NoError(t, errChild)
			require.NoError(t, errParent)
			list[child] = parent
		}
		return list
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		require.NoError(t, err)
		// The name, in brackets, may hold anything.
		_, after, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')'):]), ") ")
		parent, err := strconv.Atoi(strings.Fields(after)[1])
		require.NoError(t, err)
		list[child] = parent
	}
	return list
}
