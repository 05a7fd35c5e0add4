package tests

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/internal/faultworker/fault"
	"payonce/internal/reconcile"
	"payonce/ledger"
	"payonce/tests/harness"
	"payonce/workflows"
)

// pendingActivity waits until a transfer has an activity that is as it should be, and returns it.
func pendingActivity(t *testing.T, w *harness.World, id string, as func(*workflow.PendingActivityInfo) bool) *workflow.PendingActivityInfo {
	t.Helper()
	var found *workflow.PendingActivityInfo
	harness.Eventually(t, "an activity of "+id, func() bool {
		described, err := w.Temporal.DescribeWorkflow(t.Context(), workflows.TransferWorkflowID(id), "")
		require.NoError(t, err)
		for _, pending := range described.RawResponse.GetPendingActivities() {
			if as(pending) {
				found = pending
			}
		}
		return found != nil
	})
	return found
}

// temporalCLI runs Temporal's own command line about the workflow of a transfer.
func temporalCLI(t *testing.T, w *harness.World, id string, args ...string) {
	t.Helper()
	result := w.TemporalCLI(t, append(args, "--workflow-id", workflows.TransferWorkflowID(id))...)
	require.Equal(t, 0, result.Code)
}

func waitsForRetry(a *workflow.PendingActivityInfo) bool {
	return a.GetState() == enums.PENDING_ACTIVITY_STATE_SCHEDULED && a.GetAttempt() > 1
}

// operatedStep is a step at which an operator acts.
type operatedStep struct {
	kind     fault.Kind
	activity string
	to       string // a ledger; "" is an account that is not there
	state    workflows.State
	want     []string
}

// operated is a transfer that an operator does something to, at a step of it, before the step was written or after.
type operated struct {
	hand   string
	step   operatedStep
	moment string
	id     string

	in    workflows.TransferInput
	first client.WorkflowRun
}

