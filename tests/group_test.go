package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/transfers"
	"payonce/tests/harness"
	"payonce/workflows"
)

// grouping is a client whose concurrent calls share workflows.
func grouping(w *harness.World, options transfers.GroupOptions) *transfers.Client {
	return transfers.New(w.Temporal, transfers.Options{Group: &options})
}

// told is what a caller is told.
type told struct {
	result workflows.TransferResult
	err    error
}

// together makes calls at once.
func together(ctx context.Context, c *transfers.Client, requests []workflows.TransferInput) []told {
	answers := make([]told, len(requests))
	var calling sync.WaitGroup
	for i, in := range requests {
		calling.Go(func() { answers[i].result, answers[i].err = c.Transfer(ctx, in) })
	}
	calling.Wait()
	return answers
}

// groups counts the groups that there were.
func groups(t *testing.T, w *harness.World) int {
	t.Helper()
	var count int64
	harness.Eventually(t, "the server lists the groups", func() bool {
		answer, err := w.Temporal.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: "WorkflowType = '" + workflows.TransferGroupWorkflow + "'",
		})
		require.NoError(t, err)
		count = answer.GetCount()
		return count > 0
	})
	return int(count)
}

// Calls that share workflows: each is told what it would be told alone, and told the same again, alone and in other company.
func TestGroupTellsEachItsOwn(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "us", "")
	away, closed := w.Account(t, "eu", ""), w.Account(t, "us", "")
	w.Set(t, activities.AccountSetInput{Account: closed, Status: string(ledger.AccountClosed)})
	taken := workflows.TransferInput{ID: "taken", From: alice, To: bob, Amount: "1", Asset: "USD"}
	w.Transfer(t, taken)

	requests := make([]workflows.TransferInput, 0, 120)
	for i := range 90 {
		requests = append(requests, workflows.TransferInput{ID: fmt.Sprintf("coffee-%d", i), From: alice, To: bob, Amount: "1", Asset: "USD"})
	}
	other := taken
	other.Amount = "2"
	twice := requests[0]
	special := []workflows.TransferInput{
		{ID: "car", From: alice, To: bob, Amount: "20000", Asset: "USD"},
		{ID: "closed", From: alice, To: closed, Amount: "1", Asset: "USD"},
		{ID: "abroad", From: alice, To: away, Amount: "1", Asset: "USD"},
		taken, other, twice,
	}
	requests = append(requests, special...)
	c := grouping(w, transfers.GroupOptions{AtOnce: 2})
	answers := together(t.Context(), c, requests)
	check := func(answers []told) {
		t.Helper()
		for i, answer := range answers {
			in := requests[i]
			switch {
			case in.ID == other.ID && in.Amount == other.Amount:
				require.ErrorIs(t, answer.err, transfers.ErrDifferentRequest, "%s", in.ID)
				continue
			case in.ID == "car":
				require.Equal(t, ledger.CodeInsufficientFunds, answer.result.Code)
			case in.ID == "closed":
				require.Equal(t, ledger.CodeAccountClosed, answer.result.Code)
			default:
				require.Equal(t, workflows.StateCompleted, answer.result.State, "%s: %v", in.ID, answer.err)
			}
			require.NoError(t, answer.err, in.ID)
			require.Equal(t, in.ID, answer.result.ID)
		}
	}
	check(answers)
	count := groups(t, w)
	require.Less(t, count, 20, "the calls have shared workflows")
	balances := []string{"8.00", "91.00", "1.00"}
	require.Equal(t, balances, w.Balances(t, alice, bob, away))

	check(together(t.Context(), c, requests))
	slices.Reverse(requests)
	check(together(t.Context(), c, requests))
	slices.Reverse(requests)
	for i, in := range requests[:5] {
		alone := w.Transfer(t, in)
		want := answers[i].result
		alone.Steps[0].Repeat, want.Steps[0].Repeat = false, false
		require.Equal(t, want, alone, "alone it is the same")
		require.Equal(t, exitDone, w.CLI(t, "status", in.ID).Code)
	}
	require.Equal(t, exitDone, w.CLI(t, "status", "coffee-60").Code, "it has no workflow of its own, and is found")
	require.Equal(t, balances, w.Balances(t, alice, bob, away))
}

