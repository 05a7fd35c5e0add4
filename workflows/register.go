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
		PayoutWorkflow:           w.Payout,
		PayoutHintWorkflow:       decodingOnly(w.PayoutHint),
		NotificationWorkflow:     decoding(w.Notification),
		TransferGroupWorkflow:    decoding(w.TransferGroup),
		BatchWorkflow:            decoding(w.Batch),
		BatchChunkWorkflow:       decoding(w.BatchChunk),
		AccountOpenWorkflow:      decoding(w.AccountOpen),
		AccountSetWorkflow:       decoding(w.AccountSet),
		AccountShowWorkflow:      decoding(w.AccountShow),
		AccountListWorkflow:      decoding(w.AccountList),
		AccountStatementWorkflow: decoding(w.AccountStatement),
		AccountPeriodWorkflow:    decoding(w.AccountPeriod),
		StatementWriteWorkflow:   decoding(w.StatementWrite),
		DeadLetterListWorkflow:   decoding(w.DeadLetterList),
		DeadLetterShowWorkflow:   decoding(w.DeadLetterShow),
		DeadLetterDecideWorkflow: decoding(w.DeadLetterDecide),
		OperationListWorkflow:    decoding(w.OperationList),
		ReconcileWorkflow:        decoding(w.Reconcile),
	} {
		registry.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
}
