package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/internal/devstack"
	"payonce/starter/internal/standin"
)

// standInWorker is the worker program of the tests: it keeps its ledgers in memory. It fails as STAND_IN_WORKER says.
func standInWorker() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	command := strings.Join(os.Args[1:], " ")
	fmt.Fprintf(os.Stdout, "process %d: %s\n", os.Getpid(), command)
	if failing := os.Getenv("STAND_IN_WORKER"); failing != "" && strings.HasPrefix(command, failing) {
		fmt.Fprintln(os.Stderr, "failing as told")
		return 3
	}
	if command == "migrate --worker-role "+devstack.WorkerRole {
		return 0
	}
	options, err := optionsFrom(os.Environ())
	if err != nil {
		return 1
	}
	c, err := dial(ctx, options)
	if err != nil {
		return 1
	}
	defer c.Close()
	books := make(map[string]*standin.Books)
	for setting := range strings.SplitSeq(os.Getenv("LEDGERS"), ",") {
		name, _, _ := strings.Cut(setting, "=")
		books[name] = standin.NewBooks()
	}
	finish, err := standin.Worker(c, standin.Options(), books)
	if err != nil {
		return 1
	}
	<-ctx.Done()
	finish()
	fmt.Fprintln(os.Stdout, "stopped in order")
	return 0
}

