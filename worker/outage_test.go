package main

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"payonce/internal/devstack"
	"payonce/workflows"
)

// metric reads one value of a worker's metrics.
func metric(t *testing.T, p *process, name string) float64 {
	t.Helper()
	_, body := ask(t, p, "/metrics")
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(body)
	require.NotNil(t, match, "%s is not measured", name)
	value, err := strconv.ParseFloat(match[1], 64) //nolint:forbidigo // not money
	require.NoError(t, err)
	return value
}

func awaitMetric(t *testing.T, p *process, name string, want float64) {
	t.Helper()
	require.Eventually(t, func() bool { return metric(t, p, name) == want }, patience, 20*time.Millisecond, "%s is not %v", name, want)
}

// throughProxy is the stack's environment with the ledger eu behind a proxy.
func throughProxy(t *testing.T, stack *devstack.Stack) ([]string, *proxy) {
	t.Helper()
	us, eu, _ := strings.Cut(stack.LedgersURL(), ",eu=")
	parsed, err := url.Parse(eu)
	require.NoError(t, err)
	p := newProxy(t, parsed.Host)
	p.connect()
	parsed.Host = p.address
	return environment(stack, "LEDGERS="+us+",eu="+parsed.String()), p
}

// TestOutageOfOneLedger cuts one ledger off. Its tasks wait, those of the other are done, and when it is back all of
// them are done soon.
func TestOutageOfOneLedger(t *testing.T) {
	stack := stackOf(t)
	env, eu := throughProxy(t, stack)
	p := startWorker(t, env, "--listen", "127.0.0.1:0")
	p.awaitLog(t, `"msg":"serving"`)
	b := newBank(t, stack, "outage")
	alice, bob := b.account("us", "alice"), b.account("us", "bob")
	carol, dave := b.account("eu", "carol"), b.account("eu", "dave")
	b.completed(b.transfer("before", carol, dave))

	eu.cut()
	const count = 100
	waiting := make([]client.WorkflowRun, 0, 2*count)
	for i := range count {
		waiting = append(waiting,
			b.transfer(fmt.Sprint("eu-", i), carol, dave),
			b.transfer(fmt.Sprint("us-eu-", i), alice, carol))
	}
	awaitMetric(t, p, `payonce_ledger_open{ledger="eu"}`, 0)
	assert.InDelta(t, 0, metric(t, p, `payonce_ledger_slots_limit{ledger="eu"}`), 0)

	begun := time.Now()
	for i := range 20 {
		b.completed(b.transfer(fmt.Sprint("us-", i), alice, bob))
	}
	t.Logf("during the outage 20 transfers of the other ledger took %s", time.Since(begun).Round(time.Millisecond))
	awaitMetric(t, p, `payonce_ledger_open{ledger="us"}`, 1)
	status, _ := ask(t, p, "/readyz")
	assert.Equal(t, 200, status)

	// All of eu's tasks are in its queue, and nobody takes them.
	require.Eventually(t, func() bool {
		described, err := b.temporal.WorkflowService().DescribeTaskQueue(t.Context(), &workflowservice.DescribeTaskQueueRequest{
			Namespace: stack.Temporal.Namespace, TaskQueue: &taskqueue.TaskQueue{Name: workflows.LedgerTaskQueue("eu")},
			TaskQueueType: enums.TASK_QUEUE_TYPE_ACTIVITY, ReportStats: true,
		})
		require.NoError(t, err)
		return described.GetStats().GetApproximateBacklogCount() >= 2*count
	}, patience, 50*time.Millisecond)

	eu.connect()
	back := time.Now()
	awaitMetric(t, p, `payonce_ledger_open{ledger="eu"}`, 1)
	t.Logf("the gate was open %s after the ledger was back", time.Since(back).Round(time.Millisecond))
	for _, run := range waiting {
		b.completed(run)
	}
	took := time.Since(back)
	t.Logf("all %d transfers were done %s after the ledger was back", len(waiting), took.Round(time.Millisecond))
	assert.GreaterOrEqual(t, metric(t, p, `payonce_ledger_lost_total{ledger="eu"}`), 1.0)
	assert.LessOrEqual(t, timesLost(p, "eu"), 1, "it stays when it is back")

	// The outage has used up no attempts: at most one round for each poll that was under way when it began.
	rounds := 0
	for _, run := range waiting {
		rounds += b.events(run, enums.EVENT_TYPE_ACTIVITY_TASK_FAILED)
	}
	t.Logf("%d tasks met the closed gate", rounds)
	assert.Less(t, rounds, 50)

	// As many that nothing holds up tell what soon is on this machine.
	begun = time.Now()
	var others []client.WorkflowRun
	for i := range count {
		others = append(others,
			b.transfer(fmt.Sprint("eu-again-", i), carol, dave),
			b.transfer(fmt.Sprint("us-eu-again-", i), alice, carol))
	}
	for _, run := range others {
		b.completed(run)
	}
	t.Logf("%d others took %s", len(others), time.Since(begun).Round(time.Millisecond))
	assert.Less(t, took, 10*time.Since(begun)+20*time.Second)
	assert.Equal(t, exitOK, p.stop(t))
}

