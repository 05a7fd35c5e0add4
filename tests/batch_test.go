package tests

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/internal/reconcile"
	"payonce/ledger"
	"payonce/tests/harness"
	"payonce/workflows"
)

// batchDocument is what `starter batch submit` and `status` print, as far as tests look at it.
type batchDocument struct {
	Batch    string                  `json:"batch"`
	State    string                  `json:"state"`
	Reasons  []string                `json:"reasons"`
	Rows     int                     `json:"rows"`
	Totals   []workflows.AssetAmount `json:"totals"`
	Attached *bool                   `json:"attached"`
	Counts   *workflows.BatchCounts  `json:"counts"`
	Going    []struct {
		ID     string          `json:"id"`
		State  workflows.State `json:"state"`
		Detail string          `json:"detail"`
	} `json:"going"`
	Alike int `json:"alike"`
	File  *struct {
		Name      string           `json:"name"`
		BadRows   int              `json:"bad_rows"`
		Bad       []map[string]any `json:"bad"`
		Repeats   int              `json:"repeats"`
		Repeated  []map[string]any `json:"repeated"`
		AlikeRows int              `json:"alike_rows"`
		Alike     []map[string]any `json:"alike"`
	} `json:"file"`
}

// batchCLI runs a `starter batch` command.
func batchCLI(t *testing.T, w *harness.World, args ...string) (batchDocument, int) {
	t.Helper()
	result := w.CLI(t, append([]string{"batch"}, args...)...)
	var document batchDocument
	result.Decode(t, &document)
	return document, result.Code
}

// csvFile writes rows into a batch file.
func csvFile(t *testing.T, rows ...workflows.TransferInput) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.csv")
	file, err := os.Create(path)
	require.NoError(t, err)
	out := csv.NewWriter(file)
	require.NoError(t, out.Write([]string{"id", "from", "to", "amount", "asset", "memo"}))
	for _, in := range rows {
		require.NoError(t, out.Write([]string{in.ID, in.From, in.To, in.Amount, in.Asset, in.Memo}))
	}
	out.Flush()
	require.NoError(t, out.Error())
	require.NoError(t, file.Close())
	return path
}

