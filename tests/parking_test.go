package tests

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/transfers"
	"payonce/tests/harness"
	"payonce/workflows"
)

// parkedRefund brings a transfer to where its money can't go on, since the payee's account is closed, nor back, since the
// payer's ceiling was lowered while it was away. Options are short, so that it is parked soon.
func parkedRefund(t *testing.T, w *harness.World) (in workflows.TransferInput, status workflows.TransferStatus) {
	t.Helper()
	w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Ledgers: []string{"us"}})
	destination := w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Ledgers: []string{"eu"}})
	in = workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD"}
	w.Set(t, activities.AccountSetInput{Account: in.To, Status: "closed"})
	require.NoError(t, destination.Stop(t.Context()))

	w.Start(t, in)
	w.AwaitStep(t, in.ID, "us withdraw applied")
	w.AwaitEvent(t, workflows.TransferWorkflowID(in.ID), enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	w.Set(t, activities.AccountSetInput{Account: in.From, Ceiling: "15"})
	w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Ledgers: []string{"eu"}})
	return in, w.AwaitParked(t, in.ID, 1)
}

// decide sends a decision under an update ID.
func decide(t *testing.T, w *harness.World, id, updateID string, decision workflows.Decision) (workflows.TransferStatus, error) {
	t.Helper()
	var status workflows.TransferStatus
	ctx := harness.Within(t, patience)
	handle, err := w.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflows.TransferWorkflowID(id), UpdateName: workflows.DecideUpdate, UpdateID: updateID,
		Args: []any{decision}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &status)
	}
	return status, err
}

