package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
	"payonce/workflows"
)

// newID is a transfer's ID that no other test has, nor this one when it is repeated.
func newID(t *testing.T) string {
	t.Helper()
	return t.Name() + "-" + rand.Text()
}

func payBob(id string) []string {
	return []string{"transfer", "--id", id, "--from", "us/alice", "--to", "eu/bob", "--amount", "10.00", "--asset", "USD"}
}

// stuck keeps the ledger eu from answering until the test lets it.
func (w *world) stuck() (open func()) {
	gate := make(chan struct{})
	w.eu.Before(func(ctx context.Context, _ *ledger.Operation, _ bool) error {
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return func() { close(gate) }
}

func TestTransfer(t *testing.T) {
	newFundedWorld(t)
	id := newID(t)
	args := payBob(id)

	first := starter(t, append(args, "--memo", "rent", "--metadata", "invoice=1", "--output", "json")...)
	require.Equal(t, exitDone, first.code, first.stderr)
	require.Empty(t, first.stderr)
	var result workflows.TransferResult
	require.NoError(t, json.Unmarshal([]byte(first.stdout), &result))
	require.Equal(t, workflows.StateCompleted, result.State)
	require.Equal(t, []string{id, "us/alice", "eu/bob", "10.00", "USD/2"}, []string{result.ID, result.From, result.To, result.Amount, result.Asset})
	require.Len(t, result.Steps, 2)
	require.Equal(t, "transfer/"+id+"/withdraw", result.Steps[0].Key)

	t.Run("the document has the fields of a result, and attached", func(t *testing.T) {
		var document map[string]any
		require.NoError(t, json.Unmarshal([]byte(first.stdout), &document))
		require.ElementsMatch(t, []string{"id", "state", "from", "to", "amount", "asset", "steps", "attached"}, slices.Collect(maps.Keys(document)))
		require.Equal(t, false, document["attached"])
	})
	t.Run("case 5: again", func(t *testing.T) {
		document := object(t, exitDone, args...)
		require.Equal(t, true, document["attached"])
		require.Equal(t, "completed", document["state"])
	})
	t.Run("case 12: other content", func(t *testing.T) {
		other := append(slices.Clone(args), "--amount", "11.00")
		got := starter(t, other...)
		require.Equal(t, exitDifferent, got.code)
		require.Contains(t, got.stderr, "10.00 USD/2 from us/alice to eu/bob")
		require.Contains(t, got.stderr, "11.00 USD/2 from us/alice to eu/bob")
		require.Empty(t, got.stdout)
		document := object(t, exitDifferent, other...)
		require.EqualValues(t, exitDifferent, document["exit_code"])
	})
	t.Run("status", func(t *testing.T) {
		document := object(t, exitDone, "status", id)
		require.Equal(t, "completed", document["state"])
	})
	t.Run("text", func(t *testing.T) {
		text := succeeds(t, args...)
		require.Regexp(t, `^TestTransfer-\w+: completed: 10\.00 USD/2 from us/alice to eu/bob \(started before\)
  withdraw  applied  us  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z
  deposit   applied  eu  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z
$`, text)
	})
	requireBalance(t, "us/alice", "10.00")
	requireBalance(t, "eu/bob", "10.00")
}

// Case 69: exit codes tell how a transfer ended, and tell it again.
func TestEndsOfTransfers(t *testing.T) {
	w := newFundedWorld(t)
	succeeds(t, "account", "open", "eu/frozen", "--asset", "USD")
	succeeds(t, "account", "set", "eu/frozen", "--status", "frozen")
	for _, row := range []struct {
		name   string
		change []string
		want   exitCode
		state  string
		code   string
	}{
		{"too much", []string{"--amount", "20.01"}, exitRejected, "rejected", "insufficient_funds"},
		{"unknown source", []string{"--from", "us/nobody"}, exitRejected, "rejected", "account_unknown"},
		{"other asset", []string{"--asset", "EUR"}, exitRejected, "rejected", "asset_mismatch"},
		{"unknown destination", []string{"--to", "eu/nobody"}, exitFailed, "compensated", "account_unknown"},
		{"frozen destination", []string{"--to", "eu/frozen"}, exitFailed, "compensated", "account_frozen"},
	} {
		t.Run(row.name, func(t *testing.T) {
			id := newID(t)
			args := slices.Concat(payBob(id), row.change)
			for _, again := range [][]string{args, args, {"status", id}, slices.Concat(args, []string{"--wait=false"})} {
				document := object(t, row.want, again...)
				require.Equal(t, row.state, document["state"])
				require.Equal(t, row.code, document["code"])
				require.NotEmpty(t, document["detail"])
			}
			text := starter(t, args...)
			require.Equal(t, row.want, text.code)
			require.Contains(t, text.stdout, row.code)
			require.Empty(t, text.stderr)
		})
	}
	t.Run("given up before money moved", func(t *testing.T) {
		w.us.Before(func(_ context.Context, _ *ledger.Operation, resolve bool) error {
			if resolve {
				return nil
			}
			return ledger.ErrUnknownOutcome
		})
		defer w.us.Before(nil)
		document := object(t, exitFailed, payBob(newID(t))...)
		require.Equal(t, "failed", document["state"])
		require.Equal(t, "attempts_exhausted", document["code"])
	})
	requireBalance(t, "us/alice", "20.00")
	requireBalance(t, "eu/bob", "0.00")
}

// Case 13: the truth about what has not ended.
func TestPending(t *testing.T) {
	w := newFundedWorld(t)
	id := newID(t)
	open := w.stuck()
	args := payBob(id)

	got := until(t, func(got finished) bool { return strings.Contains(got.stdout, `"step": "deposit"`) }, append(args, "--timeout", "1500ms", "--output", "json")...)
	require.Equal(t, exitPending, got.code)
	var document map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &document))
	require.Equal(t, id, document["id"])
	require.Equal(t, "running", document["state"])
	require.Equal(t, "deposit", document["step"])
	require.Equal(t, "us/alice", document["from"])
	require.IsType(t, true, document["attached"], "told also when it has not ended")

	running := id + ": running: 10.00 USD/2 from us/alice to eu/bob"
	got = until(t, func(got finished) bool { return strings.Contains(got.stdout, running) }, append(args, "--timeout", "1s")...)
	require.Equal(t, exitPending, got.code)
	require.Contains(t, got.stdout, running)
	require.Contains(t, got.stderr, "no answer within 1s; the transfer goes on by itself")

	require.Equal(t, "running", object(t, exitPending, "status", id)["state"])
	document = object(t, exitDone, append(args, "--wait=false")...)
	require.Equal(t, "running", document["state"])
	require.Equal(t, true, document["attached"])

	interrupted, cancel := context.WithCancel(t.Context())
	time.AfterFunc(5*time.Second, cancel)
	got = starterWithin(interrupted, append(args, "--address", server.Address)...)
	require.Equal(t, exitPending, got.code)
	require.Contains(t, got.stderr, "interrupted; the transfer goes on by itself")

	open()
	require.Equal(t, "completed", object(t, exitDone, args...)["state"])
}