// Whatever an operator does to a transfer with Temporal's own commands, at whichever of its steps, before the step was
// written or after, the money moves once and the books close. What cancelling does is in TestCancelledAtEachStep, and what a
// reset of a step does that still runs, in the tests of faults.
func TestOperatorsAtEachStep(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	hands := map[string]func(t *testing.T, id string, a *workflow.PendingActivityInfo){
		"pause": func(t *testing.T, id string, a *workflow.PendingActivityInfo) {
			t.Helper()
			temporalCLI(t, w, id, "activity", "pause", "--activity-id", a.GetActivityId())
			paused := pendingActivity(t, w, id, func(a *workflow.PendingActivityInfo) bool { return a.GetPaused() })
			require.GreaterOrEqual(t, paused.GetAttempt(), a.GetAttempt())
			temporalCLI(t, w, id, "activity", "unpause", "--activity-id", a.GetActivityId())
		},
		"reset-activity": func(t *testing.T, id string, a *workflow.PendingActivityInfo) {
			t.Helper()
			temporalCLI(t, w, id, "activity", "reset", "--activity-id", a.GetActivityId())
		},
		"reset": func(t *testing.T, id string, _ *workflow.PendingActivityInfo) {
			t.Helper()
			temporalCLI(t, w, id, "workflow", "reset", "--type", "FirstWorkflowTask", "--reason", "a test")
		},
		"terminate": func(t *testing.T, id string, _ *workflow.PendingActivityInfo) {
			t.Helper()
			temporalCLI(t, w, id, "workflow", "terminate")
		},
	}
	steps := []operatedStep{
		{fault.KindPost, "Post", "us", workflows.StateCompleted, []string{"us post applied"}},
		{fault.KindWithdraw, "Withdraw", "eu", workflows.StateCompleted, []string{"us withdraw applied", "eu deposit applied"}},
		{fault.KindDeposit, "Deposit", "eu", workflows.StateCompleted, []string{"us withdraw applied", "eu deposit applied"}},
		{fault.KindRefund, "Refund", "", workflows.StateCompensated, compensated("account_unknown")},
	}
	var all []*operated
	var faults []string
	for hand := range hands {
		for _, step := range steps {
			for _, moment := range []string{"before", "after"} {
				o := &operated{hand: hand, step: step, moment: moment, id: hand + "-" + string(step.kind) + "-" + moment}
				all = append(all, o)
				faults = append(faults, string(step.kind)+"/"+moment+"=fail:always;transfer="+o.id)
			}
		}
	}
	each := func(what string, do func(t *testing.T, o *operated)) {
		ok := t.Run(what, func(t *testing.T) {
			for _, o := range all {
				t.Run(o.id, func(t *testing.T) {
					t.Parallel()
					do(t, o)
				})
			}
		})
		require.True(t, ok, what)
	}
	options := func(o *workflows.Options) {
		losing(o)
		o.Forward.AttemptsMax, o.Settle.AttemptsMax = 10_000, 10_000
		o.Outage.Budget = time.Hour
	}

	// The steps fail as long as the first worker is there. It is gone when the operators act, so that they have all the time that
	// they need, and the second one makes the next attempt.
	failing := w.StartFaultWorker(t, harness.FaultConfig{Faults: faults, Options: options})
	each("steps fail", func(t *testing.T, o *operated) {
		o.in = workflows.TransferInput{ID: o.id, From: w.Account(t, "us", "20.00"), To: "eu/nobody", Amount: "10", Asset: "USD"}
		if o.step.to != "" {
			o.in.To = w.Account(t, o.step.to, "")
		}
		o.first = w.Start(t, o.in)
		failing.AwaitStrike(t, string(o.step.kind)+"/"+o.moment, o.id)
		pendingActivity(t, w, o.id, waitsForRetry)
	})
	require.NoError(t, failing.Kill())
	each("operators act", func(t *testing.T, o *operated) {
		waiting := pendingActivity(t, w, o.id, waitsForRetry)
		require.Equal(t, o.step.activity, waiting.GetActivityType().GetName())
		hands[o.hand](t, o.id, waiting)
		if o.hand == "terminate" {
			require.Error(t, o.first.Get(t.Context(), nil))
			w.Start(t, o.in)
		}
	})
	working := w.StartFaultWorker(t, harness.FaultConfig{Options: options})
	each("transfers end", func(t *testing.T, o *operated) {
		require.Equal(t, o.step.state, w.AwaitEnd(t, o.id).State)
		require.Equal(t, o.step.want, w.Steps(t, o.id))
		balances := []string{"20.00"}
		if o.step.state == workflows.StateCompleted {
			balances = []string{"10.00", "10.00"}
		}
		require.Equal(t, balances, w.Balances(t, []string{o.in.From, o.in.To}[:len(balances)]...))
		answered := 0
		for _, e := range slices.Concat(failing.Events(), working.Events()) {
			if e.Event == fault.EventAnswer && e.Error == "" && e.Point.Kind == o.step.kind && isStepOf(e.Key, o.id) {
				require.Equal(t, answered > 0, e.Repeat, "the first answer moves, and no other")
				answered++
			}
		}
		if o.moment == "after" {
			require.Greater(t, answered, 1, "it was run again")
		}
	})
	code, view := reconciled(t, w)
	require.Equal(t, exitDone, code, "%+v", view.Temporal.Findings)
	require.Empty(t, view.InTransit)
}

