package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"payonce/activities"
	"payonce/internal/devstack"
	"payonce/workflows"
)

// bank is what a test asks of a stack.
type bank struct {
	t        *testing.T
	stack    *devstack.Stack
	temporal client.Client
	name     string // begins the names of the test's accounts and transfers; no other run has it, on a server that lasts
}

func newBank(t *testing.T, stack *devstack.Stack, name string) *bank {
	t.Helper()
	c, err := client.Dial(client.Options{
		RPCTimeout: patience, ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: patience},
		HostPort: stack.Temporal.Address, Namespace: stack.Temporal.Namespace,
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &bank{t: t, stack: stack, temporal: c, name: name + "-" + strings.ToLower(rand.Text()[:6])}
}

// account opens an account without a floor, "us/NAME-suffix", and returns its name.
func (b *bank) account(ledgerName, suffix string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	name := ledgerName + "/" + b.name + "-" + suffix
	run, err := b.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: workflows.TaskQueue, ID: "open/" + name},
		workflows.AccountOpenWorkflow, activities.AccountOpenInput{Account: name, Asset: "USD", Floor: activities.LimitNone})
	require.NoError(b.t, err)
	require.NoError(b.t, run.Get(ctx, nil))
	return name
}

// transfer starts a transfer of 1.00.
func (b *bank) transfer(id, from, to string) client.WorkflowRun {
	b.t.Helper()
	id = b.name + "-" + id
	run, err := b.temporal.ExecuteWorkflow(b.t.Context(), client.StartWorkflowOptions{
		TaskQueue: workflows.TaskQueue, ID: workflows.TransferWorkflowID(id),
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
	}, workflows.TransferWorkflow, workflows.TransferInput{ID: id, From: from, To: to, Amount: "1.00", Asset: "USD"})
	require.NoError(b.t, err)
	return run
}

// completed waits until a transfer has completed.
func (b *bank) completed(run client.WorkflowRun) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*patience)
	defer cancel()
	var result workflows.TransferResult
	require.NoError(b.t, run.Get(ctx, &result), run.GetID())
	require.Equal(b.t, workflows.StateCompleted, result.State, "%s: %s", result.ID, result.Detail)
}

// pendingActivity waits until a workflow has an activity that a worker has taken.
func (b *bank) pendingActivity(run client.WorkflowRun) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		described, err := b.temporal.DescribeWorkflow(b.t.Context(), run.GetID(), run.GetRunID())
		require.NoError(b.t, err)
		for _, pending := range described.RawResponse.GetPendingActivities() {
			if pending.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED {
				return true
			}
		}
		return false
	}, patience, 20*time.Millisecond)
}

// events counts the events of a type in a workflow's history.
func (b *bank) events(run client.WorkflowRun, kind enums.EventType) int {
	b.t.Helper()
	count := 0
	for history := b.temporal.GetWorkflowHistory(b.t.Context(), run.GetID(), run.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); history.HasNext(); {
		event, err := history.Next()
		require.NoError(b.t, err)
		if event.GetEventType() == kind {
			count++
		}
	}
	return count
}

// makeDatabase makes an empty database for one test.
func makeDatabase(t *testing.T, stack *devstack.Stack, name string) {
	t.Helper()
	require.NoError(t, stack.Postgres.DropDatabase(t.Context(), name))
	require.NoError(t, stack.Postgres.CreateDatabase(t.Context(), name, ""))
	t.Cleanup(func() { assert.NoError(t, stack.Postgres.DropDatabase(context.WithoutCancel(t.Context()), name)) })
}

// owner connects to a ledger's database as the owner of everything.
func owner(t *testing.T, stack *devstack.Stack, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), stack.Postgres.URL(database))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// lockAccount holds an account's row until the function that it returns is called.
func (b *bank) lockAccount(ledgerName, account string) (unlock func()) {
	b.t.Helper()
	conn := owner(b.t, b.stack, devstack.Database(ledgerName))
	tx, err := conn.Begin(b.t.Context())
	require.NoError(b.t, err)
	name := account[len(ledgerName)+1:]
	tag, err := tx.Exec(b.t.Context(), "select from accounts where name = $1 for update", name)
	require.NoError(b.t, err)
	require.EqualValues(b.t, 1, tag.RowsAffected(), "account %s", account)
	return func() {
		b.t.Helper()
		require.NoError(b.t, tx.Rollback(b.t.Context()))
	}
}
