package checker

import (
	"cmp"
	"math/big"
	"slices"
	"time"
)

// checkBooks holds one ledger against itself.
func (x *index) checkBooks(l *Ledger, f *findings) {
	b := newBooks(l)
	b.checkEntries(f)
	b.checkOperations(f)
	for i := range l.Accounts {
		b.checkAccount(&l.Accounts[i], x.Shifting[l.Name+"/"+l.Accounts[i].Name], f)
	}
}

// books is a ledger by what its rows refer to.
type books struct {
	*Ledger

	accounts    map[int64]*Account
	operations  map[int64]*Operation
	ofAccount   map[int64][]*Entry
	ofOperation map[int64][]*Entry
}

func newBooks(l *Ledger) *books {
	b := &books{
		Ledger: l, accounts: make(map[int64]*Account), operations: make(map[int64]*Operation),
		ofAccount: make(map[int64][]*Entry), ofOperation: make(map[int64][]*Entry),
	}
	for i := range l.Accounts {
		b.accounts[l.Accounts[i].ID] = &l.Accounts[i]
	}
	for i := range l.Operations {
		b.operations[l.Operations[i].ID] = &l.Operations[i]
	}
	for i := range l.Entries {
		e := &l.Entries[i]
		b.ofAccount[e.AccountID] = append(b.ofAccount[e.AccountID], e)
		b.ofOperation[e.OperationID] = append(b.ofOperation[e.OperationID], e)
	}
	for _, entries := range b.ofAccount {
		slices.SortFunc(entries, func(a, b *Entry) int { return cmp.Compare(a.Version, b.Version) })
	}
	return b
}

func (b *books) checkEntries(f *findings) {
	sums := make(map[string]*big.Int)
	for i := range b.Entries {
		e := &b.Entries[i]
		account, operation := b.accounts[e.AccountID], b.operations[e.OperationID]
		if account == nil {
			f.add(RuleBooks, "ledger %s: an entry belongs to account %d, which is not there", b.Name, e.AccountID)
			continue
		}
		if sums[account.Asset] == nil {
			sums[account.Asset] = new(big.Int)
		}
		sums[account.Asset].Add(sums[account.Asset], e.Amount)
		if operation == nil {
			f.account(RuleBooks, b.Name, account.Name, "its entry of version %d belongs to operation %d, which is not there", e.Version, e.OperationID)
		}
	}
	for asset, sum := range sums {
		if sum.Sign() != 0 {
			f.add(RuleBooks, "ledger %s: the entries in %s sum to %s", b.Name, asset, sum)
		}
	}
}

// checkOperations sees that each applied operation has exactly the entries that its legs say, and no other has any.
func (b *books) checkOperations(f *findings) {
	for i := range b.Operations {
		o := &b.Operations[i]
		id := ownerOf(o.Key)
		entries := b.ofOperation[o.ID]
		if o.State != stateApplied {
			if len(entries) > 0 {
				f.transfer(RuleBooks, id, "%s on %s is %s, and has %d entries", o.Key, b.Name, o.State, len(entries))
			}
			continue
		}
		if len(entries) != 2*len(o.Legs) {
			f.transfer(RuleBooks, id, "%s on %s has applied, and has %d entries instead of %d", o.Key, b.Name, len(entries), 2*len(o.Legs))
			continue
		}
		for j := range o.Legs {
			leg := &o.Legs[j]
			if !b.hasEntry(entries, j+1, leg.From, leg.Asset, new(big.Int).Neg(leg.Amount)) || !b.hasEntry(entries, j+1, leg.To, leg.Asset, leg.Amount) {
				f.transfer(RuleBooks, id, "%s on %s moved %s %s from %s to %s, and its entries say otherwise", o.Key, b.Name, leg.Amount, leg.Asset, leg.From, leg.To)
			}
		}
	}
}

func (b *books) hasEntry(entries []*Entry, leg int, name, asset string, amount *big.Int) bool {
	return slices.ContainsFunc(entries, func(e *Entry) bool {
		a := b.accounts[e.AccountID]
		return a != nil && e.Leg == leg && a.Name == name && a.Asset == asset && e.Amount.Cmp(amount) == 0
	})
}

// checkAccount goes through an account's entries from the first to the last.
func (b *books) checkAccount(a *Account, shifting bool, f *findings) {
	balance := new(big.Int)
	var version int64
	var at time.Time
	for _, e := range b.ofAccount[a.ID] {
		version++
		if e.Version != version {
			f.account(RuleBooks, b.Name, a.Name, "its entry of version %d follows the one of version %d", e.Version, version-1)
			version = e.Version
		}
		balance.Add(balance, e.Amount)
		if e.Balance.Cmp(balance) != 0 {
			f.account(RuleBooks, b.Name, a.Name, "its entry of version %d left %s, and its entries sum to %s", e.Version, e.Balance, balance)
			balance.Set(e.Balance)
		}
		if !shifting && a.beyondLimits(e.Balance) {
			f.account(RuleBooks, b.Name, a.Name, "its entry of version %d left %s, beyond its limits", e.Version, e.Balance)
		}
		if o := b.operations[e.OperationID]; o != nil {
			if o.At.Before(at) {
				f.account(RuleBooks, b.Name, a.Name, "the time of its entry of version %d is earlier than that of the one before", e.Version)
			}
			at = o.At
		}
	}
	switch {
	case a.Version != version:
		f.account(RuleBooks, b.Name, a.Name, "its version is %d, and its last entry's %d", a.Version, version)
	case a.Balance.Cmp(balance) != 0:
		f.account(RuleBooks, b.Name, a.Name, "its balance is %s, and its last entry left %s", a.Balance, balance)
	case a.beyondLimits(a.Balance):
		f.account(RuleBooks, b.Name, a.Name, "its balance %s is beyond its limits", a.Balance)
	}
}

func (a *Account) beyondLimits(balance *big.Int) bool {
	return (a.Floor != nil && balance.Cmp(a.Floor) < 0) || (a.Ceiling != nil && balance.Cmp(a.Ceiling) > 0)
}
