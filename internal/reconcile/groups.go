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

// closedGroups holds the ends that closed groups have told against the books as they are now.
func (r *run) closedGroups(ctx context.Context) error {
	query := fmt.Sprintf("WorkflowType = '%s' and ExecutionStatus = 'Completed'", workflows.TransferGroupWorkflow)
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
	in, out, err := r.groupStory(ctx, id, runID)
	if _, absent := errors.AsType[*serviceerror.NotFound](err); absent {
		return nil // deleted since it was listed
	}
	if err != nil {
		return fmt.Errorf("temporal: group %q: %w", id, err)
	}
	if len(out.Ends) != len(in.Transfers) {
		r.found(Finding{
			Check: CheckOutcome, Transfer: id,
			Detail: fmt.Sprintf("the group was asked for %d transfers, and told %d ends", len(in.Transfers), len(out.Ends)),
		})
		return nil
	}
	for first := 0; first < len(in.Transfers); first += idsMax {
		last := min(first+idsMax, len(in.Transfers))
		if err := r.groupEnds(ctx, id, in.Transfers[first:last], out.Ends[first:last]); err != nil {
			return err
		}
	}
	return nil
}

// groupStory reads what a group was asked for, and what it told.
func (r *run) groupStory(ctx context.Context, id, runID string) (in workflows.GroupInput, out workflows.GroupResult, err error) {
	event, err := r.Temporal.GetWorkflowHistory(ctx, id, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
	if err != nil {
		return in, out, err
	}
	input := event.GetWorkflowExecutionStartedEventAttributes().GetInput()
	if err := converter.GetDefaultDataConverter().FromPayloads(input, &in); err != nil {
		return in, out, err
	}
	err = r.Temporal.GetWorkflow(ctx, id, runID).GetWithOptions(ctx, &out, client.WorkflowRunGetOptions{DisableFollowingRuns: true})
	return in, out, err
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
