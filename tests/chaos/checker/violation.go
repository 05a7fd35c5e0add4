package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Rule is one of the promises.
type Rule string

// The rules.
const (
	// RuleBooks: entries sum to zero, balances equal entries, versions are gapless, and each applied operation has exactly
	// its entries.
	RuleBooks Rule = "books"
	// RuleOnce: at most one applied operation per key and per step of a transfer; a transfer is never both paid in and
	// refunded; a repeat changes nothing.
	RuleOnce Rule = "once"
	// RuleTruth: what a client was told, and what a workflow returned, is what the ledgers hold.
	RuleTruth Rule = "truth"
	// RuleConservation: transit nets to what persons have left there, no other transfer's money is on its way, and the total
	// per asset is what it was.
	RuleConservation Rule = "conservation"
	// RuleOrder: each account's entries and refusals are one history that fits the times at which clients asked and were
	// told.
	RuleOrder Rule = "order"
	// RuleLiveness: nothing is open for ever, everybody was told an end, no step was set aside without a cause, and what
	// nothing was done to is not held up.
	RuleLiveness Rule = "liveness"
)

// Violation is one thing that is wrong.
type Violation struct {
	Rule   Rule
	Detail string
	// Transfer is the ID of the transfer that it is about, if it is about one; payout/ID for a payout. Account is "us/alice" likewise.
	Transfer string
	Account  string
}

// String is one line.
func (v Violation) String() string {
	subject := ""
	switch {
	case v.Transfer != "":
		subject = "transfer " + v.Transfer + ": "
		if strings.HasPrefix(v.Transfer, payoutPrefix) {
			subject = v.Transfer + ": "
		}
	case v.Account != "":
		subject = "account " + v.Account + ": "
	}
	return string(v.Rule) + ": " + subject + v.Detail
}

// findings collects violations.
type findings []Violation

func (f *findings) transfer(rule Rule, id, format string, args ...any) {
	*f = append(*f, Violation{Rule: rule, Transfer: id, Detail: fmt.Sprintf(format, args...)})
}

func (f *findings) account(rule Rule, ledger, account, format string, args ...any) {
	*f = append(*f, Violation{Rule: rule, Account: ledger + "/" + account, Detail: fmt.Sprintf(format, args...)})
}

func (f *findings) add(rule Rule, format string, args ...any) {
	*f = append(*f, Violation{Rule: rule, Detail: fmt.Sprintf(format, args...)})
}

// Check judges the evidence. The violations are ordered by rule and subject, the same for the same evidence.
func Check(e *Evidence) []Violation {
	x := newIndex(e)
	var found findings
	for i := range e.Ledgers {
		x.checkBooks(&e.Ledgers[i], &found)
	}
	x.checkOnce(&found)
	x.checkRepeats(&found)
	x.checkTruth(&found)
	x.checkConservation(&found)
	x.checkOrder(&found)
	x.checkPayouts(&found)
	x.checkLiveness(&found)
	order := []Rule{RuleBooks, RuleOnce, RuleTruth, RuleConservation, RuleOrder, RuleLiveness}
	slices.SortStableFunc(found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Rule), slices.Index(order, b.Rule)),
			cmp.Compare(a.Transfer, b.Transfer), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Detail, b.Detail))
	})
	return slices.CompactFunc(found, func(a, b Violation) bool { return a == b })
}
