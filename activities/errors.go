package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

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
	ErrorOperationUnknown  = "OperationUnknown"
	ErrorLedger            = "LedgerError" // anything else
)

// errorTable is the one place that says what Temporal does with a ledger's error. An error that is not in it is
// retried up to the attempt cap.
//
// ErrorLedgerUnavailable is retryable here; where attempts are capped, the workflow's retry policy ends the activity at it,
// waits, and schedules it again, so that an outage uses up none of the step's attempts.
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
	{ledger.ErrOperationUnknown, ErrorOperationUnknown, false},
}

// Failure is attached to every error that an activity returns.
type Failure struct {
	// Attempt is the number of the attempt that failed, from 1.
	Attempt int32 `json:"attempt"`
}

// toTemporal turns a ledger's error into Temporal's. The outermost error decides whether Temporal retries, so nothing
// may wrap what it returns.
func toTemporal(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	typ, retry := ErrorLedger, true
	if _, invalid := errors.AsType[*ledger.InvalidError](err); invalid {
		typ, retry = ErrorInvalidInput, false
	}
	for _, row := range errorTable {
		if errors.Is(err, row.is) {
			typ, retry = row.typ, row.retry
			break
		}
	}
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf("%s: %v", doing, err), typ, temporal.ApplicationErrorOptions{
		NonRetryable: !retry,
		Cause:        err,
		Details:      []any{Failure{Attempt: activity.GetInfo(ctx).Attempt}},
	})
}

func errNotServed(name string) error {
	return temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("this worker does not hold the ledger %q", name), ErrorLedgerNotServed, nil)
}

func errInvalid(err error) error {
	return temporal.NewNonRetryableApplicationError(err.Error(), ErrorInvalidInput, err)
}
