package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"payonce/internal/devstack"
	"payonce/workflows"
)

func TestRunServesAndStops(t *testing.T) {
	stack := stackOf(t)
	p := serving(t, stack, "--listen", "127.0.0.1:0", "--stop-timeout", "1h")
	b := newBank(t, stack, "serves")

	status, body := ask(t, p, "/readyz")
	assert.Equal(t, http.StatusOK, status, body)
	status, body = ask(t, p, "/metrics")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, `payonce_ledger_open{ledger="us"} 1`)

	alice, bob, carol := b.account("us", "alice"), b.account("us", "bob"), b.account("eu", "carol")
	b.completed(b.transfer("1", alice, bob))
	b.completed(b.transfer("2", alice, carol))

	for queue, kind := range map[string]enums.TaskQueueType{
		workflows.TaskQueue:             enums.TASK_QUEUE_TYPE_WORKFLOW,
		workflows.LedgerTaskQueue("us"): enums.TASK_QUEUE_TYPE_ACTIVITY,
		workflows.LedgerTaskQueue("eu"): enums.TASK_QUEUE_TYPE_ACTIVITY,
	} {
		described, err := b.temporal.DescribeTaskQueue(t.Context(), queue, kind)
		require.NoError(t, err)
		assert.NotEmpty(t, described.GetPollers(), queue)
	}

	assert.Equal(t, exitOK, p.stop(t), "nothing was held: the stop time-out is far")
	assert.Contains(t, p.output.String(), `"msg":"stopped"`)
	assertNoSecrets(t, stack, p.output.String())
}

func TestRunFinishesWhatItHolds(t *testing.T) {
	stack := stackOf(t)
	b := newBank(t, stack, "finishes")
	// On a busy machine the step may have waited for its account for as long as it may, before the account is let go.
	const roundsMax = 5
	reported := 0
	for round := 0; reported == 0 && round < roundsMax; round++ {
		p := serving(t, stack)
		alice, bob := b.account("us", fmt.Sprint("alice-", round)), b.account("us", fmt.Sprint("bob-", round))

		unlock := b.lockAccount("us", alice)
		run := b.transfer(fmt.Sprint(round), alice, bob)
		b.pendingActivity(run)
		p.signal(t, syscall.SIGTERM)
		p.awaitLog(t, "finishing what is held")
		unlock()
		assert.Equal(t, exitOK, p.exit(t))
		reported = b.events(run, enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)

		p = serving(t, stack)
		b.completed(run)
		assert.Equal(t, exitOK, p.stop(t))
	}
	assert.Equal(t, 1, reported, "it has reported the step")
}

func TestRunDoesNotFinishInTime(t *testing.T) {
	stack := stackOf(t)
	p := serving(t, stack, "--stop-timeout", "300ms")
	b := newBank(t, stack, "too-slow")
	alice, bob := b.account("us", "alice"), b.account("us", "bob")

	unlock := b.lockAccount("us", alice)
	run := b.transfer("1", alice, bob)
	b.pendingActivity(run)
	assert.Equal(t, exitError, p.stop(t))
	assert.Contains(t, p.output.String(), `"level":"ERROR","msg":"the worker has failed","error":"not finished within the stop time-out of 300ms`)
	for line := range strings.Lines(p.output.String()) {
		assert.True(t, json.Valid([]byte(line)), "a log for programs has nothing else in it: %s", line)
	}
	unlock()

	// Another worker takes over when the step's time-out has passed, and meets the same key.
	p = serving(t, stack)
	b.completed(run)
	assert.Equal(t, exitOK, p.stop(t))
}

func TestRunEndsAtOnceAtTheSecondSignal(t *testing.T) {
	stack := stackOf(t)
	p := serving(t, stack, "--stop-timeout", "1h")
	b := newBank(t, stack, "second-signal")
	alice, bob := b.account("us", "alice"), b.account("us", "bob")

	unlock := b.lockAccount("us", alice)
	defer unlock()
	b.pendingActivity(b.transfer("1", alice, bob))
	p.signal(t, os.Interrupt)
	p.awaitLog(t, "finishing what is held")
	p.signal(t, os.Interrupt)
	assert.Equal(t, exitError, p.exit(t), "the stop time-out is far")
	assert.Contains(t, p.output.String(), "worker: interrupt again: ending at once")
}

