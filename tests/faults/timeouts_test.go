package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/activity/v1"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"payonce/internal/faultworker/fault"
	"payonce/internal/pgtest"
	"payonce/ledger"
	"payonce/tests/harness"
	"payonce/workflows"
)

// unhurried is for tests in which no attempt's time is to be over: none is, on a machine however busy.
func unhurried(o *workflows.Options) {
	o.Fast.TimeoutStartToClose, o.Forward.TimeoutStartToClose, o.Settle.TimeoutStartToClose = patience, patience, patience
	o.Outage.Budget = 5 * patience
}

// unhurriedDurable is unhurried, and the durable path alone.
func unhurriedDurable(o *workflows.Options) {
	unhurried(o)
	harness.Durable(o)
}

// timedOut is for tests in which an attempt's time is over after a while, on the path that a step is on: more of it than a
// busy machine needs for one that nothing happens to.
func timedOut(o *workflows.Options) {
	unhurried(o)
	o.Fast.TimeoutStartToClose, o.Forward.TimeoutStartToClose, o.Settle.TimeoutStartToClose = attemptTime, attemptTime, attemptTime
	o.Forward.AttemptsMax, o.Settle.AttemptsMax = 20, 20
}

// timedOutDurable is timedOut, and the durable path alone.
func timedOutDurable(o *workflows.Options) {
	timedOut(o)
	harness.Durable(o)
}

const attemptTime = 10 * time.Second

// setAttemptTime is how long the attempts of an activity may take from now on, also the one that is under way.
func setAttemptTime(t *testing.T, w *harness.World, id, activityType string, d time.Duration) {
	t.Helper()
	updateActivity(t, w, id, activityType, &activity.ActivityOptions{StartToCloseTimeout: durationpb.New(d)}, "start_to_close_timeout")
}

// updateActivity changes a setting of an activity that is under way, as an operator can.
func updateActivity(t *testing.T, w *harness.World, id, activityType string, options *activity.ActivityOptions, path string) {
	t.Helper()
	_, err := w.Temporal.WorkflowService().UpdateActivityOptions(t.Context(), &workflowservice.UpdateActivityOptionsRequest{
		Namespace: w.Namespace, Execution: &common.WorkflowExecution{WorkflowId: workflows.TransferWorkflowID(id)},
		Activity:        &workflowservice.UpdateActivityOptionsRequest_Type{Type: activityType},
		ActivityOptions: options, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}},
	})
	require.NoError(t, err)
}

// A step is committed, and its worker does not come back with the answer before the attempt's time is over. The next
// attempt meets the key. On the fast path it is the worker itself that gives the attempt up.
func TestStartToCloseTimeoutAfterCommit(t *testing.T) {
	t.Parallel()
	for _, path := range []struct {
		name    string
		options func(*workflows.Options)
		kinds   []fault.Kind
	}{
		{"durable path", timedOutDurable, []fault.Kind{fault.KindPost, fault.KindWithdraw, fault.KindDeposit, fault.KindRefund}},
		{"fast path", timedOut, []fault.Kind{fault.KindPost, fault.KindWithdraw, fault.KindDeposit}},
	} {
		t.Run(path.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			var faults []string
			for _, kind := range path.kinds {
				faults = append(faults, string(kind)+"/after=block;transfer="+string(kind))
			}
			worker := startFaulty(t, w, harness.FaultConfig{Options: path.options, Faults: faults})
			for _, kind := range path.kinds {
				t.Run(string(kind), func(t *testing.T) {
					t.Parallel()
					in := ofKind(t, w, kind, string(kind))
					startUnhurried(t, w, in)
					struck := worker.AwaitStrike(t, string(kind)+"/after", in.ID)
					endsWell(t, w, kind, in)

					resumed := awaitResumed(t, worker, string(kind)+"/after", in.ID)
					require.Equal(t, struck.Attempt, resumed.Attempt, "the attempt that was given up has ended by itself")
					answers := awaitAnswers(t, 2, kind, in.ID, worker)
					firstMoved(t, answers)
					require.EqualValues(t, 1, answers[0].Attempt)
					require.EqualValues(t, 2, answers[1].Attempt)
					fast := path.name == "fast path"
					require.Equal(t, fast, answers[1].Local)
					if !fast {
						retriedAfter(t, w, in.ID, kind, enums.TIMEOUT_TYPE_START_TO_CLOSE)
					}
				})
			}
		})
	}
}

