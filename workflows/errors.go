package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"

	"payonce/activities"
)

// isWrongRequest says whether err means that the request can never get an outcome: its key belongs to other content, or
// it is malformed. Nothing of this request is in the ledger.
func isWrongRequest(err error) bool {
	return isType(err, activities.ErrorKeyConflict) || isType(err, activities.ErrorInvalidInput)
}

func isOutage(err error) bool { return isType(err, activities.ErrorLedgerUnavailable) }

func isNotServed(err error) bool { return isType(err, activities.ErrorLedgerNotServed) }

func isType(err error, typ string) bool {
	var application *temporal.ApplicationError
	return errors.As(err, &application) && application.Type() == typ
}

// attemptsUsed is the number of attempts of an activity that ended with err. A time-out does not say how many there were:
// then all were used.
func attemptsUsed(err error, attemptsMax int32) int32 {
	var application *temporal.ApplicationError
	var failure activities.Failure
	if errors.As(err, &application) && application.HasDetails() && application.Details(&failure) == nil && failure.Attempt > 0 {
		return failure.Attempt
	}
	return attemptsMax
}

// errorText is what a person needs of an activity's error: its cause without Temporal's event numbers. The message of an
// activity's own error has the whole chain of its causes in it, so they are not repeated.
func errorText(err error) string {
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
