package transfers

import (
	"context"
	"slices"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/workflows"
)

// The ledgers remember a transfer after Temporal has forgotten it: the outcome of each step is under its key for good.
// This file reads them as the protocol does, so that what it calls an end is final. It sees the ledgers of one worker, so
// that a step that is not there may be on another: then the state is unknown.

// remembered tells where a transfer stands from what the ledgers have recorded.
func (c *Client) remembered(ctx context.Context, id string) (Status, error) {
	workflowID := workflows.TransferWorkflowID(id)
	steps := []workflows.Step{workflows.StepPost, workflows.StepWithdraw, workflows.StepDeposit, workflows.StepRefund}
	var in activities.OperationListInput
	for _, step := range steps {
		in.Keys = append(in.Keys, workflows.StepKey(workflowID, step))
	}
	list, err := asking.Run[activities.OperationList](ctx, c.temporal, asking.Question{
		Workflow: workflows.OperationListWorkflow, Name: "operation-list/" + workflowID, Input: in,
	})
	if err != nil {
		return Status{}, err
	}
	if len(list.Operations) == 0 {
		return Status{}, &UnknownError{ID: id}
	}
	// By the order of the steps, not of the ledgers.
	slices.SortStableFunc(list.Operations, func(a, b activities.OperationView) int {
		return slices.Index(in.Keys, a.Key) - slices.Index(in.Keys, b.Key)
	})
	return recall(id, list.Operations), nil
}

// recall reads a transfer's state from the recorded outcomes of its steps, which are in the order of the steps.
func recall(id string, operations []activities.OperationView) Status {
	status := unknownStatus(workflows.TransferInput{ID: id}, "")
	status.Steps = []workflows.StepReport{}
	outcomes := make(workflows.Recorded)
	for i := range operations {
		operation := &operations[i]
		step := workflows.Step(operation.Kind)
		outcomes[step] = operation
		status.Step = step
		outcome := operation.StepOutcome
		outcome.Repeat = false
		status.Steps = append(status.Steps, workflows.StepReport{Step: step, StepOutcome: outcome})
		if status.Request.From == "" {
			status.Request = workflows.RequestOf(id, operation)
		}
	}
	status.Notes = []string{"read from the ledgers, which remember it"}

	state, whyStep := workflows.Recall(outcomes.Outcome)
	if state == "" {
		status.Detail = "its last step has no outcome on the ledgers that were asked: start it again with the same ID, and it goes on from where it stopped"
		return status
	}
	status.State = state
	result := workflows.TransferResult{
		ID: id, State: state, From: status.Request.From, To: status.Request.To,
		Amount: status.Request.Amount, Asset: status.Request.Asset, Steps: status.Steps,
	}
	why := outcomes[whyStep]
	if why != nil {
		result.Code, result.Detail = why.Code, why.Detail
		status.Detail = why.Detail
	}
	if state == workflows.StateDiscarded {
		result.Left = leftAt(status.Request, why)
	}
	status.Result = &result
	return status
}

// leftAt says where the money of a discarded transfer is, by what was sealed: its refund or, before it left, its first step.
func leftAt(in workflows.TransferInput, sealed *activities.OperationView) *workflows.Whereabouts {
	left := &workflows.Whereabouts{Place: ledger.PlaceSource, Account: in.From, Amount: in.Amount, Asset: in.Asset}
	if sealed.Kind == ledger.KindRefund {
		left.Place, left.Account = ledger.PlaceTransit, sealed.From
	}
	return left
}

// conflict is the error of a request that the ledger has refused because its ID is another's. It asks the ledgers whose.
func (c *Client) conflict(ctx context.Context, in workflows.TransferInput) error {
	conflict := &DifferentRequestError{Asked: in}
	lookCtx, cancel := context.WithTimeout(ctx, timeoutLook)
	defer cancel()
	if status, err := c.remembered(lookCtx, in.ID); err == nil {
		conflict.Known = &status.Request
	}
	return conflict
}
