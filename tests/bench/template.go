package main

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"payonce/ledger"
	"payonce/ledger/postgres"
)

// The shape of the official money-transfer template: a workflow that runs withdraw and deposit as two ordinary activities
// with the SDK's default options and the template's retry policy. Here they move money on the same ledger, by way of a third
// account, under keys, which the template leaves to its bank.
const (
	templateWorkflow = "TemplateTransfer"
	templateWithdraw = "TemplateWithdraw"
	templateDeposit  = "TemplateDeposit"
)

func runTemplate(ctx workflow.Context, number int64) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for _, step := range []string{templateWithdraw, templateDeposit} {
		if err := workflow.ExecuteActivity(ctx, step, number).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func registerTemplate(registry worker.Registry, books *postgres.Ledger) {
	registry.RegisterWorkflowWithOptions(runTemplate, workflow.RegisterOptions{Name: templateWorkflow})
	for name, leg := range map[string]func(ledger.Leg) ledger.Leg{
		templateWithdraw: func(l ledger.Leg) ledger.Leg { l.To = middle(l); return l },
		templateDeposit:  func(l ledger.Leg) ledger.Leg { l.From = middle(l); return l },
	} {
		registry.RegisterActivityWithOptions(func(ctx context.Context, number int64) error {
			o := operation("template", number)
			o.Key = ledger.Key(activity.GetInfo(ctx).WorkflowExecution.ID + "/" + name)
			o.Legs[0] = leg(o.Legs[0])
			_, err := books.Post(ctx, o)
			return err
		}, activity.RegisterOptions{Name: name})
	}
}

// middle is an account that takes no part in a leg.
func middle(l ledger.Leg) string {
	for _, name := range []string{"a500", "a501", "a502"} {
		if name != l.From && name != l.To {
			return name
		}
	}
	panic("three names are enough")
}