// timesLost is how often a worker has found that it can't reach a ledger, apart from checks that a busy machine was too slow for.
func timesLost(p *process, ledgerName string) (times int) {
	for _, line := range lines(p.output.String()) {
		cause, _ := line["error"].(string)
		if line["msg"] == "the ledger can't be reached; its task queue waits" && line["ledger"] == ledgerName && !strings.Contains(cause, "deadline exceeded") {
			times++
		}
	}
	return times
}

// TestOutageOfPostgreSQL crashes the server under both ledgers, and then locks the worker out.
func TestOutageOfPostgreSQL(t *testing.T) {
	t.Parallel()
	stack := ownStack(t)
	p := serving(t, stack, "--listen", "127.0.0.1:0")
	b := newBank(t, stack, "crash")
	alice, bob, carol := b.account("us", "alice"), b.account("us", "bob"), b.account("eu", "carol")
	b.completed(b.transfer("before", alice, bob))

	require.NoError(t, stack.Postgres.Kill(t.Context()))
	var waiting []client.WorkflowRun
	for i := range 50 {
		waiting = append(waiting, b.transfer(fmt.Sprint("us-", i), alice, bob), b.transfer(fmt.Sprint("us-eu-", i), alice, carol))
	}
	awaitMetric(t, p, `payonce_ledger_open{ledger="us"}`, 0)
	awaitMetric(t, p, `payonce_ledger_open{ledger="eu"}`, 0) // found by a check: no call has met it
	status, _ := ask(t, p, "/readyz")
	assert.Equal(t, 503, status)
	status, _ = ask(t, p, "/healthz")
	assert.Equal(t, 200, status, "a restart would not help")

	require.NoError(t, stack.Postgres.Restart(t.Context()))
	back := time.Now()
	awaitMetric(t, p, `payonce_ledger_open{ledger="us"}`, 1)
	t.Logf("the gate was open %s after the server was back", time.Since(back).Round(time.Millisecond))
	for _, run := range waiting {
		b.completed(run)
	}
	t.Logf("all %d transfers were done %s after the server was back", len(waiting), time.Since(back).Round(time.Millisecond))

	// A password that is changed under the worker: nothing is wrong with any transfer, so nothing is given up.
	setting, _, _ := strings.Cut(stack.LedgersURL(), ",")
	worker, err := url.Parse(strings.TrimPrefix(setting, "us="))
	require.NoError(t, err)
	password, _ := worker.User.Password()
	require.NoError(t, stack.Postgres.CreateRole(t.Context(), devstack.WorkerRole, "another-password"))
	_, err = owner(t, stack, devstack.Database("us")).Exec(t.Context(),
		"select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", devstack.WorkerRole)
	require.NoError(t, err)
	waiting = nil
	for i := range 50 {
		waiting = append(waiting, b.transfer(fmt.Sprint("password-", i), alice, carol))
	}
	p.awaitLog(t, "password authentication failed")
	awaitMetric(t, p, `payonce_ledger_open{ledger="us"}`, 0)
	require.NoError(t, stack.Postgres.CreateRole(t.Context(), devstack.WorkerRole, password))
	back = time.Now()
	for _, run := range waiting {
		b.completed(run)
	}
	t.Logf("all %d transfers were done %s after the password was right again", len(waiting), time.Since(back).Round(time.Millisecond))

	code, stdout, stderr := runWorker(t, environment(stack), "verify")
	assert.Equal(t, exitOK, code, stdout+stderr)
	assert.Equal(t, exitOK, p.stop(t))
	assertNoSecrets(t, stack, p.output.String())
}

// TestRunWaitsForTemporal starts a worker before its Temporal server.
func TestRunWaitsForTemporal(t *testing.T) {
	stack := stackOf(t)
	temporal := newProxy(t, stack.Temporal.Address)
	p := startWorker(t, environment(stack, "TEMPORAL_ADDRESS="+temporal.address), "--listen", "127.0.0.1:0")
	p.awaitLog(t, "Temporal can't be reached; trying until it can")
	status, body := ask(t, p, "/readyz")
	assert.Equal(t, 503, status)
	assert.Contains(t, body, `"state":"starting"`)
	temporal.connect()
	p.awaitLog(t, `"msg":"serving"`)
	assert.Equal(t, exitOK, p.stop(t))

	p = startWorker(t, environment(stack, "TEMPORAL_ADDRESS=127.0.0.1:1"))
	p.awaitLog(t, "Temporal can't be reached; trying until it can")
	assert.Equal(t, exitOK, p.stop(t), "told to stop while it was starting")
}
