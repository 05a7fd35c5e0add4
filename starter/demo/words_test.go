package demo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
)

func TestWords(t *testing.T) {
	t.Parallel()
	at := func(s string) fault.Point {
		point, err := fault.ParsePoint(s)
		require.NoError(t, err)
		return point
	}
	for _, row := range []struct {
		event fault.Event
		what  What
		text  string
	}{
		{fault.Event{Event: fault.EventReady}, "", ""},
		{fault.Event{Event: fault.EventAnswer, Point: at("withdraw/after"), State: ledger.OutcomeApplied, Attempt: 1}, WhatStep, "withdraw 10.00 from A: applied"},
		{fault.Event{Event: fault.EventAnswer, Point: at("deposit/after"), State: ledger.OutcomeApplied, Attempt: 2, Repeat: true}, WhatRepeat, "deposit 10.00 to B, attempt 2: a repeat: applied before, nothing moves now"},
		{fault.Event{Event: fault.EventAnswer, Point: at("deposit/after"), State: ledger.OutcomeRefused, Attempt: 1, Code: ledger.CodeAccountClosed}, WhatStep, "deposit 10.00 to B: refused (account_closed)"},
		{fault.Event{Event: fault.EventAnswer, Point: at("deposit/after"), State: ledger.OutcomeSealed, Attempt: 1, Repeat: true}, WhatRepeat, "deposit 10.00 to B: sealed, it can never apply; nothing moves"},
		{fault.Event{Event: fault.EventAnswer, Point: at("deposit/after"), Error: "on fire", Attempt: 2, Local: true}, WhatFault, "deposit 10.00 to B, fast path, attempt 2: on fire"},
		{fault.Event{Event: fault.EventAnswer, Point: at("resolve/after"), Key: "transfer/a/deposit", State: ledger.OutcomeSealed}, WhatStep, "resolve the deposit: no outcome, so sealed: it can never apply now"},
		{fault.Event{Event: fault.EventAnswer, Point: at("resolve/after"), Key: "transfer/a/withdraw", State: ledger.OutcomeApplied, Repeat: true}, WhatStep, "resolve the withdraw: its outcome is applied"},
		{fault.Event{Event: fault.EventAnswer, Point: at("naive-deposit/after"), State: ledger.OutcomeApplied, Attempt: 2}, WhatStep, "deposit 10.00 to B, attempt 2: done"},
		{fault.Event{Event: fault.EventFault, Point: at("withdraw/before"), Action: fault.ActionKill}, WhatFault, "is KILLED (SIGKILL) before the withdraw reaches the ledger"},
		{fault.Event{Event: fault.EventFault, Point: at("deposit/after"), Action: fault.ActionKill}, WhatFault, "is KILLED (SIGKILL) after the deposit's COMMIT, before it can tell"},
		{fault.Event{Event: fault.EventFault, Point: at("deposit/before"), Action: fault.ActionFreeze}, WhatFault, "is FROZEN (SIGSTOP) before the deposit reaches the ledger"},
		{fault.Event{Event: fault.EventFault, Point: at("deposit/before"), Action: fault.ActionFail, Attempt: 1, Local: true}, WhatFault, "deposit 10.00 to B, fast path, attempt 1: FAILS"},
		{fault.Event{Event: fault.EventFault, Point: at("naive-withdraw/after"), Action: fault.ActionDrop}, WhatFault, "the reply is LOST, after the withdraw's COMMIT"},
		{fault.Event{Event: fault.EventFault, Point: at("entries/before"), Action: fault.ActionKill}, WhatFault, "is KILLED (SIGKILL) in the middle of A's statement"},
		{fault.Event{Event: fault.EventResumed, Point: at("deposit/before")}, WhatFault, "goes on with its deposit, where it was"},
	} {
		what, text := words(&row.event)
		require.Equal(t, row.text, text)
		require.Equal(t, row.what, what)
	}
}
