package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/failure/v1"
	"go.temporal.io/api/history/v1"

	"payonce/internal/faultworker/fault"
	"payonce/tests/harness"
	"payonce/workflows"
)

// answersTo are what workers have announced as the ledgers' answers to writes of a kind for a transfer, in their order.
func answersTo(kind fault.Kind, id string, workers ...*harness.FaultWorker) []fault.Event {
	var answers []fault.Event
	for _, worker := range workers {
		for _, e := range worker.Events() {
			if isAnswer(e, kind, id) {
				answers = append(answers, e)
			}
		}
	}
	slices.SortStableFunc(answers, func(a, b fault.Event) int { return a.At.Compare(b.At) })
	return answers
}

func isAnswer(e fault.Event, kind fault.Kind, id string) bool {
	return e.Event == fault.EventAnswer && e.Point.Kind == kind && isStepOf(e.Key, id)
}

func isStepOf(key, id string) bool {
	return strings.HasPrefix(key, workflows.TransferWorkflowID(id)+"/")
}

// awaitAnswers waits until so many answers have been announced, and returns them all.
func awaitAnswers(t *testing.T, atLeast int, kind fault.Kind, id string, workers ...*harness.FaultWorker) []fault.Event {
	t.Helper()
	var answers []fault.Event
	harness.Eventually(t, fmt.Sprintf("%d answers to %s of %s", atLeast, kind, id), func() bool {
		answers = answersTo(kind, id, workers...)
		return len(answers) >= atLeast
	})
	return answers
}

// firstMoved holds that a step was run again, and that the first run alone has moved money.
func firstMoved(t *testing.T, answers []fault.Event) {
	t.Helper()
	require.GreaterOrEqual(t, len(answers), 2, "it was run again")
	for i, answer := range answers {
		require.Empty(t, answer.Error)
		require.Equal(t, i > 0, answer.Repeat, "answer %d: %+v", i, answer)
	}
}

// awaitResumed waits until a worker goes on after a fault at a point.
func awaitResumed(t *testing.T, worker *harness.FaultWorker, point, id string) fault.Event {
	t.Helper()
	return worker.AwaitEvent(t, "the worker goes on after "+point, func(e fault.Event) bool {
		return e.Event == fault.EventResumed && e.Point.String() == point && isStepOf(e.Key, id)
	})
}

// eventsOf are the events of a type in the history of a transfer's latest run.
func eventsOf(t *testing.T, w *harness.World, id string, kind enums.EventType) []*history.HistoryEvent {
	t.Helper()
	var some []*history.HistoryEvent
	for _, event := range w.History(t, workflows.TransferWorkflowID(id)) {
		if event.GetEventType() == kind {
			some = append(some, event)
		}
	}
	return some
}

// activityOf is what the history of a transfer's latest run says of an activity, by its name.
type activityOf struct {
	started *history.ActivityTaskStartedEventAttributes // its last attempt, if it ended during one
	timeout *history.ActivityTaskTimedOutEventAttributes
}

// activityIn finds the first activity of a name that has ended.
func activityIn(t *testing.T, w *harness.World, id, name string) activityOf {
	t.Helper()
	var found activityOf
	var scheduled int64
	for _, event := range w.History(t, workflows.TransferWorkflowID(id)) {
		if attributes := event.GetActivityTaskScheduledEventAttributes(); attributes.GetActivityType().GetName() == name && scheduled == 0 {
			scheduled = event.GetEventId()
		}
		if attributes := event.GetActivityTaskStartedEventAttributes(); attributes != nil && attributes.GetScheduledEventId() == scheduled {
			found.started = attributes
		}
		if attributes := event.GetActivityTaskTimedOutEventAttributes(); attributes != nil && attributes.GetScheduledEventId() == scheduled {
			found.timeout = attributes
		}
	}
	require.False(t, found.started == nil && found.timeout == nil, "no %s of %s has ended", name, id)
	return found
}

// activityName is the activity that makes writes of a kind.
func activityName(kind fault.Kind) string {
	return strings.ToUpper(string(kind[:1])) + string(kind[1:])
}

// timeoutIn is the type of the time-out that a failure is about, or unspecified.
func timeoutIn(f *failure.Failure) enums.TimeoutType {
	return f.GetTimeoutFailureInfo().GetTimeoutType()
}

// retriedAfter holds that the server has handed an activity out again, because of a time-out of its attempt before.
func retriedAfter(t *testing.T, w *harness.World, id string, kind fault.Kind, timeout enums.TimeoutType) {
	t.Helper()
	started := activityIn(t, w, id, activityName(kind)).started
	require.NotNil(t, started)
	require.GreaterOrEqual(t, started.GetAttempt(), int32(2), "the server has handed it out again")
	require.Equal(t, timeout, timeoutIn(started.GetLastFailure()), "%s", started.GetLastFailure().GetMessage())
}
