package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/tests/harness"
	"payonce/workflows"
)

// statementsDir is a folder in which workers keep statements, as a setting of theirs.
func statementsDir(t *testing.T) (dir, env string) {
	t.Helper()
	dir = t.TempDir()
	return dir, "PAYONCE_STATEMENTS_DIR=" + dir
}

// startStatement starts the workflow that writes a statement.
func startStatement(t *testing.T, w *harness.World, in workflows.StatementInput) client.WorkflowRun {
	t.Helper()
	run, err := w.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: w.Unique("statement"), TaskQueue: workflows.TaskQueue,
	}, workflows.StatementWriteWorkflow, in)
	require.NoError(t, err)
	return run
}

func writeStatement(t *testing.T, w *harness.World, in workflows.StatementInput) (activities.StatementFile, error) {
	t.Helper()
	var file activities.StatementFile
	err := startStatement(t, w, in).Get(harness.Within(t, patience), &file)
	return file, err
}

// over returns a time after all entries of an account so far, and makes a period that ends then one that is over: by an entry
// that comes later.
func over(t *testing.T, w *harness.World, account, asset string) time.Time {
	t.Helper()
	books, name, _ := strings.Cut(account, "/")
	var end time.Time
	require.NoError(t, w.DB(t, books).QueryRow(t.Context(), `select coalesce(entry_at, clock_timestamp()) + '1 microsecond' from accounts where name = $1`, name).Scan(&end))
	w.Fund(t, account, asset, "1")
	return end.UTC()
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// The workflow and the command line write the same file, again and again, whatever the account's name, asset and status.
func TestStatementFiles(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	dir, env := statementsDir(t)
	w.StartWorker(t, harness.WorkerConfig{Env: []string{env}})
	from := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)

	for _, row := range []struct {
		account, asset, funds string
		format                string
		opening, closing      string
	}{
		{"us/user:42@example.com+shop-7._", "USD", "20.00", "csv", "0.00", "20.00"},
		{"us/user:43@example.com+shop-7._", "USD", "20.00", "camt053", "0.00", "20.00"},
		{"eu/yen", "JPY", "1200", "camt053", "0", "1200"},
		{"us/dinars", "KWD", "1.234", "camt053", "0.000", "1.234"},
		{"us/points", "POINTS/0", "7", "csv", "0", "7"},
		{"us/" + strings.Repeat("n", 128), "USD", "", "camt053", "0.00", "0.00"},
	} {
		t.Run(row.asset+" "+row.format, func(t *testing.T) {
			t.Parallel()
			w.Open(t, activities.AccountOpenInput{Account: row.account, Asset: row.asset})
			if row.funds != "" {
				w.Fund(t, row.account, row.asset, row.funds)
			}
			to := over(t, w, row.account, row.asset)
			in := workflows.StatementInput{Account: row.account, From: &from, To: &to, Format: row.format}
			first, err := writeStatement(t, w, in)
			require.NoError(t, err)
			require.Equal(t, []string{row.opening, row.closing}, []string{first.OpeningBalance, first.ClosingBalance})
			require.True(t, strings.HasPrefix(first.Path, dir+"/"+row.account[:3]), first.Path)
			text := read(t, first.Path)

			// What comes later is of another period, and what the account may do now is not what it had.
			w.Set(t, activities.AccountSetInput{Account: row.account, Status: "frozen"})
			again, err := writeStatement(t, w, in)
			require.NoError(t, err)
			require.Equal(t, first, again)
			require.Equal(t, text, read(t, first.Path))

			out := t.TempDir()
			result := w.CLI(t, "account", "statement", row.account, "--from", from.Format(time.RFC3339Nano), "--to", to.Format(time.RFC3339Nano),
				"--out", out, "--format", row.format)
			require.Equal(t, exitDone, result.Code, result.Stderr)
			var own activities.StatementFile
			result.Decode(t, &own)
			require.Equal(t, strings.TrimPrefix(first.Path, dir), strings.TrimPrefix(own.Path, out))
			require.Equal(t, text, read(t, own.Path))
			own.Path = first.Path
			require.Equal(t, first, own)
		})
	}
}

