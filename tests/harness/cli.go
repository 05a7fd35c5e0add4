package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/workflows"
)

// timeoutCLI is far beyond every command's own --timeout.
const timeoutCLI = 3 * time.Minute

// Result is how a program ended.
type Result struct {
	Code           int // -1 if a signal ended it
	Stdout, Stderr string
}

// Decode reads standard output, which must be one JSON document without fields that into does not have.
func (r *Result) Decode(t testing.TB, into any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(r.Stdout))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(into), "exit code %d, stdout:\n%s\nstderr:\n%s", r.Code, r.Stdout, r.Stderr)
	require.False(t, decoder.More(), "more than one document:\n%s", r.Stdout)
}

// Document is standard output as a JSON object.
func (r *Result) Document(t testing.TB) map[string]any {
	t.Helper()
	var document map[string]any
	r.Decode(t, &document)
	return document
}

// Failure is the document of a command that could not do its work.
type Failure struct {
	Error    string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

// Failure reads standard output as the document of a command that could not do its work.
func (r *Result) Failure(t testing.TB) Failure {
	t.Helper()
	var failure Failure
	r.Decode(t, &failure)
	require.Equal(t, r.Code, failure.ExitCode)
	require.NotEmpty(t, failure.Error)
	require.Contains(t, r.Stderr, failure.Error, "a person reads it too")
	return failure
}

// Transfer is the document of `starter transfer` and `starter status`.
type Transfer struct {
	workflows.TransferResult

	Step     workflows.Step     `json:"step"`
	Parking  *workflows.Parking `json:"parking"`
	Notes    []string           `json:"notes"`
	Attached *bool              `json:"attached"`
}

// Transfer reads standard output as that of `starter transfer` or `starter status`.
func (r *Result) Transfer(t testing.TB) Transfer {
	t.Helper()
	var transfer Transfer
	r.Decode(t, &transfer)
	return transfer
}

// CLI runs the starter program with --output json and returns how it ended.
func (w *World) CLI(t testing.TB, args ...string) *Result {
	t.Helper()
	return Run(t, ProcessConfig{Path: Binary(t, starter), Args: append([]string{"--output", "json"}, args...), Env: w.ClientEnv()})
}

// CLITransfer runs `starter transfer` for a request, with further arguments.
func (w *World) CLITransfer(t testing.TB, in workflows.TransferInput, args ...string) *Result {
	t.Helper()
	return w.CLI(t, append(TransferArgs(in), args...)...)
}

// TransferArgs are the command line of `starter transfer` for a request. What is empty is left out.
func TransferArgs(in workflows.TransferInput) []string {
	args := []string{"transfer"}
	for _, flag := range []struct{ name, value string }{
		{"id", in.ID}, {"from", in.From}, {"to", in.To}, {"amount", in.Amount}, {"asset", in.Asset}, {"memo", in.Memo},
	} {
		if flag.value != "" {
			args = append(args, "--"+flag.name+"="+flag.value)
		}
	}
	for key, value := range in.Metadata {
		args = append(args, "--metadata="+key+"="+value)
	}
	for _, endpoint := range in.Notify {
		args = append(args, "--notify="+endpoint)
	}
	return args
}

// Worker runs a command of the worker program that ends by itself, for all ledgers, as the worker's role.
func (w *World) Worker(t testing.TB, args ...string) *Result {
	t.Helper()
	return Run(t, ProcessConfig{Path: Binary(t, worker), Args: args, Env: w.WorkerEnv()})
}

// Run runs a program to its end. What it printed is shown if the test fails.
func Run(t testing.TB, c ProcessConfig) *Result {
	t.Helper()
	// Not the test's own context: it has ended when the world is audited.
	ctx, cancel := context.WithTimeout(context.Background(), timeoutCLI)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.Env, c.Dir, &stdout, &stderr
	cmd.SysProcAttr = childAttributes()
	// The kernel takes the thread that starts a process for its parent: it has to live as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended {
		require.NoError(t, err)
	}
	require.NoError(t, ctx.Err(), "%s %v does not end", programName(c.Path), c.Args)
	result := &Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	t.Logf("%s %s: exit code %d\n%s%s", programName(c.Path), strings.Join(c.Args, " "), result.Code, result.Stdout, result.Stderr)
	return result
}
