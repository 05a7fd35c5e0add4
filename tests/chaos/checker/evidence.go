package checker

import (
	"math/big"
	"time"
)

// Evidence is all that a check looks at.
type Evidence struct {
	// Ledgers are the books, after everything has settled and all repeats were made.
	Ledgers []Ledger
	// Before are the books before the repeats; nil if none were made.
	Before []Ledger
	// Runs are all runs of all workflows that Temporal still has.
	Runs []Run
	// Calls are what clients have asked for, and what they were told; PayoutCalls the same of payouts, and Rail what the rail's
	// own books have of those.
	Calls       []Call
	PayoutCalls []PayoutCall
	Rail        []RailPayout

	// Disturbances are what the schedule did to everybody, and when.
	Disturbances []Disturbance
	// Troubles are transfers that something was done to, and what.
	Troubles map[string]string
	// Discarded are transfers that a person has said to discard.
	Discarded map[string]bool
	// Prompt are transfers that nothing was done to, and how long each may take.
	Prompt map[string]time.Duration
	// Shifting are accounts, "us/alice", whose limits or status the schedule has changed: whether they had to refuse can't
	// be told.
	Shifting map[string]bool
	// Deaths are worker processes that have ended by themselves.
	Deaths []string
	// Ended is when the books were read.
	Ended time.Time
}

// Ledger is the books of one ledger.
type Ledger struct {
	Name        string
	Accounts    []Account
	Operations  []Operation
	Entries     []Entry
	DeadLetters []DeadLetter
}

// Account is a row of accounts. Amounts here and below are in the asset's smallest units.
type Account struct {
	ID             int64
	Name, Asset    string
	Balance        *big.Int
	Version        int64
	Floor, Ceiling *big.Int // nil: unlimited
	Status         string
}

// Operation is a row of operations.
type Operation struct {
	ID                     int64
	Key, Kind, State, Code string
	Detail                 string
	Reverses, Counterparty string
	Legs                   []Leg
	At                     time.Time
}

// Leg is one of the legs of an operation.
type Leg struct {
	From, To, Asset string
	Amount          *big.Int
}

// Entry is a row of entries.
type Entry struct {
	AccountID, Version, OperationID int64
	Leg                             int
	Amount, Balance                 *big.Int
}

// DeadLetter is a row of dead_letters.
type DeadLetter struct {
	Key, Transfer, Step, State string
	Parked                     bool
	Error                      string
	Attempts                   int64
	Place, Account, Resolution string
}

// Request is what a transfer asks for, as its client wrote it.
type Request struct {
	ID     string `json:"id"`
	From   string `json:"from"`
	To     string `json:"to"`
	Amount string `json:"amount"`
	Asset  string `json:"asset"`
}

// Call is one call of a client, by whatever means.
type Call struct {
	Client   string
	Request  Request
	Called   time.Time
	Returned time.Time
	// Told is the end that the client was told: completed, rejected, failed, compensated, cancelled or discarded;
	// EndConflict; or "" when it was told no end, and then Note says what it was told.
	Told string
	Note string
	// Repeat: the call was made after everything had settled.
	Repeat bool
}

// The ends that a client can be told.
const (
	EndCompleted   = "completed"
	EndRejected    = "rejected"
	EndFailed      = "failed"
	EndCompensated = "compensated"
	EndCancelled   = "cancelled"
	EndDiscarded   = "discarded"
	// EndConflict: the ID belongs to a different request, and this one has moved nothing.
	EndConflict = "conflict"
)

// Disturbance is one thing that the schedule did.
type Disturbance struct {
	Fault  string
	Detail string
	From   time.Time
	To     time.Time
}

// Run is one run of a workflow.
type Run struct {
	WorkflowID, RunID, Type string
	// Status is Running, Completed, Failed, Terminated, …
	Status  string
	Started time.Time
	// Request is the input of a Transfer.
	Request Request
	// Result is that of a Transfer that has completed.
	Result *Result
	// Failure is the type and the text of the failure of one that has failed.
	FailureType, FailureText string
	Events                   []Event
}

// Result is what a Transfer returns.
type Result struct {
	Request // the ID, the accounts and the amount

	State  string `json:"state"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Event is one event of a history.
type Event struct {
	ID   int64
	At   time.Time
	Type string
	// Text is what is worth telling of it.
	Text string
	// Cause is why a workflow task failed.
	Cause string
}
