package demo

import (
	"fmt"
	"strings"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
)

// words are what an announcement tells a newcomer; "" is nothing.
func words(e *fault.Event) (What, string) {
	switch e.Event {
	case fault.EventFault:
		return WhatFault, faultWords(e)
	case fault.EventResumed:
		return WhatFault, "goes on with its " + step(e.Point.Kind) + ", where it was"
	case fault.EventAnswer:
		return answerWords(e)
	case fault.EventReady:
		return "", ""
	default:
		return "", ""
	}
}

func faultWords(e *fault.Event) string {
	name := step(e.Point.Kind)
	when := "before the " + name + " reaches the ledger"
	if e.Point.Moment == fault.After {
		when = "after the " + name + "'s COMMIT, before it can tell"
	}
	if e.Point.Kind == fault.KindEntries {
		when = "in the middle of A's statement"
	}
	switch e.Action {
	case fault.ActionKill:
		return "is KILLED (SIGKILL) " + when
	case fault.ActionFreeze:
		return "is FROZEN (SIGSTOP) " + when
	case fault.ActionBlock, fault.ActionHold:
		return "HANGS " + when
	case fault.ActionFail:
		return doing(e) + ", " + attempt(e) + ": FAILS"
	case fault.ActionPanic:
		return "PANICS " + when
	case fault.ActionDrop:
		return "the reply is LOST, after the " + name + "'s COMMIT"
	default:
		return string(e.Action) + " " + when
	}
}

func answerWords(e *fault.Event) (What, string) {
	what := doing(e)
	if e.Attempt > 1 {
		what += ", " + attempt(e)
	}
	switch {
	case e.Error != "":
		return WhatFault, what + ": " + e.Error
	case e.Point.Kind == fault.KindResolve && e.State == ledger.OutcomeSealed && !e.Repeat:
		return WhatStep, what + ": no outcome, so sealed: it can never apply now"
	case e.Point.Kind == fault.KindResolve:
		return WhatStep, what + ": its outcome is " + string(e.State)
	case e.Point.Kind == fault.KindNaiveWithdraw || e.Point.Kind == fault.KindNaiveDeposit:
		return WhatStep, what + ": done"
	case e.State == ledger.OutcomeSealed:
		return WhatRepeat, what + ": sealed, it can never apply; nothing moves"
	case e.Repeat:
		return WhatRepeat, fmt.Sprintf("%s: a repeat: %s before, nothing moves now", what, e.State)
	case e.State == ledger.OutcomeRefused:
		return WhatStep, fmt.Sprintf("%s: refused (%s)", what, e.Code)
	default:
		return WhatStep, what + ": " + string(e.State)
	}
}

// doing is what a write does: "deposit 10.00 to B".
func doing(e *fault.Event) string {
	switch e.Point.Kind { //nolint:exhaustive // the others are named as they are
	case fault.KindWithdraw, fault.KindNaiveWithdraw:
		return "withdraw " + amount + " from A"
	case fault.KindDeposit, fault.KindNaiveDeposit:
		return "deposit " + amount + " to B"
	case fault.KindRefund:
		return "refund " + amount + " to A"
	case fault.KindPost:
		return "post " + amount + " from A to B"
	case fault.KindEntries:
		return "read A's entries"
	case fault.KindReserve:
		return "reserve " + amount + " of A for the bank"
	case fault.KindSettle:
		return "settle " + amount + ": paid by the bank"
	case fault.KindResolve:
		// Under the key of the step that it resolves.
		return "resolve the " + e.Key[strings.LastIndexByte(e.Key, '/')+1:]
	default:
		return string(e.Point.Kind)
	}
}

// step is the name of the step that a write is: "deposit".
func step(kind fault.Kind) string { return strings.TrimPrefix(string(kind), "naive-") }

// attempt is which one of its way this is.
func attempt(e *fault.Event) string {
	if e.Local {
		return fmt.Sprintf("fast path, attempt %d", e.Attempt)
	}
	return fmt.Sprintf("attempt %d", e.Attempt)
}
