package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"payonce/ledger"
	"payonce/workflows"
)

const (
	// pageSize is how many workflows Temporal is asked for at once: as many as it gives.
	pageSize = 1000
	// listAttemptsMax is how often one page is asked for again.
	listAttemptsMax = 5
)

func (r *run) retention(ctx context.Context) (time.Duration, error) {
	namespace, err := r.Temporal.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: r.Namespace})
	if err != nil {
		return 0, fmt.Errorf("temporal: namespace %q: %w", r.Namespace, err)
	}
	return namespace.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration(), nil
}

// workflowRun is a run of a transfer's workflow as Temporal itself knows it; the zero value is that it knows none.
type workflowRun struct {
	runID  string
	status enums.WorkflowExecutionStatus
}

// latest asks for the latest run of a transfer's workflow.
func (r *run) latest(ctx context.Context, transfer string) (workflowRun, error) {
	described, err := r.Temporal.DescribeWorkflow(ctx, transfer, "")
	if _, absent := errors.AsType[*serviceerror.NotFound](err); absent {
		return workflowRun{}, nil
	}
	if err != nil {
		return workflowRun{}, fmt.Errorf("temporal: workflow %q: %w", transfer, err)
	}
	return workflowRun{runID: described.WorkflowExecution.RunID, status: described.Status}, nil
}

func (w workflowRun) completed() bool { return w.status == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED }

// open says that the run may still do something.
func (w workflowRun) open() bool {
	switch w.status {
	case enums.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED: // there is none
		return false
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, enums.WORKFLOW_EXECUTION_STATUS_FAILED, enums.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return false
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, enums.WORKFLOW_EXECUTION_STATUS_PAUSED:
		return true
	default:
		return true
	}
}

// String tells a person how the run was closed.
func (w workflowRun) String() string {
	if w.runID == "" {
		return "Temporal knows no workflow of it"
	}
	return "its workflow was closed as " + strings.ToLower(w.status.String())
}

// result is what a workflow said when it ended.
type result struct {
	state    workflows.State
	from, to string // ledgers
	fault    error  // it can't be read
}

func (s result) String() string {
	if s.fault != nil {
		return "something that can't be read (" + s.fault.Error() + ")"
	}
	return string(s.state)
}

func (r *run) result(ctx context.Context, transfer string, w workflowRun) (result, error) {
	said, fault, err := told[workflows.TransferResult](ctx, r, transfer, w)
	if fault != nil || err != nil {
		return result{fault: fault}, err
	}
	return resultOf(said), nil
}

// told reads what a workflow has ended with. The fault is why that can't be read.
func told[T any](ctx context.Context, r *run, workflowID string, w workflowRun) (said T, fault, err error) {
	err = r.Temporal.GetWorkflow(ctx, workflowID, w.runID).GetWithOptions(ctx, &said, client.WorkflowRunGetOptions{DisableFollowingRuns: true})
	switch {
	case errors.Is(err, converter.ErrUnableToDecode):
		return said, err, nil
	case err != nil:
		return said, nil, fmt.Errorf("temporal: the result of workflow %q: %w", workflowID, err)
	}
	return said, nil, nil
}

func resultOf(said workflows.TransferResult) result {
	s := result{state: said.State}
	var from, to ledger.AccountRef
	if from, s.fault = ledger.ParseAccountRef("from", said.From); s.fault != nil {
		return s
	}
	to, s.fault = ledger.ParseAccountRef("to", said.To)
	s.from, s.to = from.Ledger, to.Ledger
	return s
}

// lookForWorkflows asks Temporal which of the transfers that are complete it still knows.
func (r *run) lookForWorkflows(ctx context.Context) error {
	complete := r.complete
	r.complete = nil
	known, err := r.known(ctx, complete)
	if err != nil {
		return err
	}
	for _, t := range complete {
		switch {
		case known[t.Transfer]:
		case !t.needsWorkflow || r.mayBeForgotten(t):
			r.summary.Forgotten++
		default:
			w, err := r.latest(ctx, t.Transfer)
			if err != nil {
				return err
			}
			if w.runID != "" {
				continue // the list has only not heard of it yet
			}
			r.summary.Unaccounted++
			if r.report.Unaccounted != nil {
				r.report.Unaccounted(t.Unaccounted)
			}
		}
	}
	return nil
}

// mayBeForgotten says that the transfer's workflow, which closed after its latest step, may be past Temporal's retention.
func (r *run) mayBeForgotten(t completeTransfer) bool {
	return t.At.Before(r.now.Add(-r.summary.Retention))
}

