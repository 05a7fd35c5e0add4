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
)

// errorTable is the one place that says what Temporal does with a ledger's error. An error that is not in it is
// retried up to the attempt cap.
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
}

func errNotServed(name string) error {
	return temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("this worker does not hold the ledger %q", name), ErrorLedgerNotServed, nil)
}

func errInvalid(err error) error {
	return temporal.NewNonRetryableApplicationError(ledger.ClipError(err.Error(), messageBytesMax), ErrorInvalidInput, nil)
}
