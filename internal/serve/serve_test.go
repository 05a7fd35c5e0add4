package serve

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/goleak"

	"payonce/activities"
	"payonce/internal/devstack"
	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/workflows"
)

// lockedBuffer is a log that others still write to while it is read.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// counted counts the posts that pass through it.
type counted struct {
	activities.Ledger

	mu    *sync.Mutex
	posts map[string]int
	name  string
}

func (c counted) Post(ctx context.Context, operation ledger.Operation) (ledger.Outcome, error) {
	c.mu.Lock()
	c.posts[c.name]++
	c.mu.Unlock()
	return c.Ledger.Post(ctx, operation)
}

// TestRun runs a worker in this process, with parts of a test's own, and finds nothing left behind.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	stack, err := devstack.Start(ctx, devstack.Config{
		Ledgers: []string{"us", "eu"},
		SearchAttributes: map[string]string{
			workflows.SearchAttributeState.GetName(): "Keyword", workflows.SearchAttributeTransferID.GetName(): "Keyword",
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, stack.Close()) })
	for _, name := range stack.Ledgers {
		url := stack.Postgres.URL(devstack.Database(name))
		require.NoError(t, postgres.Migrate(ctx, url, postgres.MigrateOptions{WorkerRole: devstack.WorkerRole}))
	}
	values := make(map[string]string)
	for _, setting := range stack.Env() {
		name, value, _ := strings.Cut(setting, "=")
		values[name] = value
	}
	settings, err := ReadSettings(env(values))
	require.NoError(t, err)
	settings.Listen = "127.0.0.1:0"

	before := goleak.IgnoreCurrent() // the servers' watchers
	var mu sync.Mutex
	posts := make(map[string]int)
	var log lockedBuffer
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- Run(running, Config{
			Settings: settings, Log: slog.New(slog.NewTextHandler(&log, nil)), Version: "test",
			WrapLedger: func(name string, books activities.Ledger) activities.Ledger {
				return counted{Ledger: books, mu: &mu, posts: posts, name: name}
			},
			Register: func(registry worker.Registry) {
				registry.RegisterWorkflowWithOptions(greet, workflow.RegisterOptions{Name: "Greet"})
				registry.RegisterActivityWithOptions(greeting, activity.RegisterOptions{Name: "Greeting"})
			},
		})
	}()
	t.Cleanup(stop)

	temporal, err := client.Dial(client.Options{HostPort: stack.Temporal.Address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	execute := func(id, name string, input, result any) {
		t.Helper()
		run, err := temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue}, name, input)
		require.NoError(t, err)
		require.NoError(t, run.Get(ctx, result))
	}
	for _, account := range []string{"us/alice", "us/bob", "eu/carol"} {
		execute(account, workflows.AccountOpenWorkflow, activities.AccountOpenInput{Account: account, Asset: "USD", Floor: "none"}, nil)
	}
	var result workflows.TransferResult
	execute(workflows.TransferWorkflowID("1"), workflows.TransferWorkflow,
		workflows.TransferInput{ID: "1", From: "us/alice", To: "us/bob", Amount: "1", Asset: "USD"}, &result)
	assert.Equal(t, workflows.StateCompleted, result.State, result.Detail)
	execute(workflows.TransferWorkflowID("2"), workflows.TransferWorkflow,
		workflows.TransferInput{ID: "2", From: "us/alice", To: "eu/carol", Amount: "1", Asset: "USD"}, &result)
	assert.Equal(t, workflows.StateCompleted, result.State, result.Detail)
	mu.Lock()
	assert.Equal(t, map[string]int{"us": 2, "eu": 1}, posts)
	mu.Unlock()

	// What the test registered runs on the ledgers' queues too.
	var greetings []string
	execute("greet", "Greet", "hello", &greetings)
	assert.Equal(t, []string{"hello from payonce", "hello from payonce-us", "hello from payonce-eu"}, greetings)
	temporal.Close()

	stop()
	require.NoError(t, <-ended, log.String())
	assert.Contains(t, log.String(), "msg=stopped")
	goleak.VerifyNone(t, before)
}

// greet asks every task queue for a greeting.
func greet(ctx workflow.Context, word string) ([]string, error) {
	var all []string
	for _, queue := range []string{workflows.TaskQueue, workflows.LedgerTaskQueue("us"), workflows.LedgerTaskQueue("eu")} {
		ctx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: queue, StartToCloseTimeout: time.Minute})
		var one string
		if err := workflow.ExecuteActivity(ctx, "Greeting", word).Get(ctx, &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func greeting(ctx context.Context, word string) (string, error) {
	return word + " from " + activity.GetInfo(ctx).TaskQueue, nil
}
