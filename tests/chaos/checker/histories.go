package checker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/failure/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"
)

const (
	pageSize = 1000
	// readersMax is how many histories are read at once.
	readersMax = 8
)

// Histories says which histories to read.
type Histories struct {
	Service   workflowservice.WorkflowServiceClient
	Namespace string
	// Query narrows the list of workflows, in Temporal's words; "" is all.
	Query string
}

// ReadRuns reads the histories of all runs of the workflows that Temporal still has, in the order in which they were started.
func ReadRuns(ctx context.Context, h Histories) ([]Run, error) {
	listed, err := h.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the workflows: %w", err)
	}
	runs := make([]Run, len(listed))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readersMax)
	for i := range listed {
		group.Go(func() (err error) {
			runs[i], err = h.read(ctx, listed[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return a.Started.Compare(b.Started) })
	return runs, nil
}

func (h *Histories) list(ctx context.Context) ([]*workflow.WorkflowExecutionInfo, error) {
	var all []*workflow.WorkflowExecutionInfo
	var token []byte
	for {
		page, err := h.Service.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: h.Namespace, Query: h.Query, PageSize: pageSize, NextPageToken: token,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetExecutions()...)
		if token = page.GetNextPageToken(); len(token) == 0 {
			return all, nil
		}
	}
}

// read reads one history. What the list says of a run may be old; its history is not.
func (h *Histories) read(ctx context.Context, info *workflow.WorkflowExecutionInfo) (Run, error) {
	run := Run{
		WorkflowID: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId(), Type: info.GetType().GetName(),
		Status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING.String(),
	}
	var token []byte
	for {
		page, err := h.Service.GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
			Namespace: h.Namespace, Execution: info.GetExecution(), NextPageToken: token,
		})
		if err != nil {
			return run, fmt.Errorf("read the history of %s, run %s: %w", run.WorkflowID, run.RunID, err)
		}
		for _, event := range page.GetHistory().GetEvents() {
			if err := run.add(event); err != nil {
				return run, fmt.Errorf("the history of %s, run %s, event %d: %w", run.WorkflowID, run.RunID, event.GetEventId(), err)
			}
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			return run, nil
		}
	}
}

// transferType is the type of the workflow whose input and result are read.
const transferType = "Transfer"

func (r *Run) add(event *history.HistoryEvent) error {
	e := Event{ID: event.GetEventId(), At: event.GetEventTime().AsTime(), Type: event.GetEventType().String()}
	var err error
	switch event.GetEventType() {
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		r.Started = e.At
		if r.Type == transferType {
			err = decode(event.GetWorkflowExecutionStartedEventAttributes().GetInput(), &r.Request)
		}
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		r.Status = "Completed"
		if r.Type == transferType {
			r.Result = new(Result)
			err = decode(event.GetWorkflowExecutionCompletedEventAttributes().GetResult(), r.Result)
			e.Text = r.Result.State + " " + r.Result.Code
		}
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		r.Status = "Failed"
		f := event.GetWorkflowExecutionFailedEventAttributes().GetFailure()
		r.FailureType, r.FailureText = f.GetApplicationFailureInfo().GetType(), f.GetMessage()
		e.Text = failureText(f)
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		r.Status = "Terminated"
		e.Text = event.GetWorkflowExecutionTerminatedEventAttributes().GetReason()
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		r.Status = "TimedOut"
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		r.Status = "Canceled"
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		r.Status = "ContinuedAsNew"
	case enums.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		failed := event.GetWorkflowTaskFailedEventAttributes()
		e.Cause, e.Text = failed.GetCause().String(), failureText(failed.GetFailure())
	case enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
		e.Text = event.GetWorkflowTaskTimedOutEventAttributes().GetTimeoutType().String()
	case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		scheduled := event.GetActivityTaskScheduledEventAttributes()
		e.Text = scheduled.GetActivityType().GetName() + " on " + scheduled.GetTaskQueue().GetName()
	case enums.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		started := event.GetActivityTaskStartedEventAttributes()
		e.Text = fmt.Sprintf("attempt %d by %s", started.GetAttempt(), started.GetIdentity())
		if f := started.GetLastFailure(); f != nil {
			e.Text += ", after " + failureText(f)
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		e.Text = payloadText(event.GetActivityTaskCompletedEventAttributes().GetResult())
	case enums.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		e.Text = failureText(event.GetActivityTaskFailedEventAttributes().GetFailure())
	case enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		e.Text = failureText(event.GetActivityTaskTimedOutEventAttributes().GetFailure())
	case enums.EVENT_TYPE_MARKER_RECORDED:
		e.Text = markerText(event.GetMarkerRecordedEventAttributes())
	}
	if err != nil {
		return err
	}
	e.Text = strings.TrimSpace(e.Text)
	r.Events = append(r.Events, e)
	return nil
}

// decode reads the one JSON document that a transfer's input or result is.
func decode(payloads *common.Payloads, into any) error {
	if len(payloads.GetPayloads()) != 1 {
		return fmt.Errorf("there are %d payloads instead of one", len(payloads.GetPayloads()))
	}
	return json.Unmarshal(payloads.GetPayloads()[0].GetData(), into)
}

// textBytesMax bounds what is told of one event.
const textBytesMax = 300

func failureText(f *failure.Failure) string {
	var texts []string
	for ; f != nil; f = f.GetCause() {
		texts = append(texts, f.GetMessage())
	}
	return clip(strings.Join(texts, ": "))
}

func payloadText(payloads *common.Payloads) string {
	var texts []string
	for _, p := range payloads.GetPayloads() {
		texts = append(texts, string(p.GetData()))
	}
	return clip(strings.Join(texts, " "))
}

// markerText tells a local activity's outcome, which is all that the fast path leaves.
func markerText(marker *history.MarkerRecordedEventAttributes) string {
	texts := []string{marker.GetMarkerName()}
	for _, name := range []string{"data", "result"} {
		if details, ok := marker.GetDetails()[name]; ok {
			texts = append(texts, payloadText(details))
		}
	}
	if f := marker.GetFailure(); f != nil {
		texts = append(texts, failureText(f))
	}
	return clip(strings.Join(texts, " "))
}

func clip(s string) string {
	if len(s) <= textBytesMax {
		return s
	}
	return strings.ToValidUTF8(s[:textBytesMax], "") + "…"
}

// timeText is a moment in a story: what counts is the order and the distance.
func timeText(t time.Time) string { return t.UTC().Format("15:04:05.000") }
