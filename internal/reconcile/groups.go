package reconcile

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"payonce/ledger/postgres"
	"payonce/workflows"
)

// closedGroups holds the ends that closed groups, and chunks of batches, have told against the books as they are now.
func (r *run) closedGroups(ctx context.Context) error {
	query := fmt.Sprintf("WorkflowType in ('%s', '%s') and ExecutionStatus = 'Completed'", workflows.TransferGroupWorkflow, workflows.BatchChunkWorkflow)
	return r.list(ctx, query, func(page []*workflow.WorkflowExecutionInfo) error {
		for _, w := range page {
			if err := r.group(ctx, w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId()); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *run) group(ctx context.Context, id, runID string) error {
	in, ends, err := r.groupStory(ctx, id, runID)
	if _, absent := errors.AsType[*serviceerror.NotFound](err); absent {
		return nil // deleted since it was listed
	}
	if err != nil {
		return fmt.Errorf("temporal: workflow %q: %w", id, err)
	}
	if len(ends) != len(in.Transfers) {
		r.found(Finding{
			Check: CheckOutcome, Transfer: id,
			Detail: fmt.Sprintf("the workflow was asked for %d transfers, and told %d ends", len(in.Transfers), len(ends)),
		})
		return nil
	}
	for first := 0; first < len(in.Transfers); first += idsMax {
		last := min(first+idsMax, len(in.Transfers))
		if err := r.groupEnds(ctx, id, in.Transfers[first:last], ends[first:last]); err != nil {
			return err
		}
	}
	return nil
}

// groupStory reads what a group, or a chunk of a batch, was asked for, and what it told.
func (r *run) groupStory(ctx context.Context, id, runID string) (in workflows.GroupInput, ends []workflows.GroupEnd, err error) {
	event, err := r.Temporal.GetWorkflowHistory(ctx, id, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
	if err != nil {
		return in, nil, err
	}
	started := event.GetWorkflowExecutionStartedEventAttributes()
	// The input of a chunk has the fields of a group's, and more.
	if err := converter.GetDefaultDataConverter().FromPayloads(started.GetInput(), &in); err != nil {
		return in, nil, err
	}
	result := r.Temporal.GetWorkflow(ctx, id, runID)
	options := client.WorkflowRunGetOptions{DisableFollowingRuns: true}
	if started.GetWorkflowType().GetName() == workflows.BatchChunkWorkflow {
		var out workflows.BatchChunkResult
		err = result.GetWithOptions(ctx, &out, options)
		return in, out.InOrder(), err
	}
	var out workflows.GroupResult
	err = result.GetWithOptions(ctx, &out, options)
	return in, out.Ends, err
}

func (r *run) groupEnds(ctx context.Context, id string, transfers []workflows.TransferInput, ends []workflows.GroupEnd) error {
	ids := make([]string, len(transfers))
	for i := range transfers {
		ids[i] = workflows.TransferWorkflowID(transfers[i].ID)
	}
	records, err := r.records(ctx, ids)
	if err != nil {
		return err
	}
	for i := range ends {
		r.groupEnd(id, &transfers[i], &ends[i], records[ids[i]])
	}
	return nil
}

func (r *run) groupEnd(id string, in *workflows.TransferInput, end *workflows.GroupEnd, records []postgres.Record) {
	if !end.State.Ended() {
		return // it was no request, or has gone on as a workflow of its own
	}
	reading := read(records, r.given)
	parsed, err := workflows.ParseTransfer(*in)
	switch {
	case err == nil && (!r.given(parsed.From.Ledger) || !r.given(parsed.To.Ledger)):
		r.summary.NotSeen++
		return
	case reading.standing == standingEnded && reading.state == end.State:
		r.summary.Grouped++
		return
	}
	f := Finding{
		Check: CheckOutcome, Transfer: workflows.TransferWorkflowID(in.ID),
		Detail: fmt.Sprintf("the workflow %s said that it ended as %s; the books have %s", id, end.State, &reading),
	}
	if err == nil && reading.safeToRunAgain(end.State) {
		f.Command = transferCommand(*in)
	}
	r.found(f)
}
