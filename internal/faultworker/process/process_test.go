package process_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"payonce/internal/faultworker/fault"
	"payonce/internal/faultworker/process"
	"payonce/workflows"
)

func announce(e fault.Event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func config(role string) process.Config {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	env := []string{envRole + "=" + role}
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, envRole+"=") {
			env = append(env, setting)
		}
	}
	return process.Config{Binary: self, Env: env, Options: workflows.DefaultOptions()}
}

func start(t *testing.T, c process.Config) *process.Worker {
	t.Helper()
	w, err := process.Start(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Kill()) })
	return w
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestAnnouncements(t *testing.T) {
	t.Parallel()
	c := config(roleDying)
	var heard []fault.EventName
	c.OnEvent = func(e fault.Event) { heard = append(heard, e.Event) }
	w := start(t, c)
	ctx := within(t, 2*time.Minute)
	require.NoError(t, w.AwaitReady(ctx))
	struck, err := w.AwaitFault(ctx, point)
	require.NoError(t, err)
	require.Equal(t, fault.ActionFail, struck.Action)
	state, err := w.AwaitEnd(ctx)
	require.NoError(t, err)
	require.Equal(t, "exit status 0", state)
	require.False(t, w.Alive())
	// The line that was cut off is none.
	require.Equal(t, []fault.EventName{fault.EventReady, fault.EventFault}, heard)
	require.Len(t, w.Events(), 2)

	_, err = w.AwaitFault(ctx, fault.Point{Kind: fault.KindRefund, Moment: fault.After})
	require.ErrorContains(t, err, "ended: exit status 0", "nothing more will be heard of it")
	require.NoError(t, w.AwaitReady(ctx), "what was heard stays so")
	require.NoError(t, w.Stop(ctx))
}

func TestAwaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	w := start(t, config(roleFrozen))
	_, err := w.AwaitFault(within(t, 20*time.Millisecond), fault.Point{Kind: fault.KindRefund, Moment: fault.After})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = w.AwaitEnd(within(t, 20*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestThaw(t *testing.T) {
	t.Parallel()
	w := start(t, config(roleFrozen))
	ctx := within(t, 2*time.Minute)
	_, err := w.AwaitFault(ctx, point)
	require.NoError(t, err)
	awaitState(t, w.PID, 'T')
	require.True(t, w.Alive())
	require.NoError(t, w.Thaw())
	_, err = w.Await(ctx, func(e fault.Event) bool { return e.Event == fault.EventResumed })
	require.NoError(t, err)
}

// A frozen worker can be stopped and killed like any other, and one that does not listen is killed.
func TestStopAndKill(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, w *process.Worker){
		"stop": func(t *testing.T, w *process.Worker) {
			t.Helper()
			require.NoError(t, w.Stop(within(t, 300*time.Millisecond)))
		},
		"kill": func(t *testing.T, w *process.Worker) {
			t.Helper()
			require.NoError(t, w.Kill())
		},
	} {
		for _, role := range []string{roleFrozen, roleStubborn} {
			t.Run(name+" "+role, func(t *testing.T) {
				t.Parallel()
				w := start(t, config(role))
				require.NoError(t, w.AwaitReady(within(t, 2*time.Minute)))
				if role == roleFrozen {
					awaitState(t, w.PID, 'T')
				}
				end(t, w)
				require.False(t, w.Alive())
				end(t, w) // twice is safe
			})
		}
	}
}

// A parent that is killed has no chance to clean up, and its worker can't listen: the kernel ends it.
func TestFrozenWorkerEndsWithItsParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there is no death signal")
	}
	c := config(roleParent)
	parent := exec.CommandContext(t.Context(), c.Binary)
	parent.Env = c.Env
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	pid, err := strconv.Atoi(lines.Text())
	require.NoError(t, err)
	awaitState(t, pid, 'T')

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	require.Eventually(t, func() bool { return state(pid) == 0 || state(pid) == 'Z' }, 2*time.Minute, 5*time.Millisecond)
}

func awaitState(t *testing.T, pid int, want byte) {
	t.Helper()
	if runtime.GOOS == "linux" {
		require.Eventually(t, func() bool { return state(pid) == want }, 2*time.Minute, 5*time.Millisecond)
	}
}

// state is how the kernel has a process: R, S, T (stopped), Z (dead, not yet noted by its parent), or 0 for none.
func state(pid int) byte {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, ok := strings.Cut(string(text), ") ")
	if !ok || after == "" {
		return 0
	}
	return after[0]
}

// Each option of the workflows reaches the worker by its flag.
func TestOptionFlags(t *testing.T) {
	t.Parallel()
	want := workflows.Options{
		Fast:    workflows.FastOptions{TimeoutStartToClose: 1, AttemptsMax: 2, Backoff: 3},
		Forward: workflows.StepOptions{TimeoutStartToClose: 4, BackoffFirst: 5, BackoffMax: 6, AttemptsMax: 7},
		Settle:  workflows.StepOptions{TimeoutStartToClose: 8, BackoffFirst: 9, BackoffMax: 10, AttemptsMax: 11},
		Record:  workflows.StepOptions{TimeoutStartToClose: 12, BackoffFirst: 13, BackoffMax: 14, AttemptsMax: 15},
		Outage:  workflows.OutageOptions{Budget: 16, BackoffFirst: 17, BackoffMax: 18},
		Ask:     workflows.StepOptions{TimeoutStartToClose: 19, BackoffFirst: 20, BackoffMax: 21, AttemptsMax: 22},
		Write:   workflows.WriteOptions{TimeoutHeartbeat: 23, BackoffFirst: 24, BackoffMax: 25, Within: 26},
	}
	got := workflows.DefaultOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	process.OptionFlags(flags, &got)
	require.NoError(t, flags.Parse(process.OptionArgs(want)))
	require.Equal(t, want, got)

	defaults := workflows.DefaultOptions()
	flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	process.OptionFlags(flags, &defaults)
	require.NoError(t, flags.Parse(nil))
	require.Equal(t, workflows.DefaultOptions(), defaults)
}
