package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/starter/transfers"
	"payonce/workflows"
)

// exitCode is what the program's end tells a script.
type exitCode int

// The exit codes.
const (
	exitDone      exitCode = 0
	exitInternal  exitCode = 1
	exitUsage     exitCode = 2
	exitRejected  exitCode = 3
	exitFailed    exitCode = 4
	exitPending   exitCode = 5
	exitDifferent exitCode = 6
)

// exitCodes is the table that "starter help exit-codes" shows.
var exitCodes = []struct {
	code    exitCode
	meaning string
	then    string
}{
	{exitDone, "done: the transfer completed, the payout settled, the command did its work", ""},
	{exitInternal, "an internal error, or the environment is not set up", "see the message"},
	{exitUsage, "wrong usage or input, or no such account, transfer, payout or dead letter", "correct the command"},
	{exitRejected, "rejected: a business reason, such as insufficient funds; nothing moved", "another attempt to pay is a new ID"},
	{exitFailed, "failed, compensated, returned or cancelled: the money is where it was", "another attempt to pay is a new ID"},
	{exitPending, "pending, parked or unknown: it has not ended, or nobody could tell; discarded: settled outside", "run the same command again; never a new ID"},
	{exitDifferent, "the ID belongs to a different request; nothing moved", "another payment needs another ID"},
}

func exitCodesTopic() *cobra.Command {
	var rows [][]string
	for _, row := range exitCodes {
		rows = append(rows, []string{fmt.Sprint(int(row.code)), row.meaning, row.then})
	}
	var text strings.Builder
	text.WriteString("The exit codes, and what to do then:\n\n")
	_ = table{rows: rows, indent: "  "}.write(&text)
	text.WriteString("\nAsking again for a transfer that has ended gives its end and its exit code again.")
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: text.String()}
}

// exitOfState is the exit code for where a transfer stands.
func exitOfState(state workflows.State) exitCode {
	switch state {
	case workflows.StateCompleted, workflows.StateSettled, workflows.StateDelivered:
		return exitDone
	case workflows.StateRejected:
		return exitRejected
	case workflows.StateFailed, workflows.StateCompensated, workflows.StateCancelled, workflows.StateReturned:
		return exitFailed
	case workflows.StateRunning, workflows.StatePending, workflows.StateParked, transfers.StateUnknown, workflows.StateDiscarded:
		// Discarded: only the person who has settled it outside knows what was paid. To pay again could be to pay twice.
		return exitPending
	default:
		return exitPending
	}
}

// exitError is an error with the exit code that it ends the program with.
type exitError struct {
	code exitCode
	err  error // nil: everything has been said
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef is an error of the command line or the input.
func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// applicationCodes are the exit codes for errors of a worker, by type.
var applicationCodes = map[string]exitCode{
	activities.ErrorInvalidInput:      exitUsage,
	activities.ErrorAccountUnknown:    exitUsage,
	activities.ErrorOperationUnknown:  exitUsage,
	activities.ErrorPeriodUnfinished:  exitUsage,
	activities.ErrorDeadLetterUnknown: exitUsage,
	activities.ErrorAccountConflict:   exitRejected,
	activities.ErrorKeyConflict:       exitDifferent,
	activities.ErrorLedgerUnavailable: exitPending,
	activities.ErrorLedgerNotServed:   exitPending,
	activities.ErrorUnknownOutcome:    exitPending,
	workflows.ErrorDecisionRefused:    exitRejected,
}

// exitOf is the exit code for an error.
func exitOf(err error) exitCode {
	var exit *exitError
	var invalid *ledger.InvalidError
	var pending *transfers.PendingError
	var payout *transfers.PayoutPendingError
	var closed *transfers.ClosedError
	var unanswered *asking.UnansweredError
	var application *temporal.ApplicationError
	var namespace *serviceerror.NamespaceNotFound
	var unavailable *serviceerror.Unavailable
	var deadline *serviceerror.DeadlineExceeded
	var exhausted *serviceerror.ResourceExhausted
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &invalid), errors.Is(err, transfers.ErrUnknown), errors.As(err, &namespace):
		return exitUsage
	case errors.Is(err, transfers.ErrDifferentRequest):
		return exitDifferent
	case errors.As(err, &closed):
		return exitOfClosed(closed.How)
	case errors.As(err, &application):
		return applicationCodes[application.Type()].or(exitInternal)
	case errors.As(err, &pending), errors.As(err, &payout), errors.As(err, &unanswered), errors.As(err, &unavailable), errors.As(err, &deadline),
		errors.As(err, &exhausted), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return exitPending
	default:
		return exitInternal
	}
}

func exitOfClosed(how transfers.Closed) exitCode {
	switch how {
	case transfers.ClosedTerminated, transfers.ClosedTimedOut, transfers.ClosedCancelled:
		return exitPending
	case transfers.ClosedInvalid:
		return exitUsage
	case transfers.ClosedConflict:
		return exitDifferent
	case transfers.ClosedFailed:
		return exitInternal
	default:
		return exitInternal
	}
}

// or is c, or otherwise if c is done, which no error is.
func (c exitCode) or(otherwise exitCode) exitCode {
	if c == exitDone {
		return otherwise
	}
	return c
}