// jsonFile writes the same rows as JSON Lines, the last first.
func jsonFile(t *testing.T, rows ...workflows.TransferInput) string {
	t.Helper()
	var text strings.Builder
	for _, in := range slices.Backward(rows) {
		line, err := json.Marshal(in)
		require.NoError(t, err)
		text.Write(line)
		text.WriteString("\r\n")
	}
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// coffees are rows that pay 1 each.
func coffees(from, to string, n int) []workflows.TransferInput {
	var rows []workflows.TransferInput
	for i := range n {
		rows = append(rows, workflows.TransferInput{ID: fmt.Sprintf("coffee-%d", i), From: from, To: to, Amount: "1", Asset: "USD"})
	}
	return rows
}

// A file with everything in it: each row has its own end, the same rows again are the same batch, and the report tells each.
// Cases 57, 63 and 67: a file again is paid once, rows that look alike are paid, and a summary tells each row's end.
func TestBatch(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "us", "")
	away, abroad := w.Account(t, "eu", ""), w.Account(t, "eu", "5.00")
	closed := w.Account(t, "us", "")
	w.Set(t, activities.AccountSetInput{Account: closed, Status: string(ledger.AccountClosed)})
	paid := workflows.TransferInput{ID: "paid", From: alice, To: bob, Amount: "1", Asset: "USD"}
	sent := workflows.TransferInput{ID: "sent", From: alice, To: away, Amount: "1", Asset: "USD"}
	taken := workflows.TransferInput{ID: "taken", From: alice, To: bob, Amount: "1", Asset: "USD"}
	takenAbroad := workflows.TransferInput{ID: "taken-abroad", From: alice, To: away, Amount: "1", Asset: "USD"}
	for _, in := range []workflows.TransferInput{paid, sent, taken, takenAbroad} {
		require.Equal(t, workflows.StateCompleted, w.Transfer(t, in).State)
	}
	taken.Amount, takenAbroad.Amount = "2", "2"
	rows := append(coffees(alice, bob, 30),
		paid, sent, taken, takenAbroad,
		workflows.TransferInput{ID: "away", From: alice, To: away, Amount: "1", Asset: "USD"},
		workflows.TransferInput{ID: "eu", From: abroad, To: away, Amount: "1", Asset: "USD"},
		workflows.TransferInput{ID: "car", From: alice, To: bob, Amount: "20000", Asset: "USD"},
		workflows.TransferInput{ID: "closed", From: alice, To: closed, Amount: "1", Asset: "USD"},
		workflows.TransferInput{ID: "nobody", From: alice, To: "eu/nobody", Amount: "1", Asset: "USD"},
	)
	balances := []string{"96.00", "2.00", "2.00"}
	path := csvFile(t, rows...)

	checked, code := batchCLI(t, w, "submit", path, "--dry-run")
	require.Equal(t, exitDone, code)
	require.Equal(t, "checked", checked.State)
	require.Equal(t, 39, checked.Rows)
	require.Equal(t, []workflows.AssetAmount{{Asset: "USD/2", Amount: "20040.00"}}, checked.Totals)
	require.Equal(t, 31, checked.File.AlikeRows)
	require.Equal(t, exitUsage, w.CLI(t, "batch", "status", checked.Batch).Code, "a dry run claims nothing")
	for _, wrong := range [][]string{
		{"--count", "38", "--total", "20040"},
		{"--count", "39", "--total", "20040.01"},
		{"--count", "39", "--total", "20040 EUR"},
		{"--count", "39", "--total", "20040", "--max-batch", "20000 USD"},
		{"--count", "39", "--total", "20040", "--max-transfer", "100 USD"},
	} {
		refused, code := batchCLI(t, w, append([]string{"submit", path}, wrong...)...)
		require.Equal(t, exitUsage, code, wrong)
		require.Equal(t, "not sent", refused.State, wrong)
		require.NotEmpty(t, refused.Reasons, wrong)
	}
	require.Equal(t, exitUsage, w.CLI(t, "batch", "submit", path).Code, "count and total are required")
	require.Equal(t, balances, w.Balances(t, alice, bob, away))

	submit := []string{"--count", "39", "--total", "20040", "--chunk-rows", "10"}
	done, code := batchCLI(t, w, append([]string{"submit", path}, submit...)...)
	require.Equal(t, exitDifferent, code, "the worst for whoever would pay again")
	require.Equal(t, "ended", done.State)
	require.False(t, *done.Attached)
	require.Equal(t, &workflows.BatchCounts{
		Rows: 39, Completed: 34, Rejected: 2, Compensated: 1, Conflicts: 2, Repeats: 2,
		Arrived: []workflows.AssetAmount{{Asset: "USD/2", Amount: "34.00"}},
	}, done.Counts)
	balances = []string{"65.00", "32.00", "4.00"}
	require.Equal(t, balances, w.Balances(t, alice, bob, away))

	again, code := batchCLI(t, w, append([]string{"submit", jsonFile(t, rows...)}, submit[:4]...)...)
	require.Equal(t, exitDifferent, code)
	require.True(t, *again.Attached)
	require.Equal(t, done.Batch, again.Batch)
	require.Equal(t, done.Counts, again.Counts)
	status, code := batchCLI(t, w, "status", done.Batch)
	require.Equal(t, exitDifferent, code)
	require.Equal(t, done.Counts, status.Counts)
	require.Equal(t, balances, w.Balances(t, alice, bob, away))

	want := map[string]string{
		"coffee-7": "completed  false", "paid": "completed  true", "sent": "completed  true", "away": "completed  false", "eu": "completed  false",
		"car": "rejected insufficient_funds false", "closed": "rejected account_closed false", "nobody": "compensated account_unknown false",
		"taken": "conflict  false", "taken-abroad": "conflict  false",
	}
	report := reportJSON(t, w, done.Batch)
	require.Len(t, report, 39)
	for id, end := range want {
		row := report[id]
		require.Equal(t, end, fmt.Sprintf("%s %s %v", row["state"], text(row["code"]), row["repeat"]), id)
	}
	lines, err := csv.NewReader(strings.NewReader(w.CLI(t, "batch", "report", done.Batch, "--output", "csv").Stdout)).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 40)
	require.Equal(t, "id", lines[0][0])

	// The batch may be forgotten, and is told again.
	for n := range 8 {
		chunk := workflows.BatchChunkWorkflowID(done.Batch, n)
		_, err := w.Temporal.DescribeWorkflow(t.Context(), chunk, "")
		if _, absent := errors.AsType[*serviceerror.NotFound](err); absent {
			continue
		}
		require.NoError(t, err)
		w.Forget(t, chunk)
	}
	require.Equal(t, exitPending, w.CLI(t, "batch", "report", done.Batch).Code, "its rows can't be listed")
	w.Forget(t, workflows.BatchWorkflowID(done.Batch))
	told, code := batchCLI(t, w, append([]string{"submit", path}, submit...)...)
	require.Equal(t, exitDifferent, code)
	require.Equal(t, 37, told.Counts.Repeats)
	told.Counts.Repeats = done.Counts.Repeats
	require.Equal(t, done.Counts, told.Counts)
	require.Equal(t, balances, w.Balances(t, alice, bob, away))
}