// A worker panics when a step is committed. Its process goes on, and the next attempt meets the key.
func TestPanicAfterCommit(t *testing.T) {
	t.Parallel()
	for _, path := range []struct {
		name    string
		options func(*workflows.Options)
	}{{"durable path", unhurriedDurable}, {"fast path", unhurried}} {
		t.Run(path.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			worker := startFaulty(t, w, harness.FaultConfig{Options: path.options, Faults: []string{"deposit/after=panic;transfer=rent"}})
			in := between(t, w, "rent")
			startUnhurried(t, w, in)
			struck := worker.AwaitStrike(t, "deposit/after", in.ID)
			require.Equal(t, path.name == "fast path", struck.Local)
			once(t, w, in, workflows.StateCompleted, arrived)
			firstMoved(t, awaitAnswers(t, 2, fault.KindDeposit, in.ID, worker))
			require.True(t, worker.Alive())
		})
	}
}

// endsWell waits for the end of a transfer of ofKind, and holds that it is the one that it has without a fault.
func endsWell(t *testing.T, w *harness.World, kind fault.Kind, in workflows.TransferInput) {
	t.Helper()
	switch kind { //nolint:exhaustive // the others are a payout's
	case fault.KindPost:
		once(t, w, in, workflows.StateCompleted, posted)
	case fault.KindRefund:
		once(t, w, in, workflows.StateCompensated, sentBack)
	case fault.KindWithdraw, fault.KindDeposit, fault.KindResolve, fault.KindNaiveWithdraw, fault.KindNaiveDeposit, fault.KindEntries:
		once(t, w, in, workflows.StateCompleted, arrived)
	}
}

// All attempts together have a time too: it ends the step in the middle of an attempt, whatever that attempt has done. The
// ledger is asked: what was committed stands, and what was not never will be.
func TestScheduleToCloseTimeout(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		fault     string
		committed bool
		state     workflows.State
		steps     []string
	}{
		{"after commit", "deposit/after=block:always", true, workflows.StateCompleted, arrived},
		{"before the write", "deposit/before=block:always;for=1ms", false, workflows.StateCompensated, givenUpBack},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			worker := startFaulty(t, w, harness.FaultConfig{
				Options: func(o *workflows.Options) {
					timedOutDurable(o)
					// The second attempt is cut off in the middle.
					o.Outage.Budget = attemptTime * 3 / 2
				},
				Faults: []string{row.fault + ";transfer=rent"},
			})
			in := between(t, w, "rent")
			if !row.committed {
				// The attempts wait for it, and do not look at their deadlines.
				lock := w.LockAccount(t, in.To)
				defer lock.Release()
			}
			start(t, w, in)
			once(t, w, in, row.state, row.steps)

			timeout := activityIn(t, w, in.ID, "Deposit").timeout
			require.NotNil(t, timeout, "the step has timed out as a whole")
			require.Equal(t, enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, timeoutIn(timeout.GetFailure()), "%s", timeout.GetFailure().GetMessage())
			require.Equal(t, row.committed, worker.AwaitAnswer(t, fault.KindResolve, in.ID).Repeat)
			if row.committed {
				require.False(t, awaitAnswers(t, 1, fault.KindDeposit, in.ID, worker)[0].Repeat)
			}
			for _, answer := range answersTo(fault.KindDeposit, in.ID, worker) {
				require.Equal(t, row.committed, answer.Error == "", "who waits for a lock has no outcome: %+v", answer)
			}
		})
	}
}

