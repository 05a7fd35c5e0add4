package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/tests/harness"
	"payonce/workflows"
)

// The harness's own audit is what every test relies on: each of its checks finds what it is for.
func TestAuditFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		check string
		sql   string
	}{
		{"entries sum to zero", `update entries set amount = amount + 1, balance = balance + 1 where version = 1 and amount > 0`},
		{"a balance is the sum of its entries", `update accounts set balance = balance + 1 where name like 'account-%'`},
		{"versions have no gaps", `update entries set version = 7 where version = 2`},
		{"versions have no gaps", `update accounts set version = version + 1`},
		{"an entry's balance is the sum up to it", `update entries set balance = balance + 1 where version = 1`},
		{"entries belong to accounts and operations", `delete from operations where kind = 'withdraw'`},
		{"a leg takes from one account what it gives another", `update entries set leg = 2 where amount < 0`},
		{"applied operations have their entries, and no other has any", `delete from entries where operation_id in (select id from operations where kind = 'withdraw')`},
		{"applied operations have their entries, and no other has any", `update operations set state = 'sealed', code = 'cancelled' where kind = 'post'`},
		{"an entry has its leg's amount", `update operations set legs = replace(legs::text, '"1000"', '"1001"')::json where kind = 'withdraw'`},
		{"times rise with versions", `update operations set at = at - interval '1 day' where kind = 'withdraw'`},
		{"balances are within their limits", `update accounts set ceiling = 5 where name like 'account-%'`},
		{"what is refunded was withdrawn, once", `update operations set reverses = 'transfer/other/withdraw' where kind = 'refund'`},
	} {
		t.Run(row.check, func(t *testing.T) {
			t.Parallel()
			w := planted(t)
			require.Empty(t, w.BookFaults(t))
			w.Plant(t, "us", row.sql)
			require.Contains(t, strings.Join(w.BookFaults(t), "\n"), "ledger us: "+row.check+": ")
		})
	}
	t.Run("arrived and refunded", func(t *testing.T) {
		t.Parallel()
		w := planted(t)
		w.Plant(t, "eu", `update operations set state = 'applied', code = null, detail = null where kind = 'deposit'`)
		require.Contains(t, strings.Join(w.BookFaults(t), "\n"), "transfer/refunded has both arrived and been refunded")
	})
}

// planted is a world with a post, a transfer that has arrived and one that came back, whose books a test may break. Limits
// that the tables hold are taken away.
func planted(t *testing.T) *harness.World {
	t.Helper()
	w := harness.New(t, harness.Config{BooksMayBeWrong: true})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	require.Equal(t, workflows.StateCompleted,
		w.Transfer(t, workflows.TransferInput{ID: "arrived", From: alice, To: bob, Amount: "10", Asset: "USD"}).State)
	require.Equal(t, workflows.StateCompensated,
		w.Transfer(t, workflows.TransferInput{ID: "refunded", From: alice, To: "eu/nobody", Amount: "1", Asset: "USD"}).State)
	for _, constraint := range []string{"accounts_ceiling_check", "operations_code_check"} {
		for _, ledgerName := range w.Ledgers {
			table, _, _ := strings.Cut(constraint, "_")
			w.Exec(t, ledgerName, fmt.Sprintf("alter table %s drop constraint if exists %s", table, constraint))
		}
	}
	return w
}

// envHelper turns this test binary into tests that wait to be ended from outside.
const envHelper = "PAYONCE_TESTS_HELPER"

type helperReport struct {
	PIDs   []int
	Folder string
}

// TestHelper is not a test of its own: TestNothingIsLeftBehind runs it.
func TestHelper(t *testing.T) {
	path := os.Getenv(envHelper)
	if path == "" {
		t.Skip("for TestNothingIsLeftBehind")
	}
	w := harness.New(t, harness.Config{})
	worker, faultWorker := w.StartWorker(t, harness.WorkerConfig{}), w.StartFaultWorker(t, harness.FaultConfig{})
	worker.Freeze(t)
	report, err := json.Marshal(helperReport{
		PIDs:   append(descendants(t, os.Getpid()), worker.PID, faultWorker.PID, w.Postgres.PID(), w.TemporalServer.PID()),
		Folder: filepath.Dir(harness.TempDir(t)),
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".new", report, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	select {}
}

// Tests that are interrupted take everything down; of those that are killed no process stays.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(harness.TempDir(t), "report")
			helper := harness.StartProcess(t, harness.ProcessConfig{
				Path: self, Args: []string{"-test.run=^TestHelper$"},
				Env: append(harness.BasicEnv(), envHelper+"="+path, "PAYONCE_BIN="+filepath.Dir(harness.Binary(t, "worker"))),
			})
			var report helperReport
			// It sets servers of its own up.
			harness.EventuallyWithin(t, 10*time.Minute, "the helper reports", func() bool {
				require.True(t, helper.Alive(), "%s", helper.Output)
				text, err := os.ReadFile(path)
				return err == nil && json.Unmarshal(text, &report) == nil
			})
			require.DirExists(t, report.Folder)
			require.NoError(t, helper.Signal(signal))
			code := helper.AwaitExit(t)
			awaitGone(t, report.PIDs)
			if signal == syscall.SIGINT {
				require.Equal(t, 130, code)
				require.NoDirExists(t, report.Folder)
			}
		})
	}
}
