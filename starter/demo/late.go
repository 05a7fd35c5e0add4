package demo

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
	"payonce/workflows"
)

func lateAttempt() *scenario {
	point := fault.Point{Kind: fault.KindDeposit, Moment: fault.Before}
	return &scenario{
		name:  "late-attempt",
		title: "an attempt that was given up comes back",
		stake: "A deposit's worker freezes, the transfer is given up, A is refunded. Then the worker thaws, and goes on with its deposit.",
		moral: "A was refunded, and the late deposit moved nothing",
		want: expectation{
			a: funds, b: zero,
			ends:   map[string]int{string(workflows.StateCompensated): 1},
			faults: []expectedFault{{point, fault.ActionFreeze, 1}},
			met: []meeting{
				{fault.KindResolve, ledger.OutcomeSealed, false}, {fault.KindRefund, ledger.OutcomeApplied, false},
			},
			recorded: givenBack(),
			lateMet:  ledger.OutcomeSealed,
			letter:   workflows.StepDeposit,
		},
		options: func(o *workflows.Options) {
			// One attempt, so that giving up follows at once; and as an activity, which is what can be given up while its
			// worker is frozen.
			o.Fast.AttemptsMax = 0
			o.Forward.AttemptsMax = 1
			o.Forward.TimeoutStartToClose = 5 * time.Second
		},
		play: func(ctx context.Context, p *play) error {
			frozen, err := p.startWorker(ctx, p.fault(point.Kind, point.Moment, fault.ActionFreeze))
			if err != nil {
				return err
			}
			if err := p.setUp(ctx); err != nil {
				return err
			}
			sent := p.pay(ctx)
			if _, err := frozen.AwaitFault(ctx, point); err != nil {
				return fmt.Errorf("%s was not frozen: %w", frozen.name, err)
			}
			if _, err := p.startWorker(ctx); err != nil {
				return err
			}
			if err := sent.wait(); err != nil {
				return err
			}
			if err := p.tellBooks(ctx); err != nil {
				return err
			}
			p.tell("demo", WhatSetting, "thaws %s (SIGCONT)", frozen.name)
			if err := frozen.Thaw(); err != nil {
				return err
			}
			_, err = frozen.Await(ctx, func(e fault.Event) bool {
				return e.Event == fault.EventAnswer && e.Point.Kind == fault.KindDeposit && p.isOurs(e.Key)
			})
			return err
		},
	}
}
