// Package standin has a worker for tests of the client and the command line: the real workflows and activities, on books
// that are kept in memory and can be told to fail. It takes the place of PostgreSQL alone.
//
// It promises the ledger's rules, since it decides with ledger.Book, and nothing of what a database promises.
package standin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"payonce/activities"
	"payonce/ledger"
)

// Books is one ledger in memory. It may be used by several goroutines.
type Books struct {
	mu       sync.Mutex
	accounts []*ledger.Account
	records  map[ledger.Key]*ledger.Record
	entries  []ledger.Entry
	letters  map[ledger.Key]*ledger.DeadLetterRecord
	before   func(ctx context.Context, operation *ledger.Operation, resolve bool) error
}

var _ activities.Ledger = (*Books)(nil)

// NewBooks returns an empty ledger.
func NewBooks() *Books {
	return &Books{records: make(map[ledger.Key]*ledger.Record), letters: make(map[ledger.Key]*ledger.DeadLetterRecord)}
}

// Before has f called before each operation is posted or resolved: its error is the ledger's answer. Nil is nothing.
func (b *Books) Before(f func(ctx context.Context, operation *ledger.Operation, resolve bool) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before = f
}

func (b *Books) ask(ctx context.Context, operation *ledger.Operation, resolve bool) error {
	b.mu.Lock()
	before := b.before
	b.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(ctx, operation, resolve)
}

