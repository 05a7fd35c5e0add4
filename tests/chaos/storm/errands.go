package storm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"payonce/workflows"
)

// errand is one transfer that clients carry out, and what is done to it meanwhile.
type errand struct {
	request workflows.TransferInput
	kind    Kind
	// delay is before it is sent.
	delay time.Duration
	// copies is how many clients send it at once.
	copies int
	// program: a starter process sends it first, and is killed after a time.
	program   bool
	killAfter time.Duration
	// blow strikes its workflow, after a time.
	blow      string
	blowAfter time.Duration
	// forget: Temporal forgets it after its end, and it is sent again.
	forget bool
	// other is another request with its ID, sent after its end: before it is sent again, or after.
	other      *workflows.TransferInput
	otherFirst bool
	// follow is sent right after it was.
	follow *errand
	// prompt: nothing is done to it or its accounts, so it must not take long.
	prompt bool
}

// Kind is what is special about a transfer.
type Kind string

// The kinds.
const (
	KindFund    Kind = "fund"
	KindWithin  Kind = "within"
	KindBetween Kind = "between"
	KindHot     Kind = "hot"
	KindPoor    Kind = "poor"
	KindRefill  Kind = "refill"
	KindCredit  Kind = "credit"
	KindCapped  Kind = "capped"
	KindTight   Kind = "tight"
	KindClosed  Kind = "closed"
	KindFrozen  Kind = "frozen"
	KindLimits  Kind = "limits"
	KindPoison  Kind = "poison"
	KindFlaky   Kind = "flaky"
	KindCoins   Kind = "coins"
	KindLate    Kind = "late"
	KindPayout  Kind = "payout" // no transfer
)

// Mix is how often each kind of transfer is drawn, and in percent, what is done to transfers.
type Mix struct {
	Kinds map[Kind]int

	Twice, Other, Program, Forget int
	Cancel, Terminate, Reset      int
	// Discard is how often a person discards what is parked, and Anew how often what failed or was compensated is made anew.
	Discard, Anew int
}

// FullMix has everything.
func FullMix() Mix {
	return Mix{
		Kinds: map[Kind]int{
			KindWithin: 24, KindBetween: 34, KindHot: 8, KindPoor: 9, KindRefill: 4, KindCredit: 3, KindCapped: 3, KindTight: 2,
			KindClosed: 4, KindFrozen: 3, KindLimits: 3, KindPoison: 3, KindFlaky: 4, KindCoins: 4, KindLate: 3,
		},
		Twice: 10, Other: 6, Program: 3, Forget: 3, Cancel: 7, Terminate: 6, Reset: 5, Discard: 25, Anew: 50,
	}
}

// drawing draws the errands of a round.
type drawing struct {
	random  *rand.Rand
	ledgers []string
	prefix  string // of the IDs
	mix     Mix
	count   int
}

func (d *drawing) id(k Kind) string {
	d.count++
	return fmt.Sprintf("%s-%d-%s", d.prefix, d.count, k)
}

// funding is one transfer for each account that begins with money and takes part in the storm.
func (d *drawing) funding(storm []*errand, bundles []*bundle, remittances []*remittance) []*errand {
	touched := make(map[string]bool)
	for _, m := range remittances {
		touched[m.request.From] = true
	}
	for _, b := range bundles {
		for _, in := range b.rows {
			touched[in.From], touched[in.To] = true, true
		}
	}
	for _, e := range storm {
		for ; e != nil; e = e.follow {
			touched[e.request.From], touched[e.request.To] = true, true
		}
	}
	var list []*errand
	for _, ledger := range d.ledgers {
		for _, a := range accountsOf() {
			if a.funds != "" && touched[ledger+"/"+a.name] {
				list = append(list, &errand{kind: KindFund, copies: 1, request: workflows.TransferInput{
					ID: d.id(KindFund), From: ledger + "/" + a.source, To: ledger + "/" + a.name, Amount: a.funds, Asset: a.asset,
				}})
			}
		}
	}
	return list
}

// storm is n transfers of all kinds, with what is done to them.
func (d *drawing) storm(n int) []*errand {
	kinds := d.kinds()
	list := make([]*errand, 0, n)
	for len(list) < n {
		e := d.draw(pickWeighted(d.random, kinds))
		d.trouble(e)
		list = append(list, e)
	}
	return list
}

// kinds are those that are drawn, and how often.
func (d *drawing) kinds() []weighted[Kind] {
	var kinds []weighted[Kind]
	for _, k := range []Kind{
		KindWithin, KindBetween, KindHot, KindPoor, KindRefill, KindCredit, KindCapped, KindTight, KindClosed, KindFrozen, KindLimits,
		KindPoison, KindFlaky, KindCoins, KindLate,
	} {
		if weight := d.mix.Kinds[k]; weight > 0 {
			kinds = append(kinds, weighted[Kind]{k, weight})
		}
	}
	return kinds
}