// reportJSON reads the rows of a report by their IDs.
func reportJSON(t *testing.T, w *harness.World, batch string) map[string]map[string]any {
	t.Helper()
	var report struct {
		Batch   string           `json:"batch"`
		Rows    []map[string]any `json:"rows"`
		Missing int              `json:"chunks_missing"`
	}
	result := w.CLI(t, "batch", "report", batch)
	result.Decode(t, &report)
	require.Equal(t, batch, report.Batch)
	rows := make(map[string]map[string]any)
	for _, row := range report.Rows {
		rows[text(row["id"])] = row
	}
	require.Len(t, rows, len(report.Rows))
	return rows
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

// The bad rows of a file keep it from being sent, or are left out if that is asked for.
func TestBatchSkipsBadRows(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "us", "")
	rows := coffees(alice, bob, 5)
	rows[2].Amount = "1,00"
	path := csvFile(t, rows...)
	refused, code := batchCLI(t, w, "submit", path, "--count", "4", "--total", "4")
	require.Equal(t, exitUsage, code)
	require.Equal(t, 1, refused.File.BadRows)
	require.EqualValues(t, 4, refused.File.Bad[0]["line"])
	require.Equal(t, "0.00", w.Balance(t, bob))
	done, code := batchCLI(t, w, "submit", path, "--count", "4", "--total", "4", "--skip-bad")
	require.Equal(t, exitDone, code)
	require.Equal(t, 4, done.Counts.Completed)
	require.Equal(t, "4.00", w.Balance(t, bob))

	rows[2].Amount = "1.00"
	done, code = batchCLI(t, w, "submit", csvFile(t, rows...), "--count", "5", "--total", "5")
	require.Equal(t, exitDone, code)
	require.Equal(t, 4, done.Counts.Repeats, "what was paid by the other file")
	require.Equal(t, "5.00", w.Balance(t, bob))
}