// What an operator says a step's outcome is, the workflow believes. That is the one of Temporal's commands which can forge an
// end: verify finds it, and says whether a reset puts it right; saying that a step failed forges nothing.
func TestForgedOutcomes(t *testing.T) {
	t.Parallel()
	outcome := func(step string, state ledger.OutcomeState, code ledger.Code) func(id string) string {
		return func(id string) string {
			text, err := json.Marshal(activities.StepOutcome{
				Ledger: "forged", Key: workflows.TransferWorkflowID(id) + "/" + step, State: state, Code: code, At: time.Now(),
			})
			require.NoError(t, err)
			return string(text)
		}
	}
	arrived := []string{"us withdraw applied", "eu deposit applied"}
	for _, row := range []struct {
		name   string
		to     string // a ledger; "" is an account that is not there
		faults []string
		point  string // where the step is held, unwritten, while its outcome is forged
		forged func(id string) string
		said   workflows.State
		steps  []string
		detail string // of the finding; "" is that there is none
		mended []string
	}{
		{
			"a post", "us", nil, "post/before", outcome("post", ledger.OutcomeApplied, ""), workflows.StateCompleted, nil,
			"its workflow ended as completed; the books have nothing of it",
			[]string{"us post applied"},
		},
		{
			"a refusal", "us", nil, "post/before", outcome("post", ledger.OutcomeRefused, ledger.CodeInsufficientFunds), workflows.StateRejected, nil,
			"its workflow ended as rejected; the books have nothing of it", nil,
		},
		{
			"a withdraw", "eu", nil, "withdraw/before", outcome("withdraw", ledger.OutcomeApplied, ""), workflows.StateCompleted,
			[]string{"eu deposit applied"},
			"its workflow ended as completed; the books have steps that don't follow from each other (deposit applied)", arrived,
		},
		{
			"a deposit", "eu", nil, "deposit/before", outcome("deposit", ledger.OutcomeApplied, ""), workflows.StateCompleted,
			[]string{"us withdraw applied"},
			"its workflow ended as completed; the books have 10.00 USD/2 in transit from ", arrived,
		},
		{
			"a refund", "", nil, "refund/before", outcome("refund", ledger.OutcomeApplied, ""), workflows.StateCompensated,
			[]string{"us withdraw applied", "eu deposit refused account_unknown"},
			"its workflow ended as compensated; the books have 10.00 USD/2 in transit from ", compensated("account_unknown"),
		},
		{
			"a seal", "eu",
			[]string{"deposit/before=fail:always"},
			"resolve/before",
			outcome("deposit", ledger.OutcomeSealed, ledger.CodeAttemptsExhausted), workflows.StateCompensated,
			[]string{"us withdraw applied", "us refund applied"},
			"its workflow ended as compensated; the books have steps that don't follow from each other (withdraw applied, refund applied)", nil,
		},
		{
			"nonsense", "eu", nil, "deposit/before", func(string) string { return `["nonsense"]` }, workflows.StateCompensated,
			[]string{"us withdraw applied", "us refund applied", "eu deposit sealed attempts_exhausted"},
			"", nil,
		},
		{
			"a failure", "eu", nil, "deposit/before", nil, workflows.StateCompensated,
			[]string{"us withdraw applied", "us refund applied", "eu deposit sealed attempts_exhausted"},
			"", nil,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{BooksMayBeWrong: row.detail != "" && row.mended == nil})
			holding := w.StartFaultWorker(t, harness.FaultConfig{Options: patiently, Faults: append(row.faults, row.point+"=block;for=1h;transfer=rent")})
			in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: "eu/nobody", Amount: "10", Asset: "USD"}
			if row.to != "" {
				in.To = w.Account(t, row.to, "")
			}
			w.Start(t, in)
			holding.AwaitStrike(t, row.point, in.ID)
			held := pendingActivity(t, w, in.ID, func(a *workflow.PendingActivityInfo) bool {
				return a.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED
			})
			if row.forged == nil {
				temporalCLI(t, w, in.ID, "activity", "fail", "--activity-id", held.GetActivityId(), "--reason", "a test")
			} else {
				temporalCLI(t, w, in.ID, "activity", "complete", "--activity-id", held.GetActivityId(), "--result", row.forged(in.ID))
			}
			require.Equal(t, row.said, w.AwaitEnd(t, in.ID).State)
			// The step that was held is never written.
			require.NoError(t, holding.Kill())
			require.ElementsMatch(t, row.steps, w.Steps(t, in.ID))
			w.StartWorker(t, harness.WorkerConfig{})

			view := forged(t, w)
			if row.detail == "" {
				require.True(t, view.OK)
				return
			}
			require.False(t, view.OK)
			require.Len(t, view.Temporal.Findings, 1)
			finding := view.Temporal.Findings[0]
			require.Equal(t, []string{"outcome", workflows.TransferWorkflowID(in.ID)}, []string{finding.Check, finding.Transfer})
			require.True(t, strings.HasPrefix(finding.Detail, row.detail), finding.Detail)
			require.Contains(t, finding.Advice, "an answer was forged (temporal activity complete)")

			repaired := w.Worker(t, "verify", "--temporal", "--repair")
			require.Equal(t, 1, repaired.Code)
			require.Contains(t, repaired.Stdout, "WRONG  outcome: transfer/rent: "+row.detail)
			require.NotContains(t, repaired.Stdout, "started again", "its workflow has ended: a person decides")

			if row.mended == nil {
				require.Empty(t, finding.Command)
				require.Contains(t, finding.Advice, "Don't run it again")
				return
			}
			args := strings.Fields(finding.Command)
			require.Equal(t, "temporal", args[0])
			require.Equal(t, 0, w.TemporalCLI(t, args[1:]...).Code)
			require.Equal(t, row.said, w.AwaitEnd(t, in.ID).State)
			require.ElementsMatch(t, row.mended, w.Steps(t, in.ID))
			require.True(t, forged(t, w).OK)
		})
	}
}

