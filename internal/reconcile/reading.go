package reconcile

import (
	"fmt"
	"strings"
	"time"

	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/workflows"
)

// standing is how far a transfer has come in the books.
type standing int

const (
	standingNothing    standing = iota // no step of it is recorded
	standingUnfinished                 // the money has left, and has neither arrived nor come back
	standingEnded                      // nothing of it is left to do
	standingBroken                     // the steps don't follow from each other: a finding of the books themselves
	standingUnseen                     // a part of it is on a ledger that was not given
)

// reading is what the books say of a transfer.
type reading struct {
	standing standing
	state    workflows.State  // how it ended, if it did
	first    *postgres.Record // its post or withdraw
	deposit  *postgres.Record
	refund   *postgres.Record
	lastAt   time.Time // of its latest step
	steps    string    // for a person: "withdraw applied, deposit refused"
}

// read reads what the books have of a transfer from the recorded outcomes of its steps. given says which ledgers they were looked for on.
func read(records []postgres.Record, given func(ledgerName string) bool) reading {
	var r reading
	for i := range records {
		record := &records[i]
		if i > 0 {
			r.steps += ", "
		}
		r.steps += string(record.Operation.Kind) + " " + string(record.Outcome.State)
		if record.Outcome.At.After(r.lastAt) {
			r.lastAt = record.Outcome.At
		}
		slot := &r.first
		switch record.Operation.Kind { //nolint:exhaustive // the others are a payout's
		case ledger.KindPost, ledger.KindWithdraw:
		case ledger.KindDeposit:
			slot = &r.deposit
		case ledger.KindRefund:
			slot = &r.refund
		}
		if *slot != nil {
			r.standing = standingBroken
			return r
		}
		*slot = record
	}
	r.standing, r.state = r.judge(given)
	return r
}

func (r *reading) judge(given func(string) bool) (standing, workflows.State) {
	first, deposit, refund := r.first, r.deposit, r.refund
	switch {
	case first == nil && deposit == nil && refund == nil:
		return standingNothing, ""
	case first == nil && deposit != nil && !given(otherLedger(deposit)):
		return standingUnseen, ""
	case first == nil, !applied(first) && (applied(deposit) || applied(refund)):
		return standingBroken, ""
	case first.Operation.Kind == ledger.KindWithdraw && applied(first) && len(first.Operation.Legs) != 1:
		return standingBroken, ""
	case first.Operation.Kind == ledger.KindWithdraw && applied(first) && !given(otherLedger(first)):
		return standingUnseen, ""
	case applied(refund) && (deposit == nil || applied(deposit)):
		// A refund follows a deposit that is known never to apply.
		return standingBroken, ""
	}
	if end, _ := workflows.Recall(r.recorded); end != "" {
		return standingEnded, end
	}
	return standingUnfinished, ""
}

// recorded is the outcome of a step, or "".
func (r *reading) recorded(step workflows.Step) (ledger.OutcomeState, ledger.Code) {
	for _, record := range []*postgres.Record{r.first, r.deposit, r.refund} {
		if record != nil && workflows.Step(record.Operation.Kind) == step {
			return record.Outcome.State, record.Outcome.Code
		}
	}
	return "", ""
}

func applied(r *postgres.Record) bool { return r != nil && r.Outcome.State == ledger.OutcomeApplied }

// otherLedger is the ledger that a record's money went to or came from. A counterparty that can't be read is a finding of the
// books, and names no ledger.
func otherLedger(r *postgres.Record) string {
	ref, err := ledger.ParseAccountRef("counterparty", r.Operation.Counterparty)
	if err != nil {
		return ""
	}
	return ref.Ledger
}

// safeToRunAgain says that the steps can be run again from the first, and the money moves as it should have: none of it has
// gone both ways, nor can it.
func (r *reading) safeToRunAgain(said workflows.State) bool {
	switch r.standing {
	case standingUnfinished:
		return true
	case standingNothing:
		return said == workflows.StateCompleted
	case standingBroken:
		return r.first == nil && applied(r.deposit) && r.refund == nil
	case standingEnded, standingUnseen:
		return false
	default:
		return false
	}
}

// String tells a person what the books have.
func (r *reading) String() string {
	switch r.standing {
	case standingNothing:
		return "nothing of it"
	case standingUnfinished:
		leg := &r.first.Operation.Legs[0]
		return fmt.Sprintf("%s %s in transit from %s/%s to %s (%s)", leg.Amount.Format(leg.Asset), leg.Asset, r.first.Ledger, leg.From,
			r.first.Operation.Counterparty, r.steps)
	case standingEnded:
		return fmt.Sprintf("it %s (%s)", r.state, r.steps)
	case standingBroken:
		return fmt.Sprintf("steps that don't follow from each other (%s)", r.steps)
	case standingUnseen:
		return fmt.Sprintf("a part of it on ledgers that were not given (%s)", r.steps)
	default:
		return ""
	}
}

// request is the transfer that a withdraw is the first step of, as whoever asked for it would ask again.
func (r *reading) request() workflows.TransferInput {
	o := &r.first.Operation
	leg := &o.Legs[0]
	return workflows.TransferInput{
		ID: strings.TrimPrefix(r.first.Transfer, workflows.TransferWorkflowID("")), From: r.first.Ledger + "/" + leg.From, To: o.Counterparty,
		Amount: leg.Amount.Format(leg.Asset), Asset: leg.Asset.String(), Memo: o.Memo, Metadata: o.Metadata,
	}
}
