package demo

import (
	"context"
	"fmt"
	"slices"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
	"payonce/workflows"
)

func poison() *scenario {
	point := fault.Point{Kind: fault.KindDeposit, Moment: fault.Before}
	options := quick()
	attempts := int(options.Fast.AttemptsMax + options.Forward.AttemptsMax)
	return &scenario{
		name:  "poison",
		title: "a deposit that fails each time",
		stake: "Trying again will never help. The attempts must end, the money must come back, and somebody must be able to see why.",
		moral: "A has its money back, and what happened is on record",
		want: expectation{
			a: funds, b: zero,
			ends:   map[string]int{string(workflows.StateCompensated): 1},
			faults: []expectedFault{{point, fault.ActionFail, attempts}},
			met: []meeting{
				{fault.KindResolve, ledger.OutcomeSealed, false}, {fault.KindRefund, ledger.OutcomeApplied, false},
			},
			recorded: givenBack(),
			letter:   workflows.StepDeposit,
		},
		play: func(ctx context.Context, p *play) error {
			always := p.fault(point.Kind, point.Moment, fault.ActionFail)
			always.Always = true
			w, err := p.startWorker(ctx, always)
			if err != nil {
				return err
			}
			if err := p.setUp(ctx); err != nil {
				return err
			}
			if err := p.pay(ctx).wait(); err != nil {
				return err
			}
			if err := p.observe(ctx); err != nil {
				return err
			}
			p.tellLetters()
			if !w.Alive() {
				return fmt.Errorf("%s did not survive it", w.name)
			}
			p.tell("demo", WhatSetting, "%s (process %d) is still there, and answers", w.name, w.PID)
			return nil
		},
	}
}

// tellLetters tells the dead letters as they were read.
func (p *play) tellLetters() {
	p.mu.Lock()
	letters := slices.Clone(p.seen.letters)
	p.mu.Unlock()
	for i := range letters {
		letter := &letters[i]
		p.tell("dead letter", WhatBooks, "%s of %s", letter.Step, letter.Transfer)
		p.tell("dead letter", WhatBooks, "%d attempts, the last: %s", letter.Attempts, letter.Error)
		p.tell("dead letter", WhatBooks, "the %s are at the %s (%s); %s", letter.Amount, letter.Place, p.short(letter.Account), letter.Resolution)
	}
}
