package tests

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"payonce/activities"
	"payonce/tests/harness"
	"payonce/workflows"
)

// The account commands, with the documents that scripts read.
func TestAccountCommands(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{Ledgers: []string{"main", "eu"}})
	w.StartWorker(t, harness.WorkerConfig{})
	open := func(args ...string) *harness.Result { return w.CLI(t, append([]string{"account", "open"}, args...)...) }

	begun := time.Now()
	var opened activities.AccountView
	result := open("alice", "--asset", "USD", "--ceiling", "1000", "--metadata", "holder=Alice")
	result.Decode(t, &opened)
	require.Equal(t, exitDone, result.Code)
	require.WithinRange(t, opened.OpenedAt, begun.Add(-time.Minute), time.Now().Add(time.Minute), "the ledger has a clock of its own")
	require.Equal(t, activities.AccountView{
		Account: "main/alice", Asset: "USD/2", Balance: "0.00", Floor: new("0.00"), Ceiling: new("1000.00"), Status: "open",
		Metadata: map[string]string{"holder": "Alice"}, OpenedAt: opened.OpenedAt,
	}, opened)
	require.Equal(t, map[string]any{
		"account": "main/alice", "asset": "USD/2", "balance": "0.00", "floor": "0.00", "ceiling": "1000.00", "status": "open", "version": 0.0,
		"metadata": map[string]any{"holder": "Alice"}, "opened_at": result.Document(t)["opened_at"],
	}, result.Document(t))

	// Opened again it is the same account; with other settings it is a refusal.
	require.Equal(t, result.Stdout, open("main/alice", "--asset", "USD/2", "--ceiling", "1000.00", "--metadata", "holder=Alice").Stdout)
	conflict := open("alice", "--asset", "EUR")
	require.Equal(t, exitRejected, conflict.Code)
	require.Contains(t, conflict.Failure(t).Error, "alice is open already")
	require.Equal(t, exitDone, open("world", "--asset", "USD", "--floor", "none").Code)
	require.Equal(t, exitDone, open("eu/bob", "--asset", "USD", "--floor", "-100.00").Code)
	require.Nil(t, w.CLI(t, "account", "show", "world").Document(t)["floor"], "unlimited")
	require.Equal(t, "-100.00", w.CLI(t, "account", "show", "eu/bob").Document(t)["floor"])

	for _, payment := range []workflows.TransferInput{
		{ID: "salary", From: "world", To: "alice", Amount: "20.00", Asset: "USD", Memo: "November"},
		{ID: "rent", From: "alice", To: "eu/bob", Amount: "10", Asset: "USD"},
	} {
		require.Equal(t, exitDone, w.CLITransfer(t, payment).Code)
	}
	shown := w.CLI(t, "account", "show", "alice").Document(t)
	require.Equal(t, "10.00", shown["balance"])
	require.EqualValues(t, 2, shown["version"])

	statement := w.CLI(t, "account", "statement", "alice")
	require.Equal(t, exitDone, statement.Code)
	document := statement.Document(t)
	entries, _ := document["entries"].([]any)
	require.Len(t, entries, 2)
	for i, want := range []map[string]any{
		{"amount": "20.00", "balance": "20.00", "other": "main/world", "kind": "post", "key": "transfer/salary/post", "memo": "November", "version": 1.0},
		{"amount": "-10.00", "balance": "10.00", "other": "eu/bob", "kind": "withdraw", "key": "transfer/rent/withdraw", "version": 2.0},
	} {
		got, _ := entries[i].(map[string]any)
		delete(got, "at")
		require.Equal(t, want, got)
	}
	delete(document, "entries")
	require.Equal(t, map[string]any{
		"account": "main/alice", "asset": "USD/2", "opening_balance": "0.00", "closing_balance": "10.00", "more": false,
	}, document)

	list := w.CLI(t, "account", "list")
	require.Equal(t, exitDone, list.Code)
	accounts, _ := list.Document(t)["accounts"].([]any)
	var names []string
	for _, account := range accounts {
		one, _ := account.(map[string]any)
		name, _ := one["account"].(string)
		names = append(names, name)
	}
	require.Equal(t, []string{"main/alice", "main/world", "main/transit:eu"}, names)

	// Absolute writes: again is the same.
	for range 2 {
		set := w.CLI(t, "account", "set", "eu/bob", "--status", "frozen", "--ceiling", "none", "--floor", "0")
		require.Equal(t, exitDone, set.Code)
		require.Equal(t, "frozen", set.Document(t)["status"])
	}
	require.Equal(t, exitRejected, w.CLI(t, "account", "set", "eu/bob", "--floor", "10.01").Code, "the balance is below it")
	require.Equal(t, exitRejected, w.CLI(t, "account", "set", "eu/bob", "--status", "closed").Code, "it holds money")
}