// Post carries an operation out, once for its key.
func (b *Books) Post(ctx context.Context, operation ledger.Operation) (ledger.Outcome, error) {
	if err := b.ask(ctx, &operation, false); err != nil {
		return ledger.Outcome{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, leg := range operation.Legs {
		for _, name := range []string{leg.From, leg.To} {
			if ledger.IsTransit(name) && b.find(name, leg.Asset) == nil {
				b.open(ledger.Account{Name: name, Asset: leg.Asset, Status: ledger.AccountOpen})
			}
		}
	}
	book := ledger.NewBook(time.Now(), 1)
	for _, account := range b.accounts {
		book.AddAccount(account)
	}
	for _, record := range b.records {
		book.AddRecord(record.RequestHash, record.Outcome)
		if record.Outcome.State == ledger.OutcomeApplied {
			book.AddReversible(record.Operation.Key, record.Operation.Legs)
		}
	}
	result := book.Decide(&operation, operation.RequestHash())
	for _, decided := range book.Decided() {
		b.record(operation, decided.RequestHash, decided.Outcome)
	}
	b.entries = append(b.entries, book.Entries()...)
	return result.Outcome, result.Err
}

func (b *Books) record(operation ledger.Operation, hash ledger.RequestHash, outcome ledger.Outcome) {
	b.records[operation.Key] = &ledger.Record{ID: int64(len(b.records) + 1), Operation: operation, RequestHash: hash, Outcome: outcome}
}

// Resolve returns the outcome of an operation, or seals its key.
func (b *Books) Resolve(ctx context.Context, seal ledger.Seal) (ledger.Outcome, error) {
	if err := b.ask(ctx, &seal.Operation, true); err != nil {
		return ledger.Outcome{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	hash := seal.Operation.RequestHash()
	if known := b.records[seal.Operation.Key]; known != nil {
		if known.RequestHash != hash {
			return ledger.Outcome{}, ledger.ErrKeyConflict
		}
		outcome := known.Outcome
		outcome.Repeat = true
		return outcome, nil
	}
	outcome := ledger.Outcome{Key: seal.Operation.Key, State: ledger.OutcomeSealed, Code: seal.Code, Detail: seal.Detail, At: time.Now()}
	b.record(seal.Operation, hash, outcome)
	return outcome, nil
}

// Operation reads what is recorded under a key.
func (b *Books) Operation(_ context.Context, key ledger.Key) (ledger.Record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	record := b.records[key]
	if record == nil {
		return ledger.Record{}, ledger.ErrOperationUnknown
	}
	return *record, nil
}

// AccountOpen opens an account.
func (b *Books) AccountOpen(_ context.Context, account ledger.Account) (ledger.Account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.find(account.Name, ledger.Asset{}); known != nil {
		same := known.Asset == account.Asset && sameLimit(known.Floor, account.Floor) && sameLimit(known.Ceiling, account.Ceiling) &&
			maps.Equal(known.Metadata, account.Metadata)
		if !same {
			return ledger.Account{}, fmt.Errorf("%w: it is open with other settings", ledger.ErrAccountConflict)
		}
		return *known, nil
	}
	return *b.open(account), nil
}

func (b *Books) open(account ledger.Account) *ledger.Account {
	account.ID = int64(len(b.accounts) + 1)
	account.OpenedAt = time.Now()
	b.accounts = append(b.accounts, &account)
	return &account
}

func sameLimit(a, b *ledger.Amount) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Cmp(*b) == 0)
}

// find returns an account, or nil. asset may be zero.
func (b *Books) find(name string, asset ledger.Asset) *ledger.Account {
	for _, account := range b.accounts {
		if account.Name == name && (asset.IsZero() || account.Asset == asset) {
			return account
		}
	}
	return nil
}

// AccountSet writes settings of an account.
func (b *Books) AccountSet(_ context.Context, name string, change ledger.AccountChange) (ledger.Account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	account := b.find(name, ledger.Asset{})
	if account == nil {
		return ledger.Account{}, ledger.ErrAccountUnknown
	}
	changed := *account
	if change.Floor != nil {
		changed.Floor = change.Floor.Pointer()
	}
	if change.Ceiling != nil {
		changed.Ceiling = change.Ceiling.Pointer()
	}
	if change.Status != nil {
		changed.Status = *change.Status
	}
	if change.Metadata != nil {
		changed.Metadata = change.Metadata
	}
	if changed.Status == ledger.AccountClosed && changed.Balance.Sign() != 0 {
		return ledger.Account{}, fmt.Errorf("%w: it holds money", ledger.ErrAccountConflict)
	}
	*account = changed
	return changed, nil
}

// Account reads an account.
func (b *Books) Account(_ context.Context, name string, asset ledger.Asset) (ledger.Account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	account := b.find(name, asset)
	if account == nil {
		return ledger.Account{}, ledger.ErrAccountUnknown
	}
	return *account, nil
}

// Accounts reads accounts in the order in which they were opened.
func (b *Books) Accounts(_ context.Context, page ledger.AccountsPage) ([]ledger.Account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var accounts []ledger.Account
	for _, account := range b.accounts {
		if account.ID > page.AfterID && len(accounts) < page.Limit {
			accounts = append(accounts, *account)
		}
	}
	return accounts, nil
}

// BalanceAt is the balance of an account at a moment.
func (b *Books) BalanceAt(_ context.Context, name string, asset ledger.Asset, at time.Time) (ledger.Amount, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var balance ledger.Amount
	for _, entry := range b.entriesOf(name, asset) {
		if !entry.At.After(at) {
			balance = entry.Balance
		}
	}
	return balance, nil
}

// Period reads what an account had at the two ends of a time that is over.
func (b *Books) Period(_ context.Context, query ledger.PeriodQuery) (ledger.Period, error) {
	if err := query.Validate(); err != nil {
		return ledger.Period{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	account := b.find(query.Account, query.Asset)
	if account == nil {
		return ledger.Period{}, ledger.ErrAccountUnknown
	}
	if err := query.Finished(time.Now(), account.EntryAt); err != nil {
		return ledger.Period{}, err
	}
	query.Asset = account.Asset
	period := ledger.Period{PeriodQuery: query}
	for _, entry := range b.entriesOf(query.Account, query.Asset) {
		switch {
		case entry.At.Before(query.From):
			period.Opening, period.Closing, period.VersionBefore = entry.Balance, entry.Balance, entry.Version
		case entry.At.Before(query.To):
			period.Closing = entry.Balance
			period.Entries++
		}
	}
	return period, nil
}

// Entries reads entries of an account in the order of their versions.
func (b *Books) Entries(_ context.Context, page ledger.EntriesPage) ([]ledger.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var entries []ledger.Entry
	for _, entry := range b.entriesOf(page.Account, page.Asset) {
		inTime := (page.From.IsZero() || !entry.At.Before(page.From)) && (page.To.IsZero() || entry.At.Before(page.To))
		if entry.Version > page.AfterVersion && inTime && len(entries) < page.Limit {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

func (b *Books) entriesOf(name string, asset ledger.Asset) []ledger.Entry {
	account := b.find(name, asset)
	return slices.DeleteFunc(slices.Clone(b.entries), func(e ledger.Entry) bool { return account == nil || e.AccountID != account.ID })
}

// DeadLetterPut writes a dead letter.
func (b *Books) DeadLetterPut(_ context.Context, letter ledger.DeadLetter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	record := b.letters[letter.Key]
	if record == nil {
		record = &ledger.DeadLetterRecord{Letter: ledger.DeadLetter{ID: int64(len(b.letters) + 1)}}
		b.letters[letter.Key] = record
	}
	if !letter.AsOf.After(record.Letter.AsOf) {
		return nil
	}
	action := ledger.DeadLetterAction{At: time.Now(), Action: ledger.ActionSetAside, Error: letter.Error}
	switch {
	case letter.Decision != nil:
		action.Action, action.By, action.Reason, action.UpdateID = letter.Decision.Action, letter.Decision.By, letter.Decision.Reason, letter.Decision.ID
	case letter.State == ledger.DeadLetterClosed:
		action.Action = ledger.ActionEnd
	}
	action.Resolution = letter.Resolution
	letter.ID, letter.Version, letter.Decision = record.Letter.ID, record.Letter.Version+1, nil
	record.Letter, record.Actions = letter, append(record.Actions, action)
	return nil
}

// DeadLetterDecide closes an open dead letter of a transfer that has ended.
func (b *Books) DeadLetterDecide(_ context.Context, decision ledger.DeadLetterDecision) (ledger.DeadLetterRecord, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	record := b.letters[decision.Key]
	if record == nil {
		return ledger.DeadLetterRecord{}, ledger.ErrDeadLetterUnknown
	}
	letter := &record.Letter
	if last := record.Decided(); last != nil && last.UpdateID == decision.ID {
		return *record, nil
	}
	if letter.State != ledger.DeadLetterOpen || letter.Version != decision.Version || letter.Ended == "" {
		return *record, fmt.Errorf("%w: it is at version %d", ledger.ErrDecisionRefused, letter.Version)
	}
	letter.State, letter.Choices, letter.Resolution = ledger.DeadLetterClosed, nil, decision.Resolution
	letter.Version++
	record.Actions = append(record.Actions, ledger.DeadLetterAction{
		At: time.Now(), Action: decision.Action, By: decision.By, Reason: decision.Reason, UpdateID: decision.ID, Resolution: decision.Resolution,
	})
	return *record, nil
}

// DeadLetter reads a dead letter with its actions.
func (b *Books) DeadLetter(_ context.Context, key ledger.Key) (ledger.DeadLetterRecord, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	record := b.letters[key]
	if record == nil {
		return ledger.DeadLetterRecord{}, ledger.ErrDeadLetterUnknown
	}
	return *record, nil
}

// DeadLetters reads dead letters, newest first.
func (b *Books) DeadLetters(_ context.Context, page ledger.DeadLettersPage) ([]ledger.DeadLetter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var letters []ledger.DeadLetter
	for _, record := range b.letters {
		letter := record.Letter
		fits := (page.Transfer == "" || letter.Transfer == page.Transfer) && (page.State == "" || letter.State == page.State) &&
			(page.Step == "" || letter.Step == page.Step) && (page.Place == "" || letter.Place == page.Place) && (!page.Parked || letter.Parked) &&
			(page.Error == letter.ErrorType || strings.Contains(strings.ToLower(letter.Error), strings.ToLower(page.Error))) &&
			(page.Since.IsZero() || !letter.LastAt.Before(page.Since)) && (page.Until.IsZero() || letter.LastAt.Before(page.Until))
		if after := page.After; fits && (after == nil || letter.LastAt.Before(after.LastAt) || letter.LastAt.Equal(after.LastAt) && letter.ID < after.ID) {
			letters = append(letters, letter)
		}
	}
	slices.SortFunc(letters, func(a, b ledger.DeadLetter) int {
		return cmp.Or(b.LastAt.Compare(a.LastAt), cmp.Compare(b.ID, a.ID))
	})
	return letters[:min(len(letters), page.Limit)], nil
}
