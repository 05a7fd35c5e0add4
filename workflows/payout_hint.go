package workflows

import (
	"fmt"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// hintsMax bounds how often a hint is tried, when the payout begins or ends at the same moment.
const hintsMax = 5

// PayoutHint has a payout's rail asked now. A payout that has ended is opened again: what the rail says then is held against
// what the books have. The payout itself is learned from the ledgers of whichever worker answers; the error is of type
// ErrorOperationUnknown if they don't know it, and nothing was changed.
func (w *Workflows) PayoutHint(ctx workflow.Context, in PayoutHintInput) error {
	if err := ledger.CheckID("id", in.ID, TransferIDBytesMax); err != nil {
		return invalidInput(err)
	}
	for range hintsMax {
		// A payout that is open takes it; one that is not has no workflow to take it.
		err := workflow.SignalExternalWorkflow(ctx, PayoutWorkflowID(in.ID), "", PayoutHintSignal, nil).Get(ctx, nil)
		if err == nil || temporal.IsCanceledError(err) {
			return err
		}
		payout, err := w.rememberedPayout(ctx, in.ID)
		if err != nil {
			return err
		}
		parsed, err := ParsePayout(payout)
		if err != nil {
			return invalidInput(err)
		}
		err = workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:            PayoutWorkflowID(in.ID),
			TaskQueue:             TaskQueue,
			ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
			WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			StaticSummary:         parsed.String(),
		}), PayoutWorkflow, payout).GetChildWorkflowExecution().Get(ctx, nil)
		if !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return err
		}
	}
	return temporal.NewApplicationError(fmt.Sprintf("payout %q begins and ends all the time", in.ID), "Busy")
}

// rememberedPayout is the payout that the ledgers have a reserve of.
func (w *Workflows) rememberedPayout(ctx workflow.Context, id string) (PayoutInput, error) {
	in := activities.OperationListInput{Keys: []string{StepKey(PayoutWorkflowID(id), StepReserve)}}
	var list activities.OperationList
	options := w.options.Ask.durable(TaskQueue, "look up the payout")
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), OperationListWorkflow, in).Get(ctx, &list); err != nil {
		return PayoutInput{}, err
	}
	for i := range list.Operations {
		if payout, ok := PayoutOf(id, &list.Operations[i]); ok {
			return payout, nil
		}
	}
	return PayoutInput{}, temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("no payout %q is known to the ledgers of the worker that was asked", id), activities.ErrorOperationUnknown, nil)
}
