package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"payonce/internal/railsim/sim"
	"payonce/tests/harness"
	"payonce/workflows"
)

var recordedPayout = workflows.PayoutInput{
	ID: "recorded", From: "us/alice", Rail: "bank", Payee: map[string]string{"iban": "DE89"}, Amount: "10", Asset: "USD", Memo: "a memo",
}

// lostAtRail has the rail pay, lose its answers, forget the key and not find the payout.
var lostAtRail = &sim.Plan{Submit: []sim.Fault{{Do: "drop", Executed: true, Times: -1}}, UnknownForMS: 3_600_000}

// onPayout is what is done after the start of a payout.
func onPayout(steps ...func(*testing.T, *recorder)) func(*testing.T, *recorder) {
	return func(t *testing.T, s *recorder) {
		t.Helper()
		for _, step := range steps {
			step(t, s)
		}
	}
}

func awaitPayout(state workflows.State) func(*testing.T, *recorder) {
	return func(t *testing.T, s *recorder) {
		t.Helper()
		s.AwaitPayout(t, recordedPayout.ID, state)
	}
}

func hintPayout(t *testing.T, s *recorder) {
	t.Helper()
	require.NoError(t, s.Transfers.HintPayout(t.Context(), recordedPayout.ID))
}

func cancelPayout(t *testing.T, s *recorder) {
	t.Helper()
	require.NoError(t, s.Transfers.CancelPayout(t.Context(), recordedPayout.ID))
}

func terminatePayout(t *testing.T, s *recorder) {
	t.Helper()
	require.NoError(t, s.Temporal.TerminateWorkflow(t.Context(), workflows.PayoutWorkflowID(recordedPayout.ID), "", "a test"))
}

func startPayout(t *testing.T, s *recorder) {
	t.Helper()
	_, err := s.Transfers.StartPayout(t.Context(), recordedPayout)
	require.NoError(t, err)
}

func atRail(status string) func(*testing.T, *recorder) {
	return func(t *testing.T, s *recorder) {
		t.Helper()
		s.rail.Decide(t, recordedPayout.ID, status)
	}
}

// foundAgain has the rail find the payout again.
func foundAgain(t *testing.T, s *recorder) {
	t.Helper()
	s.rail.Plan(t, recordedPayout.ID, sim.Plan{})
}

// decidePayout decides about the payout when it is parked for the how many-th time.
func decidePayout(number int, action workflows.Action) func(*testing.T, *recorder) {
	return func(t *testing.T, s *recorder) {
		t.Helper()
		harness.Eventually(t, "the payout is parked", func() bool {
			status, err := s.Transfers.PayoutStatus(t.Context(), recordedPayout.ID)
			return err == nil && status.Parking != nil && status.Parking.Number == number
		})
		_, err := s.Transfers.DecidePayout(t.Context(), recordedPayout.ID, workflows.Decision{
			Action: action, Parking: number, By: "carol", Reason: "a test", SettledOutside: action == workflows.ActionDiscard,
		})
		require.NoError(t, err)
	}
}

func payoutRecordings() []recording {
	soon := func(o *workflows.Options) {
		unhurried(o)
		o.Rail.Patience = 5 * time.Second
	}
	forgets := []string{"KEYS_KEPT=4s"} // before somebody is asked, and late enough to submit it at all
	return []recording{
		{name: "payout-settled", payout: &sim.Plan{}},
		{name: "payout-returned", payout: &sim.Plan{Outcome: "rejected", Code: "ac01"}},
		{name: "payout-pending", payout: &sim.Plan{DecideAfterMS: 700}},
		{name: "payout-reply-lost", payout: &sim.Plan{Submit: []sim.Fault{{Do: "drop", Executed: true, Times: 2}}, UnknownForMS: 500}},
		{name: "payout-outage", payout: &sim.Plan{Submit: []sim.Fault{{Do: "status", Status: 503, Times: 3}}}},
		{name: "payout-failed", payout: &sim.Plan{}, faults: []string{"reserve/before=fail:5"}},
		{
			name: "payout-unsent", payout: &sim.Plan{}, faults: []string{"reserve/before=fail:2", "reserve/after=hold"},
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				s.worker.AwaitEvent(t, "blocked", struckBy("reserve/after", "hold"))
				cancelPayout(t, s)
			},
		},
		{name: "payout-cancelled", payout: &sim.Plan{Outcome: "pending"}, during: onPayout(awaitPayout(workflows.StatePending), cancelPayout)},
		{
			name: "payout-parked-compensate", payout: lostAtRail, rail: forgets, options: soon,
			during: decidePayout(1, workflows.ActionCompensate),
		},
		{
			name: "payout-parked-retry-settle", payout: lostAtRail, rail: forgets, options: soon,
			during: onPayout(decidePayout(1, workflows.ActionRetry), decidePayout(2, workflows.ActionSettle)),
		},
		{
			name: "payout-parked-answered", payout: lostAtRail, rail: forgets, options: soon,
			during: onPayout(awaitPayout(workflows.StateParked), foundAgain, hintPayout, awaitPayout(workflows.StateSettled)),
		},
		{
			name: "payout-contradiction-discard", payout: lostAtRail, rail: forgets, options: soon,
			during: onPayout(decidePayout(1, workflows.ActionCompensate), awaitPayout(workflows.StateReturned), foundAgain, hintPayout,
				decidePayout(1, workflows.ActionDiscard)),
		},
		{
			name: "payout-bounced", payout: &sim.Plan{},
			during: onPayout(awaitPayout(workflows.StateSettled), atRail("returned"), hintPayout, awaitPayout(workflows.StateReturned)),
		},
		{
			name: "payout-hint", payout: &sim.Plan{}, workflow: "recorded-hint",
			during: onPayout(awaitPayout(workflows.StateSettled), func(t *testing.T, s *recorder) {
				t.Helper()
				_, err := s.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "recorded-hint", TaskQueue: workflows.TaskQueue},
					workflows.PayoutHintWorkflow, workflows.PayoutHintInput{ID: recordedPayout.ID})
				require.NoError(t, err)
			}),
		},
		{
			name: "payout-again", payout: &sim.Plan{Outcome: "pending"},
			during: onPayout(awaitPayout(workflows.StatePending), terminatePayout, atRail("settled"), startPayout),
		},
		{
			name: "payout-reset", payout: &sim.Plan{},
			during: onPayout(awaitPayout(workflows.StateSettled), func(t *testing.T, s *recorder) {
				t.Helper()
				s.Reset(t, workflows.PayoutWorkflowID(recordedPayout.ID))
			}),
		},
		{
			name: "payout-rejected", payout: &sim.Plan{}, workflow: workflows.PayoutWorkflowID("much"),
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				much := recordedPayout
				much.ID, much.Amount = "much", "1000"
				_, err := s.Transfers.StartPayout(t.Context(), much)
				require.NoError(t, err)
			},
		},
		{
			name: "payout-wrong-malformed", payout: &sim.Plan{}, workflow: workflows.PayoutWorkflowID("malformed"),
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				_, err := s.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
					ID: workflows.PayoutWorkflowID("malformed"), TaskQueue: workflows.TaskQueue,
				}, workflows.PayoutWorkflow, map[string]any{"id": "malformed", "payee": "bob"})
				require.NoError(t, err)
			},
		},
	}
}
