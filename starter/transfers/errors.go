package transfers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/workflows"
)

// What callers branch on with errors.Is.
var (
	// ErrDifferentRequest: the ID is that of another request. This one has moved nothing and never will; details are in
	// a *DifferentRequestError.
	ErrDifferentRequest = errors.New("the ID belongs to a different request")

	// ErrUnknown: neither Temporal nor the ledgers that were asked know a transfer with the ID; it is in an
	// *UnknownError.
	ErrUnknown = errors.New("no such transfer")

	// ErrEnded: the transfer has ended, and can't be decided about or cancelled any more.
	ErrEnded = errors.New("the transfer has ended")
)

// errRunGone: the run that the server named is not there any more.
var errRunGone = errors.New("the transfer's earlier run has just been deleted")

// DifferentRequestError says that a transfer's ID was used before, for another request.
type DifferentRequestError struct {
	Asked workflows.TransferInput
	Known *workflows.TransferInput // nil when only the ledger remembers, and could not be asked
}

func (e *DifferentRequestError) Error() string {
	if e.Known == nil {
		return fmt.Sprintf("transfer %q was made before, for a different request; nothing was moved now", e.Asked.ID)
	}
	return fmt.Sprintf("transfer %q was made before, for %s; this request is for %s; nothing was moved now: "+
		"another payment needs another ID", e.Asked.ID, describe(*e.Known), describe(e.Asked))
}

// Is makes errors.Is(err, ErrDifferentRequest) true.
func (e *DifferentRequestError) Is(target error) bool { return target == ErrDifferentRequest }

func describe(in workflows.TransferInput) string {
	if parsed, err := workflows.ParseTransfer(in); err == nil {
		return parsed.String()
	}
	return fmt.Sprintf("%s %s from %s to %s", in.Amount, in.Asset, in.From, in.To)
}

// UnknownError says that there is no transfer, or payout, with the ID.
type UnknownError struct {
	What string // "payout"; "" is a transfer
	ID   string
}

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no %s %q", whatOr(e.What), e.ID) }

func whatOr(what string) string { return cmp.Or(what, "transfer") }

// Is makes errors.Is(err, ErrUnknown) true.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

// PendingError says that the wait is over and the transfer is not: it runs on without its caller, is parked, or its state
// is unknown. The same call again goes on from there.
type PendingError struct {
	// Status is where the transfer stands, as far as it could be found out.
	Status Status
	// Cause is why the wait is over: the context's error, or nil when the transfer is parked.
	Cause error
}

func (e *PendingError) Error() string {
	text := fmt.Sprintf("transfer %q is %s", e.Status.Request.ID, e.Status.State)
	if e.Status.State == StateUnknown {
		text = fmt.Sprintf("the state of transfer %q is unknown", e.Status.Request.ID)
	}
	if e.Status.Detail != "" {
		text += ": " + e.Status.Detail
	}
	if len(e.Status.Notes) > 0 {
		text += " (" + strings.Join(e.Status.Notes, "; ") + ")"
	}
	return text
}

func (e *PendingError) Unwrap() error { return e.Cause }

// ClosedError says that the workflow of a transfer, or of a payout, was closed without an end of that.
type ClosedError struct {
	What string // "payout"; "" is a transfer
	ID   string
	How  Closed
	// Cause is the failure as Temporal tells it.
	Cause error
}

// Closed is a way in which a workflow is closed other than by completing.
type Closed string

// The ways. After the first two the same transfer can be started again and goes on from where it stopped: a step that had
// an outcome meets it again. ClosedInvalid and ClosedFailed would repeat themselves.
const (
	ClosedTerminated Closed = "terminated"
	ClosedTimedOut   Closed = "timed out"
	ClosedCancelled  Closed = "cancelled by force" // a Transfer completes when it is cancelled; this one was something else
	ClosedInvalid    Closed = "refused as malformed"
	ClosedConflict   Closed = "refused as a different request"
	ClosedFailed     Closed = "failed" // a defect
)

func (e *ClosedError) Error() string {
	text := fmt.Sprintf("the workflow of %s %q was closed without an end: %s", whatOr(e.What), e.ID, e.How)
	switch e.How {
	case ClosedTerminated, ClosedTimedOut, ClosedCancelled:
		return text + "; its state is unknown: start it again with the same ID, and it goes on from where it stopped"
	case ClosedInvalid, ClosedConflict, ClosedFailed:
		return text + ": " + causeText(e.Cause)
	default:
		return text
	}
}

func (e *ClosedError) Unwrap() error { return e.Cause }

// causeText is a workflow's failure without Temporal's frame around it.
func causeText(err error) string {
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return application.Message()
	}
	return err.Error()
}

// closedError reads the error of a workflow that did not complete. It returns nil if err says anything else.
func closedError(id string, err error) *ClosedError {
	var execution *temporal.WorkflowExecutionError
	if !errors.As(err, &execution) {
		return nil
	}
	var terminated *temporal.TerminatedError
	var timeout *temporal.TimeoutError
	var canceled *temporal.CanceledError
	var application *temporal.ApplicationError
	how := ClosedFailed
	switch cause := execution.Unwrap(); {
	case errors.As(cause, &terminated):
		how = ClosedTerminated
	case errors.As(cause, &application):
		switch application.Type() {
		case workflows.ErrorInvalidInput:
			how = ClosedInvalid
		case workflows.ErrorKeyConflict:
			how = ClosedConflict
		}
	case errors.As(cause, &timeout):
		how = ClosedTimedOut
	case errors.As(cause, &canceled):
		how = ClosedCancelled
	}
	return &ClosedError{ID: id, How: how, Cause: execution.Unwrap()}
}

// mayPass says whether err is one of a server that is away or busy, or of a moment that has passed.
func mayPass(err error) bool {
	var unavailable *serviceerror.Unavailable
	var deadline *serviceerror.DeadlineExceeded
	var exhausted *serviceerror.ResourceExhausted
	var aborted *serviceerror.Aborted
	var canceled *serviceerror.Canceled
	return errors.As(err, &unavailable) || errors.As(err, &deadline) || errors.As(err, &exhausted) ||
		errors.As(err, &aborted) || errors.As(err, &canceled) || errors.Is(err, errRunGone) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func isNotFound(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}

func isOperationUnknown(err error) bool {
	application, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && application.Type() == activities.ErrorOperationUnknown
}
