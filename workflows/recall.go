package workflows

import (
	"payonce/activities"
	"payonce/ledger"
)

// Recorded are recorded operations by the steps that they are.
type Recorded map[Step]*activities.OperationView

// Outcome is what Recall and RecallPayout ask for.
func (r Recorded) Outcome(step Step) (ledger.OutcomeState, ledger.Code) {
	if operation := r[step]; operation != nil {
		return operation.State, operation.Code
	}
	return "", ""
}

// Recall is the protocol's table, read backwards: how a transfer has ended, by what the ledgers have recorded of its steps post,
// withdraw, deposit and refund. recorded returns "" for a step that has no outcome on the ledgers that were asked. why is the
// step because of which the transfer did not complete, as far as they have it.
//
// Without an end the state is "": it is under way, or was left before it ended, and the same transfer again goes on from there.
func Recall(recorded func(Step) (ledger.OutcomeState, ledger.Code)) (end State, why Step) {
	first := StepPost
	state, code := recorded(StepPost)
	if state == "" {
		first = StepWithdraw
		state, code = recorded(StepWithdraw)
	}
	deposit, whyDeposit := recorded(StepDeposit)
	refund, whyRefund := recorded(StepRefund)
	switch {
	case state == ledger.OutcomeRefused:
		return StateRejected, first
	case state == ledger.OutcomeSealed:
		return givenUpAs(code), first
	case state == ledger.OutcomeApplied && first == StepPost:
		return StateCompleted, ""
	case refund == ledger.OutcomeSealed && whyRefund == ledger.CodeDiscarded:
		return StateDiscarded, StepRefund
	case refund == ledger.OutcomeApplied && (deposit == ledger.OutcomeRefused || deposit == ledger.OutcomeSealed):
		return takenBackAs(deposit, whyDeposit), StepDeposit
	case refund == ledger.OutcomeApplied:
		// Why it did not arrive is on a ledger that was not asked; or the deposit's key was taken by another request.
		return StateCompensated, ""
	case deposit == ledger.OutcomeApplied:
		return StateCompleted, ""
	default:
		return "", ""
	}
}

// RecallPayout is Recall for a payout, of its steps reserve, settle, return and bounce, which are all on one ledger. Without an end
// the state is "": money is reserved, and the same payout again has its rail asked.
func RecallPayout(recorded func(Step) (ledger.OutcomeState, ledger.Code)) State {
	applied := func(step Step) bool {
		state, _ := recorded(step)
		return state == ledger.OutcomeApplied
	}
	switch state, code := recorded(StepReserve); {
	case state == ledger.OutcomeRefused:
		return StateRejected
	case state == ledger.OutcomeSealed:
		return givenUpAs(code)
	case applied(StepReturn), applied(StepBounce):
		return StateReturned
	case applied(StepSettle):
		return StateSettled
	default:
		return ""
	}
}
