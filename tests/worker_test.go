package tests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"payonce/activities"
	"payonce/ledger/postgres"
	"payonce/tests/harness"
	"payonce/workflows"
)

// A worker that is told to stop in the middle of a step finishes it, tells Temporal, and ends well.
func TestStopFinishesWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"us"}})
	destination := w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
	from, to := w.Account(t, "us", "100.00"), w.Account(t, "eu", "")
	harness.Eventually(t, "a step is held for less long than a ledger waits for a lock", func() bool {
		// The deposit waits for a lock on the payee, on the durable path, since the source's worker does not hold eu.
		in := workflows.TransferInput{ID: w.Unique("rent"), From: from, To: to, Amount: "1", Asset: "USD"}
		lock := w.LockAccount(t, to)
		begun := time.Now()
		w.Start(t, in)
		w.AwaitEvent(t, workflows.TransferWorkflowID(in.ID), enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
		w.AwaitBlocked(t, "eu")
		stopped := make(chan int)
		go func() { stopped <- destination.Stop(t) }()
		destination.AwaitOutput(t, "taking no more work, finishing what is held")
		require.Equal(t, []string{"us withdraw applied"}, w.Steps(t, in.ID))
		lock.Release()
		held := time.Since(begun)
		require.Equal(t, 0, <-stopped)

		finished := slices.Equal([]string{"us withdraw applied", "eu deposit applied"}, w.Steps(t, in.ID))
		if held < postgres.TimeoutLock {
			require.True(t, finished)
		}
		if finished {
			require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, in.ID).State, "the other worker was told")
			w.AwaitEvent(t, workflows.TransferWorkflowID(in.ID), enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
			return true
		}
		destination = w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
		require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, in.ID).State)
		return false
	})
	require.True(t, worker.Alive())
}

// The same on the fast path: what the worker does in the middle of a workflow task.
func TestStopFinishesFastPath(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := w.StartWorker(t, harness.WorkerConfig{})
	in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "us", ""), Amount: "10", Asset: "USD"}
	lock := w.LockAccount(t, in.To)
	w.Start(t, in)
	w.AwaitBlocked(t, "us")
	stopped := make(chan int)
	go func() { stopped <- worker.Stop(t) }()
	worker.AwaitOutput(t, "taking no more work, finishing what is held")
	lock.Release()
	require.Equal(t, 0, <-stopped)

	w.StartWorker(t, harness.WorkerConfig{})
	require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, in.ID).State)
	require.Equal(t, []string{"us post applied"}, w.Steps(t, in.ID))
	require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, in.From, in.To))
}

// Each region's worker holds the password of its own ledger alone. Transfers between regions go through the task queue of
// the other one.
func TestRegions(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	for _, ledgerName := range w.Ledgers {
		w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{ledgerName}})
	}
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "eu", "100.00")
	var transfers []workflows.TransferInput
	for range 10 {
		transfers = append(transfers,
			workflows.TransferInput{ID: w.Unique("east"), From: alice, To: bob, Amount: "1", Asset: "USD"},
			workflows.TransferInput{ID: w.Unique("west"), From: bob, To: alice, Amount: "2", Asset: "USD"})
	}
	require.Equal(t, map[string]int{"completed": 20}, tally(all(t, w, transfers)))
	require.Equal(t, []string{"110.00", "90.00"}, w.Balances(t, alice, bob))
	queues := func(in workflows.TransferInput) []string {
		names := make(map[string]bool)
		for _, event := range w.History(t, workflows.TransferWorkflowID(in.ID)) {
			if scheduled := event.GetActivityTaskScheduledEventAttributes(); scheduled != nil {
				names[scheduled.GetTaskQueue().GetName()] = true
			}
		}
		return slices.Sorted(maps.Keys(names))
	}
	// Whichever worker runs the workflow holds one of the two ledgers, and not the other.
	for _, in := range transfers {
		require.NotEmpty(t, queues(in), "%s", in.ID)
	}
	undisturbed(t, func() (want, got any) {
		in := workflows.TransferInput{ID: w.Unique("alone"), From: alice, To: bob, Amount: "0.01", Asset: "USD"}
		require.Equal(t, workflows.StateCompleted, w.Transfer(t, in).State)
		return 1, len(queues(in))
	})
	refused := w.Transfer(t, workflows.TransferInput{ID: "refused", From: alice, To: "eu/nobody", Amount: "1", Asset: "USD"})
	require.Equal(t, workflows.StateCompensated, refused.State)
}

