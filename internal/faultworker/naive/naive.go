// Package naive is a money transfer as it is often written: withdraw, deposit, and Temporal retries what fails. It is
// there for contrast, and to be shown failing: nothing names a step, so a step that is run twice counts twice.
//
// It promises nothing. Never copy it.
package naive

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// The workflows. Their activities run on the workflow's own task queue.
const (
	TransferWorkflow = "NaiveTransfer" // Transfer → nothing
	OpenWorkflow     = "NaiveOpen"     // []Account → nothing; an absolute write
	ShowWorkflow     = "NaiveShow"     // []string, names → []Account
)

const (
	withdrawActivity = "NaiveWithdraw"
	depositActivity  = "NaiveDeposit"
)

// Transfer is what to move.
type Transfer struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Amount string `json:"amount"` // in major units of the asset
	Asset  string `json:"asset"`
}

// Change is what a step does to an account.
type Change struct {
	Account string `json:"account"`
	Amount  string `json:"amount"`
	Asset   string `json:"asset"`
}

// Account is an account and its balance, in major units of its asset.
type Account struct {
	Name    string `json:"name"`
	Asset   string `json:"asset"`
	Balance string `json:"balance"`
}

// Steps are the activities.
type Steps interface {
	// Withdraw and Deposit are relative changes without a key: each run counts.
	Withdraw(ctx context.Context, change Change) error
	Deposit(ctx context.Context, change Change) error
	// Open writes accounts absolutely.
	Open(ctx context.Context, accounts []Account) error
	// Show reads accounts.
	Show(ctx context.Context, names []string) ([]Account, error)
}

// Register registers the workflows and the activities.
func Register(registry worker.Registry, steps Steps) {
	registry.RegisterWorkflowWithOptions(transfer, workflow.RegisterOptions{Name: TransferWorkflow})
	registry.RegisterWorkflowWithOptions(open, workflow.RegisterOptions{Name: OpenWorkflow})
	registry.RegisterWorkflowWithOptions(show, workflow.RegisterOptions{Name: ShowWorkflow})
	for name, step := range map[string]any{
		withdrawActivity: steps.Withdraw, depositActivity: steps.Deposit, OpenWorkflow: steps.Open, ShowWorkflow: steps.Show,
	} {
		registry.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: name})
	}
}

func transfer(ctx workflow.Context, in Transfer) error {
	ctx = withOptions(ctx)
	err := workflow.ExecuteActivity(ctx, withdrawActivity, Change{Account: in.From, Amount: in.Amount, Asset: in.Asset}).Get(ctx, nil)
	if err != nil {
		return err
	}
	return workflow.ExecuteActivity(ctx, depositActivity, Change{Account: in.To, Amount: in.Amount, Asset: in.Asset}).Get(ctx, nil)
}

func open(ctx workflow.Context, accounts []Account) error {
	ctx = withOptions(ctx)
	return workflow.ExecuteActivity(ctx, OpenWorkflow, accounts).Get(ctx, nil)
}

func show(ctx workflow.Context, names []string) ([]Account, error) {
	ctx = withOptions(ctx)
	var accounts []Account
	err := workflow.ExecuteActivity(ctx, ShowWorkflow, names).Get(ctx, &accounts)
	return accounts, err
}

func withOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 5 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 300 * time.Millisecond, MaximumAttempts: 5},
	})
}
