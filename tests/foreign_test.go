package tests

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"payonce/tests/harness"
	"payonce/workflows"
)

// Anybody with Temporal's command line can start a transfer, with the words of the README.
func TestTemporalCommandLine(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	input, err := json.Marshal(workflows.TransferInput{ID: "rent-2", From: alice, To: bob, Amount: "10.00", Asset: "USD"})
	require.NoError(t, err)
	start := func() *harness.Result {
		return w.TemporalCLI(t, "workflow", "start", "--type", "Transfer", "--task-queue", "payonce", "--workflow-id", "transfer/rent-2",
			"--id-reuse-policy", "AllowDuplicateFailedOnly", "--id-conflict-policy", "UseExisting", "--input", string(input))
	}
	require.Equal(t, 0, start().Code)
	result := w.TemporalCLI(t, "workflow", "result", "--workflow-id", "transfer/rent-2", "--output", "json")
	require.Equal(t, 0, result.Code)
	require.Contains(t, result.Stdout, `"state": "completed"`)
	require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, alice, bob))

	// The same again finds what is there. The command does not say so, nor whether the request is the same.
	require.Equal(t, 0, start().Code)
	require.Equal(t, []string{"us withdraw applied", "eu deposit applied"}, w.Steps(t, "rent-2"))

	// What another client has started, ours finds.
	ours := w.CLITransfer(t, workflows.TransferInput{ID: "rent-2", From: alice, To: bob, Amount: "10", Asset: "USD"})
	require.Equal(t, exitDone, ours.Code)
	require.Equal(t, new(true), ours.Transfer(t).Attached)
}

// foreignStart starts a transfer as a client that knows no more than workflows/contract.go says, with any input.
func foreignStart(t *testing.T, w *harness.World, workflowID string, input ...any) client.WorkflowRun {
	t.Helper()
	run, err := w.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: workflowID, TaskQueue: "payonce",
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, "Transfer", input...)
	require.NoError(t, err)
	return run
}

// A client that knows only the contract, with Go's SDK and JSON objects.
func TestForeignClient(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	input := map[string]any{
		"id": "rent", "from": alice, "to": bob, "amount": "10.00", "asset": "USD", "memo": "November", "metadata": map[string]string{"flat": "3"},
	}
	var result map[string]any
	require.NoError(t, foreignStart(t, w, "transfer/rent", input).Get(t.Context(), &result))
	steps, _ := result["steps"].([]any)
	require.Len(t, steps, 2)
	delete(result, "steps")
	require.Equal(t, map[string]any{"id": "rent", "state": "completed", "from": alice, "to": bob, "amount": "10.00", "asset": "USD/2"}, result)
	require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, alice, bob))

	// Started again it is the same run: the SDK by itself does not even say so.
	var again map[string]any
	require.NoError(t, foreignStart(t, w, "transfer/rent", input).Get(t.Context(), &again))
	require.Equal(t, "completed", again["state"])
	require.Equal(t, []string{"us withdraw applied", "eu deposit applied"}, w.Steps(t, "rent"))
}

// A request that can't be read, or is no request, ends its workflow with an error that says what is wrong. It does not keep
// a worker busy for ever, and leaves nothing in the ledgers.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	good := func(change func(map[string]any)) map[string]any {
		input := map[string]any{"id": "bad", "from": "us/alice", "to": "us/bob", "amount": "10.00", "asset": "USD"}
		change(input)
		return input
	}
	for i, row := range []struct {
		name  string
		input []any
		says  string
	}{
		{"amount is a number", []any{good(func(in map[string]any) { in["amount"] = 10 })}, "amount"},
		{"amount is a float", []any{good(func(in map[string]any) { in["amount"] = 10.5 })}, "amount"},
		{"amount is null", []any{good(func(in map[string]any) { in["amount"] = nil })}, "amount"},
		{"no amount", []any{good(func(in map[string]any) { delete(in, "amount") })}, "amount"},
		{"no ID", []any{good(func(in map[string]any) { delete(in, "id") })}, "id"},
		{"another ID than the workflow's", []any{good(func(in map[string]any) { in["id"] = "other" })}, `must be "transfer/other"`},
		{"ID is a number", []any{good(func(in map[string]any) { in["id"] = 7 })}, "id"},
		{"an unknown field", []any{good(func(in map[string]any) { in["ammount"] = "10.00" })}, "ammount"},
		{"an unknown field, misspelt in case", []any{good(func(in map[string]any) { delete(in, "memo"); in["Memo"] = "x" })}, "Memo"},
		{"a field twice in two cases", []any{json.RawMessage(`{"id":"bad-9","from":"us/alice","to":"us/bob","amount":"1","AMOUNT":"10","asset":"USD"}`)}, "AMOUNT"},
		{"metadata is a text", []any{good(func(in map[string]any) { in["metadata"] = "x" })}, "metadata"},
		{"metadata has a number", []any{good(func(in map[string]any) { in["metadata"] = map[string]any{"n": 1} })}, "metadata"},
		{"an account with two slashes", []any{good(func(in map[string]any) { in["from"] = "us/al/ice" })}, "from"},
		{"a transit account", []any{good(func(in map[string]any) { in["from"] = "us/transit:eu" })}, "transit"},
		{"to itself", []any{good(func(in map[string]any) { in["to"] = "us/alice" })}, "also the account to pay from"},
		{"a memo with a NUL", []any{good(func(in map[string]any) { in["memo"] = "a\x00b" })}, "memo"},
		{"a text", []any{"pay bob"}, ""},
		{"a number", []any{7}, ""},
		{"a list", []any{[]any{good(func(map[string]any) {})}}, ""},
		{"null", []any{nil}, ""},
		{"no input", nil, ""},
		{"bytes", []any{[]byte{0xff, 0x00}}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			id := fmt.Sprintf("bad-%d", i)
			if request, ok := first(row.input).(map[string]any); ok && request["id"] == "bad" {
				request["id"] = id
			}
			err := foreignStart(t, w, "transfer/"+id, row.input...).Get(harness.Within(t, patience), nil)
			var failure *temporal.ApplicationError
			require.ErrorAs(t, err, &failure)
			require.Equal(t, workflows.ErrorInvalidInput, failure.Type(), "%v", failure)
			require.True(t, failure.NonRetryable())
			require.Contains(t, failure.Message(), row.says)
			requireNoTaskFailed(t, w, "transfer/"+id)
			require.Empty(t, w.Steps(t, id))
		})
	}
}

// requireNoTaskFailed checks that no task of a workflow has failed: that would be tried for ever. One that did not get on for a
// second, which the SDK takes for a deadlock, was on a busy machine.
func requireNoTaskFailed(t *testing.T, w *harness.World, workflowID string) {
	t.Helper()
	for _, event := range w.History(t, workflowID) {
		if failed := event.GetWorkflowTaskFailedEventAttributes(); failed != nil {
			require.Contains(t, failed.GetFailure().GetMessage(), deadlocked, "a task of %s has failed", workflowID)
		}
	}
}

func first(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// A request that was refused as malformed may be corrected under its ID.
func TestCorrectedRequest(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	require.Error(t, foreignStart(t, w, "transfer/bad", map[string]any{"id": "bad", "amount": 10}).Get(t.Context(), nil))
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "us", "")
	require.Equal(t, exitDone, w.CLITransfer(t, workflows.TransferInput{ID: "bad", From: alice, To: bob, Amount: "10", Asset: "USD"}).Code)
}
