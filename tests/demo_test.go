package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/tests/harness"
)

// demoReport is what a program reads of starter demo --output json.
type demoReport struct {
	OK        bool `json:"ok"`
	Scenarios []struct {
		Name     string            `json:"name"`
		OK       bool              `json:"ok"`
		Balances map[string]string `json:"balances"`
		Events   []demoEvent       `json:"events"`
		Problems []string          `json:"problems"`
	} `json:"scenarios"`
	Verify struct {
		OK bool `json:"ok"`
	} `json:"verify"`
}

type demoEvent struct {
	AtMS int64  `json:"at_ms"`
	Who  string `json:"who"`
	Text string `json:"text"`
	// Announced is what a process said of itself.
	Announced *struct {
		Event  string `json:"event"`
		Point  string `json:"point"`
		Action string `json:"action"`
		PID    int    `json:"pid"`
		State  string `json:"state"`
		Repeat bool   `json:"repeat"`
	} `json:"announced"`
}

// did says whether a process announced something.
func (e *demoEvent) did(event, point, detail string) bool {
	return e.Announced != nil && e.Announced.Event == event && e.Announced.Point == point &&
		(e.Announced.Action == detail || e.Announced.State == detail)
}

// playDemo runs the demo, and returns its exit code and what it writes for programs.
func playDemo(t *testing.T) (code int, stdout *bytes.Buffer) {
	t.Helper()
	demo := exec.CommandContext(t.Context(), harness.Binary(t, "starter"), "demo", "--output", "json")
	stdout = new(bytes.Buffer)
	var stderr bytes.Buffer
	demo.Stdout, demo.Stderr = stdout, &stderr
	err := demo.Run()
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), "%v", err)
	t.Logf("%s", &stderr)
	return demo.ProcessState.ExitCode(), stdout
}

// The demo as it is shipped: each scenario breaks what it says, and ends as it must. It is not parallel, and has more tries than one:
// its scenarios are made to be watched, so that attempts have little time, and on a busy machine one may come too late for its scenario.
func TestDemo(t *testing.T) { //nolint:paralleltest // see above
	code, stdout := playDemo(t)
	for more := 2; code != exitDone && more > 0; more-- {
		code, stdout = playDemo(t)
	}
	require.Zero(t, code)

	var report demoReport
	decoder := json.NewDecoder(stdout)
	require.NoError(t, decoder.Decode(&report))
	require.False(t, decoder.More(), "stdout is one document")
	require.True(t, report.OK)
	require.True(t, report.Verify.OK)

	type want struct {
		name, a, b string
		// The point and the action of the fault.
		point, action string
	}
	wants := []want{
		{"no-key", "0.00", "20.00", "naive-withdraw/after", "drop"},
		{"never-started", "10.00", "10.00", "withdraw/before", "kill"},
		{"reply-lost", "10.00", "10.00", "deposit/after", "kill"},
		{"partly-applied", "10.00", "10.00", "deposit/before", "kill"},
		{"client-retries", "10.00", "10.00", "", ""},
		{"other-content", "10.00", "10.00", "", ""},
		{"poison", "20.00", "0.00", "deposit/before", "fail"},
		{"late-attempt", "20.00", "0.00", "deposit/before", "freeze"},
		{"statement-rewritten", "10.00", "10.00", "entries/before", "kill"},
		{"payout-reply-lost", "10.00", "0.00", "", ""},
		{"webhook-duplicate", "10.00", "10.00", "", ""},
	}
	require.Len(t, report.Scenarios, len(wants))
	for i, want := range wants {
		got := report.Scenarios[i]
		require.Equal(t, want.name, got.Name)
		require.True(t, got.OK, want.name)
		require.Empty(t, got.Problems, want.name)
		require.Equal(t, map[string]string{"A": want.a, "B": want.b}, got.Balances, want.name)
		require.NotEmpty(t, got.Events, want.name)
		require.True(t, slices.IsSortedFunc(got.Events, func(a, b demoEvent) int { return int(a.AtMS - b.AtMS) }), want.name)
		if want.point != "" {
			require.True(t, slices.ContainsFunc(got.Events, func(e demoEvent) bool { return e.did("fault", want.point, want.action) }), want.name)
		}
	}
	// The late attempt is that of the process that was frozen, and it ran after it was thawed.
	eventsOf := func(name string) []demoEvent {
		return report.Scenarios[slices.IndexFunc(wants, func(want want) bool { return want.name == name })].Events
	}
	events := eventsOf("late-attempt")
	frozen := slices.IndexFunc(events, func(e demoEvent) bool { return e.did("fault", "deposit/before", "freeze") })
	late := slices.IndexFunc(events, func(e demoEvent) bool { return e.did("answer", "deposit/after", "sealed") })
	thawed := slices.IndexFunc(events, func(e demoEvent) bool { return strings.Contains(e.Text, "SIGCONT") })
	refunded := slices.IndexFunc(events, func(e demoEvent) bool { return e.did("answer", "refund/after", "applied") })
	require.True(t, slices.IsSorted([]int{0, frozen, refunded, thawed, late}), "%d, %d, %d, %d", frozen, refunded, thawed, late)
	require.Equal(t, events[frozen].Announced.PID, events[late].Announced.PID)
	// The bank was asked to pay more than once, and has paid once.
	events = eventsOf("payout-reply-lost")
	for _, text := range []string{"its reply is LOST", "under the same key", "1 payment, sent 1 time"} {
		require.True(t, slices.ContainsFunc(events, func(e demoEvent) bool { return e.Who == "bank" && strings.Contains(e.Text, text) }), text)
	}
}

