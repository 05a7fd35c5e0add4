package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"payonce/workflows"
)

// blowOn is what is done to the workflow of a transfer or a payout.
type blowOn struct {
	name       string // FaultCancel, FaultTerminate or FaultReset
	after      time.Duration
	workflowID string
	trouble    string // under which the checker is told
}

// strikeWorkflow strikes a workflow once it has been started.
func (r *round) strikeWorkflow(ctx context.Context, b blowOn, random *rand.Rand) {
	if pause(ctx, b.after) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutBlow)
	defer cancel()
	workflowID := b.workflowID
	struck := false
	_ = retry(ctx, func() (bool, error) {
		var err error
		switch b.name {
		case FaultCancel:
			struck, err = r.cancel(ctx, workflowID)
		case FaultTerminate:
			err = r.namespaced.TerminateWorkflow(ctx, workflowID, "", "chaos")
			struck = err == nil
		case FaultReset:
			struck, err = r.reset(ctx, workflowID, random)
		}
		// It has not been started yet, or it has ended: only the first may pass.
		return err == nil || isAbsent(err) && r.exists(ctx, workflowID), err
	})
	if struck {
		r.record.struck(b.name)
		r.record.trouble(b.trouble, b.name)
	}
}

func isAbsent(err error) bool {
	_, absent := errors.AsType[*serviceerror.NotFound](err)
	return absent
}

func (r *round) exists(ctx context.Context, workflowID string) bool {
	_, err := r.namespaced.DescribeWorkflow(ctx, workflowID, "")
	return err == nil
}

// cancel asks a workflow to cancel. The server takes it for a success to cancel what has ended.
func (r *round) cancel(ctx context.Context, workflowID string) (struck bool, err error) {
	description, err := r.namespaced.DescribeWorkflow(ctx, workflowID, "")
	if err != nil || description.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return false, err
	}
	err = r.namespaced.CancelWorkflow(ctx, workflowID, "")
	return err == nil, err
}

var errNoTask = errors.New("no workflow task has completed, so there is nothing to reset to")

// reset resets a workflow, running or ended, to before one of its decisions.
func (r *round) reset(ctx context.Context, workflowID string, random *rand.Rand) (struck bool, err error) {
	var tasks []int64
	events := r.namespaced.GetWorkflowHistory(ctx, workflowID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return false, err
		}
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			tasks = append(tasks, event.GetEventId())
		}
	}
	if len(tasks) == 0 {
		return false, errNoTask
	}
	_, err = r.namespaced.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: r.world.namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: workflowID},
		WorkflowTaskFinishEventId: pick(random, tasks), RequestId: fmt.Sprintf("chaos-%d", random.Uint64()), Reason: "chaos",
	})
	return err == nil, err
}

// forget deletes a workflow that has ended, with its history, as the server does by itself after the retention. It returns
// true when it is gone.
func (r *round) forget(ctx context.Context, e *errand) bool {
	workflowID := workflows.TransferWorkflowID(e.request.ID)
	ctx, cancel := context.WithTimeout(ctx, timeoutForget)
	defer cancel()
	_, err := r.namespaced.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: r.world.namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: workflowID},
	})
	if err != nil {
		return false
	}
	err = retry(ctx, func() (bool, error) {
		_, err := r.namespaced.DescribeWorkflow(ctx, workflowID, "")
		if isAbsent(err) {
			return true, nil
		}
		return false, err
	})
	if err == nil {
		r.record.struck(FaultForget)
		r.record.trouble(e.request.ID, FaultForget)
	}
	return err == nil
}
