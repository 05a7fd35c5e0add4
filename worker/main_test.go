package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/internal/devstack"
	"payonce/workflows"
)

// program is the worker binary that the tests run.
var program string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "payonce-worker-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "worker")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the worker: %s\n%s", err, out)
		return 1
	}
	defer shared.close()
	return m.Run()
}

// sharedStack is the stack of the tests that don't stop its servers. Workers of two tests at once would take each
// other's tasks: tests that use its task queue payonce for transfers are not parallel, but for TestVerify, which is the
// only one among the parallel ones.
type sharedStack struct {
	once  sync.Once
	stack *devstack.Stack
	err   error
}

var shared sharedStack

// stackOf returns the shared stack, with the ledgers us and eu migrated.
func stackOf(t *testing.T) *devstack.Stack {
	t.Helper()
	shared.once.Do(func() {
		// Not the test's context: the next test uses it too.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		shared.stack, shared.err = startStack(ctx)
	})
	require.NoError(t, shared.err)
	return shared.stack
}

func (s *sharedStack) close() {
	if s.stack == nil {
		return
	}
	if err := s.stack.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the stack:", err)
	}
}

// ownStack returns a stack whose servers the test may stop and start, and skips the test if they are not ours.
func ownStack(t *testing.T) *devstack.Stack {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	stack, err := startStack(ctx)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := stack.Close(); err != nil {
			t.Error("stop the stack:", err)
		}
	})
	if stack.Postgres.External() || stack.Temporal.External() {
		t.Skip("the servers are not ours to stop")
	}
	return stack
}

func startStack(ctx context.Context) (*devstack.Stack, error) {
	var log bytes.Buffer
	stack, err := devstack.Start(ctx, devstack.Config{
		Ledgers: []string{"us", "eu"}, Log: &log,
		SearchAttributes: map[string]string{
			workflows.SearchAttributeState.GetName():      "Keyword",
			workflows.SearchAttributeTransferID.GetName(): "Keyword",
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, log.String())
	}
	cmd := exec.CommandContext(ctx, program, "migrate", "--worker-role", devstack.WorkerRole)
	cmd.Env = environment(stack)
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = stack.Close()
		return nil, fmt.Errorf("migrate: %w\n%s", err, out)
	}
	return stack, nil
}

// environment is the stack's settings and nothing of our own that could change them. Later entries win.
func environment(stack *devstack.Stack, more ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}
	return append(append(env, stack.Env()...), more...)
}

// lines decodes a JSON log.
func lines(log string) []map[string]any {
	var all []map[string]any
	for line := range bytes.Lines([]byte(log)) {
		var one map[string]any
		if json.Unmarshal(line, &one) == nil {
			all = append(all, one)
		}
	}
	return all
}
