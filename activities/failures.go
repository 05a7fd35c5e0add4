package activities

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"payonce/ledger"
)

// messageBytesMax bounds the message of an error in Temporal, which keeps it several times over and cuts it at 4 KiB while
// attempts are left. The whole text is in the details.
const messageBytesMax = 2_000

// Failure is attached to every error that an activity returns: what a dead letter is to say of it.
type Failure struct {
	// Attempt is the number of the attempt that failed, from 1.
	Attempt int32 `json:"attempt"`
	// Error is the whole text, without secrets, up to ledger.ErrorBytesMax bytes; "" when the message is all there is.
	Error string `json:"error,omitempty"`
	// Causes are the errors that it wraps, outermost first.
	Causes []ledger.ErrorCause `json:"causes,omitempty"`
	// RetryAfter is how long the far side wants to be left alone; 0 if it did not say.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
}

// applicationError is the one way in which an error leaves an activity. The outermost error decides whether Temporal
// retries, so nothing may wrap what it returns.
func applicationError(ctx context.Context, text, typ string, retry bool, err error) error {
	text = ledger.KeepError(text, ledger.ErrorBytesMax)
	failure := Failure{Attempt: activity.GetInfo(ctx).Attempt, Causes: causesOf(err)}
	if rail, ok := errors.AsType[railError](err); ok {
		failure.RetryAfter = rail.RetryAfter()
	}
	message := ledger.ClipError(text, messageBytesMax)
	if message != text {
		failure.Error = text
	}
	return temporal.NewApplicationErrorWithOptions(message, typ, temporal.ApplicationErrorOptions{
		NonRetryable:   !retry,
		NextRetryDelay: nextRetryDelay(ctx, err),
		Details:        []any{failure},
	})
}

// causesOf is the chain of err: itself and all that it wraps, outermost first. A text that the one before ends with is left
// out.
func causesOf(err error) []ledger.ErrorCause {
	var causes []ledger.ErrorCause
	around := ""
	var walk func(err error)
	walk = func(err error) {
		if err == nil || len(causes) == ledger.CausesMax {
			return
		}
		text := err.Error()
		cause := ledger.ErrorCause{Type: fmt.Sprintf("%T", err)}
		// The outermost is what the error itself says.
		if len(causes) > 0 && !strings.HasSuffix(around, text) {
			cause.Text = ledger.KeepError(text, ledger.CausesBytesMax)
		}
		around = text
		causes = append(causes, cause)
		switch wrapping := err.(type) { //nolint:errorlint // it is each error of the chain that is looked at
		case interface{ Unwrap() error }:
			walk(wrapping.Unwrap())
		case interface{ Unwrap() []error }:
			for _, one := range wrapping.Unwrap() {
				around = text
				walk(one)
			}
		}
	}
	walk(err)
	return ledger.ClipCauses(causes)
}

// finish is deferred by the activities that transfers use: whatever goes wrong in one, panics too, becomes an error of the
// table in errors.go, outermost, so that what can't succeed is not tried again however it was wrapped.
func finish(ctx context.Context, doing string, err *error) {
	if panicked := recover(); panicked != nil {
		logPanic(ctx, doing, panicked)
		var cause error
		if err, ok := panicked.(error); ok {
			cause = err
		}
		*err = applicationError(ctx, fmt.Sprintf("%s: panic: %v", doing, panicked), ErrorPanic, true, cause)
		return
	}
	if *err == nil {
		return
	}
	if _, done := (*err).(*temporal.ApplicationError); done { //nolint:errorlint // wrapped, it would be retried
		return
	}
	*err = toTemporal(ctx, doing, *err)
}

// errPanicked is the error of what panicked, where only its type is told.
var errPanicked = temporal.NewApplicationError("panic", ErrorPanic)

// logPanic tells the log of a panic, with its stack: a history is no place for that.
func logPanic(ctx context.Context, doing string, panicked any) {
	activity.GetLogger(ctx).Error("Activity panic", "doing", doing, "panic", ledger.KeepError(fmt.Sprint(panicked), messageBytesMax), "stack", string(debug.Stack()))
}

// toTemporal turns an error into Temporal's.
func toTemporal(ctx context.Context, doing string, err error) error {
	typ, retry := classify(err)
	return applicationError(ctx, fmt.Sprintf("%s: %v", doing, err), typ, retry, err)
}

// classify looks an error up in the table, however it is wrapped.
func classify(err error) (typ string, retry bool) {
	if rail, ok := errors.AsType[railError](err); ok {
		return classifyRail(rail)
	}
	if notify, ok := errors.AsType[*NotifyError](err); ok {
		return classifyNotify(notify)
	}
	for _, row := range errorTable {
		if errors.Is(err, row.is) {
			return row.typ, row.retry
		}
	}
	if _, invalid := errors.AsType[*ledger.InvalidError](err); invalid {
		return ErrorInvalidInput, false
	}
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return application.Type(), !application.NonRetryable()
	}
	return ErrorLedger, true
}