// What can't be written is told at once, and as what it is: by the workflow with the type of its failure, by the command line
// with its exit code.
func TestStatementRefusals(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	dir, env := statementsDir(t)
	w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"us"}, Env: []string{env}})
	w.StartWorker(t, harness.WorkerConfig{Ledgers: []string{"eu"}})
	from, to := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	ether := w.AccountIn(t, "us", "ETH/18", "")
	dollars, other := w.Account(t, "us", ""), w.Account(t, "eu", "")
	tomorrow := time.Now().Add(24 * time.Hour).Truncate(time.Second)

	for name, row := range map[string]struct {
		in   workflows.StatementInput
		typ  string
		says string
	}{
		"no such account":    {workflows.StatementInput{Account: "us/nobody", From: &from, To: &to}, activities.ErrorAccountUnknown, "no such account"},
		"not over":           {workflows.StatementInput{Account: dollars, From: &from, To: &tomorrow}, activities.ErrorPeriodUnfinished, "the period is not over"},
		"no currency":        {workflows.StatementInput{Account: ether, From: &from, To: &to, Format: "camt053"}, activities.ErrorInvalidInput, "the format csv takes it"},
		"no format":          {workflows.StatementInput{Account: dollars, From: &from, To: &to, Format: "pdf"}, activities.ErrorInvalidInput, "csv or camt053"},
		"backwards":          {workflows.StatementInput{Account: dollars, From: &to, To: &from}, activities.ErrorInvalidInput, "is not after"},
		"no period":          {workflows.StatementInput{Account: dollars, From: &from}, activities.ErrorInvalidInput, `to: it is required, or "last"`},
		"two periods":        {workflows.StatementInput{Account: dollars, From: &from, Last: "day"}, activities.ErrorInvalidInput, "name one or the other"},
		"an unknown period":  {workflows.StatementInput{Account: dollars, Last: "week"}, activities.ErrorInvalidInput, "day, month or year"},
		"nowhere to keep it": {workflows.StatementInput{Account: other, From: &from, To: &to}, activities.ErrorStatementsNotKept, "PAYONCE_STATEMENTS_DIR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := writeStatement(t, w, row.in)
			var application *temporal.ApplicationError
			require.ErrorAs(t, err, &application)
			require.Equal(t, row.typ, application.Type())
			require.Contains(t, application.Message(), row.says)
		})
	}
	t.Run("the command line", func(t *testing.T) {
		t.Parallel()
		out := filepath.Join(t.TempDir(), "statement.xml")
		statement := func(account, from, to string) *harness.Result {
			return w.CLI(t, "account", "statement", account, "--from", from, "--to", to, "--format", "camt053", "--out", out)
		}
		for _, refused := range []*harness.Result{
			statement(ether, "2026-01-01", "2026-02-01"),
			statement("us/nobody", "2026-01-01", "2026-02-01"),
			statement(dollars, "2026-01-01", tomorrow.Format(time.DateOnly)),
			statement(dollars, "2026-02-01", "2026-01-01"),
		} {
			require.Equal(t, exitUsage, refused.Code)
			require.NotEmpty(t, refused.Failure(t).Error)
			require.NoFileExists(t, out)
		}
		// A worker that keeps no files answers those who keep their own.
		require.Equal(t, exitDone, statement(other, "2026-01-01", "2026-02-01").Code)
		require.FileExists(t, out)
	})
	t.Run("nothing is left", func(t *testing.T) {
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, file := range files {
			require.True(t, file.IsDir(), "no part of a file")
		}
	})
}

