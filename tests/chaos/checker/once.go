package checker

import (
	"bytes"
	"fmt"
	"strings"
)

// checkOnce sees that no step of a transfer has applied twice, under whatever key, and that its steps go together.
func (x *index) checkOnce(f *findings) {
	for i := range x.Ledgers {
		l := &x.Ledgers[i]
		applied := make(map[string]bool)
		for j := range l.Operations {
			o := &l.Operations[j]
			if o.State == stateApplied && applied[o.Key] {
				id := ownerOf(o.Key)
				f.transfer(RuleOnce, id, "the key %s has applied twice on %s", o.Key, l.Name)
			}
			applied[o.Key] = applied[o.Key] || o.State == stateApplied
		}
	}
	for _, s := range x.strangers {
		f.add(RuleOnce, "%s on ledger %s belongs to no transfer that anybody has asked for", s.Key, s.ledger)
	}
	for _, id := range x.ids {
		x.transfers[id].checkOnce(f)
	}
}

func (t *transfer) checkOnce(f *findings) {
	counts := make(map[string]int)
	for _, kind := range []string{kindPost, kindWithdraw, kindDeposit, kindRefund} {
		applied := t.applied(kind)
		counts[kind] = len(applied)
		if len(applied) > 1 {
			f.transfer(RuleOnce, t.id, "%s has applied %d times, under the keys %s", kind, len(applied), keys(applied))
		}
		if recorded := t.of(kind); len(recorded) > len(applied) && len(recorded) > 1 {
			f.transfer(RuleOnce, t.id, "%s has several outcomes: %s, under the keys %s", kind, describe(recorded), keys(recorded))
		}
	}
	switch {
	case counts[kindDeposit] > 0 && counts[kindRefund] > 0:
		f.transfer(RuleOnce, t.id, "it was both paid in and refunded")
	case counts[kindPost] > 0 && counts[kindWithdraw] > 0:
		f.transfer(RuleOnce, t.id, "it was paid within a ledger and between two")
	case counts[kindDeposit] > 0 && counts[kindWithdraw] == 0:
		f.transfer(RuleOnce, t.id, "it was paid in and never taken")
	case counts[kindRefund] > 0 && counts[kindWithdraw] == 0:
		f.transfer(RuleOnce, t.id, "it was refunded and never taken")
	}
}

func keys(steps []step) string {
	texts := make([]string, len(steps))
	for i := range steps {
		texts[i] = steps[i].ledger + " " + steps[i].Key
	}
	return strings.Join(texts, " and ")
}

// checkRepeats holds the books against those from before the repeats.
func (x *index) checkRepeats(f *findings) {
	for i := range x.Before {
		before := &x.Before[i]
		after := x.ledgers[before.Name]
		if after == nil {
			continue
		}
		old := make(map[int64]string, len(before.Operations))
		for j := range before.Operations {
			old[before.Operations[j].ID] = rowOf(&before.Operations[j])
		}
		for j := range after.Operations {
			o := &after.Operations[j]
			row, known := old[o.ID]
			id := ownerOf(o.Key)
			switch {
			case !known:
				f.transfer(RuleOnce, id, "a repeat recorded %s on %s: %s", o.Key, after.Name, o.State)
			case row != rowOf(o):
				f.transfer(RuleOnce, id, "a repeat changed %s on %s from %s to %s", o.Key, after.Name, row, rowOf(o))
			}
			delete(old, o.ID)
		}
		for _, row := range old {
			f.add(RuleOnce, "ledger %s: a repeat removed %s", after.Name, row)
		}
		checkSameMoney(before, after, f)
	}
}

func rowOf(o *Operation) string {
	return fmt.Sprintf("%s %s %s %s %s %s", o.Key, o.Kind, o.State, o.Code, o.At.UTC(), legsText(o.Legs))
}

func legsText(legs []Leg) string {
	var text bytes.Buffer
	for i := range legs {
		fmt.Fprintf(&text, "%s %s from %s to %s", legs[i].Amount, legs[i].Asset, legs[i].From, legs[i].To)
	}
	return text.String()
}

func checkSameMoney(before, after *Ledger, f *findings) {
	if len(before.Entries) != len(after.Entries) {
		f.add(RuleOnce, "ledger %s: repeats changed the number of entries from %d to %d", after.Name, len(before.Entries), len(after.Entries))
	}
	balances := make(map[int64]*Account, len(before.Accounts))
	for i := range before.Accounts {
		balances[before.Accounts[i].ID] = &before.Accounts[i]
	}
	for i := range after.Accounts {
		a := &after.Accounts[i]
		b := balances[a.ID]
		if b != nil && (b.Version != a.Version || b.Balance.Cmp(a.Balance) != 0) {
			f.account(RuleOnce, after.Name, a.Name, "repeats changed it from %s (version %d) to %s (version %d)", b.Balance, b.Version, a.Balance, a.Version)
		}
	}
}
