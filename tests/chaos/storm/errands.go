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
	kind    kind
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
	// other is another request with its ID, sent while it runs or after its end.
	other *workflows.TransferInput
	// follow is sent right after it was.
	follow *errand
	// prompt: nothing is done to it or its accounts, so it must not take long.
	prompt bool
}

// kind is what is special about a transfer.
type kind string

// The kinds.
const (
	kindFund    kind = "fund"
	kindWithin  kind = "within"
	kindBetween kind = "between"
	kindHot     kind = "hot"
	kindPoor    kind = "poor"
	kindRefill  kind = "refill"
	kindCredit  kind = "credit"
	kindCapped  kind = "capped"
	kindTight   kind = "tight"
	kindClosed  kind = "closed"
	kindFrozen  kind = "frozen"
	kindLimits  kind = "limits"
	kindPoison  kind = "poison"
	kindFlaky   kind = "flaky"
	kindCoins   kind = "coins"
	kindLate    kind = "late"
)

// Mix is how often each kind of transfer is drawn, and in percent, what is done to transfers.
type Mix struct {
	Kinds map[kind]int

	Twice, Other, Program, Forget int
	Cancel, Terminate, Reset      int
}

// FullMix has everything.
func FullMix() Mix {
	return Mix{
		Kinds: map[kind]int{
			kindWithin: 24, kindBetween: 34, kindHot: 8, kindPoor: 9, kindRefill: 4, kindCredit: 3, kindCapped: 3, kindTight: 2,
			kindClosed: 4, kindFrozen: 3, kindLimits: 3, kindPoison: 3, kindFlaky: 4, kindCoins: 4, kindLate: 3,
		},
		Twice: 10, Other: 6, Program: 3, Forget: 3, Cancel: 7, Terminate: 6, Reset: 5,
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

func (d *drawing) id(k kind) string {
	d.count++
	return fmt.Sprintf("%s-%d-%s", d.prefix, d.count, k)
}

// funding is one transfer for each account that begins with money.
func (d *drawing) funding() []*errand {
	var list []*errand
	for _, ledger := range d.ledgers {
		for _, a := range accountsOf() {
			if a.funds != "" {
				list = append(list, &errand{kind: kindFund, copies: 1, request: workflows.TransferInput{
					ID: d.id(kindFund), From: ledger + "/" + a.source, To: ledger + "/" + a.name, Amount: a.funds, Asset: a.asset,
				}})
			}
		}
	}
	return list
}

// storm is n transfers of all kinds, with what is done to them.
func (d *drawing) storm(n int) []*errand {
	var kinds []weighted[kind]
	for _, k := range []kind{
		kindWithin, kindBetween, kindHot, kindPoor, kindRefill, kindCredit, kindCapped, kindTight, kindClosed, kindFrozen, kindLimits,
		kindPoison, kindFlaky, kindCoins, kindLate,
	} {
		if weight := d.mix.Kinds[k]; weight > 0 {
			kinds = append(kinds, weighted[kind]{k, weight})
		}
	}
	list := make([]*errand, 0, n)
	for len(list) < n {
		e := d.draw(pickWeighted(d.random, kinds))
		d.trouble(e)
		list = append(list, e)
	}
	return list
}

// draw is a transfer of a kind.
func (d *drawing) draw(k kind) *errand {
	here, there := d.twoLedgers()
	if k == kindWithin || k != kindBetween && d.random.IntN(2) == 0 {
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
	case kindHot:
		d.either(r, here+"/"+hot, there+"/"+hot)
	case kindPoor:
		r.From, r.Amount = here+"/"+poor, d.amount(300, 1500)
	case kindRefill:
		r.To, r.Amount = there+"/"+poor, d.amount(300, 1500)
	case kindCredit:
		d.either(r, here+"/"+credit, there+"/"+credit)
	case kindCapped:
		d.either(r, here+"/"+capped, there+"/"+capped)
	case kindTight:
		d.drawTight(e)
	case kindClosed:
		r.To = there + "/" + closed
	case kindFrozen:
		d.either(r, here+"/"+frozen, there+"/"+frozen)
	case kindLimits:
		d.either(r, here+"/"+limits, there+"/"+limits)
	case kindPoison:
		d.either(r, here+"/"+cursed, there+"/"+cursed)
	case kindFlaky:
		d.either(r, here+"/"+flaky, there+"/"+flaky)
	case kindCoins:
		r.Asset, r.Amount = coin, fmt.Sprintf("%d.%018d", d.random.Uint64N(1e9), d.random.Uint64N(1e18))
		r.From, r.To = here+"/"+coins+"0", there+"/"+coins+"1"
	case kindLate:
		r.To = there + "/" + lateOf(d.random.IntN(lates))
	case kindFund, kindWithin, kindBetween:
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
	fill := &errand{kind: kindTight, copies: 1, delay: between(d.random, 20*time.Millisecond, 200*time.Millisecond)}
	fill.request = workflows.TransferInput{
		ID: d.id(kindTight), From: here + "/" + world, To: here + "/" + tight, Amount: e.request.Amount, Asset: dollar,
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
		other := e.request
		other.Amount = d.otherAmount(e.request.Amount)
		e.other = &other
	}
}

// otherAmount is an amount that differs in its first digit.
func (d *drawing) otherAmount(amount string) string {
	first := "1"
	if strings.HasPrefix(amount, "1") {
		first = "2"
	}
	return first + amount[1:]
}

// witnesses are sent when calm has come, beside poison: what nothing is done to must not be held up by it.
func (d *drawing) witnesses(n int) []*errand {
	var list []*errand
	for i := range n {
		k := kindWithin
		if i%2 == 1 {
			k = kindBetween
		}
		e := d.draw(k)
		e.prompt, e.delay = true, 0
		list = append(list, e)
	}
	for range n / 2 {
		e := d.draw(kindPoison)
		here, there := d.twoLedgers()
		e.request.From, e.request.To = here+"/"+plainOf(0), there+"/"+cursed
		list = append(list, e)
	}
	return list
}