// forged reconciles when Temporal's list has the transfer, and returns what is found, in the books too.
func forged(t *testing.T, w *harness.World) (view reconcile.View) {
	t.Helper()
	harness.Eventually(t, "the list has all workflows", func() bool {
		view = reconcile.View{}
		w.Worker(t, "verify", "--temporal", "--output", "json").Decode(t, &view)
		return view.Temporal.Agreed+view.Temporal.FindingsCount >= 2
	})
	return view
}

// An outcome that was forged for a group is found too, by the transfers whose end it told.
func TestForgedGroup(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	holding := w.StartFaultWorker(t, harness.FaultConfig{Options: patiently, Faults: []string{
		"post/before=block;for=1h;transfer=forged", "post/before=block;for=1h;transfer=also",
	}})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "us", "")
	group := workflows.GroupInput{}
	for _, id := range []string{"forged", "also"} {
		group.Transfers = append(group.Transfers, workflows.TransferInput{ID: id, From: alice, To: bob, Amount: "1", Asset: "USD"})
	}
	start := func(id string, in workflows.GroupInput) client.WorkflowRun {
		run, err := w.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: workflows.GroupWorkflowID(id), TaskQueue: workflows.TaskQueue},
			workflows.TransferGroupWorkflow, in)
		require.NoError(t, err)
		return run
	}
	run := start("1", group)
	var held string
	harness.Eventually(t, "the group's step is under way", func() bool {
		described, err := w.Temporal.DescribeWorkflow(t.Context(), run.GetID(), "")
		require.NoError(t, err)
		for _, pending := range described.RawResponse.GetPendingActivities() {
			if pending.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED {
				held = pending.GetActivityId()
			}
		}
		return held != ""
	})
	holding.AwaitStrike(t, "post/before", "forged")
	holding.AwaitStrike(t, "post/before", "also")
	applied := activities.PostAnswer{State: ledger.OutcomeApplied, At: time.Now()}
	text, err := json.Marshal(activities.PostGroupOutput{Answers: []activities.PostAnswer{applied, applied}})
	require.NoError(t, err)
	complete := w.TemporalCLI(t, "activity", "complete", "--workflow-id", run.GetID(), "--activity-id", held, "--result", string(text))
	require.Equal(t, 0, complete.Code)
	var told workflows.GroupResult
	require.NoError(t, run.Get(t.Context(), &told))
	require.Equal(t, workflows.StateCompleted, told.Ends[0].State)
	require.NoError(t, holding.Kill())
	require.Empty(t, w.Steps(t, "forged"))
	w.StartWorker(t, harness.WorkerConfig{})
	honest := workflows.GroupInput{Transfers: []workflows.TransferInput{
		{ID: "honest", From: alice, To: bob, Amount: "1", Asset: "USD"}, {ID: "refused", From: alice, To: "us/nobody", Amount: "1", Asset: "USD"},
	}}
	require.NoError(t, start("2", honest).Get(t.Context(), &told))

	var view reconcile.View
	harness.Eventually(t, "the list has both groups", func() bool {
		_, view = reconciled(t, w)
		return view.Temporal.Grouped+view.Temporal.FindingsCount == 4
	})
	require.False(t, view.OK)
	require.EqualValues(t, 2, view.Temporal.Grouped)
	require.Len(t, view.Temporal.Findings, 2)
	for i, in := range group.Transfers {
		finding := view.Temporal.Findings[i]
		require.Equal(t, workflows.TransferWorkflowID(in.ID), finding.Transfer)
		require.Equal(t, "the workflow group/1 said that it ended as completed; the books have nothing of it", finding.Detail)
		finish(t, w, finding.Command)
		require.Equal(t, []string{"us post applied"}, w.Steps(t, in.ID))
	}
	code, view := reconciled(t, w)
	require.Equal(t, exitDone, code)
	require.EqualValues(t, 4, view.Temporal.Grouped)
	require.Equal(t, "17.00", w.Balance(t, alice))
}
