package checker

import (
	"math/big"
	"slices"
	"strings"
	"time"
)

// PayoutCall is one call of a client about a payout.
type PayoutCall struct {
	Client   string
	Request  PayoutRequest
	Called   time.Time
	Returned time.Time
	// Told is the end that the client was told: settled, returned, rejected, failed or cancelled; or "" when it was told no end,
	// and then Note says what it was told.
	Told string
	Note string
}

// PayoutRequest is what a payout asks for.
type PayoutRequest struct {
	ID, From, Rail, Amount, Asset string
}

// RailPayout is a payout in the rail's own books, which know nothing of ours.
type RailPayout struct {
	Key       string `json:"key"`
	Reference string `json:"reference"`
	Amount    string `json:"amount"`
	Asset     string `json:"asset"`
	Status    string `json:"status"`
	Sent      int    `json:"sent"`     // how often money went out
	Returned  int    `json:"returned"` // how often it came back
}

// The ends of a payout that are not those of a transfer.
const (
	EndSettled  = "settled"
	EndReturned = "returned"
)

const (
	kindReserve = "reserve"
	kindSettle  = "settle"
	kindReturn  = "return"
	kindBounce  = "bounce"

	payoutPrefix  = "payout/"
	railPrefix    = "rail:"
	settledPrefix = "settled:"

	railPaid     = "settled"
	railBounced  = "returned"
	railRejected = "rejected"
	railStopped  = "cancelled"
)

// payout is all that is known of one. Its name in findings is its workflow's ID, payout/ID.
type payout struct {
	transfer // what it has in common with one: its steps and runs

	asked []*PayoutCall
	rail  []*RailPayout
}

// payoutOf is the ID of the payout that a key belongs to.
func payoutOf(key string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(key, payoutPrefix)
	if !ok {
		return "", false
	}
	id, _, ok = strings.Cut(rest, "/")
	return id, ok
}

// payout is the one of a name, payout/ID, or nil.
func (x *index) payout(name string) *payout {
	id, ok := strings.CutPrefix(name, payoutPrefix)
	if !ok {
		return nil
	}
	return x.payouts[id]
}

// indexPayouts collects what is known of each payout. Operations and the rail's payouts that nobody has asked for are found by
// checkPayouts.
func (x *index) indexPayouts() {
	x.payouts = make(map[string]*payout)
	for i := range x.PayoutCalls {
		call := &x.PayoutCalls[i]
		p := x.payouts[call.Request.ID]
		if p == nil {
			p = &payout{transfer: transfer{id: payoutPrefix + call.Request.ID}}
			x.payouts[call.Request.ID] = p
			x.payoutIDs = append(x.payoutIDs, call.Request.ID)
		}
		p.asked = append(p.asked, call)
	}
	for i := range x.Rail {
		if p := x.payouts[x.Rail[i].Reference]; p != nil {
			p.rail = append(p.rail, &x.Rail[i])
		}
	}
	for i := range x.Runs {
		if id, ok := strings.CutPrefix(x.Runs[i].WorkflowID, payoutPrefix); ok && x.payouts[id] != nil {
			x.payouts[id].runs = append(x.payouts[id].runs, &x.Runs[i])
		}
	}
	slices.Sort(x.payoutIDs)
}

// checkPayouts holds the rail's books against the ledgers', and both against what clients were told.
func (x *index) checkPayouts(f *findings) {
	for i := range x.Rail {
		if x.payouts[x.Rail[i].Reference] == nil {
			f.add(RuleOnce, "the rail has a payout %q that nobody has asked for", x.Rail[i].Reference)
		}
	}
	for _, id := range x.payoutIDs {
		p := x.payouts[id]
		p.checkOnce(f)
		p.checkTruth(f)
		p.checkTold(f)
	}
	x.checkRailMoney(f)
}

// checkOnce sees that the rail was paid through once, under one key, and that the steps go together.
func (p *payout) checkOnce(f *findings) {
	for _, kind := range []string{kindReserve, kindSettle, kindReturn, kindBounce} {
		if applied := p.applied(kind); len(applied) > 1 {
			f.transfer(RuleOnce, p.id, "%s has applied %d times, under the keys %s", kind, len(applied), keys(applied))
		}
	}
	reserved, settled := len(p.applied(kindReserve)) > 0, len(p.applied(kindSettle)) > 0
	switch {
	case settled && len(p.applied(kindReturn)) > 0:
		f.transfer(RuleOnce, p.id, "it was both settled and given back: the ledgers hold %s", describe(p.steps))
	case !settled && len(p.applied(kindBounce)) > 0:
		f.transfer(RuleOnce, p.id, "it came back and was never settled: the ledgers hold %s", describe(p.steps))
	case !reserved && (settled || len(p.applied(kindReturn)) > 0):
		f.transfer(RuleOnce, p.id, "nothing was reserved for it: the ledgers hold %s", describe(p.steps))
	}
	sent := 0
	for _, r := range p.rail {
		sent += r.Sent
		if want := p.id + "/submit"; r.Key != want {
			f.transfer(RuleOnce, p.id, "the rail was asked under the key %q instead of %q", r.Key, want)
		}
		if !p.asksFor(r) {
			f.transfer(RuleOnce, p.id, "the rail was asked for %s %s", r.Amount, r.Asset)
		}
	}
	if len(p.rail) > 1 || sent > 1 {
		f.transfer(RuleOnce, p.id, "the rail took it %d times, and paid %d times", len(p.rail), sent)
	}
	if len(p.rail) > 0 && !reserved {
		f.transfer(RuleOnce, p.id, "the rail was asked, and nothing was reserved")
	}
}

