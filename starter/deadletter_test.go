package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// lines runs a command line with --output json that must succeed, and returns the documents it printed, one a line.
func lines(t *testing.T, args ...string) []map[string]any {
	t.Helper()
	return linesOf(t, succeeds(t, append(args, "--output", "json")...))
}

func linesOf(t *testing.T, stdout string) []map[string]any {
	t.Helper()
	documents := []map[string]any{}
	for line := range strings.Lines(stdout) {
		var document map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &document), line)
		documents = append(documents, document)
	}
	return documents
}

// refuseRefunds keeps money that is on its way back where it is.
func refuseRefunds(_ context.Context, operation *ledger.Operation, resolve bool) error {
	if operation.Kind == ledger.KindRefund && !resolve {
		return fmt.Errorf("%w: the ceiling", ledger.ErrReversalBlocked)
	}
	return nil
}

// setAside has n transfers fail, each of them compensated, and returns their IDs.
func (w *world) setAside(t *testing.T, n int) []string {
	t.Helper()
	w.eu.Before(func(_ context.Context, _ *ledger.Operation, resolve bool) error {
		if resolve {
			return nil
		}
		return fmt.Errorf("poison %s", "postgres://app:hunter2@db/eu")
	})
	ids := make([]string, n)
	for i := range ids {
		ids[i] = newID(t)
		require.Equal(t, "compensated", object(t, exitFailed, payBob(ids[i])...)["state"])
	}
	w.eu.Before(nil)
	return ids
}

func TestDeadLetterListPages(t *testing.T) {
	w := newFundedWorld(t)
	ids := w.setAside(t, 5)
	all := lines(t, "deadletter", "list", "us")
	require.Len(t, all, 5)
	require.Equal(t, ids[4], all[0]["transfer"], "newest first")
	require.Contains(t, all[0]["error"], "poison postgres://app:***@db/eu")
	require.Equal(t, "LedgerError", all[0]["error_type"])

	var paged []map[string]any
	args := []string{"deadletter", "list", "us", "--limit", "2"}
	for page := lines(t, args...); len(page) > 0; {
		require.LessOrEqual(t, len(page), 2)
		paged = append(paged, page...)
		cursor, ok := page[len(page)-1]["cursor"].(string)
		require.True(t, ok)
		page = lines(t, append(args, "--cursor", cursor)...)
	}
	require.Equal(t, all, paged)

	got := starter(t, args...)
	require.Equal(t, exitDone, got.code)
	require.Equal(t, 3, strings.Count(got.stdout, "\n"), "a head and two letters")
	require.Contains(t, got.stderr, "there are more: --cursor ")
	require.Equal(t, exitUsage, starter(t, append(args, "--cursor", "nonsense")...).code)
	require.Empty(t, lines(t, "deadletter", "list", "us", "--older-than", "1h"))
	require.Len(t, lines(t, "deadletter", "list", "us", "--newer-than", "1d"), 5)
}

func TestDeadLetterRetryEnded(t *testing.T) {
	w := newFundedWorld(t)
	id := w.setAside(t, 1)[0]
	key := "transfer/" + id + "/deposit"
	require.Contains(t, succeeds(t, "deadletter", "show", id), "retry, discard")
	require.Equal(t, exitRejected, starter(t, "deadletter", "compensate", id, "--by", "ann").code)
	require.Equal(t, exitRejected, starter(t, "deadletter", "retry", id, "--by", "ann", "--version", "7").code, "it was read at version 1")

	retry := []string{"deadletter", "retry", id, "--by", "ann", "--reason", "the bank is back", "--version", "1"}
	taken := object(t, exitDone, retry...)
	require.Equal(t, map[string]any{
		"key": key, "transfer": id, "action": "retry", "by": "ann", "reason": "the bank is back", "outcome": "taken",
		"detail": fmt.Sprintf("made anew as %q", id+"~retry-1"), "new_transfer": id + "~retry-1",
	}, taken)
	requireEventually(t, id+"~retry-1", "completed")
	requireBalance(t, "eu/bob", "10.00")

	// The same command again is the same decision; another one is too late, and told who decided.
	again := object(t, exitDone, "deadletter", "retry", id, "--by", "ann", "--reason", "the bank is back")
	require.Equal(t, []any{"taken", id + "~retry-1"}, []any{again["outcome"], again["new_transfer"]})
	for _, args := range [][]string{{"retry", "--by", "bob"}, {"retry", "--by", "ann"}, {"discard", "--by", "ann", "--reason", "the bank is back"}} {
		got := starter(t, append([]string{"deadletter", args[0], id}, args[1:]...)...)
		require.Equal(t, exitRejected, got.code)
		require.Contains(t, got.stderr, fmt.Sprintf("retry by ann: the bank is back; made anew as %q", id+"~retry-1"))
	}
	require.Equal(t, exitRejected, starter(t, "deadletter", "retry", id+"~retry-1", "--by", "ann").code, "it completed")
	requireBalance(t, "eu/bob", "10.00")
	shown := succeeds(t, "deadletter", "show", id)
	require.Contains(t, shown, "retry by ann")
	require.NotContains(t, shown, "hunter2")
}

