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
// key (level 1): of all that is written, what is as of the latest moment stands.
type DeadLetter struct {
	Key      Key    // of the step that was set aside
	Transfer string // the transfer's ID
	Step     string // the step's name
	State    DeadLetterState
	// Parked: the transfer waits for a decision. Otherwise it goes on, or has ended.
	Parked bool
	// Run is the run of the transfer's workflow that wrote it, and Parking the number of the parking within that run; 0
	// for a step that was not parked. A decision names both, so that it meets what its author saw.
	Run     string
	Parking int
	// Ended is how the transfer ended; "" while it has not.
	Ended string

	// Error is the last error, whole, as text without secrets; ErrorType its type as Temporal records it, and Causes what
	// it wraps, outermost first.
	Error     string
	ErrorType string
	Causes    []ErrorCause
	Attempts  int
	FirstAt   time.Time
	LastAt    time.Time

	// Where the money is: the place, the account ("us/alice") and how much.
	Place   Place
	Account string
	Asset   Asset
	Amount  Amount
	// What was asked for, so that it can be asked for again: from and to ("us/alice", "eu/bob"), memo and metadata.
	From, To string
	Memo     string
	Metadata map[string]string

	// Choices are the decisions that a person can take: "retry", "compensate", "discard". None when there is nothing to
	// decide.
	Choices []string
	// Resolution says how the transfer ended, and what a person decided; "" while it is parked.
	Resolution string
	// Decision is what brought the letter into this state; nil if that was no person's.
	Decision *Decision

	// AsOf orders the letters of one key: a later one replaces an earlier one, whichever arrives first. It is to the
	// microsecond.
	AsOf time.Time

	// ID and Version are the ledger's: a number of the letter, and how often it was written.
	ID      int64
	Version int64
}

// ErrorCause is one error of a chain.
type ErrorCause struct {
	Type string `json:"type"`           // in Go: "*pgconn.PgError"
	Text string `json:"text,omitempty"` // "" when the error around it ends with the same text
}

// Decision is a person's word about a dead letter.
type Decision struct {
	// ID names the decision: recorded again under the same ID it is the same one.
	ID     string
	Action string // "retry", "compensate", "discard"
	By     string // who
	Reason string // why
}

// The bounds of a decision's texts.
const (
	DecisionByBytesMax     = 200
	DecisionReasonBytesMax = 500
)

// Validate says whether the decision can be kept. The error is an *InvalidError.
func (d *Decision) Validate() error {
	if d.By == "" {
		return invalid("by", "a decision needs the name of who decides")
	}
	if err := CheckID("by", d.By, DecisionByBytesMax); err != nil {
		return err
	}
	return checkText("reason", d.Reason, DecisionReasonBytesMax)
}

// DeadLetterDecision is a decision about an open dead letter of a transfer that has ended.
type DeadLetterDecision struct {
	Decision

	Key     Key
	Version int64 // of the letter as it was when the decision was taken
	// Ended is how the transfer ended, for a letter that still says that it is parked: its workflow was terminated then,
	// and ended in another run.
	Ended string
	// Resolution says what was decided, for a person.
	Resolution string
}

// DeadLetterAction is one thing that happened to a dead letter. Actions are kept in order and never change.
type DeadLetterAction struct {
	At       time.Time // the ledger's clock
	Action   string    // "set-aside", a decision's, or "end"
	By       string    // who decided; "" for what payonce did
	Reason   string
	UpdateID string // the decision's
	Run      string

	// The letter as it was written then. The error is cut.
	State      DeadLetterState
	ErrorType  string
	Error      string
	Attempts   int
	Place      Place
	Account    string
	Resolution string
}

// What happens to a dead letter without a decision.
const (
	ActionSetAside = "set-aside" // the step's attempts ran out
	ActionEnd      = "end"       // the transfer ended after a decision
)

// DeadLetterRecord is a dead letter with its actions, oldest first.
type DeadLetterRecord struct {
	Letter  DeadLetter
	Actions []DeadLetterAction
	// ActionsLeftOut is how many older actions there are.
	ActionsLeftOut int
}

// Decided returns the last decision in the record, or nil.
func (r *DeadLetterRecord) Decided() *DeadLetterAction {
	for i := len(r.Actions) - 1; i >= 0; i-- {
		if r.Actions[i].By != "" {
			return &r.Actions[i]
		}
	}
	return nil
}

// Validate says whether the dead letter can be kept. The error is an *InvalidError. Error, Causes and Resolution are
// evidence: they are clipped, never refused.
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
	case d.Parking < 0:
		return invalid("parking", "%d is below zero", d.Parking)
	}
	for _, text := range append([]string{d.Transfer, d.Step, d.Run, d.Ended, d.Account, d.From, d.To}, d.Choices...) {
		if err := checkText("dead letter", text, MemoBytesMax); err != nil {
			return err
		}
	}
	if d.Decision != nil {
		if err := d.Decision.Validate(); err != nil {
			return err
		}
	}
	return CheckNotes(d.Memo, d.Metadata)
}

// DeadLettersPage asks for dead letters in the order of their last attempt, newest first. What is zero does not filter.
type DeadLettersPage struct {
	State    DeadLetterState
	Parked   bool   // only those that wait for a decision
	Transfer string // only those of this transfer
	Step     string
	Place    Place
	Error    string    // a part of the error's text, in any case, or its whole type
	Since    time.Time // the last attempt was then or later
	Until    time.Time // the last attempt was before

	After *DeadLetterCursor // only those that come after
	Limit int               // 1 to PageSizeMax
	// Brief keeps the letters short: errors are cut at ErrorBriefBytesMax, and causes, memo and metadata left out.
	Brief bool
}

// ErrorBriefBytesMax is how much of an error's text a brief dead letter has, about.
const ErrorBriefBytesMax = 1_000

// DeadLetterCursor is a dead letter's place in the order of their last attempts.
type DeadLetterCursor struct {
	LastAt time.Time
	ID     int64
}
