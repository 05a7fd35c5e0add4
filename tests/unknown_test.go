package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
	"payonce/tests/harness"
	"payonce/workflows"
)

// Case 18 (killbill#1015): an outcome that nobody heard is unknown and not failed, however long nobody hears it. Every
// attempt of a step is committed and its answer lost, or comes too late; then the ledger is asked, and the transfer goes on
// from what it says.
func TestAnswersLost(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Faults: []string{
		"post/after=drop:always;transfer=post-drop",
		"post/after=fail:always;transfer=post-fail",
		"withdraw/after=drop:always;transfer=withdraw-drop",
		"withdraw/after=fail:always;transfer=withdraw-fail",
		"withdraw/after=panic:always;transfer=withdraw-panic",
		"deposit/after=drop:always;transfer=deposit-drop",
		"deposit/after=fail:always;transfer=deposit-fail",
		"deposit/before=fail:always;transfer=resolve-drop", "resolve/after=drop:2;transfer=resolve-drop", "refund/after=drop:2;transfer=resolve-drop",
	}})
	// Each attempt that comes too late costs its time-out.
	late := harness.New(t, harness.Config{})
	lateWorker := late.StartFaultWorker(t, harness.FaultConfig{Options: givingUp, Faults: []string{"deposit/after=block:always;transfer=deposit-block"}})
	completed := []string{"us withdraw applied", "eu deposit applied"}
	back := []string{"us withdraw applied", "us refund applied", "eu deposit sealed attempts_exhausted"}
	for _, row := range []struct {
		id       string
		to       string
		state    workflows.State
		steps    []string
		resolved string // the step whose outcome was asked for
	}{
		{"post-drop", "us", workflows.StateCompleted, []string{"us post applied"}, "post"},
		{"post-fail", "us", workflows.StateCompleted, []string{"us post applied"}, "post"},
		{"withdraw-drop", "eu", workflows.StateCompleted, completed, "withdraw"},
		{"withdraw-fail", "eu", workflows.StateCompleted, completed, "withdraw"},
		{"withdraw-panic", "eu", workflows.StateCompleted, completed, "withdraw"},
		{"deposit-drop", "eu", workflows.StateCompleted, completed, "deposit"},
		{"deposit-fail", "eu", workflows.StateCompleted, completed, "deposit"},
		{"deposit-block", "eu", workflows.StateCompleted, completed, "deposit"},
		{"resolve-drop", "eu", workflows.StateCompensated, back, "deposit"},
	} {
		t.Run(row.id, func(t *testing.T) {
			t.Parallel()
			w, worker := w, worker
			if row.id == "deposit-block" {
				w, worker = late, lateWorker
			}
			from, to := w.Account(t, "us", "20.00"), w.Account(t, row.to, "")
			in := workflows.TransferInput{ID: row.id, From: from, To: to, Amount: "10", Asset: "USD"}
			result := w.Transfer(t, in)
			require.Equal(t, row.state, result.State)
			require.Equal(t, row.steps, w.Steps(t, in.ID))
			if row.state == workflows.StateCompleted {
				require.Equal(t, []string{"10.00", "10.00"}, w.Balances(t, from, to))
			} else {
				require.Equal(t, []string{"20.00", "0.00"}, w.Balances(t, from, to))
			}
			answer := worker.AwaitAnswer(t, fault.KindResolve, in.ID)
			require.Equal(t, workflows.StepKey(workflows.TransferWorkflowID(in.ID), workflows.Step(row.resolved)), answer.Key)
			if row.state == workflows.StateCompleted {
				require.Equal(t, ledger.OutcomeApplied, answer.State)
				require.True(t, answer.Repeat, "it had been recorded all the time")
			}
		})
	}
}

// givingUp is harness.Durable for forward steps that are given up, after time-outs that no other attempt meets.
func givingUp(o *workflows.Options) {
	unhurried(o)
	harness.Durable(o)
	o.Forward.TimeoutStartToClose = 10 * time.Second
}

// Case 24 (river#1135): an attempt that was given up goes on running. A worker freezes inside a deposit, others give it up
// and take the money back; when the first one thaws, its write is refused.
func TestLateAttempt(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault.Kind{fault.KindWithdraw, fault.KindDeposit} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			point := string(kind) + "/before"
			w := harness.New(t, harness.Config{})
			frozen := w.StartFaultWorker(t, harness.FaultConfig{
				Options: givingUp, Faults: []string{point + "=freeze;transfer=rent"},
			})
			from, to := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
			in := workflows.TransferInput{ID: "rent", From: from, To: to, Amount: "10", Asset: "USD"}
			w.Start(t, in)
			frozen.AwaitStrike(t, point, in.ID)
			// What the others try of this step fails, so that it has to be given up.
			w.StartFaultWorker(t, harness.FaultConfig{Options: givingUp, Faults: []string{point + "=fail:always;transfer=rent"}})

			result := w.AwaitEnd(t, in.ID)
			steps := []string{"us withdraw sealed attempts_exhausted"}
			if kind == fault.KindDeposit {
				require.Equal(t, workflows.StateCompensated, result.State)
				steps = []string{"us withdraw applied", "us refund applied", "eu deposit sealed attempts_exhausted"}
			} else {
				require.Equal(t, workflows.StateFailed, result.State)
			}
			require.Equal(t, steps, w.Steps(t, in.ID))
			require.Equal(t, []string{"20.00", "0.00"}, w.Balances(t, from, to))

			require.NoError(t, frozen.Thaw())
			late := frozen.AwaitEvent(t, "the late attempt is answered", func(e fault.Event) bool {
				return e.Event == fault.EventAnswer && e.Point == (fault.Point{Kind: kind, Moment: fault.After})
			})
			require.Equal(t, ledger.OutcomeSealed, late.State, "it has met the seal")
			require.Equal(t, steps, w.Steps(t, in.ID))
			require.Equal(t, []string{"20.00", "0.00"}, w.Balances(t, from, to))
			require.Equal(t, result, w.Transfer(t, in))
		})
	}
}
