package outage

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"payonce/activities"
	"payonce/internal/reconcile"
	"payonce/tests/harness"
	"payonce/workflows"
)

const (
	transfers = 2_000
	doneFirst = 100 // of them, when the outage begins
	poolSize  = 10

	// boundFirst is when the first transfer ends after the ledgers are back, and boundAll when all have: several times what a
	// slow machine needs for 2,000.
	boundFirst = time.Minute
	boundAll   = 6 * time.Minute

	// connectionsMax bounds the connections that are opened in both ledgers when they are back: the pools', and the monitors'.
	connectionsMax = 3 * 2 * poolSize
)

// options are short, so that an outage which outlasts all attempts takes seconds; and as long as a slow machine needs.
func options(o *workflows.Options) {
	o.Fast.AttemptsMax = 1
	o.Fast.TimeoutStartToClose = 2 * time.Second
	o.Forward.TimeoutStartToClose = 6 * time.Second
}

// attemptsLast is the longest time that all attempts of a step take, each until its time-out.
func attemptsLast() time.Duration {
	o := harness.ShortOptions()
	options(&o)
	longest := time.Duration(o.Fast.AttemptsMax) * (o.Fast.TimeoutStartToClose + 2*o.Fast.Backoff)
	backoff := o.Forward.BackoffFirst
	for range o.Forward.AttemptsMax {
		longest += o.Forward.TimeoutStartToClose + backoff
		backoff = min(2*backoff, o.Forward.BackoffMax)
	}
	return longest
}

// PostgreSQL crashes under 2,000 transfers, and is down for longer than all their attempts would last.
func TestOutageOfPostgreSQL(t *testing.T) { //nolint:paralleltest // it needs the machine
	outage(t, func(ctx context.Context, w *harness.World) (end func() error, err error) {
		return func() error { return w.Postgres.Restart(ctx) }, w.Postgres.Kill(ctx)
	})
}

// The password of the workers' role is changed under 2,000 transfers, and the connections that had the old one are closed.
func TestOutageOfPassword(t *testing.T) { //nolint:paralleltest // it needs the machine
	outage(t, func(ctx context.Context, w *harness.World) (end func() error, err error) {
		dsn, err := url.Parse(w.LedgerURL("us"))
		if err != nil {
			return nil, err
		}
		password, _ := dsn.User.Password()
		if err := w.Postgres.CreateRole(ctx, w.WorkerRole(), "another-"+password); err != nil {
			return nil, err
		}
		_, err = w.DB(t, "us").Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, w.WorkerRole())
		return func() error { return w.Postgres.CreateRole(ctx, w.WorkerRole(), password) }, err
	})
}

