package host

import (
	"context"

	"payonce/activities"
	"payonce/internal/faultworker/fault"
	"payonce/ledger"
)

// faultyLedger is a ledger whose writes meet the plan's faults, before they are asked for and after they are committed, and
// so does the reading of entries, of which statements are made. What an account command or another read does is none of its
// business.
type faultyLedger struct {
	activities.Ledger

	plan *plan
}

func (l *faultyLedger) Post(ctx context.Context, operation ledger.Operation) (ledger.Outcome, error) {
	return l.write(ctx, fault.Kind(operation.Kind), operation.Key, func(ctx context.Context) (ledger.Outcome, error) {
		return l.Ledger.Post(ctx, operation)
	})
}

func (l *faultyLedger) Resolve(ctx context.Context, seal ledger.Seal) (ledger.Outcome, error) {
	return l.write(ctx, fault.KindResolve, seal.Operation.Key, func(ctx context.Context) (ledger.Outcome, error) {
		return l.Ledger.Resolve(ctx, seal)
	})
}

func (l *faultyLedger) Entries(ctx context.Context, page ledger.EntriesPage) ([]ledger.Entry, error) {
	ctx, err := l.plan.strike(ctx, fault.Point{Kind: fault.KindEntries, Moment: fault.Before}, page.Account)
	if err != nil {
		return nil, err
	}
	entries, err := l.Ledger.Entries(ctx, page)
	if err != nil {
		return nil, err
	}
	_, err = l.plan.strike(ctx, fault.Point{Kind: fault.KindEntries, Moment: fault.After}, page.Account)
	return entries, err
}

func (l *faultyLedger) write(
	ctx context.Context, kind fault.Kind, key ledger.Key, write func(context.Context) (ledger.Outcome, error),
) (ledger.Outcome, error) {
	ctx, err := l.plan.strike(ctx, fault.Point{Kind: kind, Moment: fault.Before}, string(key))
	if err != nil {
		return ledger.Outcome{}, err
	}
	outcome, err := write(ctx)
	l.plan.answered(ctx, kind, string(key), outcome, err)
	if err != nil {
		return outcome, err
	}
	if _, err := l.plan.strike(ctx, fault.Point{Kind: kind, Moment: fault.After}, string(key)); err != nil {
		return ledger.Outcome{}, err
	}
	return outcome, nil
}
