package activities

import (
	"fmt"

	"go.temporal.io/sdk/temporal"

	"payonce/internal/statement"
	"payonce/ledger"
)

// The types of the errors that activities return, as Temporal records them. Workflows branch on them.
const (
	ErrorKeyConflict       = "KeyConflict"       // the key belongs to other content
	ErrorInvalidInput      = "InvalidInput"      // the payload is malformed
	ErrorLedgerUnavailable = "LedgerUnavailable" // the ledger can't be reached: an outage
	ErrorLedgerNotServed   = "LedgerNotServed"   // this worker does not hold the ledger
	ErrorUnknownOutcome    = "UnknownOutcome"    // asked to commit, answer lost
	ErrorReversalBlocked   = "ReversalBlocked"   // the money can't go back yet
	ErrorAccountUnknown    = "AccountUnknown"
	ErrorAccountConflict   = "AccountConflict"
	ErrorPeriodUnfinished  = "PeriodUnfinished" // entries may still be added
	ErrorOperationUnknown  = "OperationUnknown"
	ErrorDeadLetterUnknown = "DeadLetterUnknown"
	ErrorDecisionRefused   = "DecisionRefused"   // the dead letter is not what the decision is about any more
	ErrorStatementMismatch = "StatementMismatch" // the books' entries don't lead from the opening to the closing balance
	ErrorStatementsNotKept = "StatementsNotKept" // this worker keeps no files
	ErrorPanic             = "Panic"             // a defect met this input
	ErrorLedger            = "LedgerError"       // anything else

	ErrorRailUnavailable = "RailUnavailable" // the rail can't be reached, refuses our credentials or has too much to do: an outage
	ErrorRailNotServed   = "RailNotServed"   // this worker has no settings for the rail
	ErrorRailKeyExpired  = "RailKeyExpired"  // the rail may have forgotten the key; nothing was sent
	ErrorRailKeyConflict = "RailKeyConflict" // the rail has the key with other content
	ErrorRailInvalid     = "RailInvalid"     // the request can't be sent, and never was
	ErrorRailCantCancel  = "RailCantCancel"  // the rail has no way to stop a payout
	ErrorRail            = "RailError"       // no word of the rail, for any other reason

	ErrorEndpointUnknown = "EndpointUnknown" // no worker, or not this one, has settings for the endpoint
	ErrorNotifyRefused   = "NotifyRefused"   // the endpoint does not take it, and will not
	ErrorNotify          = "NotifyError"     // the endpoint has not said that it has taken it
)

// errorTable is the one place that says what Temporal does with a ledger's error. An error that is not in it is
// retried up to the attempt cap. A rail's error says itself what it is (railError), and so does a NotifyError.
//
// ErrorLedgerUnavailable is retryable here; where attempts are capped, the workflow's retry policy ends the activity at it,
// waits, and schedules it again, so that an outage uses up none of the step's attempts. ErrorPeriodUnfinished passes by itself
// too; the workflows say for whom that is worth waiting.
var errorTable = []struct {
	is    error
	typ   string
	retry bool
}{
	{ledger.ErrKeyConflict, ErrorKeyConflict, false},
	{ledger.ErrUnavailable, ErrorLedgerUnavailable, true},
	{ledger.ErrUnknownOutcome, ErrorUnknownOutcome, true},
	{ledger.ErrReversalBlocked, ErrorReversalBlocked, true},
	{ledger.ErrAccountUnknown, ErrorAccountUnknown, false},
	{ledger.ErrAccountConflict, ErrorAccountConflict, false},
	{ledger.ErrPeriodUnfinished, ErrorPeriodUnfinished, true},
	{statement.ErrMismatch, ErrorStatementMismatch, false},
	{ledger.ErrOperationUnknown, ErrorOperationUnknown, false},
	{ledger.ErrDeadLetterUnknown, ErrorDeadLetterUnknown, false},
	{ledger.ErrDecisionRefused, ErrorDecisionRefused, false},
	{errEndpointUnknown, ErrorEndpointUnknown, false},
	{errRailKeyExpired, ErrorRailKeyExpired, false},
	{errRailCantCancel, ErrorRailCantCancel, false},
	{errRailNotServed, ErrorRailNotServed, true}, // another worker of the queue may have them
	{errRailWord, ErrorRail, true},
}

func errNotServed(name string) error {
	return temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("this worker does not hold the ledger %q", name), ErrorLedgerNotServed, nil)
}

func errInvalid(err error) error {
	return temporal.NewNonRetryableApplicationError(ledger.ClipError(err.Error(), messageBytesMax), ErrorInvalidInput, nil)
}