func outage(t *testing.T, begin func(ctx context.Context, w *harness.World) (end func() error, err error)) {
	t.Helper()
	w := harness.New(t, harness.Config{OwnPostgres: true})
	other := harness.New(t, harness.Config{Ledgers: []string{"asia"}})
	all := "LEDGERS=us=" + w.LedgerURL("us") + ",eu=" + w.LedgerURL("eu") + ",asia=" + other.LedgerURL("asia")
	env := []string{all, fmt.Sprintf("PAYONCE_POOL_SIZE=%d", poolSize)}
	first := w.StartWorker(t, harness.WorkerConfig{Env: env})
	payer, near, far := w.Account(t, "us", fmt.Sprint(transfers)), w.Account(t, "us", ""), w.Account(t, "eu", "")
	for _, account := range []string{"asia/alice", "asia/bob"} {
		w.Open(t, activities.AccountOpenInput{Account: account, Asset: "USD", Floor: activities.LimitNone})
	}
	require.Zero(t, first.Stop(t))

	// Half of them stay on one ledger.
	start(t, w, func(i int) workflows.TransferInput {
		in := workflows.TransferInput{ID: fmt.Sprintf("coffee-%d", i), From: payer, To: near, Amount: "1", Asset: "USD"}
		if i%2 == 0 {
			in.To = far
		}
		return in
	})
	worker := w.StartFaultWorker(t, harness.FaultConfig{Options: options, Sticky: true, Env: append(env, "PAYONCE_LISTEN=127.0.0.1:0")})
	harness.Eventually(t, "some transfers are done", func() bool { return done(t, w) >= doneFirst })

	ctx := harness.Within(t, 12*time.Minute)
	end, err := begin(ctx, w)
	require.NoError(t, err)
	began := time.Now()
	for _, ledger := range w.Ledgers {
		await(t, worker, ledgerMetric("payonce_ledger_open", ledger), 0)
		require.Zero(t, metric(t, worker, ledgerMetric("payonce_ledger_slots_limit", ledger)), "it takes no more of its work")
	}

	var waiting []string // a sample
	for i := range 100 {
		waiting = append(waiting, workflows.TransferWorkflowID(fmt.Sprintf("coffee-%d", transfers-1-i)))
	}
	// The first workflow tasks of all are in one queue: those of another ledger that come after them wait for their turn, outage
	// or not.
	harness.Eventually(t, "every transfer waits for its ledger", func() bool { return backlog(t, w, waiting) })
	slowest := othersGoOn(t, w)
	harness.EventuallyWithin(t, 2*attemptsLast(), "the outage outlasts all attempts", func() bool { return time.Since(began) > attemptsLast()+time.Second })
	// A slot that was in use when the outage began, by a task or by a request for one, meets it. No other does.
	slots := metric(t, worker, ledgerMetric("payonce_ledger_slots", "us")) + metric(t, worker, ledgerMetric("payonce_ledger_slots", "eu"))
	failed := metric(t, worker, "temporal_activity_execution_failed_total")
	assert.LessOrEqual(t, failed, slots, "attempts made in the outage")
	attemptsAreKept(t, w, waiting)

	require.NoError(t, end())
	back := time.Now()
	lasted := back.Sub(began)
	watching, stop := context.WithCancel(ctx)
	var connections watch
	connections.run(watching, t, w)
	doneBefore, firstAfter := -1, time.Duration(0)
	harness.EventuallyWithin(t, boundAll, "all transfers end", func() bool {
		n := done(t, w)
		if doneBefore < 0 {
			doneBefore = n
		}
		if firstAfter == 0 && n > doneBefore {
			firstAfter = time.Since(back)
		}
		return n == transfers
	})
	allAfter := time.Since(back)
	stop()
	connections.wait()

	misses := 0
	for _, e := range worker.Events() {
		if e.Error != "" {
			misses++
		}
	}
	t.Logf("an outage of %s: %d transfers of another ledger meanwhile, each within %s; %d calls and %.0f attempts met it; the first transfer ended %s "+
		"after its end, all %d after %s; at most %d connections at once, %d opened",
		lasted.Round(time.Millisecond), othersCount, slowest.Round(time.Millisecond), misses, failed, firstAfter.Round(time.Millisecond),
		transfers-doneBefore, allAfter.Round(time.Millisecond), connections.most, connections.opened)
	assert.Greater(t, lasted, attemptsLast())
	assert.Less(t, firstAfter, boundFirst)
	assert.LessOrEqual(t, float64(misses), slots)
	assert.LessOrEqual(t, connections.most, 2*poolSize+2, "both pools, and both monitors")
	assert.LessOrEqual(t, connections.opened, connectionsMax)
	for _, ledger := range w.Ledgers {
		assert.GreaterOrEqual(t, metric(t, worker, ledgerMetric("payonce_ledger_lost_total", ledger)), 1.0)
		assert.LessOrEqual(t, timesLost(worker, ledger), 1, "%s stays when it is back", ledger)
	}
	nothingIsSetAside(t, w, near, far)
}

