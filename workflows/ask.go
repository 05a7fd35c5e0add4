package workflows

import (
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// The workflows of this file ask a ledger for something through its task queue, so that whoever asks needs no database
// password. Each is safe to start again: it reads, or writes absolutely (level 1).

// AccountOpen opens an account, or returns it if it is open already with the same settings.
func (w *Workflows) AccountOpen(ctx workflow.Context, in activities.AccountOpenInput) (activities.AccountView, error) {
	return askAboutAccount[activities.AccountView](ctx, w, AccountOpenWorkflow, in.Account, in)
}

// AccountSet writes settings of an account.
func (w *Workflows) AccountSet(ctx workflow.Context, in activities.AccountSetInput) (activities.AccountView, error) {
	return askAboutAccount[activities.AccountView](ctx, w, AccountSetWorkflow, in.Account, in)
}

// AccountShow reads an account.
func (w *Workflows) AccountShow(ctx workflow.Context, in activities.AccountShowInput) (activities.AccountView, error) {
	return askAboutAccount[activities.AccountView](ctx, w, AccountShowWorkflow, in.Account, in)
}

// AccountList reads a page of a ledger's accounts.
func (w *Workflows) AccountList(ctx workflow.Context, in activities.AccountListInput) (activities.AccountList, error) {
	return ask[activities.AccountList](ctx, w, AccountListWorkflow, in.Ledger, in)
}

// AccountStatement reads a page of an account's entries.
func (w *Workflows) AccountStatement(ctx workflow.Context, in activities.AccountStatementInput) (activities.AccountStatement, error) {
	return askAboutAccount[activities.AccountStatement](ctx, w, AccountStatementWorkflow, in.Account, in)
}

// AccountPeriod reads what an account had at the two ends of a time that is over.
func (w *Workflows) AccountPeriod(ctx workflow.Context, in activities.AccountPeriodInput) (activities.AccountPeriod, error) {
	return askAboutAccount[activities.AccountPeriod](ctx, w, AccountPeriodWorkflow, in.Account, in)
}

// DeadLetterList reads the dead letters of a ledger.
func (w *Workflows) DeadLetterList(ctx workflow.Context, in activities.DeadLetterListInput) (activities.DeadLetterList, error) {
	return ask[activities.DeadLetterList](ctx, w, DeadLetterListWorkflow, in.Ledger, in)
}

// DeadLetterShow reads a dead letter of a ledger.
func (w *Workflows) DeadLetterShow(ctx workflow.Context, in activities.DeadLetterShowInput) (activities.DeadLetterStory, error) {
	return ask[activities.DeadLetterStory](ctx, w, DeadLetterShowWorkflow, in.Ledger, in)
}

// OperationList looks keys up in the ledgers of whichever worker answers.
func (w *Workflows) OperationList(ctx workflow.Context, in activities.OperationListInput) (activities.OperationList, error) {
	var list activities.OperationList
	options := w.options.Ask.durable(TaskQueue, "")
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), OperationListWorkflow, in).Get(ctx, &list)
	return list, err
}

func askAboutAccount[T any](ctx workflow.Context, w *Workflows, activity, account string, in any) (T, error) {
	ref, err := ledger.ParseAccountRef("account", account)
	if err != nil {
		var none T
		return none, invalidInput(err)
	}
	return ask[T](ctx, w, activity, ref.Ledger, in)
}

// ask runs an activity on a ledger's task queue until it answers. Its caller gives the workflow its time-out.
func ask[T any](ctx workflow.Context, w *Workflows, activity, ledgerName string, in any) (T, error) {
	var answer T
	if err := ledger.CheckLedgerName("ledger", ledgerName); err != nil {
		return answer, invalidInput(err)
	}
	options := w.options.Ask.durable(LedgerTaskQueue(ledgerName), "")
	// It passes, but for a period that ends tomorrow not while somebody waits.
	options.RetryPolicy.NonRetryableErrorTypes = []string{activities.ErrorPeriodUnfinished}
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), activity, in).Get(ctx, &answer)
	return answer, err
}