// Starter and worker are killed in the middle of a batch, and its workflows terminated: the same command again brings it to the
// same end, and nothing is paid twice. Case 59: progress adds up over restarts, and each row is paid once.
func TestBatchSurvives(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	first := w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "us", "")
	const rows = 24
	path := csvFile(t, coffees(alice, bob, rows)...)
	submit := []string{"--output", "json", "batch", "submit", path, "--count", fmt.Sprint(rows), "--total", fmt.Sprint(rows), "--chunk-rows", "2"}
	lock := w.LockAccount(t, bob)
	starter := harness.StartProcess(t, harness.ProcessConfig{Path: harness.Binary(t, "starter"), Args: submit, Env: w.ClientEnv()})
	w.AwaitBlocked(t, "us")
	require.NoError(t, starter.Kill())
	require.NoError(t, first.Kill())
	lock.Release()
	second := w.StartWorker(t, harness.WorkerConfig{})

	checked, _ := batchCLI(t, w, "submit", path, "--dry-run", "--chunk-rows", "2")
	harness.Eventually(t, "the chunks that were sent have ended", func() bool {
		status, code := batchCLI(t, w, "status", checked.Batch)
		require.Equal(t, exitPending, code)
		require.Equal(t, "running", status.State)
		require.Less(t, status.Counts.Rows, rows, "the starter was killed in the middle")
		return status.Counts.Completed > 0 && status.Counts.Completed == status.Counts.Rows
	})
	require.NoError(t, w.Temporal.TerminateWorkflow(t.Context(), workflows.BatchWorkflowID(checked.Batch), "", "a test"))
	stopped, code := batchCLI(t, w, "status", checked.Batch)
	require.Equal(t, exitPending, code)
	require.Equal(t, "stopped", stopped.State)
	done, code := batchCLI(t, w, submit[3:]...)
	require.Equal(t, exitDone, code)
	require.Equal(t, rows, done.Counts.Completed)
	require.Equal(t, "24.00", w.Balance(t, bob))
	require.Len(t, reportJSON(t, w, done.Batch), rows)
	require.Equal(t, 0, second.Stop(t))
}

// Case 75: what befalls one row befalls no other: one that always fails, one whose answers are lost, and one that is parked with its money
// in transit, which the batch tells and doesn't wait for in silence.
func TestBatchAndTroubles(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Faults: []string{
		"post/after=drop;transfer=lost", "post/before=fail:always;transfer=poison",
		"deposit/before=fail:always;transfer=stuck", "resolve/before=fail:4;transfer=stuck",
	}})
	alice, bob, away := w.Account(t, "us", "100.00"), w.Account(t, "us", ""), w.Account(t, "eu", "")
	rows := coffees(alice, bob, 40)
	for _, id := range []string{"lost", "poison"} {
		rows = append(rows, workflows.TransferInput{ID: id, From: alice, To: bob, Amount: "1", Asset: "USD"})
	}
	for _, id := range []string{"stuck", "abroad"} {
		rows = append(rows, workflows.TransferInput{ID: id, From: alice, To: away, Amount: "1", Asset: "USD"})
	}
	path := csvFile(t, rows...)
	submit := []string{"submit", path, "--count", "44", "--total", "44"}
	parked, code := batchCLI(t, w, submit...)
	require.Equal(t, exitPending, code)
	require.Equal(t, "running", parked.State)
	require.Len(t, parked.Going, 1)
	require.Equal(t, "stuck", parked.Going[0].ID)
	require.Equal(t, workflows.StateParked, parked.Going[0].State)
	require.Equal(t, 42, parked.Counts.Completed)
	require.Equal(t, 1, parked.Counts.Failed)
	require.Equal(t, 1, parked.Counts.Running)
	require.Equal(t, []string{"57.00", "41.00", "1.00"}, w.Balances(t, alice, bob, away))
	require.Equal(t, "running", reportJSON(t, w, parked.Batch)["stuck"]["state"])

	_, err := w.Transfers.Decide(t.Context(), "stuck", workflows.Decision{Action: workflows.ActionCompensate, Parking: 1, By: "carol", Reason: "a test"})
	require.NoError(t, err)
	done, code := batchCLI(t, w, submit...)
	require.Equal(t, exitFailed, code)
	require.Equal(t, "ended", done.State)
	require.Equal(t, 1, done.Counts.Compensated)
	require.Equal(t, []string{"58.00", "41.00", "1.00"}, w.Balances(t, alice, bob, away))
}