// start starts all transfers, as several clients do.
func start(t *testing.T, w *harness.World, request func(i int) workflows.TransferInput) {
	t.Helper()
	const clients = 16
	ctx := harness.Within(t, 5*time.Minute)
	var starting sync.WaitGroup
	for client := range clients {
		starting.Go(func() {
			for i := client; i < transfers; i += clients {
				if _, err := w.Transfers.Start(ctx, request(i)); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	starting.Wait()
	require.False(t, t.Failed())
}

// done counts the transfers whose money has arrived. While PostgreSQL is down there are none.
func done(t *testing.T, w *harness.World) int {
	t.Helper()
	const sql = `select count(*) from operations where key like 'transfer/coffee-%' and kind in ('post', 'deposit') and state = 'applied'`
	sum := 0
	for _, ledger := range w.Ledgers {
		var n int
		if err := w.DB(t, ledger).QueryRow(t.Context(), sql).Scan(&n); err != nil {
			return 0
		}
		sum += n
	}
	return sum
}

const othersCount = 20

// othersGoOn makes transfers on the ledger that has no outage, one after the other, and returns how long the slowest took.
func othersGoOn(t *testing.T, w *harness.World) (slowest time.Duration) {
	t.Helper()
	for i := range othersCount {
		began := time.Now()
		in := workflows.TransferInput{ID: fmt.Sprintf("tea-%d", i), From: "asia/alice", To: "asia/bob", Amount: "1", Asset: "USD"}
		require.Equal(t, workflows.StateCompleted, w.Transfer(t, in).State)
		slowest = max(slowest, time.Since(began))
	}
	return slowest
}

// backlog says whether each of some transfers has an activity in the queue of a ledger.
func backlog(t *testing.T, w *harness.World, ids []string) bool {
	t.Helper()
	for _, id := range ids {
		described, err := w.Temporal.DescribeWorkflow(t.Context(), id, "")
		require.NoError(t, err)
		if len(described.RawResponse.GetPendingActivities()) == 0 {
			return false
		}
	}
	return true
}

// attemptsAreKept holds that transfers wait in the queues at their first attempt.
func attemptsAreKept(t *testing.T, w *harness.World, ids []string) {
	t.Helper()
	for _, id := range ids {
		described, err := w.Temporal.DescribeWorkflow(t.Context(), id, "")
		require.NoError(t, err)
		for _, pending := range described.RawResponse.GetPendingActivities() {
			assert.Equal(t, enums.PENDING_ACTIVITY_STATE_SCHEDULED, pending.GetState(), id)
			assert.EqualValues(t, 1, pending.GetAttempt(), id)
		}
	}
}

// nothingIsSetAside holds that all transfers have completed, and left no dead letter.
func nothingIsSetAside(t *testing.T, w *harness.World, near, far string) {
	t.Helper()
	for _, ledger := range w.Ledgers {
		var letters int
		require.NoError(t, w.DB(t, ledger).QueryRow(t.Context(), `select count(*) from dead_letters`).Scan(&letters))
		assert.Zero(t, letters, "dead letters on %s", ledger)
	}
	half := fmt.Sprintf("%d.00", transfers/2)
	assert.Equal(t, []string{half, half}, w.Balances(t, near, far))
	harness.Eventually(t, "Temporal's list has all ends", func() bool {
		var view reconcile.View
		w.Worker(t, "verify", "--temporal", "--output", "json").Decode(t, &view)
		require.True(t, view.OK, "%+v", view.Temporal.Findings)
		return view.Temporal.Agreed >= transfers && view.Temporal.UnderWay == 0
	})
}

// timesLost is how often a worker has found that it can't reach a ledger, apart from checks that a busy machine was too slow for.
func timesLost(worker *harness.FaultWorker, ledger string) (times int) {
	for line := range strings.Lines(worker.Log.String()) {
		if strings.Contains(line, "the ledger can't be reached; its task queue waits") && strings.Contains(line, " ledger="+ledger+" ") &&
			!strings.Contains(line, "deadline exceeded") {
			times++
		}
	}
	return times
}

func ledgerMetric(name, ledger string) string { return fmt.Sprintf("%s{ledger=%q}", name, ledger) }

// metric reads a value of a worker's metrics: the sum of all that begin with the name.
func metric(t *testing.T, worker *harness.FaultWorker, name string) float64 {
	t.Helper()
	sum := 0.0
	for line := range strings.Lines(worker.Metrics(t)) {
		if strings.HasPrefix(line, name) {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64) //nolint:forbidigo // not money
			require.NoError(t, err)
			sum += value
		}
	}
	return sum
}

func await(t *testing.T, worker *harness.FaultWorker, name string, want float64) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%s is %v", name, want), func() bool { return metric(t, worker, name) == want })
}

// watch counts the connections that workers have to PostgreSQL.
type watch struct {
	most   int // at once
	opened int

	watching sync.WaitGroup
}

func (c *watch) run(ctx context.Context, t *testing.T, w *harness.World) {
	t.Helper()
	const sql = `select pid, backend_start::text from pg_stat_activity where usename = $1 and backend_type = 'client backend'`
	db := w.DB(t, "us")
	seen := make(map[string]bool)
	c.watching.Go(func() {
		ticks := time.NewTicker(20 * time.Millisecond)
		defer ticks.Stop()
		for ctx.Err() == nil {
			now := 0
			rows, err := db.Query(ctx, sql, w.WorkerRole())
			if err == nil {
				var pid int
				var began string
				for rows.Next() && rows.Scan(&pid, &began) == nil {
					now++
					seen[fmt.Sprint(pid, began)] = true
				}
				rows.Close()
			}
			c.most, c.opened = max(c.most, now), len(seen)
			<-ticks.C
		}
	})
}

func (c *watch) wait() { c.watching.Wait() }
