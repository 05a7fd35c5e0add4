package activities

import (
	"context"
	"time"
)

// Rail is a way for money to leave: a bank's or a payment provider's interface. The far side shares no database transaction
// with the ledger, so what it does is safe to repeat only because it keeps the key that is sent along (level 2 by contract
// with the far side). Its methods may be called concurrently.
//
// An answer is the rail's word about one payout. An error means that there is no such word, whatever it says: the payout may
// have been made, be under way, or never have arrived. Only a word that is definite (RailState.Definite) moves money.
type Rail interface {
	// Submit asks for a payout. The rail carries it out once for payment.Key, as long as it keeps keys; a repeat is answered
	// with the payout's state.
	Submit(ctx context.Context, payment RailPayment) (RailAnswer, error)
	// Lookup asks what has become of a payout, by the reference that it was submitted with. That the rail doesn't know the
	// reference is an answer, RailUnknown, and not a definite one: a submitted payout may still be on its way to it.
	Lookup(ctx context.Context, reference string) (RailAnswer, error)
}

// RailCanceller is a Rail that can stop a payout which is under way.
type RailCanceller interface {
	// Cancel asks for a payout to be stopped; level 1. The answer is the payout's state afterwards: RailCancelled if it was
	// stopped, and what it is if it was not.
	Cancel(ctx context.Context, reference string) (RailAnswer, error)
}

// RailPayment is what a rail is asked to pay.
type RailPayment struct {
	Key       string            // the idempotence key: the step's
	Reference string            // ours; the rail repeats it in its answers and callbacks
	Amount    string            // in major units with all of the asset's digits, "10.00"
	Asset     string            // "USD/2"
	Payee     map[string]string // who gets it, in the rail's own terms: {"iban": "…", "name": "…"}
	Memo      string
}

// RailAnswer is a rail's word about a payout.
type RailAnswer struct {
	State  RailState `json:"state"`
	RailID string    `json:"rail_id,omitempty"` // the rail's own name for the payout
	Code   string    `json:"code,omitempty"`    // why it was rejected, cancelled or returned: the rail's, for programs
	Detail string    `json:"detail,omitempty"`  // the same for a person
	At     time.Time `json:"at,omitzero"`       // when it came into this state, by the rail's clock
}

// RailState is what a rail says of a payout.
type RailState string

// The states.
const (
	RailPending   RailState = "pending"   // the rail has it, and has not decided
	RailSettled   RailState = "settled"   // paid
	RailRejected  RailState = "rejected"  // not paid, and never will be
	RailCancelled RailState = "cancelled" // stopped before it was paid, and never will be
	RailReturned  RailState = "returned"  // it was paid, and the money came back: bounced
	RailUnknown   RailState = "unknown"   // the rail doesn't know the reference, now
)

// Definite says whether the state says where the money is: paid, or not paid for good.
func (s RailState) Definite() bool {
	switch s {
	case RailSettled, RailRejected, RailCancelled, RailReturned:
		return true
	case RailPending, RailUnknown:
		return false
	default:
		return false
	}
}
