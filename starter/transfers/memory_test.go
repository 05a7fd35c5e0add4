package transfers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/ledger"
	"payonce/workflows"
)

func TestRecall(t *testing.T) {
	operation := func(kind ledger.Kind, state ledger.OutcomeState, code ledger.Code) activities.OperationView {
		view := activities.OperationView{
			Kind: kind, Amount: "10.00", Asset: "USD/2",
			StepOutcome: activities.StepOutcome{State: state, Code: code, Detail: "because"},
		}
		switch kind { //nolint:exhaustive // the others are a payout's
		case ledger.KindPost:
			view.From, view.To = "us/alice", "us/bob"
		case ledger.KindWithdraw:
			view.From, view.To, view.Other = "us/alice", "us/transit:eu", "eu/bob"
		case ledger.KindDeposit:
			view.From, view.To, view.Other = "eu/transit:us", "eu/bob", "us/alice"
		case ledger.KindRefund:
			view.From, view.To, view.Other = "us/transit:eu", "us/alice", "eu/bob"
		}
		return view
	}
	const (
		applied, refused, sealed = ledger.OutcomeApplied, ledger.OutcomeRefused, ledger.OutcomeSealed
		exhausted, cancelled     = ledger.CodeAttemptsExhausted, ledger.CodeCancelled
		frozen                   = ledger.CodeAccountFrozen
	)
	post := func(s ledger.OutcomeState, c ledger.Code) activities.OperationView {
		return operation(ledger.KindPost, s, c)
	}
	withdraw := func(s ledger.OutcomeState, c ledger.Code) activities.OperationView {
		return operation(ledger.KindWithdraw, s, c)
	}
	deposit := func(s ledger.OutcomeState, c ledger.Code) activities.OperationView {
		return operation(ledger.KindDeposit, s, c)
	}
	refund := operation(ledger.KindRefund, applied, "")
	type operations = []activities.OperationView
	for _, row := range []struct {
		name       string
		operations operations
		want       workflows.State
		code       ledger.Code
	}{
		{"post applied", operations{post(applied, "")}, workflows.StateCompleted, ""},
		{"post refused", operations{post(refused, frozen)}, workflows.StateRejected, frozen},
		{"post sealed", operations{post(sealed, exhausted)}, workflows.StateFailed, exhausted},
		{"post cancelled", operations{post(sealed, cancelled)}, workflows.StateCancelled, cancelled},
		{"withdraw refused", operations{withdraw(refused, frozen)}, workflows.StateRejected, frozen},
		{"withdraw sealed", operations{withdraw(sealed, exhausted)}, workflows.StateFailed, exhausted},
		{"withdraw cancelled", operations{withdraw(sealed, cancelled)}, workflows.StateCancelled, cancelled},
		{"in transit", operations{withdraw(applied, "")}, StateUnknown, ""},
		{"arrived", operations{withdraw(applied, ""), deposit(applied, "")}, workflows.StateCompleted, ""},
		{"arrived, seen at the destination alone", operations{deposit(applied, "")}, workflows.StateCompleted, ""},
		{"could not arrive, not back yet", operations{withdraw(applied, ""), deposit(refused, frozen)}, StateUnknown, ""},
		{"given up, seen at the destination alone", operations{deposit(sealed, exhausted)}, StateUnknown, ""},
		{"back after a refusal", operations{withdraw(applied, ""), deposit(refused, frozen), refund}, workflows.StateCompensated, frozen},
		{"back after a seal", operations{withdraw(applied, ""), deposit(sealed, exhausted), refund}, workflows.StateCompensated, exhausted},
		{"back after a cancellation", operations{withdraw(applied, ""), deposit(sealed, cancelled), refund}, workflows.StateCancelled, cancelled},
		{"back, seen at the source alone", operations{withdraw(applied, ""), refund}, workflows.StateCompensated, ""},
		{"back, since another request has the deposit's key", operations{withdraw(applied, ""), deposit(applied, ""), refund}, workflows.StateCompensated, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := recall("t1", row.operations)
			require.Equal(t, row.want, got.State)
			require.Equal(t, row.want != StateUnknown, got.Ended())
			require.Len(t, got.Steps, len(row.operations))
			to := "eu/bob"
			if row.operations[0].Kind == ledger.KindPost {
				to = "us/bob"
			}
			require.Equal(t, workflows.TransferInput{ID: "t1", From: "us/alice", To: to, Amount: "10.00", Asset: "USD/2"}, got.Request)
			if got.Ended() {
				require.Equal(t, row.code, got.Result.Code)
			}
		})
	}
}
