package tests

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/tests/harness"
	"payonce/workflows"
)

// all makes transfers at once, as many clients do, and returns their results in order.
func all(t *testing.T, w *harness.World, transfers []workflows.TransferInput) []workflows.TransferResult {
	t.Helper()
	results := make([]workflows.TransferResult, len(transfers))
	errs := make([]error, len(transfers))
	var running sync.WaitGroup
	for i, in := range transfers {
		running.Go(func() { results[i], errs[i] = w.Transfers.Transfer(t.Context(), in) })
	}
	running.Wait()
	for i, err := range errs {
		require.NoError(t, err, "%+v", transfers[i])
	}
	return results
}

// tally counts results by their state, and by their code if they have one.
func tally(results []workflows.TransferResult) map[string]int {
	counts := make(map[string]int)
	for _, result := range results {
		name := string(result.State)
		if result.Code != "" {
			name += " " + string(result.Code)
		}
		counts[name]++
	}
	return counts
}

// Case 33 (blnk#181): six transfers of 1,000 at once from 5,000: five are made, one is refused.
func TestNoOverspending(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	for _, to := range []string{"us", "eu"} {
		from := w.Account(t, "us", "5000.00")
		var transfers []workflows.TransferInput
		for range 6 {
			transfers = append(transfers, workflows.TransferInput{ID: w.Unique("payout"), From: from, To: w.Account(t, to, ""), Amount: "1000", Asset: "USD"})
		}
		require.Equal(t, map[string]int{"completed": 5, "rejected insufficient_funds": 1}, tally(all(t, w, transfers)), "to %s", to)
		require.Equal(t, "0.00", w.Balance(t, from))
	}
}

// Case 34 (hyperswitch#13182): two payments back of 60 at once from a shop that has got 100: one is refused. By the command
// line, as two clerks would.
func TestTwoPaybacksAtOnce(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	shop, alice := w.Account(t, "us", "100.00"), w.Account(t, "eu", "")
	codes := make([]int, 2)
	var running sync.WaitGroup
	for i := range codes {
		running.Go(func() {
			codes[i] = w.CLITransfer(t, workflows.TransferInput{ID: fmt.Sprintf("payback-%d", i), From: shop, To: alice, Amount: "60", Asset: "USD"}).Code
		})
	}
	running.Wait()
	require.ElementsMatch(t, []int{exitDone, exitRejected}, codes)
	require.Equal(t, []string{"40.00", "60.00"}, w.Balances(t, shop, alice))
}

// Case 35 (own-pay#180): fifty first requests for one transfer at once: one applies, all are told the same.
func TestFiftyFirstRequests(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD"}
	transfers := make([]workflows.TransferInput, 50)
	for i := range transfers {
		transfers[i] = in
	}
	results := all(t, w, transfers)
	for _, result := range results {
		require.Equal(t, results[0], result)
	}
	require.Equal(t, workflows.StateCompleted, results[0].State)
	require.Equal(t, []string{"us withdraw applied", "eu deposit applied"}, w.Steps(t, in.ID))
	require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, in.From, in.To))
}

// Case 37 (five-bells-ledger#323): payments both ways between two accounts at once, within a ledger and across, each sent
// twice: no deadlock reaches a caller, and none is made twice.
func TestBothWaysAtOnce(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	w.StartWorker(t, harness.WorkerConfig{})
	const each = 30
	alice, bob, carol := w.Account(t, "us", "1000.00"), w.Account(t, "us", "1000.00"), w.Account(t, "eu", "1000.00")
	var transfers []workflows.TransferInput
	for _, pair := range [][2]string{{alice, bob}, {bob, alice}, {alice, carol}, {carol, alice}} {
		for range each {
			in := workflows.TransferInput{ID: w.Unique("both"), From: pair[0], To: pair[1], Amount: "1.01", Asset: "USD"}
			transfers = append(transfers, in, in)
		}
	}
	rand.Shuffle(len(transfers), func(i, j int) { transfers[i], transfers[j] = transfers[j], transfers[i] })
	require.Equal(t, map[string]int{"completed": len(transfers)}, tally(all(t, w, transfers)))
	require.Equal(t, []string{"1000.00", "1000.00", "1000.00"}, w.Balances(t, alice, bob, carol), "they have cancelled out")
	noDeadLetters(t, w)
}

// Case 39 (cockroachdb/examples-go#101): many payouts from one account at once, at the default options: all are made, and
// none is set aside for contention.
func TestHotAccount(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{Env: []string{"PAYONCE_POOL_SIZE=10"}})
	const payouts = 300
	from := w.Account(t, "us", "300.00")
	to := []string{w.Account(t, "us", ""), w.Account(t, "us", ""), w.Account(t, "us", ""), w.Account(t, "us", "")}
	transfers := make([]workflows.TransferInput, payouts)
	for i := range transfers {
		transfers[i] = workflows.TransferInput{ID: w.Unique("payout"), From: from, To: to[i%len(to)], Amount: "1", Asset: "USD"}
	}
	require.Equal(t, map[string]int{"completed": payouts}, tally(all(t, w, transfers)))
	require.Equal(t, "0.00", w.Balance(t, from))
	noDeadLetters(t, w)
}

// Case 20 (medusajs/medusa#13301): two transfers pay for one purchase, and there is room for one: the loser undoes what its
// own keys did, and leaves the winner's alone.
func TestLoserUndoesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, shop := w.Account(t, "us", "100.00"), w.Account(t, "eu", "")
	w.Set(t, activities.AccountSetInput{Account: shop, Ceiling: "10"})
	results := all(t, w, []workflows.TransferInput{
		{ID: "purchase-7-click-1", From: alice, To: shop, Amount: "10", Asset: "USD"},
		{ID: "purchase-7-click-2", From: alice, To: shop, Amount: "10", Asset: "USD"},
	})
	require.Equal(t, map[string]int{"completed": 1, "compensated ceiling_exceeded": 1}, tally(results))
	for _, result := range results {
		steps := []string{"us withdraw applied", "eu deposit applied"}
		if result.State == workflows.StateCompensated {
			steps = compensated("ceiling_exceeded")
		}
		require.Equal(t, steps, w.Steps(t, result.ID))
	}
	require.Equal(t, []string{"90.00", "10.00"}, w.Balances(t, alice, shop))
}

func noDeadLetters(t *testing.T, w *harness.World) {
	t.Helper()
	for _, ledgerName := range w.Ledgers {
		var n int
		require.NoError(t, w.DB(t, ledgerName).QueryRow(t.Context(), `select count(*) from dead_letters`).Scan(&n))
		require.Zero(t, n, "dead letters of %s", ledgerName)
	}
}
