package workflows

import (
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// startTransfer starts a transfer from another workflow, as any client does. It goes on by itself.
func startTransfer(ctx workflow.Context, in TransferInput, parsed ParsedTransfer) workflow.ChildWorkflowFuture {
	return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            TransferWorkflowID(in.ID),
		TaskQueue:             TaskQueue,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		StaticSummary:         parsed.String(),
	}), TransferWorkflow, in)
}

// awaitStart waits until a transfer is started. One that is there already is the one.
func awaitStart(ctx workflow.Context, started workflow.ChildWorkflowFuture) error {
	err := started.GetChildWorkflowExecution().Get(ctx, nil)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil
	}
	return err
}
