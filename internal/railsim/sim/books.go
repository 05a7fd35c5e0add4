package sim

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// The states of a payout.
const (
	statusPending   = "pending"
	statusSettled   = "settled"
	statusRejected  = "rejected"
	statusCancelled = "cancelled"
	statusReturned  = "returned"
	statusUnknown   = "unknown"
)

// The calls.
const (
	callSubmit = "submit"
	callLookup = "lookup"
	callCancel = "cancel"
)

// Books are what really happened.
type Books struct {
	// References sum up all payouts of a reference: sent above 1 is money that went out twice.
	References map[string]Sums `json:"references"`
	Payouts    []Payout        `json:"payouts"`  // in the order in which they were taken
	Requests   []Request       `json:"requests"` // in the order in which they ended
	Callbacks  []Delivery      `json:"callbacks"`
}

// Sums say how often money went out for a reference, and how often it came back.
type Sums struct {
	Payouts  int `json:"payouts"`
	Sent     int `json:"sent"`
	Returned int `json:"returned"`
}

// Payout is one payout that the rail has taken. A key that was forgotten and comes again makes another one.
type Payout struct {
	RailID    string            `json:"rail_id"`
	Key       string            `json:"key"`
	Reference string            `json:"reference"`
	Amount    string            `json:"amount"`
	Asset     string            `json:"asset"`
	Payee     map[string]string `json:"payee"`
	Memo      string            `json:"memo,omitempty"`
	Status    string            `json:"status"`
	Code      string            `json:"code,omitempty"`
	Detail    string            `json:"detail,omitempty"`
	Submits   int               `json:"submits"` // requests that asked for it, with its key
	Sent      int               `json:"sent"`
	Returned  int               `json:"returned"`
	History   []Change          `json:"history"`
}

// Change is when a payout came into a state.
type Change struct {
	Status string    `json:"status"`
	At     time.Time `json:"at"`
}

// Request is one request of the contract.
type Request struct {
	At        time.Time `json:"at"` // when it ended
	Call      string    `json:"call"`
	Reference string    `json:"reference"`
	Key       string    `json:"key,omitempty"`
	Fault     string    `json:"fault"`
	Executed  bool      `json:"executed"` // it was carried out
	Status    int       `json:"status"`   // 0: no answer
}

// Delivery is one callback, with every attempt to deliver it.
type Delivery struct {
	EventID   string `json:"event_id"`
	Reference string `json:"reference"`
	Status    string `json:"status"`
	// Pending is how many times it is still to be delivered: each ends when it is taken, or given up.
	Pending  int       `json:"pending"`
	Attempts []Attempt `json:"attempts"`
}

// Attempt is one attempt to deliver a callback.
type Attempt struct {
	At     time.Time `json:"at"`
	Status int       `json:"status,omitempty"` // 0: no answer
	Error  string    `json:"error,omitempty"`
}

// books are the payouts. Its user locks.
type books struct {
	payouts     []*Payout
	byReference map[string][]*Payout
	requests    []Request
	deliveries  []*Delivery
}

// take adds a payout, which is pending.
func (b *books) take(s submission, now time.Time) *Payout {
	p := &Payout{
		RailID: "rp-" + strconv.Itoa(len(b.payouts)+1), Key: s.key, Reference: s.Reference, Amount: s.Amount, Asset: s.Asset,
		Payee: s.Payee, Memo: s.Memo,
	}
	p.change(statusPending, now)
	b.payouts = append(b.payouts, p)
	b.byReference[s.Reference] = append(b.byReference[s.Reference], p)
	return p
}

// latest is the last payout of a reference, or nil.
func (b *books) latest(reference string) *Payout {
	all := b.byReference[reference]
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// may says whether a payout can come into a state.
func (p *Payout) may(status string) bool {
	switch status {
	case statusSettled, statusRejected, statusCancelled:
		return p.Status == statusPending
	case statusReturned:
		return p.Status == statusSettled
	default:
		return false
	}
}

func (p *Payout) change(status string, now time.Time) {
	p.Status = status
	p.History = append(p.History, Change{Status: status, At: now})
	switch status {
	case statusSettled:
		p.Sent++
	case statusReturned:
		p.Returned++
	}
}

// copy is what others may keep.
func (b *books) copy() Books {
	out := Books{References: map[string]Sums{}, Payouts: []Payout{}, Requests: slices.Clone(b.requests), Callbacks: []Delivery{}}
	for _, p := range b.payouts {
		one := *p
		one.Payee, one.History = maps.Clone(p.Payee), slices.Clone(p.History)
		out.Payouts = append(out.Payouts, one)
		sums := out.References[p.Reference]
		sums.Payouts++
		sums.Sent += p.Sent
		sums.Returned += p.Returned
		out.References[p.Reference] = sums
	}
	for _, d := range b.deliveries {
		one := *d
		one.Attempts = slices.Clone(d.Attempts)
		out.Callbacks = append(out.Callbacks, one)
	}
	return out
}