// A Schedule writes the last whole month, as of the time that it was due, however late it is.
func TestStatementSchedule(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{Schedules: true})
	dir, env := statementsDir(t)
	w.StartWorker(t, harness.WorkerConfig{Env: []string{env}})
	account := w.Account(t, "us", "20.00")
	schedule, err := w.Temporal.ScheduleClient().Create(t.Context(), client.ScheduleOptions{
		ID: "statements", Paused: true, // only what is asked for below runs
		Spec: client.ScheduleSpec{Calendars: []client.ScheduleCalendarSpec{{DayOfMonth: []client.ScheduleRange{{Start: 1}}}}},
		Action: &client.ScheduleWorkflowAction{
			ID: "statement", TaskQueue: workflows.TaskQueue, Workflow: workflows.StatementWriteWorkflow,
			Args: []any{workflows.StatementInput{Account: account, Last: "month"}},
		},
	})
	require.NoError(t, err)
	require.NoError(t, schedule.Backfill(t.Context(), client.ScheduleBackfillOptions{Backfill: []client.ScheduleBackfill{{
		Start: time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC), End: time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC), Overlap: enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
	}}}))
	name, ok := strings.CutPrefix(account, "us/")
	require.True(t, ok)
	for _, period := range []string{"2026-01-01_2026-02-01", "2026-02-01_2026-03-01"} {
		path := filepath.Join(dir, "us", name, period+"_USD-2.csv")
		// The server's own worker, which carries out Schedules, takes its time to begin.
		harness.EventuallyWithin(t, 5*time.Minute, path+" is there", func() bool {
			_, err := os.Stat(path)
			return err == nil
		})
		require.Contains(t, read(t, path), ",closing,"+period[11:]+"T00:00:00.000000Z,,,0.00,")
	}
}

// The worker that writes is killed when a part of the file is written. Another one begins anew, and the file is what the
// command line writes without a fault.
func TestStatementWriterIsKilled(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	dir, env := statementsDir(t)
	const name = "long"
	// A worker that is silent for so long is taken for dead, which costs as much when it is.
	options := func(o *workflows.Options) {
		unhurried(o)
		o.Write.TimeoutHeartbeat = 20 * time.Second
	}
	first := w.StartFaultWorker(t, harness.FaultConfig{Options: options, Env: []string{env}, Faults: []string{"entries/before=kill;skip=1;key=" + name}})
	account := "us/" + name
	w.Open(t, activities.AccountOpenInput{Account: account, Asset: "USD"})
	from := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	const entries = 1_500
	payMany(t, w, w.Source(t, "us", "USD"), account, entries)
	to := over(t, w, account, "USD")

	run := startStatement(t, w, workflows.StatementInput{Account: account, From: &from, To: &to})
	first.AwaitKilled(t)
	parts, err := filepath.Glob(filepath.Join(dir, "us", name, ".*"))
	require.NoError(t, err)
	require.Len(t, parts, 1)
	require.NotEmpty(t, read(t, parts[0]), "a part is written")
	whole, err := filepath.Glob(filepath.Join(dir, "us", name, "[0-9]*"))
	require.NoError(t, err)
	require.Empty(t, whole)

	w.StartFaultWorker(t, harness.FaultConfig{Options: options, Env: []string{env}})
	var file activities.StatementFile
	require.NoError(t, run.Get(harness.Within(t, patience), &file))
	require.EqualValues(t, entries, file.Entries)
	require.Equal(t, "15.00", file.ClosingBalance)
	out := filepath.Join(t.TempDir(), "own.csv")
	result := w.CLI(t, "account", "statement", account, "--from", from.Format(time.RFC3339Nano), "--to", to.Format(time.RFC3339Nano), "--out", out)
	require.Equal(t, exitDone, result.Code, result.Stderr)
	require.Equal(t, read(t, out), read(t, file.Path))
}

// payMany makes payments of 0.01 USD on the ledger us, past the workflows: there are too many for a test that is about none of them.
func payMany(t *testing.T, w *harness.World, from, to string, count int) {
	t.Helper()
	books, err := postgres.Open(t.Context(), postgres.Config{Name: "us", URL: w.LedgerURL("us"), ConnsMax: 2})
	require.NoError(t, err)
	defer books.Close()
	var operations []ledger.Operation
	for i := range count {
		operations = append(operations, ledger.Operation{
			Key: ledger.Key(fmt.Sprintf("transfer/many %d/post", i)), Kind: ledger.KindPost,
			Legs: []ledger.Leg{{From: strings.TrimPrefix(from, "us/"), To: strings.TrimPrefix(to, "us/"), Asset: usd(), Amount: ledger.AmountFromUnits(1)}},
		})
	}
	for some := range slices.Chunk(operations, 250) {
		results, err := books.PostBatch(t.Context(), some)
		require.NoError(t, err)
		for _, result := range results {
			require.Equal(t, ledger.OutcomeApplied, result.Outcome.State, "%+v", result)
		}
	}
}
