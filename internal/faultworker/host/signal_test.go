package host

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// child carries one write out under a fault, as a process of its own.
func child(t *testing.T, fault string) (*exec.Cmd, io.Reader) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), envFault+"="+fault)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	return cmd, out
}

func TestKill(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string][]string{
		"withdraw/before=kill": {`"event":"fault"`},
		"withdraw/after=kill":  {"wrote", `"event":"answer"`, `"event":"fault"`},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd, out := child(t, fault)
			require.NoError(t, cmd.Start())
			text, err := io.ReadAll(out)
			require.NoError(t, err)
			_ = cmd.Wait()
			require.Equal(t, "signal: killed", cmd.ProcessState.String())
			requireLines(t, want, string(text))
		})
	}
}

// A frozen process does nothing until it is continued, and then goes on where it was.
func TestFreeze(t *testing.T) {
	t.Parallel()
	cmd, out := child(t, "withdraw/before=freeze")
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), `"event":"fault"`)

	var status syscall.WaitStatus
	_, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped(), "the process is stopped")
	require.Equal(t, syscall.SIGSTOP, status.StopSignal())

	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	text := ""
	for lines.Scan() {
		text += lines.Text() + "\n"
	}
	require.NoError(t, lines.Err())
	require.NoError(t, cmd.Wait())
	requireLines(t, []string{`"event":"resumed"`, "wrote", `"event":"answer"`, "returned applied"}, text)
}

// What is held goes on when the process is told so, and not when its caller gives up.
func TestHold(t *testing.T) {
	t.Parallel()
	cmd, out := child(t, "withdraw/after=hold")
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for _, want := range []string{"wrote", `"event":"answer"`, `"event":"fault"`} {
		require.True(t, lines.Scan())
		require.Contains(t, lines.Text(), want)
	}
	_, err = io.WriteString(input, "let go\n")
	require.NoError(t, err)
	text := ""
	for lines.Scan() {
		text += lines.Text() + "\n"
	}
	require.NoError(t, lines.Err())
	require.NoError(t, cmd.Wait())
	requireLines(t, []string{`"event":"resumed"`, "returned applied"}, text)
}

func requireLines(t *testing.T, want []string, text string) {
	t.Helper()
	got := strings.Split(strings.TrimSpace(text), "\n")
	require.Len(t, got, len(want), text)
	for i := range want {
		require.Contains(t, got[i], want[i])
	}
}