// Wrong usage, and what is not there, is exit code 2 with one JSON document, and leaves nothing behind.
func TestUsage(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	for _, line := range []string{
		"",
		"pay",
		"transfer",
		"transfer --id x",
		"transfer --id x --from us/a --to us/b --amount 1",
		"transfer --id x --from us/a --to us/b --amount 1 --asset USD --fast",
		"transfer --id x --from us/a --to us/a --amount 1 --asset USD",
		"transfer --id x --from us/a --to us/b --amount 1 --asset USD --timeout 0s",
		"transfer --id x --from us/a --to us/b --amount 1 --asset USD --metadata nothing",
		"transfer --id x --from US/a --to us/b --amount 1 --asset USD",
		"status",
		"status nothing",
		"account",
		"account show",
		"account show us/nobody",
		"account open us/a",
		"account open us/a --asset usd",
		"account open us/a --asset USD --floor 1e3",
		"account open us/transit:eu --asset USD",
		"account set us/nobody --status open",
		"account set us/nobody --status shut",
		"account statement us/nobody",
		"account statement us/a --from yesterday",
		"account list --ledger US",
		"deadletter show nothing --ledger us",
		"deadletter list --state lost us",
		"dev --ledgers us,us",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			refused := w.CLI(t, strings.Fields(line)...)
			require.Equal(t, exitUsage, refused.Code)
			refused.Failure(t)
		})
	}
	t.Run("the output", func(t *testing.T) {
		t.Parallel()
		refused := harness.Run(t, harness.ProcessConfig{Path: harness.Binary(t, "starter"), Args: []string{"--output", "xml", "status", "x"}, Env: w.ClientEnv()})
		require.Equal(t, exitUsage, refused.Code)
		require.Empty(t, refused.Stdout)
	})
	t.Run("nothing is left", func(t *testing.T) {
		require.Empty(t, w.Steps(t, "x"))
	})
}

// A Temporal that is not set up is an internal error that says what to do, one that is not there is a pending answer.
func TestTemporalIsNotReady(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	pay := harness.TransferArgs(workflows.TransferInput{ID: "x", From: "us/a", To: "us/b", Amount: "1", Asset: "USD"})

	bare := w.Namespace + "-bare"
	_, err := w.Temporal.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: bare, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	harness.Eventually(t, "it says what to do", func() bool {
		unprepared := w.CLI(t, append(pay, "--namespace", bare, "--timeout", "3s")...)
		require.Equal(t, exitPending, unprepared.Code)
		return strings.Contains(unprepared.Stdout, "temporal operator search-attribute create --name PayonceState --type Keyword")
	})

	require.Equal(t, exitUsage, w.CLI(t, append(pay, "--namespace", "nowhere")...).Code)
	away := w.CLI(t, append(pay, "--address", "127.0.0.1:1", "--timeout", "2s")...)
	require.Equal(t, exitPending, away.Code)
}

// Text is for people; help and completion need no server.
func TestTextHelpCompletion(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	text := func(args ...string) *harness.Result {
		return harness.Run(t, harness.ProcessConfig{Path: harness.Binary(t, "starter"), Args: args, Env: w.ClientEnv()})
	}
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	done := text(harness.TransferArgs(workflows.TransferInput{ID: "rent", From: alice, To: bob, Amount: "10", Asset: "USD"})...)
	require.Equal(t, exitDone, done.Code)
	require.Contains(t, done.Stdout, "rent: completed: 10.00 USD/2 from "+alice+" to "+bob)
	require.Contains(t, text("account", "show", bob).Stdout, "10.00")
	refused := text("status", "nothing")
	require.Equal(t, exitUsage, refused.Code)
	require.Empty(t, refused.Stdout, "what is not the answer is on standard error")
	require.Contains(t, refused.Stderr, `there is no transfer "nothing"`)

	require.Contains(t, text("help", "exit-codes").Stdout, "different request")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := text("completion", shell)
		require.Equal(t, exitDone, script.Code)
		if path, err := exec.LookPath(shell); err == nil {
			check := exec.CommandContext(t.Context(), path, "-n")
			check.Stdin = strings.NewReader(script.Stdout)
			out, err := check.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	}
}

// Requests in JSON come back as they were: nothing is escaped or lost on the way.
func TestTextsComeBack(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	id := `Überweisung "42" <a&b> /..%2F 'x' 🏦`
	memo := "tab\there,\nline two: “quotes” \\ & <b>"
	in := workflows.TransferInput{ID: id, From: alice, To: bob, Amount: "10", Asset: "USD", Memo: memo, Metadata: map[string]string{"k=ü": "v=1,2"}}
	done := w.CLITransfer(t, workflows.TransferInput{ID: id, From: alice, To: bob, Amount: "10", Asset: "USD", Memo: memo})
	require.Equal(t, exitDone, done.Code)
	require.Equal(t, id, done.Transfer(t).ID)
	require.Equal(t, exitDone, w.CLI(t, "status", id).Code)
	require.Equal(t, exitDone, w.CLITransfer(t, in).Code, "memo and metadata are no difference")
	var kept string
	require.NoError(t, w.DB(t, "eu").QueryRow(t.Context(), `select memo from operations where key = $1`, "transfer/"+id+"/deposit").Scan(&kept))
	require.Equal(t, memo, kept)

	in.ID = "with metadata"
	require.Equal(t, exitDone, w.CLI(t, append(harness.TransferArgs(workflows.TransferInput{
		ID: in.ID, From: alice, To: bob, Amount: "1", Asset: "USD",
	}), "--metadata", "k=v=1,2")...).Code)
	var metadata []byte
	require.NoError(t, w.DB(t, "us").QueryRow(t.Context(), `select metadata from operations where key = $1`, "transfer/with metadata/withdraw").Scan(&metadata))
	var got map[string]string
	require.NoError(t, json.Unmarshal(metadata, &got))
	require.Equal(t, map[string]string{"k": "v=1,2"}, got)
}
