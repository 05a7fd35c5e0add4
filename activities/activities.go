package activities

import (
	"context"
	"maps"
	"slices"
	"time"

	"payonce/ledger"
)

// Ledger is what the activities need of one ledger's books. *postgres.Ledger of ledger/postgres is one. Its methods
// may be called concurrently; their errors are those of package ledger.
type Ledger interface {
	// Post carries an operation out, once for its key (level 2).
	Post(ctx context.Context, operation ledger.Operation) (ledger.Outcome, error)
	// Resolve returns the recorded outcome of an operation, or seals its key (level 2).
	Resolve(ctx context.Context, seal ledger.Seal) (ledger.Outcome, error)
	// Operation reads what is recorded under a key, or ledger.ErrOperationUnknown.
	Operation(ctx context.Context, key ledger.Key) (ledger.Record, error)

	// AccountOpen opens an account. Opened before with the same settings it is returned as it is (level 1); with
	// others the error is ledger.ErrAccountConflict.
	AccountOpen(ctx context.Context, account ledger.Account) (ledger.Account, error)
	// AccountSet writes the named settings absolutely (level 1). A limit that the balance is already beyond, and closing
	// an account that holds money, are ledger.ErrAccountConflict.
	AccountSet(ctx context.Context, name string, change ledger.AccountChange) (ledger.Account, error)
	// Account reads an account. asset may be zero, unless name is a transit account that has several.
	Account(ctx context.Context, name string, asset ledger.Asset) (ledger.Account, error)
	// Accounts reads accounts in the order in which they were opened.
	Accounts(ctx context.Context, page ledger.AccountsPage) ([]ledger.Account, error)
	// BalanceAt is the balance of an account at a moment: after the last entry that is not later.
	BalanceAt(ctx context.Context, name string, asset ledger.Asset, at time.Time) (ledger.Amount, error)
	// Period reads what an account had at the two ends of a time that is over, or ledger.ErrPeriodUnfinished.
	Period(ctx context.Context, query ledger.PeriodQuery) (ledger.Period, error)
	// Entries reads entries of an account in the order of their versions.
	Entries(ctx context.Context, page ledger.EntriesPage) ([]ledger.Entry, error)

	// DeadLetterPut writes a dead letter by its natural name (level 1).
	DeadLetterPut(ctx context.Context, letter ledger.DeadLetter) error
	// DeadLetterDecide closes an open dead letter of a transfer that has ended, once (level 1); ledger.ErrDecisionRefused if
	// it is not as the decision says.
	DeadLetterDecide(ctx context.Context, decision ledger.DeadLetterDecision) (ledger.DeadLetterRecord, error)
	// DeadLetter reads a dead letter with its actions, or ledger.ErrDeadLetterUnknown.
	DeadLetter(ctx context.Context, key ledger.Key) (ledger.DeadLetterRecord, error)
	// DeadLetters reads dead letters, newest first.
	DeadLetters(ctx context.Context, page ledger.DeadLettersPage) ([]ledger.DeadLetter, error)
}

// Activities are the activities of one worker process. Register the pointer with a Temporal worker; the names of the
// activities are the names of its methods.
type Activities struct {
	// StatementsDir is where StatementWrite keeps its files; "": this worker keeps none. It is set before the first use.
	StatementsDir string

	ledgers map[string]Ledger
}

// New returns the activities for the ledgers that this worker process has settings for, by name. The map is not changed
// afterwards.
func New(ledgers map[string]Ledger) *Activities {
	return &Activities{ledgers: ledgers}
}

// ledger finds the books that a payload names. A worker that does not hold them says so, which the fast path takes as
// a sign to use the ledger's own task queue.
func (a *Activities) ledger(name string) (Ledger, error) {
	l, ok := a.ledgers[name]
	if !ok {
		return nil, errNotServed(name)
	}
	return l, nil
}

// served returns the names of the ledgers that this worker holds, sorted.
func (a *Activities) served() []string { return slices.Sorted(maps.Keys(a.ledgers)) }