// Case 82 (temporal community forum 2403): when even the way back is closed, the transfer waits for a person, says where the
// money is, and does what the person decides, once.
func TestParked(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	in, status := parkedRefund(t, w)
	transit := "us/transit:eu"
	require.Equal(t, workflows.StateParked, status.State)
	require.Equal(t, workflows.Parking{
		Number: 1, Run: status.Parking.Run, Step: workflows.StepRefund, Error: status.Parking.Error, Since: status.Parking.Since,
		Place: ledger.PlaceTransit, Account: transit, Choices: []workflows.Action{workflows.ActionRetry, workflows.ActionCompensate, workflows.ActionDiscard},
	}, *status.Parking)
	require.Contains(t, status.Parking.Error, "may not rise above 15.00")
	require.Equal(t, []string{"10.00", "0.00"}, w.Balances(t, in.From, in.To))
	require.Equal(t, "10.00", w.InTransit(t, "us", "eu"))

	t.Run("told to those who ask", func(t *testing.T) {
		for _, command := range [][]string{{"status", in.ID}, harness.TransferArgs(in), append(harness.TransferArgs(in), "--wait=false")} {
			// The command asks the transfer itself, which may not answer in the time that it has for that.
			harness.Eventually(t, command[0]+" tells the parking", func() bool {
				told := w.CLI(t, command...)
				require.Equal(t, exitPending, told.Code)
				got := told.Transfer(t)
				require.Equal(t, workflows.StateParked, got.State)
				if got.Parking != nil {
					require.Equal(t, status.Parking, got.Parking)
				}
				return got.Parking != nil
			})
		}
		other := in
		other.Amount = "11"
		require.Equal(t, exitDifferent, w.CLITransfer(t, other).Code)

		var letters []activities.DeadLetterView
		harness.Eventually(t, "the dead letter is written", func() bool {
			letters = deadLetters(t, w.CLI(t, "deadletter", "list", "us"))
			return len(letters) == 1
		})
		letter := letters[0]
		require.True(t, letter.Parked)
		require.Equal(t, ledger.DeadLetterOpen, letter.State)
		require.Equal(t, []string{in.ID, "refund", "transfer/rent/refund"}, []string{letter.Transfer, letter.Step, letter.Key})
		require.Equal(t, []string{"transit", transit, "10.00", "USD/2"}, []string{string(letter.Place), letter.Account, letter.Amount, letter.Asset})
		require.Equal(t, []string{"retry", "compensate", "discard"}, letter.Choices)
		require.Equal(t, []any{status.Parking.Run, 1}, []any{letter.Run, letter.Parking})
		require.EqualValues(t, harness.ShortOptions().Settle.AttemptsMax, letter.Attempts)
		shown := w.CLI(t, "deadletter", "show", in.ID)
		require.Equal(t, exitDone, shown.Code)
		story := deadLetterStory(t, shown)
		require.Contains(t, story.Error, letter.Error)
		require.Equal(t, "ReversalBlocked", story.ErrorType)
		require.Equal(t, []string{"set-aside"}, actionsOf(&story))

		code, verified := w.Verify(t)
		require.Equal(t, 0, code)
		require.Len(t, verified.InTransit, 1)
		require.Equal(t, in.From, verified.InTransit[0].From, "whose money is in transit")
	})

	t.Run("decisions that make no sense are refused", func(t *testing.T) {
		for name, decision := range map[string]workflows.Decision{
			"another parking": {Action: workflows.ActionRetry, Parking: 2, By: "carol"},
			"nobody":          {Action: workflows.ActionRetry, Parking: 1},
			"another action":  {Action: "forget", Parking: 1, By: "carol"},
		} {
			_, err := decide(t, w, in.ID, name, decision)
			var refused *temporal.ApplicationError
			require.ErrorAs(t, err, &refused, name)
			require.Equal(t, workflows.ErrorDecisionRefused, refused.Type())
		}
		require.Equal(t, 1, w.Status(t, in.ID).Parking.Number)
	})

	// Tried again with nothing changed, it is parked again.
	first := workflows.Decision{Action: workflows.ActionRetry, Parking: 1, By: "carol", Reason: "perhaps it works now"}
	taken, err := decide(t, w, in.ID, "look-1", first)
	require.NoError(t, err)
	w.AwaitParked(t, in.ID, 2)

	// The same update again is answered as before, and is not another decision.
	for range 2 {
		again, err := decide(t, w, in.ID, "look-1", first)
		require.NoError(t, err)
		require.Equal(t, taken, again)
	}
	require.Equal(t, 2, w.Status(t, in.ID).Parking.Number)
	_, err = w.Transfers.Decide(t.Context(), in.ID, workflows.Decision{Action: workflows.ActionRetry, Parking: 1, By: "dave"})
	require.ErrorContains(t, err, "parking 1 was decided about: carol decided to retry on 2", "another update about what is past")
	require.ErrorContains(t, err, "(perhaps it works now)")

	// With room on the account the money goes back, under the same key.
	w.Set(t, activities.AccountSetInput{Account: in.From, Ceiling: "20"})
	_, err = w.Transfers.Decide(t.Context(), in.ID, workflows.Decision{Action: workflows.ActionRetry, Parking: 2, By: "carol"})
	require.NoError(t, err)
	result := w.AwaitEnd(t, in.ID)
	require.Equal(t, workflows.StateCompensated, result.State)
	require.Equal(t, compensated("account_closed"), w.Steps(t, in.ID))
	require.Equal(t, []string{"20.00", "0.00"}, w.Balances(t, in.From, in.To))
	require.Equal(t, exitFailed, w.CLITransfer(t, in).Code)

	// After the end too: decisions are answered as before, or refused.
	again, err := decide(t, w, in.ID, "look-1", first)
	require.NoError(t, err)
	require.Equal(t, taken, again)
	_, err = w.Transfers.Decide(t.Context(), in.ID, workflows.Decision{Action: workflows.ActionCompensate, Parking: 3, By: "carol"})
	require.ErrorIs(t, err, transfers.ErrEnded)

	require.Empty(t, deadLetters(t, w.CLI(t, "deadletter", "list", "us")))
	closed := deadLetters(t, w.CLI(t, "deadletter", "list", "us", "--state", "closed"))
	require.Len(t, closed, 1)
	require.Equal(t, "retry by carol; the transfer ended as compensated", closed[0].Resolution)
	require.Equal(t, []any{ledger.PlaceSource, in.From}, []any{closed[0].Place, closed[0].Account}, "where the money is now")
	story := deadLetterStory(t, w.CLI(t, "deadletter", "show", in.ID))
	require.Equal(t, []string{"set-aside", "retry by carol: perhaps it works now", "set-aside", "retry by carol", "end"}, actionsOf(&story))
	require.Equal(t, "look-1", story.Actions[1].UpdateID)
}