// Whoever has used the ID of the transfer that is to be made anew for another payment keeps it; nothing moves, and it is told.
func TestDeadLetterRetryIDTaken(t *testing.T) {
	w := newFundedWorld(t)
	id := w.setAside(t, 1)[0]
	other := payBob(id + "~retry-1")
	other[len(other)-3] = "3.00"
	require.Equal(t, "completed", object(t, exitDone, other...)["state"])
	for range 2 {
		got := starter(t, "deadletter", "retry", id, "--by", "ann")
		require.Equal(t, exitDifferent, got.code)
		require.Contains(t, got.stderr, "was made before, for 3.00 USD/2")
	}
	requireBalance(t, "eu/bob", "3.00")
}

func TestDeadLetterRetryAll(t *testing.T) {
	w := newFundedWorld(t)
	ids := w.setAside(t, 2)
	w.us.Before(refuseRefunds)
	w.eu.Before(func(_ context.Context, _ *ledger.Operation, resolve bool) error {
		if resolve {
			return nil
		}
		return fmt.Errorf("poison")
	})
	parked := newID(t)
	require.Equal(t, "parked", object(t, exitPending, payBob(parked)...)["state"])
	w.us.Before(nil)
	w.eu.Before(nil)

	before := lines(t, "deadletter", "list", "us", "--state", "all")
	dry := lines(t, "deadletter", "retry", "--all", "--ledger", "us", "--by", "ann", "--dry-run")
	require.Len(t, dry, 3)
	for _, one := range dry {
		require.Equal(t, "would-be-taken", one["outcome"])
	}
	require.Equal(t, before, lines(t, "deadletter", "list", "us", "--state", "all"), "nothing was changed")
	requireBalance(t, "eu/bob", "0.00")

	one := lines(t, "deadletter", "retry", "--all", "--ledger", "us", "--step", "refund", "--by", "ann")
	require.Len(t, one, 1)
	require.Equal(t, []any{parked, "taken", "the transfer is running"}, []any{one[0]["transfer"], one[0]["outcome"], one[0]["detail"]})
	requireEventually(t, parked, "compensated")

	got := starter(t, "deadletter", "retry", "--all", "--ledger", "us", "--error", "POISON postgres", "--rate", "100", "--by", "ann")
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Contains(t, got.stderr, "2 dead letters: 2 decisions taken")
	for _, id := range ids {
		require.Contains(t, got.stdout, fmt.Sprintf("made anew as %q", id+"~retry-1"))
		requireEventually(t, id+"~retry-1", "completed")
	}
	requireBalance(t, "eu/bob", "20.00")
}

func TestDeadLetterDiscard(t *testing.T) {
	w := newFundedWorld(t)
	ended := w.setAside(t, 1)[0]
	require.Equal(t, "taken", object(t, exitDone, "deadletter", "discard", ended, "--by", "ann", "--reason", "a test")["outcome"])
	require.Empty(t, lines(t, "deadletter", "list", "us"))

	w.us.Before(refuseRefunds)
	w.eu.Before(func(_ context.Context, _ *ledger.Operation, resolve bool) error {
		if resolve {
			return nil
		}
		return fmt.Errorf("poison")
	})
	parked := newID(t)
	require.Equal(t, "parked", object(t, exitPending, payBob(parked)...)["state"])
	discard := []string{"deadletter", "discard", parked, "--by", "ann", "--reason", "paid by hand"}
	got := starter(t, discard...)
	require.Equal(t, exitRejected, got.code)
	require.Contains(t, got.stderr, "the place of the money is transit (us/transit:eu)")
	require.NotContains(t, got.stderr, "retryable", "in our words, not in Temporal's")
	require.Equal(t, "taken", object(t, exitDone, append(discard, "--settled-outside")...)["outcome"])
	requireEventually(t, parked, "discarded")
	document := object(t, exitPending, "status", parked)
	require.Equal(t, map[string]any{"place": "transit", "account": "us/transit:eu", "amount": "10.00", "asset": "USD/2"}, document["left"])
	require.Equal(t, "discard by ann: paid by hand", document["detail"])

	// Nothing of it moves any more.
	w.us.Before(nil)
	w.eu.Before(nil)
	require.Equal(t, "discarded", object(t, exitPending, payBob(parked)...)["state"])
	requireBalance(t, "us/transit:eu", "10.00")
}

// requireEventually waits until a transfer is in a state.
func requireEventually(t *testing.T, id, state string) {
	t.Helper()
	require.Eventually(t, func() bool {
		got := starter(t, "status", id)
		return strings.Contains(got.stdout, id+": "+state)
	}, eventually, tick, "%s is %s", id, state)
}
