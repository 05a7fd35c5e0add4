package ledger

import (
	"fmt"
	"time"
)

// Book is the part of a ledger that some operations touch, held in memory while they are decided. Its owner has the
// accounts locked, fills the Book, calls Decide once for each operation in order, and writes down what the Book has
// collected: all in one database transaction. A Book is used by one goroutine and once.
type Book struct {
	now      time.Time
	accounts map[accountKey]*Account
	recorded map[Key]recorded // by claim
	reversed map[Key]*reversible

	decided []Decided
	entries []Entry
}

// Decided is a new operation with its outcome, to be written down. Its entries are those of Book.Entries with its key.
type Decided struct {
	Operation   *Operation
	RequestHash RequestHash
	Outcome     Outcome
}

// accountKey finds an account. A name has one account, in one asset; only one of the ledger's own has one for each asset.
type accountKey struct {
	name  string
	asset Asset // zero but for the ledger's own
}

func keyOf(name string, asset Asset) accountKey {
	if IsOwn(name) {
		return accountKey{name: name, asset: asset}
	}
	return accountKey{name: name}
}

type recorded struct {
	hash      RequestHash
	outcome   Outcome
	operation *Operation // nil unless this Book has decided it
}

// reversible is an applied operation with what is left to reverse of each of its legs.
type reversible struct {
	legs []Leg
	left []Amount
}

// NewBook starts a Book for about so many operations. now is the database's clock, read after the accounts were locked.
func NewBook(now time.Time, operations int) *Book {
	return &Book{
		now:      now,
		accounts: make(map[accountKey]*Account, 2*operations),
		recorded: make(map[Key]recorded, operations),
		reversed: make(map[Key]*reversible),
		decided:  make([]Decided, 0, operations),
		entries:  make([]Entry, 0, 2*operations),
	}
}

// AddAccount puts a locked account into the Book, which keeps and changes it. The Book's time is never before the
// account's last entry, whatever the clock says: times rise with versions.
func (b *Book) AddAccount(a *Account) {
	b.accounts[keyOf(a.Name, a.Asset)] = a
	if b.now.Before(a.EntryAt) {
		b.now = a.EntryAt
	}
}

// AddRecord tells the Book that a key has an outcome. Deciding an operation with that key is a repeat, or a conflict
// when the hash differs.
func (b *Book) AddRecord(hash RequestHash, outcome Outcome) {
	b.recorded[outcome.Key.Claim()] = recorded{hash: hash, outcome: outcome}
}

// AddReversible tells the Book of an applied operation that may be reversed: its legs. Reversals of it that are
// recorded already are told with AddReversal.
func (b *Book) AddReversible(key Key, legs []Leg) {
	r := &reversible{legs: legs, left: make([]Amount, len(legs))}
	for i := range legs {
		r.left[i] = legs[i].Amount
	}
	b.reversed[key] = r
}

// AddReversal tells the Book of an applied reversal of key, which AddReversible has told before.
func (b *Book) AddReversal(key Key, legs []Leg) error {
	r := b.reversed[key]
	if r == nil {
		return fmt.Errorf("ledger: a reversal of %q, which is not known to have applied", key)
	}
	for i := range legs {
		if !r.take(&legs[i]) {
			return fmt.Errorf("ledger: the reversals of %q exceed it", key)
		}
	}
	return nil
}

// take counts leg against what is left to reverse. It reports false, and changes nothing, when too little is.
func (r *reversible) take(leg *Leg) bool {
	reversed := leg.Reversed()
	for i := range r.legs {
		original := &r.legs[i]
		if original.From != reversed.From || original.To != reversed.To || original.Asset != leg.Asset {
			continue
		}
		if left, ok := r.left[i].Sub(leg.Amount); ok && left.Sign() >= 0 {
			r.left[i] = left
			return true
		}
	}
	return false
}

