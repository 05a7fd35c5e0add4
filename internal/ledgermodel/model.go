// Package ledgermodel is a second, naive ledger to hold the real one against: maps and math/big, no locks, no database,
// nothing shared with ledger.Book. Where the two differ, one of them is wrong. It also draws random operations.
package ledgermodel

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"payonce/ledger"
)

// Model is the books of one ledger.
type Model struct {
	accounts   map[string]*account       // by name; of transit accounts by name and asset
	operations map[ledger.Key]*operation // by what their keys take
}

type account struct {
	asset          string
	balance        *big.Int
	floor, ceiling *big.Int // nil: none
	status         ledger.AccountStatus
	entries        int64
}

type operation struct {
	key         ledger.Key
	fingerprint [sha256.Size]byte
	legs        []ledger.Leg
	state       ledger.OutcomeState
	code        ledger.Code
	reversed    []*big.Int // of each leg
}

// Answer is what the model says of one operation.
type Answer struct {
	State  ledger.OutcomeState
	Code   ledger.Code
	Repeat bool
	Err    error // ErrKeyConflict, ErrReversalBlocked
}

// New returns empty books.
func New() *Model {
	return &Model{accounts: make(map[string]*account), operations: make(map[ledger.Key]*operation)}
}

// Open opens an account.
func (m *Model) Open(a ledger.Account) {
	m.accounts[accountKey(a.Name, a.Asset)] = &account{
		asset: a.Asset.String(), balance: new(big.Int), floor: limit(a.Floor), ceiling: limit(a.Ceiling), status: a.Status,
	}
}

// SetStatus sets an account's status.
func (m *Model) SetStatus(name string, status ledger.AccountStatus) { m.accounts[name].status = status }

func limit(a *ledger.Amount) *big.Int {
	if a == nil {
		return nil
	}
	return a.Big()
}

func accountKey(name string, asset ledger.Asset) string {
	if strings.HasPrefix(name, "transit:") {
		return name + " " + asset.String()
	}
	return name
}

// Post decides an operation and applies it.
func (m *Model) Post(o ledger.Operation) Answer {
	fingerprint := fingerprintOf(o)
	if known := m.operations[taken(o.Key)]; known != nil {
		if known.fingerprint != fingerprint || known.key != o.Key {
			return Answer{Err: ledger.ErrKeyConflict}
		}
		return Answer{State: known.state, Code: known.code, Repeat: true}
	}
	for _, leg := range o.Legs {
		for _, name := range []string{leg.From, leg.To} {
			if key := accountKey(name, leg.Asset); strings.HasPrefix(name, "transit:") && m.accounts[key] == nil {
				m.accounts[key] = &account{asset: leg.Asset.String(), balance: new(big.Int), status: ledger.AccountOpen}
			}
		}
	}
	before := m.copyAccounts()
	var original *operation
	var reversedBefore []*big.Int
	if o.Reverses != "" {
		if r := m.operations[taken(o.Reverses)]; r != nil && r.key == o.Reverses && r.state == ledger.OutcomeApplied {
			original = r
			for _, n := range r.reversed {
				reversedBefore = append(reversedBefore, new(big.Int).Set(n))
			}
		}
	}
	code, err := ledger.Code(""), error(nil)
	for _, leg := range o.Legs {
		if code, err = m.leg(o, leg, original); code != "" || err != nil {
			break
		}
	}
	if code != "" || err != nil {
		m.accounts = before
		if original != nil {
			original.reversed = reversedBefore
		}
	}
	if err != nil {
		return Answer{Err: err}
	}
	state := ledger.OutcomeApplied
	if code != "" {
		state = ledger.OutcomeRefused
	}
	m.record(o, fingerprint, state, code)
	return Answer{State: state, Code: code}
}

// Resolve seals the operation's key if it is free.
func (m *Model) Resolve(s ledger.Seal) Answer {
	fingerprint := fingerprintOf(s.Operation)
	if known := m.operations[taken(s.Operation.Key)]; known != nil {
		if known.fingerprint != fingerprint || known.key != s.Operation.Key {
			return Answer{Err: ledger.ErrKeyConflict}
		}
		return Answer{State: known.state, Code: known.code, Repeat: true}
	}
	m.record(s.Operation, fingerprint, ledger.OutcomeSealed, s.Code)
	return Answer{State: ledger.OutcomeSealed, Code: s.Code}
}