// known says which of the transfers that are young enough have a workflow in Temporal's list.
func (r *run) known(ctx context.Context, transfers []completeTransfer) (map[string]bool, error) {
	known := make(map[string]bool, len(transfers))
	var ids []string
	for _, t := range transfers {
		switch {
		case r.mayBeForgotten(t):
		case strings.ContainsAny(t.Transfer, unquotable):
			w, err := r.latest(ctx, t.Transfer)
			if err != nil {
				return nil, err
			}
			known[t.Transfer] = w.runID != ""
		default:
			ids = append(ids, quoteQuery(t.Transfer))
		}
	}
	if len(ids) == 0 {
		return known, nil
	}
	query := fmt.Sprintf("WorkflowType = '%s' and WorkflowId in (%s)", workflows.TransferWorkflow, strings.Join(ids, ", "))
	err := r.list(ctx, query, func(page []*workflow.WorkflowExecutionInfo) error {
		for _, w := range page {
			known[w.GetExecution().GetWorkflowId()] = true
		}
		return nil
	})
	return known, err
}

// unquotable are what a query of Temporal's list can't be asked with, however it is written: the server changes it.
const unquotable = "\"\\"

// quoteQuery makes a text a value in a query of Temporal's list.
func quoteQuery(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func (r *run) list(ctx context.Context, query string, do func([]*workflow.WorkflowExecutionInfo) error) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{Namespace: r.Namespace, PageSize: pageSize, Query: query}
	for attempts := 0; ; {
		page, err := r.Temporal.ListWorkflow(ctx, request)
		// A busy server may end a request of which nobody has asked that; it is the client that is asked to try again.
		if _, cut := errors.AsType[*serviceerror.Canceled](err); cut && ctx.Err() == nil && attempts < listAttemptsMax {
			attempts++
			continue
		}
		if err != nil {
			return fmt.Errorf("temporal: list workflows: %w", err)
		}
		attempts = 0
		if err := do(page.GetExecutions()); err != nil {
			return err
		}
		next := page.GetNextPageToken()
		if len(next) == 0 {
			return nil
		}
		request.NextPageToken = next
	}
}

// closed goes through the closed workflows of a type, in pages of those that have completed, with their IDs, and counts the
// others. All that they have done was recorded before they closed.
func (r *run) closed(ctx context.Context, workflowType string, do func(completed []*workflow.WorkflowExecutionInfo, ids []string) error) error {
	query := fmt.Sprintf("WorkflowType = '%s' and ExecutionStatus != 'Running'", workflowType)
	return r.list(ctx, query, func(page []*workflow.WorkflowExecutionInfo) error {
		var completed []*workflow.WorkflowExecutionInfo
		var ids []string
		for _, w := range page {
			if w.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
				r.summary.NoEnds++
				continue
			}
			completed = append(completed, w)
			ids = append(ids, w.GetExecution().GetWorkflowId())
		}
		return do(completed, ids)
	})
}

// closedTransfers holds the ends that closed transfers have told against the books as they are now.
func (r *run) closedTransfers(ctx context.Context) error {
	return r.closed(ctx, workflows.TransferWorkflow, func(completed []*workflow.WorkflowExecutionInfo, ids []string) error {
		records, err := r.records(ctx, ids)
		if err != nil {
			return err
		}
		for i, w := range completed {
			reading := read(records[ids[i]], r.given)
			if reading.standing == standingEnded && string(reading.state) == listedState(w) {
				r.summary.Agreed++
				continue
			}
			if err := r.ended(ctx, ids[i], w.GetExecution().GetRunId()); err != nil {
				return err
			}
		}
		return nil
	})
}

// listedState is the state that a workflow has published, or "" if it has not.
func listedState(w *workflow.WorkflowExecutionInfo) string {
	var state string
	payload := w.GetSearchAttributes().GetIndexedFields()[workflows.SearchAttributeState.GetName()]
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &state); err != nil {
		return "" // then the workflow itself is asked
	}
	return state
}

// again is the request that goes on with what a workflow has left.
type again struct {
	command      string // for a person
	summary      fmt.Stringer
	workflowType string
	in           any
}

// goOn reports what a workflow has left, with the command that goes on with it, and does so if that is wanted. The fault is why
// it can't be asked for again.
func (r *run) goOn(ctx context.Context, f Finding, a again, fault error) (err error) {
	if fault == nil {
		f.Command = a.command
	} else {
		f.Detail += "; " + fault.Error()
	}
	if fault == nil && r.Repair {
		if f.Repair, err = r.start(ctx, f.Transfer, a); err != nil {
			return err
		}
	}
	r.found(f)
	return nil
}

// start starts the same workflow with the same request, as any client does, and tells what came of it.
func (r *run) start(ctx context.Context, id string, a again) (told string, err error) {
	w, err := r.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       id,
		TaskQueue:                                workflows.TaskQueue,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            a.summary.String(),
	}, a.workflowType, a.in)
	if already, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		return "somebody else has just started it, run " + already.RunId, nil
	}
	if err != nil {
		return "", fmt.Errorf("temporal: start workflow %q: %w", id, err)
	}
	r.summary.Started++
	return "started again, run " + w.GetRunID(), nil
}