// asksFor says whether the rail has the amount that clients asked for.
func (p *payout) asksFor(r *RailPayout) bool {
	asked, errAsked := smallestUnits(p.asked[0].Request.Amount, p.asked[0].Request.Asset)
	got, errGot := smallestUnits(r.Amount, r.Asset)
	return errAsked == nil && errGot == nil && asked.Cmp(got) == 0 && r.Asset == p.asked[0].Request.Asset
}

// checkTruth sees that the ledgers hold what has really become of it at the rail.
func (p *payout) checkTruth(f *findings) {
	status := ""
	if len(p.rail) > 0 {
		status = p.rail[0].Status
	}
	var holds bool
	switch {
	case len(p.applied(kindBounce)) > 0:
		holds = status == railBounced
	case len(p.applied(kindSettle)) > 0:
		holds = status == railPaid
	case len(p.applied(kindReturn)) > 0:
		holds = status == "" || status == railRejected || status == railStopped
	case len(p.applied(kindReserve)) > 0:
		f.transfer(RuleConservation, p.id, "its money is reserved, and has come to nobody; at the rail it is %q", status)
		return
	default:
		holds = status == ""
	}
	if !holds {
		f.transfer(RuleTruth, p.id, "at the rail it is %q, and the ledgers hold %s", status, describe(p.steps))
	}
}

// checkTold holds what clients were told against the ledgers. What was settled may have come back afterwards.
func (p *payout) checkTold(f *findings) {
	answered := false
	for _, call := range p.asked {
		if call.Told == "" {
			continue
		}
		answered = true
		reserve := p.outcome(kindReserve)
		var holds bool
		switch call.Told {
		case EndSettled:
			holds = len(p.applied(kindSettle)) > 0
		case EndReturned:
			holds = len(p.applied(kindReturn)) > 0 || len(p.applied(kindBounce)) > 0
		case EndCancelled:
			holds = len(p.applied(kindReturn)) > 0 || reserve.State == stateSealed && reserve.Code == codeCancelled
		case EndRejected:
			holds = reserve.State == stateRefused
		case EndFailed:
			holds = reserve.State == stateSealed && reserve.Code == codeAttemptsExhausted
		}
		if !holds {
			f.transfer(RuleTruth, p.id, "%s was told %s, and the ledgers hold %s", call.Client, call.Told, describe(p.steps))
		}
	}
	if !answered {
		last := p.asked[len(p.asked)-1]
		f.transfer(RuleLiveness, p.id, "%s asked and was never told an end; at last it was told: %s", last.Client, last.Note)
	}
}

// checkRailMoney sees that nothing is reserved any more, and that the ledgers have settled what the rail has paid.
func (x *index) checkRailMoney(f *findings) {
	paid := make(map[string]*big.Int) // by asset
	of := func(asset string) *big.Int {
		if paid[asset] == nil {
			paid[asset] = new(big.Int)
		}
		return paid[asset]
	}
	for i := range x.Rail {
		r := &x.Rail[i]
		units, err := smallestUnits(r.Amount, r.Asset)
		if err != nil {
			f.add(RuleConservation, "the rail's payout %q can't be read: %v", r.Reference, err)
			continue
		}
		of(r.Asset).Add(of(r.Asset), units.Mul(units, big.NewInt(int64(r.Sent-r.Returned))))
	}
	for i := range x.Ledgers {
		l := &x.Ledgers[i]
		for j := range l.Accounts {
			a := &l.Accounts[j]
			switch {
			case strings.HasPrefix(a.Name, railPrefix) && a.Balance.Sign() != 0:
				f.account(RuleConservation, l.Name, a.Name, "%s %s are reserved, and nothing is under way", a.Balance, a.Asset)
			case strings.HasPrefix(a.Name, settledPrefix):
				of(a.Asset).Sub(of(a.Asset), a.Balance)
			}
		}
	}
	for asset, left := range paid {
		if left.Sign() != 0 {
			f.add(RuleConservation, "the rail has paid %s of %s more than the ledgers have settled", left, asset)
		}
	}
}

// payout tells what is known of one.
func (s *story) payout(p *payout) {
	if trouble := s.Troubles[p.id]; trouble != "" {
		s.line("  done to it: %s", trouble)
	}
	s.line("  calls:")
	for _, c := range p.asked {
		s.line("    %s to %s %s: %s %s from %s: told %q %s", timeText(c.Called), timeText(c.Returned), c.Client, c.Request.Amount, c.Request.Asset,
			c.Request.From, c.Told, clip(c.Note))
	}
	s.runs(p.runs)
	s.operations(p.steps)
	for _, r := range p.rail {
		s.line("  at the rail: %s under %s, sent %d times, returned %d times", r.Status, r.Key, r.Sent, r.Returned)
	}
	s.letters(p.id)
}
