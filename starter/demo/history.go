package demo

import (
	"context"
	"fmt"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"payonce/workflows"
)

// watch follows a workflow's history, and tells what it has of time-outs and of activities that were given up. The
// channel is closed when the workflow has ended.
func (p *play) watch(ctx context.Context, workflowID, runID string) (ended <-chan struct{}, stop func()) {
	ctx, stop = context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var seen memory
		events := p.config.Temporal.GetWorkflowHistory(ctx, workflowID, runID, true, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				// What is lost is a line of the timeline; what the judge needs comes from elsewhere.
				return
			}
			if text := seen.text(event); text != "" {
				p.tell("temporal", WhatServer, "%s", text)
			}
		}
	}()
	return done, stop
}

// memory is what later events of a history refer to.
type memory struct {
	workflowTaskTimeout string
	scheduled           map[int64]*history.ActivityTaskScheduledEventAttributes
	started             map[int64]*history.ActivityTaskStartedEventAttributes
}

// text is what an event tells a newcomer; most tell nothing.
func (m *memory) text(event *history.HistoryEvent) string {
	switch event.GetEventType() {
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		m.workflowTaskTimeout = event.GetWorkflowExecutionStartedEventAttributes().GetWorkflowTaskTimeout().AsDuration().String()
		m.scheduled = make(map[int64]*history.ActivityTaskScheduledEventAttributes)
		m.started = make(map[int64]*history.ActivityTaskStartedEventAttributes)
	case enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
		return fmt.Sprintf("hears nothing from the worker for %s: gives the transfer to another", m.workflowTaskTimeout)
	case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		m.scheduled[event.GetEventId()] = event.GetActivityTaskScheduledEventAttributes()
	case enums.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		started := event.GetActivityTaskStartedEventAttributes()
		m.started[started.GetScheduledEventId()] = started
		if started.GetLastFailure().GetTimeoutFailureInfo() != nil {
			return fmt.Sprintf("heard nothing of the %s: gave it to another worker, attempt %d", m.step(started.GetScheduledEventId()), started.GetAttempt())
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		id := event.GetActivityTaskTimedOutEventAttributes().GetScheduledEventId()
		return fmt.Sprintf("hears nothing of the %s for %s, %s: outcome unknown",
			m.step(id), m.scheduled[id].GetStartToCloseTimeout().AsDuration(), m.attempts(id))
	case enums.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		id := event.GetActivityTaskFailedEventAttributes().GetScheduledEventId()
		return fmt.Sprintf("gives the %s up after %s: outcome unknown", m.step(id), m.attempts(id))
	default:
	}
	return ""
}

func (m *memory) step(scheduled int64) string {
	if m.scheduled[scheduled].GetActivityType().GetName() == workflows.StatementWriteWorkflow {
		return "statement"
	}
	return strings.ToLower(m.scheduled[scheduled].GetActivityType().GetName())
}

func (m *memory) attempts(scheduled int64) string {
	return fmt.Sprintf("attempt %d of %d", m.started[scheduled].GetAttempt(), m.scheduled[scheduled].GetRetryPolicy().GetMaximumAttempts())
}
