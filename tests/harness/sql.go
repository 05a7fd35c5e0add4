package harness

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"payonce/workflows"
)

const balanceSQL = `select balance::text, asset from accounts where name = $1`

// Balance reads an account's balance with SQL, in major units: "10.00". The account must be there.
func (w *World) Balance(t testing.TB, account string) string {
	t.Helper()
	ledger, name, _ := strings.Cut(account, "/")
	var units, asset string
	err := w.DB(t, ledger).QueryRow(t.Context(), balanceSQL, name).Scan(&units, &asset)
	require.NoError(t, err, "the balance of %s", account)
	return major(t, units, asset)
}

// Balances are the balances of accounts.
func (w *World) Balances(t testing.TB, accounts ...string) []string {
	t.Helper()
	balances := make([]string, len(accounts))
	for i, account := range accounts {
		balances[i] = w.Balance(t, account)
	}
	return balances
}

// InTransit is what a ledger's transit account to or from another holds of USD, "0.00" if it is not there.
func (w *World) InTransit(t testing.TB, ledger, other string) string {
	t.Helper()
	var units string
	const sql = `select coalesce(sum(balance), 0)::text from accounts where name = $1 and asset = 'USD/2'`
	require.NoError(t, w.DB(t, ledger).QueryRow(t.Context(), sql, "transit:"+other).Scan(&units))
	return major(t, units, "USD/2")
}

// major writes a number of smallest units in major units. It is not the product's code, on purpose.
func major(t testing.TB, units, asset string) string {
	t.Helper()
	_, scaleText, _ := strings.Cut(asset, "/")
	scale, err := strconv.Atoi(scaleText)
	require.NoError(t, err, "the asset %q", asset)
	sign := ""
	if units[0] == '-' {
		sign, units = "-", units[1:]
	}
	if scale == 0 {
		return sign + units
	}
	for len(units) <= scale {
		units = "0" + units
	}
	return sign + units[:len(units)-scale] + "." + units[len(units)-scale:]
}

// Operation is an operation of a transfer as a ledger has recorded it.
type Operation struct {
	Ledger string
	ID     int64
	Step   string // its key's last part
	Kind   string
	State  string
	Code   string
	// Entries is how many entries it has.
	Entries int
}

// String is "us withdraw applied", or "eu deposit refused account_closed".
func (o *Operation) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", o.Ledger, o.Step, o.State, o.Code))
}

const operationsSQL = `
select id, substr(key, length($1) + 1), kind, state, coalesce(code, ''),
    (select count(*) from entries e where e.operation_id = o.id)
from operations o
where starts_with(key, $1) and position('/' in substr(key, length($1) + 1)) = 0
order by id`

// Operations reads what all ledgers have recorded for a transfer, with SQL, in the order of the ledgers.
func (w *World) Operations(t testing.TB, id string) []Operation {
	t.Helper()
	return w.operationsOf(t, workflows.TransferWorkflowID(id))
}

func (w *World) operationsOf(t testing.TB, workflowID string) []Operation {
	t.Helper()
	var all []Operation
	for _, ledger := range w.Ledgers {
		rows, err := w.DB(t, ledger).Query(t.Context(), operationsSQL, workflowID+"/")
		require.NoError(t, err)
		operations, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Operation, error) {
			o := Operation{Ledger: ledger}
			return o, row.Scan(&o.ID, &o.Step, &o.Kind, &o.State, &o.Code, &o.Entries)
		})
		require.NoError(t, err)
		all = append(all, operations...)
	}
	return all
}

// Steps are the operations of a transfer in words: "us withdraw applied", "eu deposit sealed cancelled", "us refund
// applied". Those of one ledger are in the order in which they were recorded; the ledgers are in the world's order.
func (w *World) Steps(t testing.TB, id string) []string {
	t.Helper()
	return w.stepsOf(t, workflows.TransferWorkflowID(id))
}

func (w *World) stepsOf(t testing.TB, workflowID string) []string {
	t.Helper()
	steps := []string{}
	for _, o := range w.operationsOf(t, workflowID) {
		steps = append(steps, o.String())
	}
	return steps
}

// AwaitStep waits until a ledger has recorded an operation of a transfer: "us withdraw applied".
func (w *World) AwaitStep(t testing.TB, id, step string) {
	t.Helper()
	Eventually(t, "the ledgers record "+step+" of "+id, func() bool {
		return slices.Contains(w.Steps(t, id), step)
	})
}

// Lock is a hold on an account's row, which makes every write to it wait.
type Lock struct {
	tx pgx.Tx
}

// LockAccount locks an account as a database transaction that does not end does, until Release, or the end of the test.
func (w *World) LockAccount(t testing.TB, account string) *Lock {
	t.Helper()
	ledger, name, _ := strings.Cut(account, "/")
	tx, err := w.DB(t, ledger).Begin(t.Context())
	require.NoError(t, err)
	l := &Lock{tx: tx}
	t.Cleanup(func() { l.Release() })
	var id int64
	require.NoError(t, tx.QueryRow(t.Context(), `select id from accounts where name = $1 for update`, name).Scan(&id))
	return l
}

// Release lets the others go on. Safe to call twice.
func (l *Lock) Release() {
	ctx, cancel := cleanupContext()
	defer cancel()
	_ = l.tx.Rollback(ctx)
}

// AwaitBlocked waits until a session of a worker waits for a lock on a ledger.
func (w *World) AwaitBlocked(t testing.TB, ledger string) {
	t.Helper()
	const sql = `select count(*) from pg_stat_activity where datname = current_database() and usename = $1 and wait_event_type = 'Lock'`
	Eventually(t, "a worker waits for a lock on "+ledger, func() bool {
		var n int
		require.NoError(t, w.DB(t, ledger).QueryRow(t.Context(), sql, w.postgres.role).Scan(&n))
		return n > 0
	})
}

// Exec runs SQL on a ledger as the superuser.
func (w *World) Exec(t testing.TB, ledger, sql string, args ...any) {
	t.Helper()
	_, err := w.DB(t, ledger).Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// Plant changes a ledger behind its walls: without triggers and foreign keys, as only a superuser can.
func (w *World) Plant(t testing.TB, ledger, sql string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), w.DB(t, ledger), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `set local session_replication_role = replica`); err != nil {
			return err
		}
		tag, err := tx.Exec(t.Context(), sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			return fmt.Errorf("no row was changed by %q", sql)
		}
		return err
	})
	require.NoError(t, err)
}

// snapshot runs f in one database transaction that sees one state.
func (w *World) snapshot(t testing.TB, ledger string, f func(ctx context.Context, tx pgx.Tx) error) {
	t.Helper()
	// Not the test's own context: it has ended when the world is audited.
	ctx, cancel := cleanupContext()
	defer cancel()
	tx, err := w.DB(t, ledger).BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	require.NoError(t, f(ctx, tx))
}