func (m *Model) record(o ledger.Operation, fingerprint [sha256.Size]byte, state ledger.OutcomeState, code ledger.Code) {
	recorded := &operation{key: o.Key, fingerprint: fingerprint, legs: o.Legs, state: state, code: code}
	for range o.Legs {
		recorded.reversed = append(recorded.reversed, new(big.Int))
	}
	m.operations[taken(o.Key)] = recorded
}

// taken is what a key takes: a transfer's post and its withdraw take the same.
func taken(key ledger.Key) ledger.Key {
	parts := strings.Split(string(key), "/")
	if last := len(parts) - 1; last > 0 && parts[last] == "withdraw" {
		parts[last] = "post"
	}
	return ledger.Key(strings.Join(parts, "/"))
}

// leg applies one leg, or says why not.
func (m *Model) leg(o ledger.Operation, leg ledger.Leg, original *operation) (ledger.Code, error) {
	amount := leg.Amount.Big()
	if o.Reverses != "" {
		if original == nil {
			return ledger.CodeReversalUnknown, nil
		}
		if !original.reverse(leg, amount) {
			return ledger.CodeReversalExceeds, nil
		}
	}
	var sides [2]*account
	for i, name := range []string{leg.From, leg.To} {
		a := m.accounts[accountKey(name, leg.Asset)]
		switch {
		case a == nil:
			return ledger.CodeAccountUnknown, nil
		case a.asset != leg.Asset.String():
			return ledger.CodeAssetMismatch, nil
		}
		sides[i] = a
	}
	for i, a := range sides {
		if takesBack := i == 1 && o.Reverses != ""; takesBack {
			continue
		}
		switch a.status {
		case ledger.AccountFrozen:
			return ledger.CodeAccountFrozen, nil
		case ledger.AccountClosed:
			return ledger.CodeAccountClosed, nil
		case ledger.AccountOpen:
		}
	}
	from, to := sides[0], sides[1]
	from.balance.Sub(from.balance, amount)
	to.balance.Add(to.balance, amount)
	from.entries++
	to.entries++
	switch {
	case digits(from.balance) > ledger.AmountDigitsMax:
		return ledger.CodeBalanceOverflow, nil
	case from.floor != nil && from.balance.Cmp(from.floor) < 0:
		return ledger.CodeInsufficientFunds, nil
	case digits(to.balance) > ledger.AmountDigitsMax:
		return ledger.CodeBalanceOverflow, nil
	case to.ceiling != nil && to.balance.Cmp(to.ceiling) > 0:
		if o.Reverses != "" {
			return "", ledger.ErrReversalBlocked
		}
		return ledger.CodeCeilingExceeded, nil
	}
	return "", nil
}

func (o *operation) reverse(leg ledger.Leg, amount *big.Int) bool {
	for i, l := range o.legs {
		if l.From != leg.To || l.To != leg.From || l.Asset != leg.Asset {
			continue
		}
		sum := new(big.Int).Add(o.reversed[i], amount)
		if sum.Cmp(l.Amount.Big()) <= 0 {
			o.reversed[i] = sum
			return true
		}
	}
	return false
}

func digits(n *big.Int) int { return len(new(big.Int).Abs(n).String()) }

func (m *Model) copyAccounts() map[string]*account {
	copied := make(map[string]*account, len(m.accounts))
	for name, a := range m.accounts {
		c := *a
		c.balance = new(big.Int).Set(a.balance)
		copied[name] = &c
	}
	return copied
}

// fingerprintOf is another way to say that two operations do the same with money.
func fingerprintOf(o ledger.Operation) [sha256.Size]byte {
	text := fmt.Appendf(nil, "%q %q %q", o.Kind, o.Reverses, o.Counterparty)
	for _, l := range o.Legs {
		text = fmt.Appendf(text, " %q %q %q %q", l.From, l.To, l.Asset.String(), l.Amount.String())
	}
	return sha256.Sum256(text)
}

// Balance is the balance of an account and the number of its entries.
func (m *Model) Balance(name string, asset ledger.Asset) (units string, entries int64) {
	a := m.accounts[accountKey(name, asset)]
	if a == nil {
		return "0", 0
	}
	return a.balance.String(), a.entries
}

// Names are all accounts, "name" or "transit:… asset", sorted.
func (m *Model) Names() []string { return slices.Sorted(maps.Keys(m.accounts)) }

// Sums are the sums of all balances by asset. They are zero in every state.
func (m *Model) Sums() map[string]*big.Int {
	sums := make(map[string]*big.Int)
	for _, a := range m.accounts {
		if sums[a.asset] == nil {
			sums[a.asset] = new(big.Int)
		}
		sums[a.asset].Add(sums[a.asset], a.balance)
	}
	return sums
}