// Decide gives operation its outcome: the recorded one, or a new one that the Book collects. The operation must be
// valid and stay unchanged until the Book is written down. hash is its RequestHash, which can be computed before the accounts
// are locked.
func (b *Book) Decide(operation *Operation, hash RequestHash) Result {
	if known, ok := b.recorded[operation.Key.Claim()]; ok {
		if known.hash != hash || known.outcome.Key != operation.Key {
			return Result{Err: fmt.Errorf("%w: %q", ErrKeyConflict, operation.Key)}
		}
		outcome := known.outcome
		outcome.Repeat = true
		return Result{Outcome: outcome}
	}

	outcome := Outcome{Key: operation.Key, State: OutcomeApplied, At: b.now}
	refusal, err := b.try(operation)
	if err != nil {
		return Result{Err: err}
	}
	if refusal != nil {
		outcome.State, outcome.Code, outcome.Detail = OutcomeRefused, refusal.code, refusal.detail
	}
	b.recorded[operation.Key.Claim()] = recorded{hash: hash, outcome: outcome, operation: operation}
	b.decided = append(b.decided, Decided{Operation: operation, RequestHash: hash, Outcome: outcome})
	return Result{Outcome: outcome}
}

type refusal struct {
	code   Code
	detail string
}

func refuse(code Code, format string, args ...any) *refusal {
	return &refusal{code: code, detail: fmt.Sprintf(format, args...)}
}

// try applies all legs to the accounts and collects their entries, or leaves the Book as it was.
func (b *Book) try(operation *Operation) (*refusal, error) {
	// The first leg changes nothing when it is refused, but for what is left of what it reverses.
	undo := func() {}
	if len(operation.Legs) > 1 || operation.Reverses != "" {
		undo = b.mark(operation)
	}
	for i := range operation.Legs {
		if refusal, err := b.tryLeg(operation, i); refusal != nil || err != nil {
			undo()
			return refusal, err
		}
	}
	return nil, nil
}

// mark remembers what the operation may change and returns what restores it.
func (b *Book) mark(operation *Operation) (undo func()) {
	type saved struct {
		account *Account
		before  Account
	}
	var accounts []saved
	for i := range operation.Legs {
		leg := &operation.Legs[i]
		for _, name := range [2]string{leg.From, leg.To} {
			if a := b.accounts[keyOf(name, leg.Asset)]; a != nil {
				accounts = append(accounts, saved{account: a, before: *a})
			}
		}
	}
	original := b.reversible(operation.Reverses)
	var left []Amount
	if original != nil {
		left = append(left, original.left...)
	}
	entries := len(b.entries)
	return func() {
		b.entries = b.entries[:entries]
		for _, s := range accounts {
			*s.account = s.before
		}
		if original != nil {
			original.left = left
		}
	}
}

// reversible is the applied operation with the key, or nil.
func (b *Book) reversible(key Key) *reversible {
	if known := b.recorded[key.Claim()]; b.reversed[key] == nil && known.operation != nil &&
		known.operation.Key == key && known.outcome.State == OutcomeApplied {
		b.AddReversible(key, known.operation.Legs)
	}
	return b.reversed[key]
}

