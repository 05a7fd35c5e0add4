package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"payonce/ledger"
	"payonce/ledger/postgres"
)

// The shape of the official money-transfer template: a workflow that runs withdraw and deposit as two ordinary activities
// with the SDK's default options and the template's retry policy. Here they move money on the same ledger, by way of a third
// account, under keys, which the template leaves to its bank.
//
// Beside it stands the least that a workflow can do: post, in one local activity, and nothing else.
const (
	floorWorkflow    = "Floor"
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
	registry.RegisterWorkflowWithOptions(func(ctx workflow.Context, number int64) error {
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteLocalActivity(ctx, func(ctx context.Context, number int64) error {
			o := operation("floor", number)
			o.Key = ledger.Key(activity.GetInfo(ctx).WorkflowExecution.ID + "/post")
			_, err := books.Post(ctx, o)
			return err
		}, number).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: floorWorkflow})
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

const (
	// templateWorker is the argument with which this program is a worker for the template's shape, and no bench.
	templateWorker = "template-worker"
	templateQueue  = "template"
	// envLedger names the ledger's database to it. Where Temporal is, Temporal's own variables say.
	envLedger = "PAYONCE_BENCH_LEDGER"
)

// runTemplateWorker serves the template's shape until the context ends.
func runTemplateWorker(ctx context.Context) error {
	books, err := postgres.Open(ctx, postgres.Config{Name: ledgerName, URL: os.Getenv(envLedger)})
	if err != nil {
		return err
	}
	defer books.Close()
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return err
	}
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}
	defer c.Close()
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	w := worker.New(c, templateQueue, worker.Options{WorkflowTaskPollerBehavior: pollers, ActivityTaskPollerBehavior: pollers})
	registerTemplate(w, books)
	if err := w.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	w.Stop()
	return nil
}