func TestAccepted(t *testing.T) {
	w := newFundedWorld(t)
	id := newID(t)
	open := w.stuck()
	document := object(t, exitDone, append(payBob(id), "--wait=false")...)
	require.Equal(t, "running", document["state"])
	require.Equal(t, false, document["attached"])
	require.Equal(t, "10.00", document["amount"])
	open()
	require.Equal(t, "completed", object(t, exitDone, payBob(id)...)["state"])
}

// Case 82: a parked transfer does not keep its caller waiting, and its dead letter is there.
func TestParkedAndSetAside(t *testing.T) {
	w := newFundedWorld(t)
	id := newID(t)
	w.eu.Before(func(context.Context, *ledger.Operation, bool) error { return ledger.ErrUnknownOutcome })
	document := object(t, exitPending, payBob(id)...)
	require.Equal(t, "parked", document["state"])
	parking, ok := document["parking"].(map[string]any)
	require.True(t, ok)
	require.Equal(t, "resolve-deposit", parking["step"])

	got := starter(t, "status", id)
	require.Equal(t, exitPending, got.code)
	require.Contains(t, got.stdout, id+": parked")
	require.Contains(t, got.stdout, "parking 1 at resolve-deposit")

	key := "transfer/" + id + "/resolve-deposit"
	for _, args := range [][]string{
		{"deadletter", "show", id},
		{"deadletter", "show", key},
		{"deadletter", "show", key, "--ledger", "us"},
	} {
		letters, ok := object(t, exitDone, args...)["dead_letters"].([]any)
		require.True(t, ok)
		require.Len(t, letters, 1, args)
		letter, ok := letters[0].(map[string]any)
		require.True(t, ok)
		require.Equal(t, key, letter["key"])
		require.Equal(t, true, letter["parked"])
		require.Equal(t, "10.00", letter["amount"])
	}
	require.Contains(t, succeeds(t, "deadletter", "list", "us"), key)
	for _, args := range [][]string{{"us"}, {"--ledger", "us", "--state", "all"}, {"us", "--state", "parked", "--step", "resolve-deposit"}} {
		letters := lines(t, append([]string{"deadletter", "list"}, args...)...)
		require.Len(t, letters, 1, args)
		require.Equal(t, key, letters[0]["key"])
	}
	require.Contains(t, succeeds(t, "deadletter", "show", id), "choices")
	require.Empty(t, lines(t, "deadletter", "list", "us", "--state", "closed"))
	require.Equal(t, exitUsage, starter(t, "deadletter", "show", "transfer/"+id+"/refund").code)
	require.Equal(t, exitUsage, starter(t, "deadletter", "show", "nothing").code)

	require.NoError(t, dialServer(t).TerminateWorkflow(t.Context(), workflows.TransferWorkflowID(id), "", "the test is done"))
	document = object(t, exitPending, "status", id)
	require.Equal(t, "unknown", document["state"])
	require.Contains(t, document["detail"], "start it again with the same ID")
	w.eu.Before(nil)
	require.Equal(t, "completed", object(t, exitDone, payBob(id)...)["state"], "the same command goes on from there")
}

func TestStatusOfNothing(t *testing.T) {
	newWorld(t)
	got := starter(t, "status", "nothing")
	require.Equal(t, exitUsage, got.code)
	require.Equal(t, "starter: there is no transfer \"nothing\"\n", got.stderr)
}