// What befalls one transfer of a group befalls no other: one whose answers are lost, one that always fails, one whose account
// somebody holds. Each of them goes on alone.
func TestGroupAndTroubles(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartFaultWorker(t, harness.FaultConfig{
		Faults: []string{"post/after=drop;transfer=lost", "post/before=fail:always;transfer=poison"},
		// One that waits for its account does so for as long as the others take, on a busy machine too.
		Options: func(o *workflows.Options) {
			unhurried(o)
			o.Forward.AttemptsMax = 20
		},
	})
	alice, bob, held := w.Account(t, "us", "100.00"), w.Account(t, "us", ""), w.Account(t, "us", "")
	requests := []workflows.TransferInput{
		{ID: "lost", From: alice, To: bob, Amount: "1", Asset: "USD"},
		{ID: "poison", From: alice, To: bob, Amount: "1", Asset: "USD"},
		{ID: "held", From: alice, To: held, Amount: "1", Asset: "USD"},
	}
	for i := range 40 {
		requests = append(requests, workflows.TransferInput{ID: fmt.Sprintf("coffee-%d", i), From: alice, To: bob, Amount: "1", Asset: "USD"})
	}
	lock := w.LockAccount(t, held)
	c := grouping(w, transfers.GroupOptions{AtOnce: 1})
	var waiting sync.WaitGroup
	troubled := make([]told, 3)
	for i := range troubled {
		waiting.Go(func() { troubled[i].result, troubled[i].err = c.Transfer(t.Context(), requests[i]) })
	}
	for _, answer := range together(t.Context(), c, requests[3:]) {
		assert.NoError(t, answer.err)
		assert.Equal(t, workflows.StateCompleted, answer.result.State)
	}
	require.Empty(t, w.Steps(t, "held"), "which is not done yet")
	lock.Release()
	waiting.Wait()
	for i, want := range []workflows.State{workflows.StateCompleted, workflows.StateFailed, workflows.StateCompleted} {
		require.NoError(t, troubled[i].err, requests[i].ID)
		require.Equal(t, want, troubled[i].result.State, requests[i].ID)
	}
	require.Equal(t, []string{"us post applied"}, w.Steps(t, "lost"))
	require.Equal(t, []string{"58.00", "41.00", "1.00"}, w.Balances(t, alice, bob, held))
}

// A worker that dies in the middle of a group, when some of it is committed: another one finishes it.
func TestGroupOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	whole := w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "us", "")
	require.NoError(t, whole.Kill())
	dying := w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Faults: []string{"post/after=kill;transfer=coffee-7"}})
	var requests []workflows.TransferInput
	for i := range 30 {
		requests = append(requests, workflows.TransferInput{ID: fmt.Sprintf("coffee-%d", i), From: alice, To: bob, Amount: "1", Asset: "USD"})
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for _, answer := range together(t.Context(), grouping(w, transfers.GroupOptions{AtOnce: 1}), requests) {
			assert.NoError(t, answer.err)
			assert.Equal(t, workflows.StateCompleted, answer.result.State)
		}
	})
	dying.AwaitKilled(t)
	w.StartWorker(t, harness.WorkerConfig{})
	waiting.Wait()
	require.Equal(t, []string{"70.00", "30.00"}, w.Balances(t, alice, bob))
}

// What Temporal has accepted is carried out, whatever becomes of its client; and it is found on its way.
func TestGroupOutlivesItsClient(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	first := w.StartWorker(t, harness.WorkerConfig{})
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "us", "")
	require.Equal(t, 0, first.Stop(t))
	var requests []workflows.TransferInput
	for i := range 10 {
		requests = append(requests, workflows.TransferInput{ID: fmt.Sprintf("coffee-%d", i), From: alice, To: bob, Amount: "1", Asset: "USD"})
	}
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for _, answer := range together(ctx, grouping(w, transfers.GroupOptions{AtOnce: 1}), requests) {
			pending, ok := errors.AsType[*transfers.PendingError](answer.err)
			if assert.True(t, ok, "%v", answer.err) {
				// The first went alone.
				assert.Contains(t, []workflows.State{transfers.StateUnknown, workflows.StateRunning}, pending.Status.State)
			}
		}
	})
	groups(t, w)
	var inGroup string
	harness.Eventually(t, "one of them is found in a group", func() bool {
		for _, in := range requests {
			// No ledger can be asked, so that this takes all of the time if no group is found.
			status, err := w.Transfers.Status(harness.Within(t, 5*time.Second), in.ID)
			if err == nil && status.State == workflows.StateRunning && status.Request.SameRequest(in) {
				inGroup = in.ID
				return true
			}
		}
		return false
	})
	leave()
	waiting.Wait()
	w.StartWorker(t, harness.WorkerConfig{})
	w.AwaitStep(t, inGroup, "us post applied")
	for _, in := range requests {
		require.Equal(t, workflows.StateCompleted, w.Transfer(t, in).State)
	}
	require.Equal(t, []string{"90.00", "10.00"}, w.Balances(t, alice, bob))
}

// An outage is waited out by the group as it is by a transfer alone.
func TestGroupWaitsForItsLedger(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Faults: []string{
		"post/before=fail:3;error=unavailable;transfer=coffee-0", "post/before=fail:3;error=unavailable;transfer=coffee-1",
		"post/before=fail:3;error=unavailable;transfer=coffee-2",
	}})
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "us", "")
	requests := []workflows.TransferInput{}
	for i := range 3 {
		requests = append(requests, workflows.TransferInput{ID: fmt.Sprintf("coffee-%d", i), From: alice, To: bob, Amount: "1", Asset: "USD"})
	}
	for _, answer := range together(t.Context(), grouping(w, transfers.GroupOptions{AtOnce: 1}), requests) {
		require.NoError(t, answer.err)
		require.Equal(t, workflows.StateCompleted, answer.result.State)
	}
	require.Equal(t, []string{"97.00", "3.00"}, w.Balances(t, alice, bob))
}