// payonce's own steps have no heartbeat time-out, but an operator can give one to a step that runs. A worker that has
// committed and sends no heartbeat then loses the step, and the next attempt meets the key.
func TestHeartbeatTimeoutAfterCommit(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := w.StartFaultWorker(t, harness.FaultConfig{
		Options: func(o *workflows.Options) {
			unhurriedDurable(o)
			o.Forward.AttemptsMax = 20
		},
		Faults: []string{"deposit/after=hold;transfer=rent"},
	})
	in := between(t, w, "rent")
	start(t, w, in)
	worker.AwaitStrike(t, "deposit/after", in.ID)
	// The next attempt has no more time than this either.
	updateActivity(t, w, in.ID, "Deposit", &activity.ActivityOptions{HeartbeatTimeout: durationpb.New(attemptTime / 2)}, "heartbeat_timeout")
	once(t, w, in, workflows.StateCompleted, arrived)
	firstMoved(t, awaitAnswers(t, 2, fault.KindDeposit, in.ID, worker))
	retriedAfter(t, w, in.ID, fault.KindDeposit, enums.TIMEOUT_TYPE_HEARTBEAT)
}

// Cases 24 (riverqueue/river#1135) and 18 (killbill#1015): the last attempt is timed out while its write waits in PostgreSQL
// for a lock on the payee's account. The step is resolved and the money refunded; then the lock is released. The writes that
// waited go on, find the seal, and move nothing.
func TestLateWriteIsSealed(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := startFaulty(t, w, harness.FaultConfig{
		Options: func(o *workflows.Options) {
			unhurriedDurable(o)
			o.Forward.AttemptsMax = 2
		},
		// Blocked for a moment, an attempt does not look at its deadline afterwards.
		Faults: []string{"deposit/before=block:always;for=1ms;transfer=rent"},
	})
	in := between(t, w, "rent")
	lock := w.LockAccount(t, in.To)
	start(t, w, in)
	w.AwaitBlocked(t, "eu")
	setAttemptTime(t, w, in.ID, "Deposit", 2*time.Second) // of both
	result := once(t, w, in, workflows.StateCompensated, givenUpBack)

	w.AwaitBlocked(t, "eu") // still
	require.Empty(t, answersTo(fault.KindDeposit, in.ID, worker), "no attempt has had its answer")
	deposit := activityIn(t, w, in.ID, "Deposit")
	require.Equal(t, enums.TIMEOUT_TYPE_START_TO_CLOSE, timeoutIn(deposit.timeout.GetFailure()))
	require.Equal(t, enums.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED, deposit.timeout.GetRetryState())
	require.False(t, worker.AwaitAnswer(t, fault.KindResolve, in.ID).Repeat, "resolving has sealed the key")

	lock.Release()
	for _, late := range awaitAnswers(t, 2, fault.KindDeposit, in.ID, worker) {
		require.Equal(t, ledger.OutcomeSealed, late.State, "%+v", late)
	}
	require.Equal(t, result, once(t, w, in, workflows.StateCompensated, givenUpBack))
}

// The same a moment later: the last attempt is timed out when its write is complete but for COMMIT, which is on its way.
// Resolving waits for it, so that it can't say anything that COMMIT then makes untrue.
func TestResolveWaitsForWriteInFlight(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	proxy := pgtest.NewProxy(t, patientURL(w, "eu"))
	worker := w.StartFaultWorker(t, harness.FaultConfig{
		Options: func(o *workflows.Options) {
			unhurriedDurable(o)
			o.Forward.AttemptsMax = 1
		},
		Faults: []string{"deposit/before=block:always;for=1ms;transfer=rent"},
		Env:    []string{ledgers(patientURL(w, "us"), proxy.URL)},
	})
	in := between(t, w, "rent")
	reached, release := proxy.HoldBefore(commits)
	defer release()
	start(t, w, in)
	<-reached
	setAttemptTime(t, w, in.ID, "Deposit", time.Second)
	w.AwaitEvent(t, workflows.TransferWorkflowID(in.ID), enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT)
	w.AwaitBlocked(t, "eu")
	require.Equal(t, []string{"us withdraw applied"}, w.Steps(t, in.ID), "nothing is decided yet")
	require.Empty(t, answersTo(fault.KindDeposit, in.ID, worker))

	release()
	once(t, w, in, workflows.StateCompleted, arrived)
	require.False(t, worker.AwaitAnswer(t, fault.KindDeposit, in.ID).Repeat, "the late write is the one that moved the money")
	harness.Eventually(t, "resolving finds it", func() bool {
		for _, answer := range answersTo(fault.KindResolve, in.ID, worker) {
			if answer.Error == "" {
				return answer.State == ledger.OutcomeApplied && answer.Repeat
			}
		}
		return false
	})
}