// Migrating twice, and from several processes at once, is the same as once.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{NotMigrated: true})
	migrate := func() *harness.Result {
		return harness.Run(t, harness.ProcessConfig{
			Path: harness.Binary(t, "worker"), Args: []string{"migrate", "--worker-role", w.WorkerRole()}, Env: w.OwnerEnv(),
		})
	}
	const processes = 3
	results := make([]*harness.Result, processes)
	var running sync.WaitGroup
	for i := range results {
		running.Go(func() { results[i] = migrate() })
	}
	running.Wait()
	for _, result := range slices.Concat(results, []*harness.Result{migrate()}) {
		require.Equal(t, 0, result.Code)
		for _, ledgerName := range w.Ledgers {
			require.Contains(t, result.Stdout, fmt.Sprintf("ledger %s is up to date", ledgerName))
		}
	}

	w.StartWorker(t, harness.WorkerConfig{})
	in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD"}
	require.Equal(t, exitDone, w.CLITransfer(t, in).Code)
	require.Equal(t, 0, migrate().Code, "beside a worker")
	w.AssertBooks(t)
}

// A worker that finds no tables says what to do.
func TestNotMigrated(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{NotMigrated: true})
	for _, args := range [][]string{{"run"}, {"verify"}} {
		refused := w.Worker(t, args...)
		require.Equal(t, 1, refused.Code)
		require.Contains(t, refused.Stderr, "worker migrate")
	}
}

// Case 80c: entries and operations are append-only, also for the role that workers have.
func TestAppendOnly(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	w.Account(t, "us", "20.00")
	db := w.DB(t, "us")
	for _, sql := range []string{
		`update entries set amount = amount + 1`, `delete from entries`, `truncate entries`,
		`update operations set memo = 'x'`, `delete from operations`, `truncate operations`,
		`update accounts set balance = balance + 1`, `delete from accounts`, `truncate accounts cascade`,
	} {
		_, err := db.Exec(t.Context(), sql)
		require.Error(t, err, "the superuser: %s", sql)
		_, err = w.WorkerDB(t, "us").Exec(t.Context(), sql)
		require.Error(t, err, "the worker's role: %s", sql)
	}
}

// Verify is quiet about right books, and tells wrong ones by its exit code and in words.
func TestVerify(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		sql   string
		check string // "" is right books
	}{
		{"right", "", ""},
		{"a balance", `update accounts set balance = balance + 1 where balance > 0`, "balance"},
		{"an entry is lost", `delete from entries where version = 1 and amount > 0`, "entr"},
		{"an operation is lost", `delete from operations where kind in ('withdraw', 'deposit')`, ""},
		{"an old entry is changed", `update entries set amount = amount + 1 where version = 1`, "entr"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{BooksMayBeWrong: true})
			w.StartWorker(t, harness.WorkerConfig{})
			w.Transfer(t, workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD"})
			code, verified := w.Verify(t)
			require.Equal(t, 0, code)
			require.Empty(t, verified.Findings)
			require.Empty(t, w.BookFaults(t))
			if row.sql == "" {
				return
			}
			for _, ledgerName := range w.Ledgers {
				w.Plant(t, ledgerName, row.sql)
			}
			code, verified = w.Verify(t)
			require.Equal(t, 1, code)
			require.NotEmpty(t, verified.Findings)
			require.Contains(t, fmt.Sprint(verified.Findings), row.check)
			require.NotEmpty(t, w.BookFaults(t), "the harness's own audit sees it too")
			told := w.Worker(t, "verify")
			require.Equal(t, 1, told.Code)
			require.NotEmpty(t, told.Stdout)
		})
	}
}

// A ledger that no worker holds stops its own transfers alone, and account commands say why there is no answer.
func TestLedgerThatNobodyServes(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"us"}})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "us", "")
	harness.Eventually(t, "it says why there is no answer", func() bool {
		unanswered := w.CLI(t, "account", "show", "eu/carol", "--timeout", "5s")
		require.Equal(t, exitPending, unanswered.Code)
		return strings.Contains(unanswered.Failure(t).Error, "does a worker hold the ledger eu?")
	})
	waiting := workflows.TransferInput{ID: "far", From: "eu/carol", To: bob, Amount: "1", Asset: "USD"}
	require.Equal(t, exitDone, w.CLITransfer(t, waiting, "--wait=false").Code)
	require.Equal(t, exitDone, w.CLITransfer(t, workflows.TransferInput{ID: "near", From: alice, To: bob, Amount: "1", Asset: "USD"}).Code)

	w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
	require.Equal(t, workflows.StateRejected, w.AwaitEnd(t, waiting.ID).State)
	w.Open(t, activities.AccountOpenInput{Account: "eu/carol", Asset: "USD"})
}
