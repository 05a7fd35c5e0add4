package ledgermodel

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"payonce/ledger"
)

// World is where random operations happen: few accounts, keys and amounts, so that they meet.
type World struct {
	Prefix   string // of names and keys, so that several worlds share a database
	Accounts []ledger.Account
	Others   []string // accounts on other ledgers, which no other world has either
	keys     int
}

var assets = []ledger.Asset{mustAsset("USD/2"), mustAsset("JPY/0"), mustAsset("ETH/18")}

func mustAsset(s string) ledger.Asset {
	asset, err := ledger.ParseAsset(s)
	if err != nil {
		panic(err)
	}
	return asset
}

// DrawWorld draws accounts: some without a floor, so that there is money; some with limits; some not open. prefix is
// lower-case letters and digits, or empty.
func DrawWorld(t *rapid.T, prefix string) *World {
	w := &World{
		Prefix: prefix, Others: []string{"eu" + prefix + "/bob", "us" + prefix + "/carol"},
		keys: rapid.IntRange(3, 40).Draw(t, "keys"),
	}
	for i := range rapid.IntRange(2, 7).Draw(t, "accounts") {
		label := fmt.Sprintf("account %d ", i)
		a := ledger.NewAccount(fmt.Sprintf("%sa%d", prefix, i), assets[rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, label+"asset")])
		if rapid.Bool().Draw(t, label+"unlimited") {
			a.Floor = nil
		}
		if rapid.IntRange(0, 3).Draw(t, label+"has ceiling") == 0 {
			ceiling := ledger.AmountFromUnits(rapid.Int64Range(0, 2_000).Draw(t, label+"ceiling"))
			a.Ceiling = &ceiling
		}
		w.Accounts = append(w.Accounts, a)
	}
	return w
}

// DrawStatuses draws a status for every account.
func (w *World) DrawStatuses(t *rapid.T) []ledger.AccountStatus {
	statuses := make([]ledger.AccountStatus, len(w.Accounts))
	for i := range statuses {
		statuses[i] = rapid.SampledFrom([]ledger.AccountStatus{
			ledger.AccountOpen, ledger.AccountOpen, ledger.AccountOpen, ledger.AccountOpen, ledger.AccountFrozen, ledger.AccountClosed,
		}).Draw(t, fmt.Sprintf("status %d", i))
	}
	return statuses
}

// DrawOperations draws a list of valid operations, with repeats, conflicts, reversals, unknown accounts and assets that
// don't match.
func (w *World) DrawOperations(t *rapid.T) []ledger.Operation {
	count := rapid.IntRange(1, 60).Draw(t, "operations")
	operations := make([]ledger.Operation, 0, count)
	for i := range count {
		label := fmt.Sprintf("operation %d ", i)
		if len(operations) > 0 && rapid.IntRange(0, 4).Draw(t, label+"repeat") == 0 {
			operations = append(operations, operations[rapid.IntRange(0, len(operations)-1).Draw(t, label+"of")])
			continue
		}
		operations = append(operations, w.drawOperation(t, label, operations))
	}
	return operations
}

func (w *World) drawOperation(t *rapid.T, label string, before []ledger.Operation) ledger.Operation {
	o := ledger.Operation{
		Key:  w.drawKey(t, label+"key"),
		Kind: rapid.SampledFrom([]ledger.Kind{ledger.KindPost, ledger.KindPost, ledger.KindWithdraw, ledger.KindDeposit, ledger.KindRefund}).Draw(t, label+"kind"),
		Memo: rapid.SampledFrom([]string{"", "rent"}).Draw(t, label+"memo"),
	}
	if o.Kind != ledger.KindPost {
		o.Counterparty = rapid.SampledFrom(w.Others).Draw(t, label+"counterparty")
	}
	other, _, _ := strings.Cut(o.Counterparty, "/")
	transit := ledger.TransitAccount(other)
	if o.Kind == ledger.KindRefund {
		o.Reverses = w.drawKey(t, label+"reverses")
		// Mostly of something that may be there.
		for _, b := range slices.Backward(before) {
			if b.Kind == ledger.KindWithdraw && rapid.Bool().Draw(t, label+"reverses this") {
				o.Reverses, o.Counterparty = b.Key, b.Counterparty
				for _, leg := range b.Legs {
					amount := leg.Amount
					if rapid.Bool().Draw(t, label+"in part") {
						amount = drawAmount(t, label)
					}
					o.Legs = append(o.Legs, ledger.Leg{From: leg.To, To: leg.From, Asset: leg.Asset, Amount: amount})
				}
				return o
			}
		}
	}
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, label+"legs") {
		from := rapid.IntRange(0, len(w.Accounts)-1).Draw(t, label+"from")
		to := rapid.IntRange(0, len(w.Accounts)-2).Draw(t, label+"to")
		if to >= from {
			to++
		}
		leg := ledger.Leg{From: w.Accounts[from].Name, To: w.Accounts[to].Name, Asset: w.Accounts[from].Asset, Amount: drawAmount(t, label)}
		if rapid.IntRange(0, 9).Draw(t, label+"odd") == 0 {
			leg.To = w.Prefix + "nobody"
		}
		switch o.Kind { //nolint:exhaustive // no steps of payouts are drawn
		case ledger.KindPost:
		case ledger.KindWithdraw:
			leg.To = transit
		case ledger.KindDeposit, ledger.KindRefund:
			leg.From = transit
			if rapid.Bool().Draw(t, label+"asset of the payee") && leg.To == w.Accounts[to].Name {
				leg.Asset = w.Accounts[to].Asset
			}
		}
		o.Legs = append(o.Legs, leg)
	}
	return o
}

func (w *World) drawKey(t *rapid.T, label string) ledger.Key {
	number := rapid.IntRange(0, w.keys).Draw(t, label)
	step := rapid.SampledFrom([]string{"", "", "/post", "/withdraw", "/deposit"}).Draw(t, label+" step")
	return ledger.Key(fmt.Sprintf("%sk%d%s", w.Prefix, number, step))
}

func drawAmount(t *rapid.T, label string) ledger.Amount {
	if rapid.IntRange(0, 15).Draw(t, label+"huge") == 0 {
		huge, _ := ledger.ParseUnits("99999999999999999999999999999999999999")
		return huge
	}
	return ledger.AmountFromUnits(rapid.Int64Range(1, 1_000).Draw(t, label+"amount"))
}
