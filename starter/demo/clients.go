package demo

import (
	"context"
	"errors"
	"fmt"

	"payonce/workflows"
)

func clientRetries() *scenario {
	return &scenario{
		name:  "client-retries",
		title: "the client sends the same transfer five times at once, and once more",
		stake: "An impatient client. Only the ID, which it chose before the first try, tells that all of these are one payment.",
		moral: "paid once, and every call was told the same",
		want: expectation{
			a: amount, b: amount,
			ends:     map[string]int{string(workflows.StateCompleted): callers + 1},
			attached: callers,
			met:      firstTime(),
			recorded: bothApplied(),
		},
		play: func(ctx context.Context, p *play) error {
			if err := p.onHealthyWorker(ctx); err != nil {
				return err
			}
			in := p.request()
			p.tell("client", WhatClient, "sends %s from A to B, %d times at once, each time as transfer %s", in.Amount, callers, in.ID)
			var calls []*call
			for i := range callers {
				calls = append(calls, p.send(ctx, fmt.Sprintf("call %d", i+1), in))
			}
			var errs []error
			for _, c := range calls {
				errs = append(errs, c.wait())
			}
			if err := errors.Join(errs...); err != nil {
				return err
			}
			p.tell("client", WhatClient, "sends it once more, now that it is done")
			return p.send(ctx, fmt.Sprintf("call %d", callers+1), in).wait()
		},
	}
}

func otherContent() *scenario {
	return &scenario{
		name:  "other-content",
		title: "the same ID with another amount",
		stake: "A client's mistake. Paying again would be wrong, and so would be telling it that its " + other + " were paid.",
		moral: "an error that says so, and only the first request moved money",
		want: expectation{
			a: amount, b: amount,
			ends:     map[string]int{string(workflows.StateCompleted): 1, endDifferent: 1},
			met:      firstTime(),
			recorded: bothApplied(),
		},
		play: func(ctx context.Context, p *play) error {
			if err := p.onHealthyWorker(ctx); err != nil {
				return err
			}
			in := p.request()
			if err := p.pay(ctx).wait(); err != nil {
				return err
			}
			in.Amount = other
			return p.command(ctx, in)
		},
	}
}

// onHealthyWorker sets the accounts up, on a worker that nothing happens to.
func (p *play) onHealthyWorker(ctx context.Context) error {
	if _, err := p.startWorker(ctx); err != nil {
		return err
	}
	return p.setUp(ctx)
}
