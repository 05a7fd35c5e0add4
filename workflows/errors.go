package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/ledger"
)

// errorTextBytesMax bounds what a status, a parking and a seal say of an error. A dead letter has the whole.
const errorTextBytesMax = 2_000

// toldError is an activity's error as a dead letter tells it.
type toldError struct {
	whole  string
	typ    string
	causes []ledger.ErrorCause
}

// tell reads all that an activity's error says. What an attempt before a time-out said is a cause of that.
func tell(err error) toldError {
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		told := toldError{whole: timeout.Error(), typ: timeout.TimeoutType().String() + "Timeout"}
		if before := timeout.Unwrap(); before != nil {
			cause := tell(before)
			told.causes = append([]ledger.ErrorCause{{Type: cause.typ, Text: cause.whole}}, cause.causes...)
		}
		return told
	}
	var application *temporal.ApplicationError
	if !errors.As(err, &application) {
		return toldError{whole: errorText(err), typ: fmt.Sprintf("%T", err)}
	}
	told := toldError{whole: application.Message(), typ: application.Type()}
	if failure := failureOf(application); failure != nil {
		told.causes = failure.Causes
		if failure.Error != "" {
			told.whole = failure.Error
		}
	}
	return told
}

// failureOf is what one of our activities has attached to its error; nil for an error that is none of theirs.
func failureOf(application *temporal.ApplicationError) *activities.Failure {
	var failure activities.Failure
	if !application.HasDetails() || application.Details(&failure) != nil || failure.Attempt == 0 {
		return nil
	}
	return &failure
}

// isWrongRequest says whether err means that the request can never get an outcome: its key belongs to other content, or
// it is malformed. Nothing of this request is in the ledger.
func isWrongRequest(err error) bool {
	return isType(err, activities.ErrorKeyConflict) || isType(err, activities.ErrorInvalidInput)
}

func isOutage(err error) bool {
	return isType(err, activities.ErrorLedgerUnavailable) || isType(err, activities.ErrorRailUnavailable)
}

// awaited is what an outage is waited out for.
func awaited(outage error) string {
	if isType(outage, activities.ErrorRailUnavailable) {
		return "rail"
	}
	return "ledger"
}

// retryAfter is how long the far side has asked to be left alone; 0 if it has not.
func retryAfter(err error) time.Duration {
	var application *temporal.ApplicationError
	if !errors.As(err, &application) {
		return 0
	}
	if failure := failureOf(application); failure != nil {
		return failure.RetryAfter
	}
	return 0
}

func isNotServed(err error) bool { return isType(err, activities.ErrorLedgerNotServed) }

func isType(err error, typ string) bool {
	var application *temporal.ApplicationError
	return errors.As(err, &application) && application.Type() == typ
}

// attemptsUsed is the number of attempts of an activity that ended with err. A time-out does not say how many there were:
// then all were used.
func attemptsUsed(err error, attemptsMax int32) int32 {
	var timeout *temporal.TimeoutError
	var application *temporal.ApplicationError
	if errors.As(err, &application) && !errors.As(err, &timeout) {
		if failure := failureOf(application); failure != nil {
			return failure.Attempt
		}
	}
	return attemptsMax
}

// errorText is what a person needs of an activity's error, in errorTextBytesMax bytes: its cause without Temporal's event
// numbers. The message of an activity's own error has the whole chain of its causes in it, so they are not repeated.
func errorText(err error) string { return ledger.ClipError(errorTextWhole(err), errorTextBytesMax) }

func errorTextWhole(err error) string {
	var timeout *temporal.TimeoutError
	var application *temporal.ApplicationError
	var activity *temporal.ActivityError
	switch {
	case errors.As(err, &timeout):
		return timeout.Error()
	case errors.As(err, &application):
		return application.Message() + " (" + application.Type() + ")"
	case errors.As(err, &activity) && activity.Unwrap() != nil:
		return activity.Unwrap().Error()
	default:
		return err.Error()
	}
}

func invalidInput(err error) error {
	return temporal.NewNonRetryableApplicationError(err.Error(), ErrorInvalidInput, err)
}