// draw is a transfer of a kind.
func (d *drawing) draw(k Kind) *errand {
	here, there := d.twoLedgers()
	if k == KindWithin || k != KindBetween && d.random.IntN(2) == 0 {
		there = here
	}
	e := &errand{kind: k, copies: 1, delay: between(d.random, 0, 20*time.Millisecond)}
	r := &e.request
	r.ID, r.Asset, r.Amount = d.id(k), dollar, d.amount(100, 1500)
	from, to := d.random.IntN(plains), d.random.IntN(plains-1)
	if to >= from {
		to++
	}
	r.From, r.To = here+"/"+plainOf(from), there+"/"+plainOf(to)
	switch k {
	case KindHot:
		d.either(r, here+"/"+hot, there+"/"+hot)
	case KindPoor:
		r.From, r.Amount = here+"/"+poor, d.amount(300, 1500)
	case KindRefill:
		r.To, r.Amount = there+"/"+poor, d.amount(300, 1500)
	case KindCredit:
		d.either(r, here+"/"+credit, there+"/"+credit)
	case KindCapped:
		d.either(r, here+"/"+capped, there+"/"+capped)
	case KindTight:
		d.drawTight(e)
	case KindClosed:
		r.To = there + "/" + closed
	case KindFrozen:
		d.either(r, here+"/"+frozen, there+"/"+frozen)
	case KindLimits:
		d.either(r, here+"/"+limits, there+"/"+limits)
	case KindPoison:
		d.either(r, here+"/"+cursed, there+"/"+cursed)
	case KindFlaky:
		d.either(r, here+"/"+flaky, there+"/"+flaky)
	case KindCoins:
		r.Asset, r.Amount = coin, fmt.Sprintf("%d.%018d", d.random.Uint64N(1e9), d.random.Uint64N(1e18))
		r.From, r.To = here+"/"+coins+"0", there+"/"+coins+"1"
	case KindLate:
		r.To = there + "/" + lateOf(d.random.IntN(lates))
	case KindFund, KindWithin, KindBetween, KindPayout:
	}
	if d.random.IntN(4) == 0 {
		r.Memo, r.Metadata = "chaos ☂", map[string]string{"kind": string(k)}
	}
	return e
}

// drawTight is a transfer whose refund is blocked: it can't arrive, and while it is on its way, somebody else fills the
// account that it left up to its ceiling.
func (d *drawing) drawTight(e *errand) {
	here, there := d.twoLedgers()
	e.request.From, e.request.To = here+"/"+tight, there+"/"+pick(d.random, []string{closed, cursed})
	fill := &errand{kind: KindTight, copies: 1, delay: between(d.random, 20*time.Millisecond, 200*time.Millisecond)}
	fill.request = workflows.TransferInput{
		ID: d.id(KindTight), From: here + "/" + world, To: here + "/" + tight, Amount: e.request.Amount, Asset: dollar,
	}
	e.follow = fill
}

// either puts an account at one of the two ends.
func (d *drawing) either(r *workflows.TransferInput, from, to string) {
	if d.random.IntN(2) == 0 {
		r.From = from
	} else {
		r.To = to
	}
}

func (d *drawing) twoLedgers() (here, there string) {
	first := d.random.IntN(len(d.ledgers))
	if len(d.ledgers) == 1 {
		return d.ledgers[0], d.ledgers[0]
	}
	second := (first + 1 + d.random.IntN(len(d.ledgers)-1)) % len(d.ledgers)
	return d.ledgers[first], d.ledgers[second]
}

// amount is a number of dollars, from a least to a most number of cents.
func (d *drawing) amount(least, most int) string {
	cents := least + d.random.IntN(most-least+1)
	return fmt.Sprintf("%d.%02d", cents/100, cents%100)
}

// trouble draws what is done to a transfer.
func (d *drawing) trouble(e *errand) {
	percent := func(p int) bool { return d.random.IntN(100) < p }
	if percent(d.mix.Twice) {
		e.copies = 2 + d.random.IntN(4)
	}
	if percent(d.mix.Program) {
		e.program, e.killAfter = true, between(d.random, 30*time.Millisecond, 700*time.Millisecond)
	}
	// What else is done goes on the workflow, one thing to each.
	after := between(d.random, 0, 600*time.Millisecond)
	n := d.random.IntN(100)
	for _, blow := range []struct {
		name    string
		percent int
	}{{FaultCancel, d.mix.Cancel}, {FaultTerminate, d.mix.Terminate}, {FaultReset, d.mix.Reset}} {
		if n < blow.percent {
			e.blow, e.blowAfter = blow.name, after
			return
		}
		n -= blow.percent
	}
	e.forget = percent(d.mix.Forget)
	if percent(d.mix.Other) || e.forget {
		e.other, e.otherFirst = d.another(e.request), d.random.IntN(2) == 0
	}
}

// another is another request with the same ID, from the same account: another amount, to somebody else, or to somebody else
// on another ledger, so that it would go another way.
func (d *drawing) another(in workflows.TransferInput) *workflows.TransferInput {
	ledger, _, _ := strings.Cut(in.To, "/")
	switch d.random.IntN(3) {
	case 0:
		first := "1"
		if strings.HasPrefix(in.Amount, "1") {
			first = "2"
		}
		in.Amount = first + in.Amount[1:]
	case 1:
		in.To = d.somebodyElse(ledger, in)
	default:
		there := ledger
		for there == ledger && len(d.ledgers) > 1 {
			_, there = d.twoLedgers()
		}
		in.To = d.somebodyElse(there, in)
	}
	return &in
}

// somebodyElse is an account of a ledger that takes no part in a transfer.
func (*drawing) somebodyElse(ledger string, in workflows.TransferInput) string {
	for _, name := range []string{hot, world} {
		if ref := ledger + "/" + name; ref != in.From && ref != in.To {
			return ref
		}
	}
	return ledger + "/" + poor
}

// witnesses are sent when calm has come, beside poison: what nothing is done to must not be held up by it.
func (d *drawing) witnesses(n int) []*errand {
	var list []*errand
	for i := range n {
		k := KindWithin
		if i%2 == 1 {
			k = KindBetween
		}
		e := d.draw(k)
		e.prompt, e.delay = true, 0
		list = append(list, e)
	}
	for range n / 2 {
		e := d.draw(KindPoison)
		here, there := d.twoLedgers()
		e.request.From, e.request.To = here+"/"+plainOf(0), there+"/"+cursed
		list = append(list, e)
	}
	return list
}
