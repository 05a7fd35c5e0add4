package checker

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// index is the evidence by what it is about.
type index struct {
	*Evidence

	ledgers   map[string]*Ledger
	transfers map[string]*transfer
	ids       []string // of the transfers, sorted
	strangers []step   // operations that belong to no transfer and no payout that anybody asked for
	payouts   map[string]*payout
	payoutIDs []string // sorted
}

// transfer is all that is known of one.
type transfer struct {
	id    string
	calls []*Call
	runs  []*Run
	steps []step
}

// step is an operation of a transfer.
type step struct {
	*Operation

	ledger string
}

func newIndex(e *Evidence) *index {
	x := &index{Evidence: e, ledgers: make(map[string]*Ledger), transfers: make(map[string]*transfer)}
	at := func(id string) *transfer {
		t := x.transfers[id]
		if t == nil {
			t = &transfer{id: id}
			x.transfers[id] = t
			x.ids = append(x.ids, id)
		}
		return t
	}
	for i := range e.Calls {
		t := at(e.Calls[i].Request.ID)
		t.calls = append(t.calls, &e.Calls[i])
	}
	for i := range e.Runs {
		if id, ok := strings.CutPrefix(e.Runs[i].WorkflowID, workflowPrefix); ok {
			t := at(id)
			t.runs = append(t.runs, &e.Runs[i])
		}
	}
	x.indexPayouts()
	for i := range e.Ledgers {
		l := &e.Ledgers[i]
		x.ledgers[l.Name] = l
		for j := range l.Operations {
			s := step{Operation: &l.Operations[j], ledger: l.Name}
			if t := x.owner(s.Key); t != nil {
				t.steps = append(t.steps, s)
			} else {
				x.strangers = append(x.strangers, s)
			}
		}
	}
	slices.Sort(x.ids)
	return x
}

// workflowPrefix and the shape of a key are part of the contract: "transfer/ID" is a workflow's ID, and "transfer/ID/step"
// a step's key. The IDs of a check have no slash, so that a key that is longer than it should be still tells its transfer.
const workflowPrefix = "transfer/"

// transferOf is the ID of the transfer that a key belongs to.
func transferOf(key string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(key, workflowPrefix)
	if !ok {
		return "", false
	}
	id, _, ok = strings.Cut(rest, "/")
	return id, ok
}

// ownerOf names what a key belongs to: the ID of a transfer, or payout/ID; "" is neither.
func ownerOf(key string) string {
	if id, ok := payoutOf(key); ok {
		return payoutPrefix + id
	}
	id, _ := transferOf(key)
	return id
}

// owner is the transfer or the payout that somebody has asked for and that a key belongs to, or nil.
func (x *index) owner(key string) *transfer {
	if id, ok := payoutOf(key); ok {
		if p := x.payouts[id]; p != nil {
			return &p.transfer
		}
		return nil
	}
	if id, ok := transferOf(key); ok {
		return x.transfers[id]
	}
	return nil
}

// of returns the steps of a kind, in the order in which they were recorded.
func (t *transfer) of(kind string) []step {
	var some []step
	for _, s := range t.steps {
		if s.Kind == kind {
			some = append(some, s)
		}
	}
	return some
}

// applied returns the steps of a kind that have applied.
func (t *transfer) applied(kind string) []step {
	return slices.DeleteFunc(t.of(kind), func(s step) bool { return s.State != stateApplied })
}

// left says whether a person has left the transfer's money in transit: the way back is sealed, and the deposit did not apply.
func (t *transfer) left() bool {
	return len(t.applied(kindWithdraw)) > 0 && len(t.applied(kindDeposit)) == 0 &&
		slices.ContainsFunc(t.of(kindRefund), func(s step) bool { return s.State == stateSealed && s.Code == codeDiscarded })
}

const (
	kindPost     = "post"
	kindWithdraw = "withdraw"
	kindDeposit  = "deposit"
	kindRefund   = "refund"

	stateApplied = "applied"
	stateRefused = "refused"
	stateSealed  = "sealed"

	codeAttemptsExhausted = "attempts_exhausted"
	codeCancelled         = "cancelled"
	codeDiscarded         = "discarded"
	codeInsufficientFunds = "insufficient_funds"
	codeCeilingExceeded   = "ceiling_exceeded"

	transitPrefix = "transit:"
)

// payment is a request in the ledgers' terms.
type payment struct {
	fromLedger, from string
	toLedger, to     string
	asset            string
	amount           *big.Int
}

func (r *Request) payment() (payment, error) {
	p := payment{asset: r.Asset}
	var okFrom, okTo bool
	p.fromLedger, p.from, okFrom = strings.Cut(r.From, "/")
	p.toLedger, p.to, okTo = strings.Cut(r.To, "/")
	if !okFrom || !okTo {
		return p, fmt.Errorf("the accounts %q and %q are not named in full", r.From, r.To)
	}
	var err error
	p.amount, err = smallestUnits(r.Amount, r.Asset)
	return p, err
}

// within says whether both accounts are on one ledger.
func (p *payment) within() bool { return p.fromLedger == p.toLedger }

func (p *payment) equal(q *payment) bool {
	return p.fromLedger == q.fromLedger && p.from == q.from && p.toLedger == q.toLedger && p.to == q.to &&
		p.asset == q.asset && p.amount.Cmp(q.amount) == 0
}

// smallestUnits reads a decimal number of major units.
func smallestUnits(amount, asset string) (*big.Int, error) {
	_, scaleText, _ := strings.Cut(asset, "/")
	scale, err := strconv.Atoi(scaleText)
	if err != nil {
		return nil, fmt.Errorf("the asset %q does not say its scale", asset)
	}
	whole, fraction, _ := strings.Cut(amount, ".")
	if len(fraction) > scale {
		return nil, fmt.Errorf("%q has more digits than %s", amount, asset)
	}
	units, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", scale-len(fraction)), 10)
	if !ok {
		return nil, fmt.Errorf("%q is not a number", amount)
	}
	return units, nil
}

// is says whether an operation is the step of its kind of a payment.
func (s *step) is(p *payment) bool {
	if len(s.Legs) != 1 || s.Legs[0].Asset != p.asset || s.Legs[0].Amount.Cmp(p.amount) != 0 {
		return false
	}
	leg := &s.Legs[0]
	from, to := p.fromLedger+"/"+p.from, p.toLedger+"/"+p.to
	switch s.Kind {
	case kindPost:
		return p.within() && s.ledger == p.fromLedger && leg.From == p.from && leg.To == p.to
	case kindWithdraw:
		return !p.within() && s.ledger == p.fromLedger && leg.From == p.from && leg.To == transitPrefix+p.toLedger && s.Counterparty == to
	case kindDeposit:
		return !p.within() && s.ledger == p.toLedger && leg.From == transitPrefix+p.fromLedger && leg.To == p.to && s.Counterparty == from
	case kindRefund:
		return !p.within() && s.ledger == p.fromLedger && leg.From == transitPrefix+p.toLedger && leg.To == p.from && s.Counterparty == to
	default:
		return false
	}
}

// String is "us withdraw refused insufficient_funds".
func (s *step) String() string {
	return strings.TrimSpace(s.ledger + " " + s.Kind + " " + s.State + " " + s.Code)
}

func describe(steps []step) string {
	if len(steps) == 0 {
		return "nothing"
	}
	texts := make([]string, len(steps))
	for i := range steps {
		texts[i] = steps[i].String()
	}
	return strings.Join(texts, ", ")
}