func TestRunNeedsTheSchema(t *testing.T) {
	t.Parallel()
	stack := stackOf(t)
	role, _, _ := strings.Cut(strings.TrimPrefix(stack.LedgersURL(), "us="), ",eu=") // as the worker
	url := func(database string) string {
		makeDatabase(t, stack, database)
		return strings.Replace(role, devstack.Database("us"), database, 1)
	}

	t.Run("none", func(t *testing.T) {
		env := environment(stack, "LEDGERS=us="+url("payonce_unmigrated"))
		code, _, stderr := runWorker(t, env, "run")
		assert.Equal(t, exitError, code)
		assert.Contains(t, stderr, "run `worker migrate`")
		assert.Contains(t, stderr, "ledger us")
		assertNoSecrets(t, stack, stderr)
	})

	t.Run("a newer one", func(t *testing.T) {
		env := environment(stack, "LEDGERS=us="+url("payonce_newer"), "MIGRATE_LEDGERS=us="+stack.Postgres.URL("payonce_newer"))
		code, _, stderr := runWorker(t, env, "migrate", "--worker-role", devstack.WorkerRole)
		require.Equal(t, exitOK, code, stderr)
		_, err := owner(t, stack, "payonce_newer").Exec(t.Context(), "insert into schema_migrations (version_id, is_applied) values (99999, true)")
		require.NoError(t, err)

		code, _, stderr = runWorker(t, env, "run")
		assert.Equal(t, exitError, code)
		assert.Contains(t, stderr, "newer")
		code, _, stderr = runWorker(t, env, "migrate")
		assert.Equal(t, exitError, code)
		assert.Contains(t, stderr, "newer")
	})
}

// TestRunWithALedgerThatIsDown shows that a worker starts without one of its ledgers, and serves the others.
func TestRunWithALedgerThatIsDown(t *testing.T) {
	stack := stackOf(t)
	us, _, _ := strings.Cut(stack.LedgersURL(), ",")
	p := startWorker(t, environment(stack, "LEDGERS="+us+",eu=postgres://app:hunter2hunter2@127.0.0.1:1/eu"), "--listen", "127.0.0.1:0")
	p.awaitLog(t, `"msg":"serving"`)
	p.awaitLog(t, "its task queue waits until it can")
	b := newBank(t, stack, "down")
	b.completed(b.transfer("1", b.account("us", "alice"), b.account("us", "bob")))

	status, body := ask(t, p, "/readyz")
	assert.Equal(t, http.StatusOK, status)
	var ready struct {
		Ledgers []struct {
			Ledger string
			Open   bool
			Error  string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &ready))
	require.Len(t, ready.Ledgers, 2)
	assert.True(t, ready.Ledgers[0].Open)
	assert.False(t, ready.Ledgers[1].Open)
	assert.Contains(t, ready.Ledgers[1].Error, "connection refused")

	assert.Equal(t, exitOK, p.stop(t))
	assert.NotContains(t, p.output.String()+body, "hunter2")
}

func TestRunWithAWrongPassword(t *testing.T) {
	stack := stackOf(t)
	us, _, _ := strings.Cut(stack.LedgersURL(), ",")
	at := strings.Index(us, "@")
	colon := strings.LastIndex(us[:at], ":")
	p := startWorker(t, environment(stack, "LEDGERS="+us[:colon]+":hunter2hunter2"+us[at:], "PAYONCE_LOG_LEVEL=debug",
		"TEMPORAL_API_KEY=hunter2hunter2", "TEMPORAL_TLS=false"))
	p.awaitLog(t, "password authentication failed")
	p.awaitLog(t, `"msg":"serving"`)
	assert.Equal(t, exitOK, p.stop(t))
	assert.NotContains(t, p.output.String(), "hunter2")
	assertNoSecrets(t, stack, p.output.String())
}

func TestRunWithWrongSettings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  []string
		args []string
		err  string
	}{
		"no ledger":         {err: "DATABASE_URL: no ledger is set"},
		"a malformed URL":   {env: []string{"DATABASE_URL=postgres://app:hunter2/hunter2@h/us"}, err: "its URL can't be read"},
		"a wrong flag":      {env: []string{"DATABASE_URL=postgres://h/us"}, args: []string{"--stop-timeout", "soon"}, err: "PAYONCE_STOP_TIMEOUT"},
		"an unknown flag":   {args: []string{"--bogus"}, err: "unknown flag: --bogus"},
		"an argument":       {args: []string{"all"}, err: "all"},
		"a malformed level": {env: []string{"PAYONCE_LOG_LEVEL=loud"}, err: "PAYONCE_LOG_LEVEL"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runWorker(t, append(test.env, "HOME="+t.TempDir()), append([]string{"run"}, test.args...)...)
			assert.Equal(t, exitUsage, code)
			assert.Contains(t, stderr, test.err)
			assert.Contains(t, stderr, "worker run --help")
			assert.Empty(t, stdout)
			assert.NotContains(t, stderr, "hunter2")
		})
	}
}

// ask gets a path of a worker's HTTP address.
func ask(t *testing.T, p *process, path string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address(t)+path, http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(raw)
}

// assertNoSecrets checks that a text has neither a stack's database URLs nor a password of theirs.
func assertNoSecrets(t *testing.T, stack *devstack.Stack, text string) {
	t.Helper()
	for _, setting := range []string{stack.LedgersURL(), stack.LedgersOwnerURL()} {
		for entry := range strings.SplitSeq(setting, ",") {
			_, url, _ := strings.Cut(entry, "=")
			_, afterUser, _ := strings.Cut(strings.TrimPrefix(url, "postgres://"), ":")
			password, _, _ := strings.Cut(afterUser, "@")
			require.Greater(t, len(password), 10)
			assert.NotContains(t, text, password)
			assert.NotContains(t, text, "postgres://")
		}
	}
}
