package serve

import (
	"context"
	"errors"
	"time"

	"payonce/activities"
	"payonce/ledger"
)

// guard is a ledger behind its gate: it closes the gate when the ledger can't be reached, and does not ask the ledger
// while the gate is closed. Each method is written out, so that one that is added to the interface can't bypass it.
type guard struct {
	books activities.Ledger
	gate  *gate
}

var _ activities.Ledger = (*guard)(nil)

// guarded makes one call through the gate.
func guarded[T any](ctx context.Context, g *guard, call func() (T, error)) (T, error) {
	entered, err := g.gate.enter()
	if err != nil {
		var none T
		return none, err
	}
	answer, err := call()
	switch {
	case err == nil:
		g.gate.answered()
	case ctx.Err() != nil || errors.Is(err, ledger.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded):
		// Too slow, or cut off: the ledger may be gone, or this call alone was unlucky. A check tells.
		g.gate.suspect()
	case errors.Is(err, ledger.ErrUnavailable):
		g.gate.fail(entered, err)
	default:
		g.gate.answered()
	}
	return answer, err
}

func (g *guard) Post(ctx context.Context, operation ledger.Operation) (ledger.Outcome, error) {
	return guarded(ctx, g, func() (ledger.Outcome, error) { return g.books.Post(ctx, operation) })
}

func (g *guard) Resolve(ctx context.Context, seal ledger.Seal) (ledger.Outcome, error) {
	return guarded(ctx, g, func() (ledger.Outcome, error) { return g.books.Resolve(ctx, seal) })
}

func (g *guard) Operation(ctx context.Context, key ledger.Key) (ledger.Record, error) {
	return guarded(ctx, g, func() (ledger.Record, error) { return g.books.Operation(ctx, key) })
}

func (g *guard) AccountOpen(ctx context.Context, account ledger.Account) (ledger.Account, error) {
	return guarded(ctx, g, func() (ledger.Account, error) { return g.books.AccountOpen(ctx, account) })
}

func (g *guard) AccountSet(ctx context.Context, name string, change ledger.AccountChange) (ledger.Account, error) {
	return guarded(ctx, g, func() (ledger.Account, error) { return g.books.AccountSet(ctx, name, change) })
}

func (g *guard) Account(ctx context.Context, name string, asset ledger.Asset) (ledger.Account, error) {
	return guarded(ctx, g, func() (ledger.Account, error) { return g.books.Account(ctx, name, asset) })
}

func (g *guard) Accounts(ctx context.Context, page ledger.AccountsPage) ([]ledger.Account, error) {
	return guarded(ctx, g, func() ([]ledger.Account, error) { return g.books.Accounts(ctx, page) })
}

func (g *guard) BalanceAt(ctx context.Context, name string, asset ledger.Asset, at time.Time) (ledger.Amount, error) {
	return guarded(ctx, g, func() (ledger.Amount, error) { return g.books.BalanceAt(ctx, name, asset, at) })
}

func (g *guard) Period(ctx context.Context, query ledger.PeriodQuery) (ledger.Period, error) {
	return guarded(ctx, g, func() (ledger.Period, error) { return g.books.Period(ctx, query) })
}

func (g *guard) Entries(ctx context.Context, page ledger.EntriesPage) ([]ledger.Entry, error) {
	return guarded(ctx, g, func() ([]ledger.Entry, error) { return g.books.Entries(ctx, page) })
}

func (g *guard) DeadLetterPut(ctx context.Context, letter ledger.DeadLetter) error {
	_, err := guarded(ctx, g, func() (struct{}, error) { return struct{}{}, g.books.DeadLetterPut(ctx, letter) })
	return err
}

func (g *guard) DeadLetterDecide(ctx context.Context, decision ledger.DeadLetterDecision) (ledger.DeadLetterRecord, error) {
	return guarded(ctx, g, func() (ledger.DeadLetterRecord, error) { return g.books.DeadLetterDecide(ctx, decision) })
}

func (g *guard) DeadLetter(ctx context.Context, key ledger.Key) (ledger.DeadLetterRecord, error) {
	return guarded(ctx, g, func() (ledger.DeadLetterRecord, error) { return g.books.DeadLetter(ctx, key) })
}

func (g *guard) DeadLetters(ctx context.Context, page ledger.DeadLettersPage) ([]ledger.DeadLetter, error) {
	return guarded(ctx, g, func() ([]ledger.DeadLetter, error) { return g.books.DeadLetters(ctx, page) })
}
