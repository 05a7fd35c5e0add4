package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"payonce/internal/devstack"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	stack := stackOf(t)
	ledgers := func(t *testing.T, names ...string) string {
		t.Helper()
		var entries []string
		for _, name := range names {
			database := "payonce_migrate_" + name
			makeDatabase(t, stack, database)
			entries = append(entries, name+"="+stack.Postgres.URL(database))
		}
		return strings.Join(entries, ",")
	}

	t.Run("again, and at once", func(t *testing.T) {
		env := environment(stack, "LEDGERS=", "MIGRATE_LEDGERS="+ledgers(t, "a", "b"))
		const atOnce = 4
		var running sync.WaitGroup
		for range atOnce {
			running.Go(func() {
				code, stdout, stderr := runWorker(t, env, "migrate", "--worker-role", devstack.WorkerRole)
				assert.Equal(t, exitOK, code, stderr)
				assert.Equal(t, "ledger a is up to date; role payonce_worker has its rights\n"+
					"ledger b is up to date; role payonce_worker has its rights\n", stdout)
				assertNoSecrets(t, stack, stdout+stderr)
			})
		}
		running.Wait()
		code, stdout, _ := runWorker(t, env, "migrate")
		assert.Equal(t, exitOK, code)
		assert.Equal(t, "ledger a is up to date\nledger b is up to date\n", stdout)
	})

	t.Run("one fails, the others are migrated", func(t *testing.T) {
		env := environment(stack, "LEDGERS=", "MIGRATE_LEDGERS=down=postgres://app:hunter2hunter2@127.0.0.1:1/down,"+ledgers(t, "c"))
		code, stdout, stderr := runWorker(t, env, "migrate")
		assert.Equal(t, exitError, code)
		assert.Equal(t, "ledger c is up to date\n", stdout)
		assert.Contains(t, stderr, "ledger down")
		assert.Contains(t, stderr, "refused")
		assert.NotContains(t, stderr, "hunter2")
	})

	t.Run("an unknown role", func(t *testing.T) {
		env := environment(stack, "LEDGERS=", "MIGRATE_LEDGERS="+ledgers(t, "d"), "PAYONCE_WORKER_ROLE=nobody_at_all")
		code, _, stderr := runWorker(t, env, "migrate")
		assert.Equal(t, exitError, code)
		assert.Contains(t, stderr, "nobody_at_all")
	})

	t.Run("wrong settings", func(t *testing.T) {
		code, _, stderr := runWorker(t, []string{"HOME=" + t.TempDir()}, "migrate")
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, stderr, "no ledger is set")
		code, _, stderr = runWorker(t, environment(stack, "MIGRATE_LEDGERS=us=postgres://h/us"), "migrate")
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, stderr, "MIGRATE_LEDGERS: it names us, and the worker's setting names eu, us")
	})
}
