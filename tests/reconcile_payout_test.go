package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"payonce/internal/railsim/sim"
	"payonce/internal/reconcile"
	"payonce/tests/harness"
	"payonce/workflows"
)

// Whatever their ends, payouts that nobody has meddled with are no finding; one that has bounced after its end neither.
func TestReconcilePayouts(t *testing.T) {
	t.Parallel()
	w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
		w.StartWorker(t, harness.WorkerConfig{Env: rail.Env()})
	})
	w.rail.Plan(t, "no", sim.Plan{Outcome: "rejected", Code: "ac01"})
	much := w.in("much")
	much.Amount = "1000"
	for _, row := range []struct {
		in   workflows.PayoutInput
		code int
	}{{w.in("rent"), exitDone}, {w.in("bounced"), exitDone}, {w.in("no"), exitFailed}, {much, exitRejected}} {
		code, _ := w.CLIPayout(t, row.in)
		require.Equal(t, row.code, code, row.in.ID)
	}
	w.rail.Decide(t, "bounced", "returned")
	w.check(t, "bounced")
	w.AwaitPayout(t, "bounced", workflows.StateReturned)
	// The funding, and four payouts: of the one that was opened again only the latest run counts.
	const closed = 5
	code, view := awaitReconciled(t, w.World, closed)
	require.Equal(t, exitDone, code, "%+v", view.Temporal.Findings)
	require.EqualValues(t, closed, view.Temporal.Agreed)

	t.Run("an end that the books don't have", func(t *testing.T) {
		forge(t, w.World, w.in("forged"), workflows.StateSettled)
		forge(t, w.World, w.in("rent"), workflows.StateReturned)
		var code int
		var view reconcile.View
		harness.Eventually(t, "the list has both", func() bool {
			code, view = awaitReconciled(t, w.World, closed+1)
			return view.Temporal.FindingsCount == 2
		})
		require.Equal(t, 1, code)
		want := map[string]string{
			"payout/forged": "its workflow ended as settled; the books have nothing of it",
			"payout/rent":   "its workflow ended as returned; the books have it settled (reserve applied, settle applied)",
		}
		got := make(map[string]string)
		for _, f := range view.Temporal.Findings {
			require.Equal(t, string(reconcile.CheckOutcome), f.Check)
			require.Empty(t, f.Command, "the payee may have been paid")
			got[f.Transfer] = f.Detail
		}
		require.Equal(t, want, got)
	})
}

// forge has a payout's workflow end as a worker says that is none of ours.
func forge(t *testing.T, w *harness.World, in workflows.PayoutInput, state workflows.State) {
	t.Helper()
	const queue = "forgery"
	forger := worker.New(w.Temporal, queue, worker.Options{})
	forger.RegisterWorkflowWithOptions(func(workflow.Context, workflows.PayoutInput) (workflows.PayoutResult, error) {
		return workflows.PayoutResult{ID: in.ID, State: state, From: in.From}, nil
	}, workflow.RegisterOptions{Name: workflows.PayoutWorkflow})
	require.NoError(t, forger.Start())
	defer forger.Stop()
	options := client.StartWorkflowOptions{ID: workflows.PayoutWorkflowID(in.ID), TaskQueue: queue}
	run, err := w.Temporal.ExecuteWorkflow(t.Context(), options, workflows.PayoutWorkflow, in)
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
}

// A payout that somebody has ended with money reserved is found with the command that goes on with it, whole; so does --repair.
func TestReconcileReservedPayout(t *testing.T) {
	t.Parallel()
	for name, repair := range map[string]bool{"asked for again": false, "repaired": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
				w.StartWorker(t, harness.WorkerConfig{Env: rail.Env()})
			})
			w.rail.Plan(t, "rent", sim.Plan{Outcome: "pending"})
			code, _ := w.CLIPayout(t, w.in("rent"), "--wait=false", "--memo=it's", "--metadata=house=3", "--notify=books")
			require.Equal(t, exitDone, code)
			w.AwaitPayout(t, "rent", workflows.StatePending)
			require.NoError(t, w.Temporal.TerminateWorkflow(t.Context(), workflows.PayoutWorkflowID("rent"), "", "a test"))

			code, view := reconciled(t, w.World)
			require.Equal(t, 1, code)
			require.Len(t, view.Temporal.Findings, 1)
			finding := view.Temporal.Findings[0]
			require.Equal(t, "its workflow was closed as terminated; the books have 10.00 USD/2 reserved in us/rail:bank", finding.Detail)
			require.Equal(t, "starter payout --id rent --from "+w.alice+" --rail bank --amount 10.00 --asset USD/2 --payee iban=DE89370400440532013000"+
				` --memo 'it'\''s' --metadata house=3 --notify books`, finding.Command)

			w.rail.Decide(t, "rent", "settled")
			if repair {
				code, view = reconciled(t, w.World, "--repair")
				require.Equal(t, 1, code)
				require.EqualValues(t, 1, view.Temporal.Started)
				require.Contains(t, view.Temporal.Findings[0].Repair, "started again, run ")
			} else {
				finish(t, w.World, strings.ReplaceAll(finding.Command, "starter payout", "starter payout --output=json"))
			}
			w.AwaitPayout(t, "rent", workflows.StateSettled)
			events := w.Temporal.GetWorkflowHistory(t.Context(), workflows.PayoutWorkflowID("rent"), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			event, err := events.Next()
			require.NoError(t, err)
			var again workflows.PayoutInput
			require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(event.GetWorkflowExecutionStartedEventAttributes().GetInput(), &again))
			want := w.in("rent")
			want.Amount, want.Asset, want.Memo, want.Metadata, want.Notify = "10.00", "USD/2", "it's", map[string]string{"house": "3"}, []string{"books"}
			require.Equal(t, want, again, "it is the same request")
			require.Equal(t, []string{"us reserve applied", "us settle applied"}, w.PayoutSteps(t, "rent"))
			require.Equal(t, sim.Sums{Payouts: 1, Sent: 1}, w.rail.Books(t).References["rent"])
			code, view = awaitReconciled(t, w.World, 3)
			require.Equal(t, exitDone, code, "%+v", view.Temporal.Findings)
		})
	}
}
