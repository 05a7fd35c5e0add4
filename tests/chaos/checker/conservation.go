package checker

import (
	"maps"
	"math/big"
	"slices"
	"strings"
)

// checkConservation sees that no money is in transit but what a person has left there, and none was made or lost. A transfer
// whose money is on its way is reported by itself too: the sums of two could cancel out.
func (x *index) checkConservation(f *findings) {
	transit := make(map[string]*big.Int) // by both ledgers and the asset
	totals := make(map[string]*big.Int)  // by the asset
	add := func(sums map[string]*big.Int, key string, n *big.Int) {
		if sums[key] == nil {
			sums[key] = new(big.Int)
		}
		sums[key].Add(sums[key], n)
	}
	for _, id := range x.ids {
		t := x.transfers[id]
		if len(t.applied(kindWithdraw)) == 0 || len(t.applied(kindDeposit)) > 0 || len(t.applied(kindRefund)) > 0 {
			continue
		}
		if !t.left() {
			f.transfer(RuleConservation, id, "its money has left and has come to nobody: the ledgers hold %s", describe(t.steps))
			continue
		}
		for _, s := range t.applied(kindWithdraw) {
			for k := range s.Legs {
				leg := &s.Legs[k]
				add(transit, pairOf(s.ledger, strings.TrimPrefix(leg.To, transitPrefix))+" in "+leg.Asset, new(big.Int).Neg(leg.Amount))
				add(totals, leg.Asset, leg.Amount)
			}
		}
	}
	for i := range x.Ledgers {
		l := &x.Ledgers[i]
		for j := range l.Accounts {
			a := &l.Accounts[j]
			other, isTransit := strings.CutPrefix(a.Name, transitPrefix)
			if !isTransit {
				add(totals, a.Asset, a.Balance)
				continue
			}
			add(transit, pairOf(l.Name, other)+" in "+a.Asset, a.Balance)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(transit)) {
		if transit[key].Sign() != 0 {
			f.add(RuleConservation, "%s is in transit between %s", transit[key], key)
		}
	}
	for _, asset := range slices.Sorted(maps.Keys(totals)) {
		if totals[asset].Sign() != 0 {
			f.add(RuleConservation, "all accounts together began with 0 and have %s of %s", totals[asset], asset)
		}
	}
}

// pairOf names two ledgers, in whichever order they are given.
func pairOf(a, b string) string {
	pair := []string{a, b}
	slices.Sort(pair)
	return strings.Join(pair, " and ")
}
