package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/starter/transfers"
	"payonce/workflows"
)

func TestExitOfState(t *testing.T) {
	for state, want := range map[workflows.State]exitCode{
		workflows.StateCompleted:   exitDone,
		workflows.StateSettled:     exitDone,
		workflows.StateReturned:    exitFailed,
		workflows.StatePending:     exitPending,
		workflows.StateRejected:    exitRejected,
		workflows.StateFailed:      exitFailed,
		workflows.StateCompensated: exitFailed,
		workflows.StateCancelled:   exitFailed,
		workflows.StateRunning:     exitPending,
		workflows.StateParked:      exitPending,
		workflows.StateDiscarded:   exitPending,
		transfers.StateUnknown:     exitPending,
		"a state of the future":    exitPending,
	} {
		require.Equal(t, want, exitOfState(state), state)
	}
}

func TestExitOf(t *testing.T) {
	application := func(typ string) error {
		return fmt.Errorf("wrapped: %w", temporal.NewApplicationError("why", typ))
	}
	for _, row := range []struct {
		err  error
		want exitCode
	}{
		{nil, exitDone},
		{errors.New("a defect"), exitInternal},
		{application("a type of the future"), exitInternal},
		{application(activities.ErrorLedger), exitInternal},
		{serviceerror.NewPermissionDenied("no", ""), exitInternal},
		{&transfers.ClosedError{How: transfers.ClosedFailed}, exitInternal},

		{usagef("wrong"), exitUsage},
		{fmt.Errorf("wrapped: %w", &ledger.InvalidError{}), exitUsage},
		{application(activities.ErrorInvalidInput), exitUsage},
		{application(activities.ErrorAccountUnknown), exitUsage},
		{application(activities.ErrorOperationUnknown), exitUsage},
		{application(activities.ErrorDeadLetterUnknown), exitUsage},
		{&transfers.UnknownError{}, exitUsage},
		{serviceerror.NewNamespaceNotFound("nobodys"), exitUsage},
		{&transfers.ClosedError{How: transfers.ClosedInvalid}, exitUsage},

		{application(activities.ErrorAccountConflict), exitRejected},
		{application(workflows.ErrorDecisionRefused), exitRejected},

		{&transfers.PendingError{}, exitPending},
		{&transfers.ClosedError{How: transfers.ClosedTerminated}, exitPending},
		{&transfers.ClosedError{How: transfers.ClosedTimedOut}, exitPending},
		{&transfers.ClosedError{How: transfers.ClosedCancelled}, exitPending},
		{&asking.UnansweredError{}, exitPending},
		{application(activities.ErrorLedgerUnavailable), exitPending},
		{application(activities.ErrorLedgerNotServed), exitPending},
		{application(activities.ErrorUnknownOutcome), exitPending},
		{serviceerror.NewUnavailable("away"), exitPending},
		{serviceerror.NewDeadlineExceeded("slow"), exitPending},
		{context.DeadlineExceeded, exitPending},
		{context.Canceled, exitPending},

		{&transfers.DifferentRequestError{}, exitDifferent},
		{&transfers.ClosedError{How: transfers.ClosedConflict}, exitDifferent},
		{application(activities.ErrorKeyConflict), exitDifferent},
	} {
		require.Equal(t, row.want, exitOf(row.err), "%T %v", row.err, row.err)
	}
}
