package demo

import (
	"context"

	"go.temporal.io/sdk/client"

	"payonce/internal/faultworker/fault"
	"payonce/internal/faultworker/naive"
	"payonce/workflows"
)

// noKey is the transfer that everybody writes first. Being paid twice is what it must show.
func noKey() *scenario {
	withdraw := fault.Point{Kind: fault.KindNaiveWithdraw, Moment: fault.After}
	deposit := fault.Point{Kind: fault.KindNaiveDeposit, Moment: fault.After}
	return &scenario{
		name:  "no-key",
		title: "without a key, a lost reply is a second payment",
		stake: "Two plain steps, withdraw and deposit, on a plain table of balances. Each commits, its reply is lost, and the retry can't know.",
		moral: "paid twice. That is what the keys of the next seven are for",
		want: expectation{
			a: zero, b: funds, keyless: true,
			ends:   map[string]int{string(workflows.StateCompleted): 1},
			faults: []expectedFault{{withdraw, fault.ActionDrop, 1}, {deposit, fault.ActionDrop, 1}},
		},
		play: func(ctx context.Context, p *play) error {
			_, err := p.startWorker(ctx,
				fault.Fault{Point: withdraw, Action: fault.ActionDrop}, fault.Fault{Point: deposit, Action: fault.ActionDrop})
			if err != nil {
				return err
			}
			if err := p.openNaive(ctx); err != nil {
				return err
			}
			return p.sendNaive(ctx)
		},
		look: func(ctx context.Context, p *play) error {
			balances, err := p.naiveBalances(ctx)
			if err != nil {
				return err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.seen.balances = balances
			return nil
		},
	}
}

// naiveWorkflowID is the ID of the workflow of a transfer without a key.
func naiveWorkflowID(transferID string) string { return "naive/" + transferID }

func (p *play) openNaive(ctx context.Context) error {
	_, err := ask[any](ctx, p, naive.OpenWorkflow, []naive.Account{
		{Name: p.a, Asset: asset, Balance: funds}, {Name: p.b, Asset: asset, Balance: zero},
	})
	if err != nil {
		return err
	}
	balances, err := p.naiveBalances(ctx)
	if err != nil {
		return err
	}
	p.tell("books", WhatBooks, "A %s   B %s", balances["A"], balances["B"])
	return nil
}

// sendNaive starts the transfer and waits for its end.
func (p *play) sendNaive(ctx context.Context) error {
	p.tell("client", WhatClient, "sends %s from A to B", amount)
	run, err := hasty{p.config.Temporal}.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: naiveWorkflowID(p.transferID), TaskQueue: workflows.TaskQueue,
	}, naive.TransferWorkflow, naive.Transfer{From: p.a, To: p.b, Amount: amount, Asset: asset})
	if err != nil {
		return err
	}
	if err := run.Get(ctx, nil); err != nil {
		return err
	}
	return p.ended("client", workflows.TransferResult{State: workflows.StateCompleted}, false, nil)
}

func (p *play) naiveBalances(ctx context.Context) (map[string]string, error) {
	accounts, err := ask[[]naive.Account](ctx, p, naive.ShowWorkflow, []string{p.a, p.b})
	if err != nil {
		return nil, err
	}
	balances := make(map[string]string)
	for _, account := range accounts {
		switch account.Name {
		case p.a:
			balances["A"] = account.Balance
		case p.b:
			balances["B"] = account.Balance
		}
	}
	return balances, nil
}
