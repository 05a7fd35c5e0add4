package workflows

import (
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
)

// ReconcileWorkflow is the type of the workflow that does what `worker verify --temporal` does, on a worker of TaskQueue and
// with the ledgers which that worker holds. It is made to be run by a Temporal Schedule. Its input is a ReconcileInput, its
// result what the command prints as JSON: "ok", and "conclusion" for a person. It completes whatever it finds; the worker
// logs what is wrong as an error, and tells how much of it in the metric payonce_reconcile_findings.
const ReconcileWorkflow = "Reconcile"

// ReconcileInput says what a Reconcile does beside looking.
type ReconcileInput struct {
	// Repair starts every transfer again whose money is in transit and that no workflow moves on.
	Repair bool `json:"repair,omitempty"`
}

// Reconcile verifies the books and reconciles them with the workflows of transfers.
func (w *Workflows) Reconcile(ctx workflow.Context, in ReconcileInput) (converter.RawValue, error) {
	var view converter.RawValue
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, reconcileOptions()), ReconcileWorkflow, in).Get(ctx, &view)
	return view, err
}
