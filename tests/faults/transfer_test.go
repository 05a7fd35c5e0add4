package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"payonce/internal/faultworker/fault"
	"payonce/tests/harness"
	"payonce/workflows"
)

// taskTimeout is how long a worker may take for a workflow task. It is what a task costs that is lost with its worker, and
// Temporal's default is 10 s.
const taskTimeout = 5 * time.Second

// The steps of transfers that ended well, in the words of World.Steps.
var (
	posted      = []string{"us post applied"}
	arrived     = []string{"us withdraw applied", "eu deposit applied"}
	sentBack    = []string{"us withdraw applied", "us refund applied", "eu deposit refused account_unknown"}
	givenUpBack = []string{"us withdraw applied", "us refund applied", "eu deposit sealed attempts_exhausted"}
)

// within is a transfer on one ledger, of 10 of the payer's 20. A worker must be running.
func within(t *testing.T, w *harness.World, id string) workflows.TransferInput {
	t.Helper()
	return workflows.TransferInput{ID: id, From: w.Account(t, "us", "20.00"), To: w.Account(t, "us", ""), Amount: "10", Asset: "USD"}
}

// between is the same between two ledgers.
func between(t *testing.T, w *harness.World, id string) workflows.TransferInput {
	t.Helper()
	return workflows.TransferInput{ID: id, From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD"}
}

// toNobody is one that comes back: the payee has no account.
func toNobody(t *testing.T, w *harness.World, id string) workflows.TransferInput {
	t.Helper()
	return workflows.TransferInput{ID: id, From: w.Account(t, "us", "20.00"), To: "eu/nobody", Amount: "10", Asset: "USD"}
}

// ofKind is a transfer that comes by a write of a kind.
func ofKind(t *testing.T, w *harness.World, kind fault.Kind, id string) workflows.TransferInput {
	t.Helper()
	switch kind { //nolint:exhaustive // the others are a payout's
	case fault.KindPost:
		return within(t, w, id)
	case fault.KindRefund:
		return toNobody(t, w, id)
	case fault.KindWithdraw, fault.KindDeposit, fault.KindResolve:
		return between(t, w, id)
	case fault.KindNaiveWithdraw, fault.KindNaiveDeposit, fault.KindEntries:
	}
	require.Fail(t, "no transfer has this", "%s", kind)
	return workflows.TransferInput{}
}

// start starts a transfer whose lost workflow tasks are noticed soon, and does not wait for it.
func start(t *testing.T, w *harness.World, in workflows.TransferInput) client.WorkflowRun {
	t.Helper()
	return startWith(t, w, in, taskTimeout)
}

// startUnhurried starts a transfer no workflow task of which is ever taken for lost.
func startUnhurried(t *testing.T, w *harness.World, in workflows.TransferInput) {
	t.Helper()
	startWith(t, w, in, patience)
}

func startWith(t *testing.T, w *harness.World, in workflows.TransferInput, taskTimeout time.Duration) client.WorkflowRun {
	t.Helper()
	run, err := w.Temporal.ExecuteWorkflow(harness.Within(t, patience), client.StartWorkflowOptions{
		ID: workflows.TransferWorkflowID(in.ID), TaskQueue: workflows.TaskQueue, WorkflowTaskTimeout: taskTimeout,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL, WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, workflows.TransferWorkflow, in)
	require.NoError(t, err)
	return run
}

// movements are the amounts of an account's entries in their order, in cents. They are what money has moved, whatever the
// keys say.
func movements(t *testing.T, w *harness.World, account string) []string {
	t.Helper()
	const sql = `
		select e.amount::text from entries e join accounts a on a.id = e.account_id
		where a.name = $1 order by e.version`
	ledgerName, name, _ := strings.Cut(account, "/")
	rows, err := w.DB(t, ledgerName).Query(t.Context(), sql, name)
	require.NoError(t, err)
	amounts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return amounts
}

// once holds that a transfer of within, between or toNobody has ended in a state with certain steps, and that its money has
// moved as that says: each step once, and no other.
func once(t *testing.T, w *harness.World, in workflows.TransferInput, state workflows.State, steps []string) workflows.TransferResult {
	t.Helper()
	result := w.AwaitEnd(t, in.ID)
	require.Equal(t, state, result.State, "%+v", result)
	require.Equal(t, steps, w.Steps(t, in.ID))
	for _, o := range w.Operations(t, in.ID) {
		entries := 0
		if o.State == "applied" {
			entries = 2
		}
		require.Equal(t, entries, o.Entries, "the entries of %s", o.String())
	}
	from, to := []string{"2000"}, []string{}
	switch state { //nolint:exhaustive // the others are a payout's
	case workflows.StateCompleted:
		from, to = append(from, "-1000"), append(to, "1000")
	case workflows.StateCompensated:
		from = append(from, "-1000", "1000")
	case workflows.StateFailed:
	case workflows.StateRunning, workflows.StateParked, workflows.StateRejected, workflows.StateCancelled, workflows.StateDiscarded:
		require.Fail(t, "not an end of these tests", "%s", state)
	}
	require.Equal(t, from, movements(t, w, in.From), "the entries of %s", in.From)
	if !strings.HasSuffix(in.To, "/nobody") {
		require.Equal(t, to, movements(t, w, in.To), "the entries of %s", in.To)
	}
	return result
}
