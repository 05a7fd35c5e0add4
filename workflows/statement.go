package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// StatementWriteWorkflow is the type of the workflow that writes the statement of an account to the folder where the workers
// of its ledger keep statements. It is made to be run by a Temporal Schedule, on TaskQueue, and safe to run again: the same
// account, period and format are the same file. Its input is a StatementInput, its result an activities.StatementFile.
//
// It fails with ErrorInvalidInput, or an error of the activity, such as activities.ErrorStatementsNotKept when a worker of the
// ledger has no folder for statements.
const StatementWriteWorkflow = "StatementWrite"

// StatementInput says which statement. The period is From and To, or Last. It must be over: what ended less than
// ledger.PeriodMargin ago is waited for when it was asked for by Last, and an error otherwise.
type StatementInput struct {
	Account string `json:"account"`         // "eu/alice"
	Asset   string `json:"asset,omitempty"` // only for a transit account that has several
	// From and To bound the entries' time, From included and To not: "2026-10-01T00:00:00Z".
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
	// Last is "day", "month" or "year": the last whole one, in UTC, before the time for which a Schedule has started the
	// workflow, also if that was later, or else before the workflow's start.
	Last   string `json:"last,omitempty"`
	Format string `json:"format,omitempty"` // "csv", which is the default, or "camt053"
}

// searchAttributeScheduled is the time for which a Schedule starts a workflow. Temporal sets it.
var searchAttributeScheduled = temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")

// StatementWrite writes a statement.
func (w *Workflows) StatementWrite(ctx workflow.Context, in StatementInput) (activities.StatementFile, error) {
	var file activities.StatementFile
	ref, err := ledger.ParseAccountRef("account", in.Account)
	if err != nil {
		return file, invalidInput(err)
	}
	from, to, err := in.period(scheduledAt(ctx))
	if err != nil {
		return file, invalidInput(err)
	}
	options := w.options.Write.long(ref.Ledger, "statement of "+ref.String())
	if in.Last == "" {
		// Whoever names a period that is not over is told so.
		options.RetryPolicy.NonRetryableErrorTypes = []string{activities.ErrorPeriodUnfinished}
	}
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), StatementWriteWorkflow, activities.StatementWriteInput{
		AccountPeriodInput: activities.AccountPeriodInput{Account: in.Account, Asset: in.Asset, From: from, To: to}, Format: in.Format,
	}).Get(ctx, &file)
	return file, err
}

// scheduledAt is the time for which the workflow was started.
func scheduledAt(ctx workflow.Context) time.Time {
	if at, ok := workflow.GetTypedSearchAttributes(ctx).GetTime(searchAttributeScheduled); ok {
		return at
	}
	return workflow.GetInfo(ctx).WorkflowStartTime
}

// period is what the statement is about, asked for at a moment. The error is a *ledger.InvalidError.
func (in *StatementInput) period(at time.Time) (from, to time.Time, err error) {
	if in.Last == "" {
		switch {
		case in.From == nil:
			return from, to, &ledger.InvalidError{Field: "from", Reason: `it is required, or "last": "month"`}
		case in.To == nil:
			return from, to, &ledger.InvalidError{Field: "to", Reason: `it is required, or "last": "month"`}
		}
		return in.From.UTC(), in.To.UTC(), nil
	}
	if in.From != nil || in.To != nil {
		return from, to, &ledger.InvalidError{Field: "last", Reason: "from and to are there too: name one or the other"}
	}
	year, month, day := at.UTC().Date()
	date := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	}
	switch in.Last {
	case "day":
		return date(year, month, day-1), date(year, month, day), nil
	case "month":
		return date(year, month-1, 1), date(year, month, 1), nil
	case "year":
		return date(year-1, 1, 1), date(year, 1, 1), nil
	default:
		return from, to, &ledger.InvalidError{Field: "last", Reason: "it must be day, month or year"}
	}
}
