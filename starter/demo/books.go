package demo

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/workflows"
)

// baseline is what was between the ledgers before the scenario's transfer.
type baseline = ledger.Amount

// setUp opens A and B and gives A its money, all through the workflows that everybody uses.
func (p *play) setUp(ctx context.Context) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	result, err := p.client.Transfer(ctx, workflows.TransferInput{
		ID: p.transferID + "-funds", From: LedgerSource + "/" + world, To: p.a, Amount: funds, Asset: asset,
	})
	if err == nil && result.State != workflows.StateCompleted {
		err = errors.New(string(result.State))
	}
	if err != nil {
		return fmt.Errorf("fund A: %w", err)
	}
	return p.begin(ctx)
}

// open opens A, B and the account that A's money comes from.
func (p *play) open(ctx context.Context) error {
	source := LedgerSource + "/" + world
	group, groupCtx := errgroup.WithContext(ctx)
	for _, in := range []activities.AccountOpenInput{
		{Account: source, Asset: asset, Floor: activities.LimitNone},
		{Account: p.a, Asset: asset},
		{Account: p.b, Asset: asset},
	} {
		group.Go(func() error {
			_, err := ask[activities.AccountView](groupCtx, p, workflows.AccountOpenWorkflow, in)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("open the accounts: %w", err)
	}
	return nil
}

// begin notes and tells what is there before anything breaks.
func (p *play) begin(ctx context.Context) error {
	balances, between, err := p.balances(ctx)
	if err != nil {
		return err
	}
	p.transit = between
	p.tell("demo", WhatSetting, "opens %s and %s", p.a, p.b)
	p.tell("books", WhatBooks, "A %s   B %s", balances["A"], balances["B"])
	return nil
}

// tellBooks tells the balances as they are now.
func (p *play) tellBooks(ctx context.Context) error {
	balances, between, err := p.balances(ctx)
	if err != nil {
		return err
	}
	p.tell("books", WhatBooks, "A %s   B %s   between the ledgers %s", balances["A"], balances["B"], p.sinceBaseline(between))
	return nil
}

// observe looks at what is left when everything is over.
func (p *play) observe(ctx context.Context) error {
	balances, between, err := p.balances(ctx)
	if err != nil {
		return err
	}
	recorded, err := p.recorded(ctx)
	if err != nil {
		return err
	}
	letters, err := ask[activities.DeadLetterList](ctx, p, workflows.DeadLetterListWorkflow, activities.DeadLetterListInput{Ledger: LedgerSource})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.balances, p.seen.transit, p.seen.recorded, p.seen.letters = balances, p.sinceBaseline(between), recorded, nil
	for i := range letters.DeadLetters {
		if letters.DeadLetters[i].Transfer == p.transferID {
			p.seen.letters = append(p.seen.letters, letters.DeadLetters[i])
		}
	}
	return nil
}

// recorded are the outcomes under the keys of the transfer or payout, on both ledgers.
func (p *play) recorded(ctx context.Context) (map[workflows.Step]ledger.OutcomeState, error) {
	steps := []workflows.Step{
		workflows.StepPost, workflows.StepWithdraw, workflows.StepDeposit, workflows.StepRefund,
		workflows.StepReserve, workflows.StepSettle, workflows.StepReturn, workflows.StepBounce,
	}
	keys := make(map[string]workflows.Step)
	var in activities.OperationListInput
	for _, step := range steps {
		key := workflows.StepKey(p.workflowID, step)
		keys[key] = step
		in.Keys = append(in.Keys, key)
	}
	list, err := ask[activities.OperationList](ctx, p, workflows.OperationListWorkflow, in)
	if err != nil {
		return nil, err
	}
	recorded := make(map[workflows.Step]ledger.OutcomeState)
	for i := range list.Operations {
		recorded[keys[list.Operations[i].Key]] = list.Operations[i].State
	}
	return recorded, nil
}

// balances reads those of A and B, and the sum of what is between the ledgers.
func (p *play) balances(ctx context.Context) (balances map[string]string, between ledger.Amount, err error) {
	transit := []string{
		LedgerSource + "/" + ledger.TransitAccount(LedgerDestination), LedgerDestination + "/" + ledger.TransitAccount(LedgerSource),
	}
	names := append([]string{p.a, p.b}, transit...)
	found := make([]string, len(names))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, name := range names {
		group.Go(func() error {
			in := activities.AccountShowInput{Account: name}
			if i >= 2 {
				in.Asset = asset
			}
			view, err := ask[activities.AccountView](groupCtx, p, workflows.AccountShowWorkflow, in)
			if i >= 2 && isAccountUnknown(err) {
				// It is opened when money first needs it.
				found[i] = zero
				return nil
			}
			found[i] = view.Balance
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, between, fmt.Errorf("read the balances: %w", err)
	}
	usd := theAsset()
	for _, text := range found[2:] {
		one, err := ledger.ParseSignedAmount(text, usd)
		if err != nil {
			return nil, between, err
		}
		sum, ok := between.Add(one)
		if !ok {
			return nil, between, errors.New("the transit accounts' sum is too large")
		}
		between = sum
	}
	return map[string]string{"A": found[0], "B": found[1]}, between, nil
}

// sinceBaseline is how much more is between the ledgers than before the scenario's transfer.
func (p *play) sinceBaseline(between ledger.Amount) string {
	more, ok := between.Sub(p.transit)
	if !ok {
		return ""
	}
	return more.Format(theAsset())
}

func theAsset() ledger.Asset {
	usd, err := ledger.ParseAsset(asset)
	if err != nil {
		panic(err)
	}
	return usd
}

func isAccountUnknown(err error) bool {
	var application *temporal.ApplicationError
	return errors.As(err, &application) && application.Type() == activities.ErrorAccountUnknown
}

// ask has a worker answer a question.
func ask[Answer any](ctx context.Context, p *play, workflow string, in any) (Answer, error) {
	return asking.Run[Answer](ctx, p.config.Temporal, asking.Question{Workflow: workflow, Name: "demo/" + workflow, Input: in})
}
