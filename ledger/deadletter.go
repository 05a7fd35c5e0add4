package ledger

import "time"

// DeadLetterState says whether a dead letter still waits for a person.
type DeadLetterState string

// The states of a dead letter.
const (
	DeadLetterOpen   DeadLetterState = "open"
	DeadLetterClosed DeadLetterState = "closed"
)

// Place says where a transfer's money is.
type Place string

// The places.
const (
	PlaceUnknown     Place = "unknown"     // until the step is resolved; Account names the possibilities
	PlaceSource      Place = "source"      // it never left, or it is back
	PlaceTransit     Place = "transit"     // it left the source, and has not arrived
	PlaceDestination Place = "destination" // it arrived
)

// DeadLetter is a step set aside after its attempts ran out. It is an absolute write by its natural name, the step's
// key (level 1): writing it again with the same content changes nothing, and with newer content replaces it.
type DeadLetter struct {
	Key      Key    // of the step that was set aside
	Transfer string // the transfer's ID
	Step     string // the step's name
	State    DeadLetterState
	// Parked: the transfer waits for a decision. Otherwise it has ended, and the dead letter is for a person to see.
	Parked   bool
	Error    string // the last error with the whole chain of its causes, as text without secrets
	Attempts int
	FirstAt  time.Time
	LastAt   time.Time
	// Where the money is: the place, the account ("us/alice") and how much.
	Place   Place
	Account string
	Asset   Asset
	Amount  Amount
	// Choices are the decisions that a person can take: "retry", "compensate". None when there is nothing to decide.
	Choices []string
	// Resolution says how the transfer ended, or what a person decided; "" while it is parked.
	Resolution string
}

// Validate says whether the dead letter can be kept. The error is an *InvalidError. Error and Resolution are evidence: they
// are clipped, never refused.
func (d *DeadLetter) Validate() error {
	if err := CheckID("key", string(d.Key), KeyBytesMax); err != nil {
		return err
	}
	switch d.State {
	case DeadLetterOpen, DeadLetterClosed:
	default:
		return invalid("state", "%q is not open or closed", clip(string(d.State)))
	}
	switch d.Place {
	case PlaceUnknown, PlaceSource, PlaceTransit, PlaceDestination:
	default:
		return invalid("place", "%q is not unknown, source, transit or destination", clip(string(d.Place)))
	}
	switch {
	case d.Asset.IsZero():
		return invalid("asset", "an asset is required, such as USD or POINTS/0")
	case d.Amount.Sign() < 0:
		return invalid("amount", "%s is below zero", d.Amount.Format(d.Asset))
	case d.Attempts < 0:
		return invalid("attempts", "%d is below zero", d.Attempts)
	}
	for _, text := range append([]string{d.Transfer, d.Step, d.Account}, d.Choices...) {
		if err := checkText("dead letter", text, MemoBytesMax); err != nil {
			return err
		}
	}
	return nil
}

// DeadLettersPage asks for dead letters in the order of their last attempt, newest first.
type DeadLettersPage struct {
	Key   Key             // only this one, if not ""
	State DeadLetterState // only those in this state, if not ""
	Limit int             // 1 to PageSizeMax
}