// standInPrograms puts the programs on PATH.
func standInPrograms(t *testing.T) (dir string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir = t.TempDir()
	for _, name := range []string{"worker", "starter"} {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return dir
}

// startDev runs starter dev until the context ends.
func startDev(ctx context.Context, t *testing.T, args ...string) (stdout, stderr *buffer, ended chan exitCode) {
	t.Helper()
	stdout, stderr, ended = &buffer{}, &buffer{}, make(chan exitCode, 1)
	go func() { ended <- run(ctx, append([]string{"dev"}, args...), strings.NewReader(""), stdout, stderr) }()
	return stdout, stderr, ended
}

func TestDev(t *testing.T) {
	standInPrograms(t)
	// What the shell says about other ledgers is none of the stack's business.
	t.Setenv("LEDGERS", "other=postgres://elsewhere/")
	file := filepath.Join(t.TempDir(), "dev.env")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout, stderr, ended := startDev(ctx, t, "--ledgers", "us,eu", "--headless", "--env-file", file)
	require.Eventually(t, func() bool { return strings.Contains(stdout.String(), "account show eu/bob") || len(ended) > 0 }, eventually, tick)
	require.Empty(t, ended, stderr.String())

	t.Run("the env file is for a shell", func(t *testing.T) {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		names, err := exec.Command("sh", "-c", `. "$1" && env -0`, "sh", file).Output()
		require.NoError(t, err)
		values := make(map[string]string)
		for setting := range strings.SplitSeq(string(names), "\x00") {
			name, value, _ := strings.Cut(setting, "=")
			values[name] = value
		}
		require.Regexp(t, `^us=postgres://payonce_worker:[^,]*,eu=postgres://payonce_worker:`, values["LEDGERS"])
		require.Regexp(t, `^us=postgres://[^,]*,eu=postgres://`, values["MIGRATE_LEDGERS"])
		require.NotEmpty(t, values["TEMPORAL_ADDRESS"])
		require.Equal(t, "default", values["TEMPORAL_NAMESPACE"])
	})
	t.Run("passwords are in the file alone", func(t *testing.T) {
		require.NotContains(t, stdout.String()+stderr.String(), "postgres://payonce_worker")
	})
	t.Run("the printed transfer works", func(t *testing.T) {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		address := regexp.MustCompile(`TEMPORAL_ADDRESS='([^']*)'`).FindStringSubmatch(string(content))
		require.NotNil(t, address)
		_, lines, found := strings.Cut(stdout.String(), "A first transfer:\n\n")
		require.True(t, found)
		for line := range strings.Lines(lines) {
			got := starterAt(t, address[1], strings.Fields(line)[1:]...)
			require.Equal(t, exitDone, got.code, "%s\n%s", line, got.stderr)
		}
	})

	cancel()
	require.Equal(t, exitDone, <-ended, stderr.String())
	require.Contains(t, stderr.String(), "worker: stopped in order")
	require.NoFileExists(t, file)
	for _, pid := range workerPIDs(t, stderr) {
		require.True(t, gone(pid), pid)
	}
}

// workerPIDs are the processes of the stand-in worker.
func workerPIDs(t *testing.T, stderr *buffer) []int {
	t.Helper()
	var pids []int
	for _, found := range regexp.MustCompile(`worker: process (\d+)`).FindAllStringSubmatch(stderr.String(), -1) {
		pid, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	require.NotEmpty(t, pids)
	return pids
}

// gone says whether a process has ended; one that nobody has waited for yet has ended too.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) != nil
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

func TestDevFails(t *testing.T) {
	standInPrograms(t)
	for _, row := range []struct{ failing, want string }{
		{"migrate", "worker migrate failed: exit status 3"},
		{"run", "the worker ended before it was ready: exit status 3"},
	} {
		t.Run(row.failing, func(t *testing.T) {
			t.Setenv("STAND_IN_WORKER", row.failing)
			_, stderr, ended := startDev(t.Context(), t, "--headless")
			require.Equal(t, exitInternal, <-ended)
			require.Contains(t, stderr.String(), "worker: failing as told\n")
			require.Contains(t, stderr.String(), "starter: "+row.want)
		})
	}
	t.Run("no worker program", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		got := starterWithin(t.Context(), "dev")
		require.Equal(t, exitInternal, got.code)
		require.Contains(t, got.stderr, "make build")
	})
}

// A worker that dies takes the stack with it; a starter that is killed takes the worker with it.
func TestDevDies(t *testing.T) {
	dir := standInPrograms(t)
	file := filepath.Join(t.TempDir(), "dev.env")
	t.Run("worker", func(t *testing.T) {
		stdout, stderr, ended := startDev(t.Context(), t, "--headless", "--output", "json", "--env-file", file)
		require.Eventually(t, func() bool { return stdout.String() != "" || len(ended) > 0 }, eventually, tick)
		require.Empty(t, ended, stderr.String())
		var ready readyView
		require.NoError(t, json.Unmarshal([]byte(stdout.String()), &ready))
		require.Equal(t, []string{"main"}, ready.Ledgers)
		require.Contains(t, ready.Settings, "LEDGERS")
		pids := workerPIDs(t, stderr)
		require.NoError(t, syscall.Kill(slices.Max(pids), syscall.SIGKILL))
		require.Equal(t, exitInternal, <-ended)
		require.Contains(t, stderr.String(), "the worker ended by itself: signal: killed")
		require.NoFileExists(t, file)
	})
	t.Run("starter", func(t *testing.T) {
		stderr := &buffer{}
		cmd := exec.Command(filepath.Join(dir, "starter"), "dev", "--headless", "--env-file", file)
		cmd.Stderr = stderr
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		require.Eventually(t, func() bool {
			_, err := os.Stat(file)
			return err == nil
		}, eventually, tick, "%s", stderr)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		for _, pid := range workerPIDs(t, stderr) {
			require.Eventually(t, func() bool { return gone(pid) }, eventually, tick)
		}
	})
}

func TestEnvFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dev.env")
	require.NoError(t, os.WriteFile(path, []byte("of an earlier run"), 0o644))
	file, err := writeEnvFile(path, []string{"A=it's", "B=x=y; rm -rf $HOME"})
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "export A='it'\\''s'\nexport B='x=y; rm -rf $HOME'\n", string(content))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left aside")

	require.NoError(t, file.remove())
	require.NoFileExists(t, path)
	require.NoError(t, file.remove(), "it may be gone")
	require.NoError(t, os.WriteFile(path, []byte("of another run"), 0o600))
	require.NoError(t, file.remove())
	require.FileExists(t, path, "it is another's now")

	_, err = writeEnvFile(filepath.Join(path, "below a file"), nil)
	require.ErrorContains(t, err, "write the env file")

	require.NoError(t, clearEnvFile(path))
	require.NoFileExists(t, path)
	require.NoError(t, clearEnvFile(path))
	for _, wrong := range []string{filepath.Dir(path), filepath.Join(path, "nowhere", "dev.env")} {
		require.Equal(t, exitUsage, exitOf(clearEnvFile(wrong)), wrong)
	}
}

func TestStackEnviron(t *testing.T) {
	ours := []string{"PATH=/bin", "DATABASE_URL=x", "LEDGERS=x", "MIGRATE_LEDGERS=x", "MIGRATE_DATABASE_URL=x", "TEMPORAL_ADDRESS=x", "TEMPORAL_TLS=true"}
	stack := []string{"LEDGERS=y", "TEMPORAL_ADDRESS=y"}
	require.Equal(t, []string{"PATH=/bin", "TEMPORAL_CONFIG_FILE=" + os.DevNull, "LEDGERS=y", "TEMPORAL_ADDRESS=y"}, stackEnviron(ours, stack, false))
	require.Equal(t, []string{"PATH=/bin", "TEMPORAL_TLS=true", "LEDGERS=y", "TEMPORAL_ADDRESS=y"}, stackEnviron(ours, stack, true))
}
