package demo

import (
	"context"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
	"payonce/workflows"
)

// To the client, the next three look the same: it asks, and hears nothing. Only the keys tell what was done.

func neverStarted() *scenario {
	return crash(&scenario{
		name:  "never-started",
		title: "the worker dies before the step reaches the ledger",
		stake: "The client hears nothing. Nothing was paid, and if nobody tries again, nothing ever will be.",
		moral: "paid once, by the worker that took over",
		want:  expectation{met: firstTime()},
	}, fault.Point{Kind: fault.KindWithdraw, Moment: fault.Before})
}

func replyLost() *scenario {
	return crash(&scenario{
		name:  "reply-lost",
		title: "the worker dies after COMMIT, before it can tell",
		stake: "The client hears nothing. All was paid, and whoever tries again must not pay again.",
		moral: "paid once: tried again, both steps met their first outcomes",
		want: expectation{met: []meeting{
			{fault.KindWithdraw, ledger.OutcomeApplied, true}, {fault.KindDeposit, ledger.OutcomeApplied, true},
		}},
	}, fault.Point{Kind: fault.KindDeposit, Moment: fault.After})
}

func partlyApplied() *scenario {
	return crash(&scenario{
		name:  "partly-applied",
		title: "the worker dies between withdraw and deposit",
		stake: "The client hears nothing. A has paid and B has nothing: the money must arrive, and must not leave A again.",
		moral: "paid once: the withdraw met its first outcome, and the deposit was made",
		want: expectation{met: []meeting{
			{fault.KindWithdraw, ledger.OutcomeApplied, true}, {fault.KindDeposit, ledger.OutcomeApplied, false},
		}},
	}, fault.Point{Kind: fault.KindDeposit, Moment: fault.Before})
}

// crash makes s a scenario in which the worker is killed at a point, and another one takes over.
func crash(s *scenario, point fault.Point) *scenario {
	s.want.a, s.want.b = amount, amount
	s.want.ends = map[string]int{string(workflows.StateCompleted): 1}
	s.want.faults = []expectedFault{{point, fault.ActionKill, 1}}
	s.want.recorded = bothApplied()
	s.play = func(ctx context.Context, p *play) error {
		first, err := p.startWorker(ctx, p.fault(point.Kind, point.Moment, fault.ActionKill))
		if err != nil {
			return err
		}
		if err := p.setUp(ctx); err != nil {
			return err
		}
		sent := p.pay(ctx)
		if err := p.awaitKilled(ctx, first); err != nil {
			return err
		}
		if _, err := p.startWorker(ctx); err != nil {
			return err
		}
		// Temporal still waits for the first one: nobody works on the transfer.
		if err := p.tellBooks(ctx); err != nil {
			return err
		}
		return sent.wait()
	}
	return s
}

// firstTime is what the steps of a transfer meet that nothing has happened to before.
func firstTime() []meeting {
	return []meeting{{fault.KindWithdraw, ledger.OutcomeApplied, false}, {fault.KindDeposit, ledger.OutcomeApplied, false}}
}

// bothApplied is what the ledgers have of a transfer that arrived.
func bothApplied() map[workflows.Step]ledger.OutcomeState {
	return map[workflows.Step]ledger.OutcomeState{
		workflows.StepWithdraw: ledger.OutcomeApplied, workflows.StepDeposit: ledger.OutcomeApplied,
	}
}

// givenBack is what the ledgers have of a transfer whose deposit was given up.
func givenBack() map[workflows.Step]ledger.OutcomeState {
	return map[workflows.Step]ledger.OutcomeState{
		workflows.StepWithdraw: ledger.OutcomeApplied, workflows.StepDeposit: ledger.OutcomeSealed, workflows.StepRefund: ledger.OutcomeApplied,
	}
}
