package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/workflows"
)

const batchHeader = "id,from,to,amount,asset,memo\n"

func batchPath(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.csv")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Each of these is wrong before anything is sent, as those of TestWrongUsage.
func TestWrongBatch(t *testing.T) {
	good := batchPath(t, batchHeader+"a,x,y,1.00,USD,\nb,x,y,2.00,USD,\n")
	mixed := batchPath(t, batchHeader+"a,x,y,1.00,USD,\nb,x,y,2.00,EUR,\n")
	said := func(path string, change ...string) []string {
		return append([]string{"batch", "submit", path, "--count", "2"}, change...)
	}
	for _, row := range []struct {
		name string
		args []string
		want string
	}{
		{"no file", []string{"batch", "submit", "--dry-run"}, "accepts 1 arg(s)"},
		{"no such file", []string{"batch", "submit", good + "x", "--dry-run"}, "no such file"},
		{"a folder", []string{"batch", "submit", filepath.Dir(good), "--dry-run"}, "is a directory"},
		{"nothing on standard input", []string{"batch", "submit", "-", "--dry-run"}, "-: it is empty"},
		{"neither count nor total", []string{"batch", "submit", good}, "--count and --total are required"},
		{"no count", []string{"batch", "submit", good, "--total", "3"}, "--count and --total are required"},
		{"no total", said(good), "--count and --total are required"},
		{"count of none", []string{"batch", "submit", good, "--count", "0", "--total", "3"}, "count: 0 is not above zero"},
		{"malformed total", said(good, "--total", "3,00"), `total: amount: "3,00" is not a plain decimal number`},
		{"total twice", said(good, "--total", "3", "--total", "3.00 USD"), "total: USD/2 is there twice"},
		{"total without its asset", said(mixed, "--total", "3"), `total: name the asset of "3"`},
		{"cap without its asset", said(good, "--total", "3", "--max-transfer", "5"), `max-transfer: name the asset of "5"`},
		{"too many rows a chunk", said(good, "--total", "3", "--chunk-rows", "1001"), "chunk-rows: 1001 is not from 1 to 1000"},
		{"status of no batch", []string{"batch", "status", ""}, "batch: it is required"},
		{"report of no batch", []string{"batch", "report", " "}, "batch: it begins or ends with a blank"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := starterAt(t, nowhere, row.args...)
			require.Equal(t, exitUsage, got.code, got.stderr)
			require.Contains(t, got.stderr, row.want)
			require.Empty(t, got.stdout)
		})
	}
}

// What a file is said to be and what it is are compared before anything is sent; each difference is told.
func TestBatchIsNotSent(t *testing.T) {
	rows := batchHeader + "a,x,y,1.00,USD,\nb,x,y,2.00,EUR,\na,x,y,1,USD,\nbad,x,y,\"1,5\",USD,\n"
	path := batchPath(t, rows)
	for _, row := range []struct {
		args []string
		want []string
	}{
		{[]string{"--count", "2", "--total", "1 USD", "--total", "2 EUR"}, []string{"1 bad rows: nothing is sent"}},
		{[]string{"--skip-bad", "--count", "4", "--total", "1 USD", "--total", "2 EUR"}, []string{"--count says 4, and there are 2 good rows, beside 1 bad ones and 1 that are there again and count once"}},
		{[]string{"--skip-bad", "--count", "2", "--total", "1 USD"}, []string{"--total says nothing of EUR/2, and the good rows have 2.00"}},
		{[]string{"--skip-bad", "--count", "2", "--total", "1 USD", "--total", "3 EUR"}, []string{"--total says 3.00 EUR/2, and the good rows have 2.00"}},
		{[]string{"--skip-bad", "--count", "2", "--total", "1 USD", "--total", "2 EUR", "--total", "5 JPY"}, []string{"no good row has that asset"}},
		{[]string{"--skip-bad", "--count", "2", "--total", "1", "--total", "2 EUR", "--asset", "USD", "--max-batch", "0.99"}, []string{"more than --max-batch allows"}},
		{[]string{"--skip-bad", "--count", "1", "--total", "1 USD", "--total", "2 EUR", "--max-transfer", "1.99 EUR"}, []string{"--total says 2.00 EUR/2, and no good row"}},
	} {
		got := starterAt(t, nowhere, append([]string{"batch", "submit", path, "--output", "json"}, row.args...)...)
		require.Equal(t, exitUsage, got.code, got.stderr)
		var view batchView
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &view))
		require.Equal(t, batchNotSent, view.State)
		require.Len(t, view.Reasons, len(row.want), "%v", view.Reasons)
		for i, want := range row.want {
			require.Contains(t, view.Reasons[i], want)
			require.Contains(t, got.stderr, want)
		}
		require.NotEmpty(t, view.File.Bad)
	}

	// The same rows by standard input, as a person sees them.
	var stdout, stderr buffer
	code := run(context.Background(), []string{"batch", "submit", "-", "--dry-run", "--skip-bad"}, strings.NewReader(rows), &stdout, &stderr)
	require.Equal(t, exitDone, code)
	require.Contains(t, stdout.String(), ": checked: 2 rows, 2.00 EUR/2, 1.00 USD/2")
	require.Contains(t, stderr.String(), "-: line 5: amount:")
	require.Contains(t, stderr.String(), "-: line 4 is paid once, since it has the ID and the content of line 2")
}

// Case 69: the exit code is that of the row that is worst for whoever would pay again.
func TestExitOfBatch(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		state  string
		counts *workflows.BatchCounts
		want   exitCode
	}{
		{batchEnded, &workflows.BatchCounts{Completed: 3}, exitDone},
		{batchEnded, &workflows.BatchCounts{Completed: 3, Invalid: 1}, exitUsage},
		{batchEnded, &workflows.BatchCounts{Completed: 3, Rejected: 1}, exitRejected},
		{batchEnded, &workflows.BatchCounts{Rejected: 1, Failed: 1}, exitFailed},
		{batchEnded, &workflows.BatchCounts{Rejected: 1, Compensated: 1}, exitFailed},
		{batchEnded, &workflows.BatchCounts{Cancelled: 1}, exitFailed},
		{batchEnded, &workflows.BatchCounts{Failed: 1, Discarded: 1}, exitPending},
		{batchRunning, &workflows.BatchCounts{Completed: 3}, exitPending},
		{batchRunning, nil, exitPending},
		{batchEnded, &workflows.BatchCounts{Discarded: 1, Conflicts: 1}, exitDifferent},
	} {
		require.Equal(t, row.want, exitOfCounts(&batchView{State: row.state, Counts: row.counts}), "%+v", row)
	}
}