// A worker dies in the middle of a chunk, when some of it is committed: another one finishes it, and what the first has posted is
// not taken for paid before. Nobody waits for it meanwhile.
func TestBatchOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	whole := w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "us", "")
	path := csvFile(t, coffees(alice, bob, 30)...)
	submit := []string{"submit", path, "--count", "30", "--total", "30"}
	require.NoError(t, whole.Kill())
	dying := w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Faults: []string{"post/after=kill;transfer=coffee-7"}})
	harness.Eventually(t, "who waits no longer is told that it goes on, and the worker dies", func() bool {
		cut := w.CLI(t, append([]string{"batch"}, append(submit, "--timeout=2s")...)...)
		require.Equal(t, exitPending, cut.Code)
		var told batchDocument
		require.NoError(t, json.Unmarshal([]byte(cut.Stdout), &told))
		return told.State == "running" && !dying.Alive()
	})
	dying.AwaitKilled(t)
	require.NotEqual(t, "0.00", w.Balance(t, bob), "some of it was committed")
	w.StartWorker(t, harness.WorkerConfig{})
	done, code := batchCLI(t, w, append(submit, timeoutLong)...)
	require.Equal(t, exitDone, code)
	require.Equal(t, 30, done.Counts.Completed)
	require.Zero(t, done.Counts.Repeats)
	require.Equal(t, []string{"70.00", "30.00"}, w.Balances(t, alice, bob))

	accepted, code := batchCLI(t, w, "submit", csvFile(t, workflows.TransferInput{ID: "tea", From: alice, To: bob, Amount: "1", Asset: "USD"}),
		"--count", "1", "--total", "1", "--wait=false")
	require.Equal(t, exitDone, code)
	require.Contains(t, []string{"running", "ended"}, accepted.State)
	w.AwaitStep(t, "tea", "us post applied")
}

// What the chunks of a batch told is held against the books: an end that was forged is found, and the others agree.
func TestBatchForged(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	holding := w.StartFaultWorker(t, harness.FaultConfig{Options: patiently, Faults: []string{"post/before=block;for=1h;transfer=forged"}})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "us", "")
	forged := workflows.TransferInput{ID: "forged", From: alice, To: bob, Amount: "1", Asset: "USD"}
	run, err := w.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: workflows.BatchChunkWorkflowID("b1", 0), TaskQueue: workflows.TaskQueue},
		workflows.BatchChunkWorkflow, workflows.BatchChunkInput{Batch: "b1", Transfers: []workflows.TransferInput{forged}})
	require.NoError(t, err)
	holding.AwaitStrike(t, "post/before", "forged")
	var held string
	for _, event := range w.History(t, run.GetID()) {
		if scheduled := event.GetActivityTaskScheduledEventAttributes(); scheduled != nil {
			held = scheduled.GetActivityId()
		}
	}
	answers, err := json.Marshal(activities.PostGroupOutput{Answers: []activities.PostAnswer{{State: ledger.OutcomeApplied, At: time.Now()}}})
	require.NoError(t, err)
	complete := w.TemporalCLI(t, "activity", "complete", "--workflow-id", run.GetID(), "--activity-id", held, "--result", string(answers))
	require.Equal(t, 0, complete.Code)
	require.NoError(t, run.Get(t.Context(), nil))
	require.NoError(t, holding.Kill())
	require.Empty(t, w.Steps(t, "forged"))

	w.StartWorker(t, harness.WorkerConfig{})
	rows := append(coffees(alice, bob, 5), workflows.TransferInput{ID: "car", From: alice, To: bob, Amount: "100", Asset: "USD"})
	_, code := batchCLI(t, w, "submit", csvFile(t, rows...), "--count", "6", "--total", "105")
	require.Equal(t, exitRejected, code)
	var view reconcile.View
	harness.Eventually(t, "the list has both chunks", func() bool {
		_, view = reconciled(t, w)
		return view.Temporal.Grouped+view.Temporal.FindingsCount == 7
	})
	require.EqualValues(t, 6, view.Temporal.Grouped)
	require.Len(t, view.Temporal.Findings, 1)
	require.Equal(t, "the workflow batch/b1/0 said that it ended as completed; the books have nothing of it", view.Temporal.Findings[0].Detail)
	finish(t, w, view.Temporal.Findings[0].Command)
	require.Equal(t, []string{"us post applied"}, w.Steps(t, "forged"))
	code, _ = reconciled(t, w)
	require.Equal(t, exitDone, code)
}