// However the demo ends, its workers end with it, also one that is frozen.
func TestDemoLeavesNoWorkers(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			demo := harness.StartProcess(t, harness.ProcessConfig{
				Path: harness.Binary(t, "starter"), Args: []string{"demo", "--scenario", "late-attempt"}, Env: os.Environ(),
			})
			harness.EventuallyWithin(t, 10*time.Minute, "a worker is frozen", func() bool {
				require.True(t, demo.Alive(), "%s", demo.Output)
				return demo.Output.Contains("FROZEN (SIGSTOP)")
			})
			match := regexp.MustCompile(`worker 1 \(process (\d+)\)`).FindStringSubmatch(demo.Stdout.String())
			require.Len(t, match, 2)
			frozen, err := strconv.Atoi(match[1])
			require.NoError(t, err)
			require.True(t, isAlive(frozen))

			require.NoError(t, demo.Signal(signal))
			code := demo.AwaitExit(t)
			if signal != syscall.SIGKILL {
				require.Equal(t, exitInternal, code)
				require.Contains(t, demo.Output.String(), "interrupted; everything is taken down")
			}
			harness.Eventually(t, "the frozen worker is gone", func() bool { return !isAlive(frozen) })
		})
	}
}

// isAlive says whether a process is there. One that is dead and not yet noted by its parent is not.
func isAlive(pid int) bool {
	if stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")); err == nil {
		return !bytes.Contains(stat, []byte(") Z "))
	}
	return syscall.Kill(pid, 0) == nil
}

func TestDemoSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	alone := filepath.Join(t.TempDir(), "starter")
	program, err := os.ReadFile(harness.Binary(t, "starter"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(alone, program, 0o700))
	for name, row := range map[string]struct {
		path string
		args []string
		code int
		says string
	}{
		"its workers":     {alone, nil, exitInternal, "make build"},
		"such a scenario": {harness.Binary(t, "starter"), []string{"--scenario", "no-kye"}, exitUsage, "there are no-key, never-started"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			demo := harness.StartProcess(t, harness.ProcessConfig{
				Path: row.path, Args: append([]string{"demo"}, row.args...), Env: append(os.Environ(), "PATH=/usr/bin:/bin"),
			})
			require.Equal(t, row.code, demo.AwaitExit(t))
			require.Contains(t, demo.Output.String(), row.says)
			require.Empty(t, demo.Stdout.String())
		})
	}
}
