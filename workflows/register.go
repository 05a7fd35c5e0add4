package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Workflows are the workflows with their options.
type Workflows struct {
	options Options
}

// New returns the workflows. A worker's workflows and their replay must not differ in code; they may differ in options.
func New(options Options) *Workflows { return &Workflows{options: options} }

// Register registers every workflow under its name in contract.go.
func (w *Workflows) Register(registry worker.WorkflowRegistry) {
	for name, function := range map[string]any{
		TransferWorkflow:         w.Transfer,
		AccountOpenWorkflow:      w.AccountOpen,
		AccountSetWorkflow:       w.AccountSet,
		AccountShowWorkflow:      w.AccountShow,
		AccountListWorkflow:      w.AccountList,
		AccountStatementWorkflow: w.AccountStatement,
		DeadLetterListWorkflow:   w.DeadLetterList,
		DeadLetterShowWorkflow:   w.DeadLetterShow,
		DeadLetterDecideWorkflow: w.DeadLetterDecide,
		OperationListWorkflow:    w.OperationList,
	} {
		registry.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
}