// Whatever could not be found out when a transfer was parked, each decision ends it well.
func TestDecisions(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	arrived := []string{"us withdraw applied", "eu deposit applied"}
	back := []string{"us withdraw applied", "us refund applied", "eu deposit sealed attempts_exhausted"}
	stayed := []string{"us withdraw sealed attempts_exhausted"}
	rows := []struct {
		id     string
		to     string
		fault  string
		step   workflows.Step
		action workflows.Action
		state  workflows.State
		steps  []string
	}{
		{"arrived-retry", "eu", "deposit/after=drop:always", workflows.StepResolveDeposit, workflows.ActionRetry, workflows.StateCompleted, arrived},
		// Taken back as far as it can be: what has arrived stays.
		{"arrived-compensate", "eu", "deposit/after=drop:always", workflows.StepResolveDeposit, workflows.ActionCompensate, workflows.StateCompleted, arrived},
		{"away-retry", "eu", "deposit/before=fail:always", workflows.StepResolveDeposit, workflows.ActionRetry, workflows.StateCompensated, back},
		{"away-compensate", "eu", "deposit/before=fail:always", workflows.StepResolveDeposit, workflows.ActionCompensate, workflows.StateCompensated, back},
		{"left-retry", "eu", "withdraw/after=drop:always", workflows.StepResolveWithdraw, workflows.ActionRetry, workflows.StateCompleted, arrived},
		{"left-compensate", "eu", "withdraw/after=drop:always", workflows.StepResolveWithdraw, workflows.ActionCompensate, workflows.StateCompensated, back},
		{"stayed-compensate", "eu", "withdraw/before=fail:always", workflows.StepResolveWithdraw, workflows.ActionCompensate, workflows.StateFailed, stayed},
		{"posted-retry", "us", "post/after=drop:always", workflows.StepResolvePost, workflows.ActionRetry, workflows.StateCompleted, []string{"us post applied"}},
	}
	var faults []string
	for _, row := range rows {
		// Resolving fails until its attempts have run out once.
		faults = append(faults, row.fault+";transfer="+row.id, "resolve/before=fail:4;transfer="+row.id)
	}
	require.EqualValues(t, 4, harness.ShortOptions().Settle.AttemptsMax)
	w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Faults: faults})
	for _, row := range rows {
		t.Run(row.id, func(t *testing.T) {
			t.Parallel()
			in := workflows.TransferInput{ID: row.id, From: w.Account(t, "us", "20.00"), To: w.Account(t, row.to, ""), Amount: "10", Asset: "USD"}
			w.Start(t, in)
			parking := w.AwaitParked(t, in.ID, 1).Parking
			require.Equal(t, row.step, parking.Step)
			require.Equal(t, ledger.PlaceUnknown, parking.Place)
			require.Equal(t, exitPending, w.CLI(t, "status", in.ID).Code)
			_, err := w.Transfers.Decide(t.Context(), in.ID, workflows.Decision{Action: row.action, Parking: 1, By: "carol"})
			require.NoError(t, err)
			require.Equal(t, row.state, w.AwaitEnd(t, in.ID).State)
			require.Equal(t, row.steps, w.Steps(t, in.ID))
		})
	}
}
