package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/internal/devstack"
	"payonce/internal/reconcile"
	"payonce/ledger/postgres"
	"payonce/workflows"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	stack := ownLedgers(t, stackOf(t), "verify_us", "verify_eu")
	p := startWorker(t, stack.env)
	p.awaitLog(t, `"msg":"serving"`)
	b := newBank(t, stack.Stack, "verify")
	alice, bob := b.account("verify-us", "alice"), b.account("verify-us", "bob")
	carol := b.account("verify-eu", "carol")
	b.completed(b.transfer("1", alice, bob))
	b.completed(b.transfer("2", alice, carol))
	require.Equal(t, exitOK, p.stop(t))

	report := func(t *testing.T, args ...string) (code int, report reconcile.View) {
		t.Helper()
		code, stdout, stderr := runWorker(t, stack.env, append([]string{"verify", "--output", "json"}, args...)...)
		require.NoError(t, json.Unmarshal([]byte(stdout), &report), stdout+stderr)
		assert.Empty(t, stderr)
		assert.Equal(t, code == exitOK, report.OK)
		return code, report
	}

	t.Run("right books", func(t *testing.T) {
		code, stdout, stderr := runWorker(t, stack.env, "verify")
		assert.Equal(t, exitOK, code, stdout+stderr)
		assert.Contains(t, stdout, "verify-us: 3 accounts, 2 operations, 4 entries, as of ")
		assert.Contains(t, stdout, "The books are right.")
		assert.Empty(t, stderr)

		code, r := report(t)
		assert.Equal(t, exitOK, code)
		assert.Empty(t, r.Findings)
		assert.Empty(t, r.InTransit)
		require.Len(t, r.Ledgers, 2)
		assert.EqualValues(t, 4, r.Ledgers[0].Entries)
	})

	t.Run("only one of two ledgers", func(t *testing.T) {
		us, _, _ := strings.Cut(stack.ledgers, ",")
		code, stdout, stderr := runWorker(t, environment(stack.Stack, "LEDGERS="+us), "verify")
		assert.Equal(t, exitOK, code, stdout+stderr)
		assert.Contains(t, stdout, "not checked")
		assert.Contains(t, stdout, "verify-eu")
	})

	t.Run("money in transit", func(t *testing.T) {
		// The deposit is taken out of eu's books, as if it had not been made: the money is on its way.
		stack.plant(t, "verify_eu",
			"delete from entries", "delete from operations", "update accounts set balance = 0, version = 0, entry_at = null")
		code, r := report(t)
		assert.Equal(t, exitOK, code, "%+v", r)
		require.Len(t, r.InTransit, 1)
		got := r.InTransit[0]
		assert.Equal(t, workflows.TransferWorkflowID(b.name+"-2"), got.Transfer)
		assert.Equal(t, "1.00", got.Amount)
		assert.Equal(t, "USD/2", got.Asset)
		assert.Equal(t, alice, got.From)
		assert.Equal(t, carol, got.To)
		assert.Equal(t, []reconcile.TransitTotalView{{From: "verify-us", To: "verify-eu", Amount: "1.00", Asset: "USD/2", Transfers: 1}}, r.InTransitTotals)

		code, stdout, _ := runWorker(t, stack.env, "verify")
		assert.Equal(t, exitOK, code)
		assert.Contains(t, stdout, "in transit  1.00 USD/2 from "+alice+" to "+carol+" since ")
		assert.Contains(t, stdout, "in transit from verify-us to verify-eu: 1.00 USD/2 in 1 transfer\n")
	})

	t.Run("wrong books", func(t *testing.T) {
		stack.plant(t, "verify_us", "update accounts set balance = balance + 500 where name = '"+b.name+"-bob'")
		code, stdout, stderr := runWorker(t, stack.env, "verify")
		assert.Equal(t, exitError, code)
		assert.Contains(t, stdout, "WRONG  verify-us: account-balance: "+b.name+"-bob USD/2: ")
		assert.Contains(t, stdout, "somebody wrote to it")
		assert.Contains(t, stdout, "The books are WRONG: 2 findings.")
		assert.Empty(t, stderr, "all is said on stdout")

		code, r := report(t)
		assert.Equal(t, exitError, code)
		require.Len(t, r.Findings, 2)
		assert.Equal(t, "account-balance", r.Findings[0].Check)
		assert.NotEmpty(t, r.Findings[0].Advice)

		_, r = report(t, "--list-max", "1")
		assert.Len(t, r.Findings, 1)
		assert.EqualValues(t, 2, r.FindingsCount)
	})

	t.Run("a ledger that can't be reached", func(t *testing.T) {
		code, stdout, stderr := runWorker(t, environment(stack.Stack, "LEDGERS=us=postgres://app:hunter2hunter2@127.0.0.1:1/us"), "verify")
		assert.Equal(t, exitError, code)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "ledger us")
		assert.Contains(t, stderr, "refused")
		assert.NotContains(t, stderr, "hunter2")
	})

	t.Run("wrong usage", func(t *testing.T) {
		for _, args := range [][]string{{"--output", "xml"}, {"--list-max", "-1"}, {"us"}} {
			code, _, stderr := runWorker(t, stack.env, append([]string{"verify"}, args...)...)
			assert.Equal(t, exitUsage, code, stderr)
		}
		code, _, stderr := runWorker(t, []string{"HOME=" + t.TempDir()}, "verify")
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, stderr, "no ledger is set")
	})
}

func TestEveryCheckHasAdvice(t *testing.T) {
	seen := make(map[string]postgres.Check)
	for _, check := range []postgres.Check{
		postgres.CheckAssetSum, postgres.CheckEntryChain, postgres.CheckAccountBalance, postgres.CheckAccountLimit,
		postgres.CheckOperationHash, postgres.CheckOperationEntries, postgres.CheckReversal, postgres.CheckTransfer, postgres.CheckTransit,
	} {
		text := reconcile.BookAdvice(check)
		assert.NotEmpty(t, text, check)
		assert.NotContains(t, seen, text, check)
		seen[text] = check
	}
}

// ledgersOf are ledgers of a test's own on a shared stack.
type ledgersOf struct {
	*devstack.Stack

	ledgers string // the setting LEDGERS
	env     []string
}

// ownLedgers makes migrated ledgers, each named like its database with - for _.
func ownLedgers(t *testing.T, stack *devstack.Stack, databases ...string) ledgersOf {
	t.Helper()
	us, _, _ := strings.Cut(strings.TrimPrefix(stack.LedgersURL(), "us="), ",eu=")
	var owners, workers []string
	for _, database := range databases {
		makeDatabase(t, stack, database)
		name := strings.ReplaceAll(database, "_", "-")
		owners = append(owners, name+"="+stack.Postgres.URL(database))
		workers = append(workers, name+"="+strings.Replace(us, devstack.Database("us"), database, 1))
	}
	l := ledgersOf{Stack: stack, ledgers: strings.Join(workers, ",")}
	l.env = environment(stack, "LEDGERS="+l.ledgers, "MIGRATE_LEDGERS="+strings.Join(owners, ","))
	code, _, stderr := runWorker(t, l.env, "migrate", "--worker-role", devstack.WorkerRole)
	require.Equal(t, exitOK, code, stderr)
	return l
}

// plant writes to a database as nobody but its owner can, past triggers and constraints between tables.
func (l ledgersOf) plant(t *testing.T, database string, statements ...string) {
	t.Helper()
	conn := owner(t, l.Stack, database)
	for _, statement := range append([]string{"set session_replication_role = replica"}, statements...) {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}