// tryLeg applies the leg with index i.
func (b *Book) tryLeg(operation *Operation, i int) (*refusal, error) {
	leg := &operation.Legs[i]
	if operation.Reverses != "" {
		original := b.reversible(operation.Reverses)
		if original == nil {
			return refuse(CodeReversalUnknown, "%q did not apply, so there is nothing to reverse", operation.Reverses), nil
		}
		if !original.take(leg) {
			return refuse(CodeReversalExceeds, "%s is more than is left of %q", leg, operation.Reverses), nil
		}
	}
	from, refusal := b.account(leg.From, leg.Asset)
	if refusal != nil {
		return refusal, nil
	}
	to, refusal := b.account(leg.To, leg.Asset)
	if refusal != nil {
		return refusal, nil
	}
	if refusal := checkStatus(from); refusal != nil {
		return refusal, nil
	}
	// An account takes its own money back whatever its status: refused, the money would have nowhere to go.
	if operation.Reverses == "" {
		if refusal := checkStatus(to); refusal != nil {
			return refusal, nil
		}
	}

	fromBalance, ok := from.Balance.Sub(leg.Amount)
	if !ok {
		return overflow(from), nil
	}
	if from.Floor != nil && fromBalance.Cmp(*from.Floor) < 0 {
		return refuse(CodeInsufficientFunds, "%s has %s, and may not fall below %s", from.Name,
			from.Balance.Format(from.Asset), from.Floor.Format(from.Asset)), nil
	}
	toBalance, ok := to.Balance.Add(leg.Amount)
	if !ok {
		return overflow(to), nil
	}
	if to.Ceiling != nil && toBalance.Cmp(*to.Ceiling) > 0 {
		if operation.Reverses != "" {
			return nil, fmt.Errorf("%w: %s has %s, and may not rise above %s", ErrReversalBlocked, to.Name,
				to.Balance.Format(to.Asset), to.Ceiling.Format(to.Asset))
		}
		return refuse(CodeCeilingExceeded, "%s has %s, and may not rise above %s", to.Name,
			to.Balance.Format(to.Asset), to.Ceiling.Format(to.Asset)), nil
	}
	b.enter(operation, i, from, leg.Amount.Neg(), fromBalance, leg.To)
	b.enter(operation, i, to, leg.Amount, toBalance, leg.From)
	return nil, nil
}

func (b *Book) account(name string, asset Asset) (*Account, *refusal) {
	a := b.accounts[keyOf(name, asset)]
	if a == nil {
		return nil, refuse(CodeAccountUnknown, "there is no account %s", name)
	}
	if a.Asset != asset {
		return nil, refuse(CodeAssetMismatch, "%s holds %s, not %s", name, a.Asset, asset)
	}
	return a, nil
}

func checkStatus(a *Account) *refusal {
	switch a.Status {
	case AccountFrozen:
		return refuse(CodeAccountFrozen, "%s is frozen", a.Name)
	case AccountClosed:
		return refuse(CodeAccountClosed, "%s is closed", a.Name)
	case AccountOpen:
		return nil
	default:
		panic("ledger: unknown account status " + string(a.Status))
	}
}

func overflow(a *Account) *refusal {
	return refuse(CodeBalanceOverflow, "the balance of %s would have more than %d digits", a.Name, AmountDigitsMax)
}

// enter makes the next entry of a, for the leg with index i, whose other account is other.
func (b *Book) enter(operation *Operation, i int, a *Account, amount, balance Amount, other string) {
	a.Balance = balance
	a.Version++
	a.EntryAt = b.now
	b.entries = append(b.entries, Entry{
		AccountID: a.ID, Version: a.Version, Leg: i + 1, Amount: amount, Balance: balance, At: b.now,
		Key: operation.Key, Kind: operation.Kind, Other: other, Counterparty: operation.Counterparty, Memo: operation.Memo,
	})
}

// Decided returns the new operations in the order they were decided: what is to be inserted. It does not return
// repeats, conflicts or blocked reversals.
func (b *Book) Decided() []Decided { return b.decided }

// Entries returns the new entries in the order they were made. Each has the key of its operation; its OperationID is
// not yet known.
func (b *Book) Entries() []Entry { return b.entries }

// Touched returns the accounts that have new entries, with their new balances, in no particular order.
func (b *Book) Touched() []*Account {
	seen := make(map[int64]bool, len(b.accounts))
	for i := range b.entries {
		seen[b.entries[i].AccountID] = true
	}
	touched := make([]*Account, 0, len(seen))
	for _, a := range b.accounts {
		if seen[a.ID] {
			touched = append(touched, a)
		}
	}
	return touched
}
