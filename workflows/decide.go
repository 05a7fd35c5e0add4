package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// DeadLetterDecide carries out a decision about a dead letter whose transfer has ended. The letter is closed first, by the
// one whose decision comes first. Only then is the transfer made anew, under an ID that is the same whoever asks: the same
// decision again finds it started.
func (w *Workflows) DeadLetterDecide(ctx workflow.Context, in EndedDecision) (EndedDecided, error) {
	decided := EndedDecided{}
	if err := in.check(); err != nil {
		return decided, err
	}
	resolution := decisionText(in.Action, in.By, in.Reason)
	if in.Action == ActionRetry {
		decided.Transfer = RetryTransferID(TransferOf(in.Key))
		resolution += fmt.Sprintf("; made anew as %q", decided.Transfer)
	}
	record := activities.DeadLetterDecideInput{
		Ledger: in.Ledger, Key: in.Key, Version: in.Version, Ended: string(in.Ended),
		Decision:   activities.DecisionView{ID: in.ID(), Action: string(in.Action), By: in.By, Reason: in.Reason},
		Resolution: resolution,
	}
	// An outage is waited out, but not for ever: whoever decided is not there any more then.
	options := w.options.Ask.durable(LedgerTaskQueue(in.Ledger), "")
	options.ScheduleToCloseTimeout = w.options.Outage.Budget
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), DeadLetterDecideWorkflow, record).Get(ctx, &decided.Letter)
	if err != nil || in.Action != ActionRetry {
		return decided, err
	}
	letter := &decided.Letter
	again := TransferInput{
		ID: decided.Transfer, From: letter.From, To: letter.To, Amount: letter.Amount, Asset: letter.Asset,
		Memo: letter.Memo, Metadata: letter.Metadata, Retries: letter.Transfer, Notify: in.Notify,
	}
	return decided, w.makeAnew(ctx, again)
}

func (d EndedDecision) check() error {
	switch {
	case d.Action != ActionRetry && d.Action != ActionDiscard:
		return refuseDecision("the transfer has ended: choose retry or discard, not %q", d.Action)
	case d.Action == ActionRetry && strings.HasPrefix(d.Key, payoutWorkflowIDPrefix):
		return refuseDecision("the payout has ended: to pay again is a new ID")
	case d.Action == ActionRetry && strings.HasPrefix(d.Key, notificationWorkflowIDPrefix):
		return refuseDecision("the notification has ended: there is nothing to retry")
	case d.Action == ActionRetry && d.Ended != "" && !retriable(d.Ended):
		return refuseDecision("the transfer is %s: there is nothing to retry", d.Ended)
	}
	if err := checkWords(d.Action, d.By, d.Reason); err != nil {
		return refuseDecision("%s", err)
	}
	if err := ledger.CheckLedgerName("ledger", d.Ledger); err != nil {
		return invalidInput(err)
	}
	return nil
}

// makeAnew starts a transfer as any client does. It goes on by itself; one that is there already is the one.
func (w *Workflows) makeAnew(ctx workflow.Context, in TransferInput) error {
	parsed, err := ParseTransfer(in)
	if err != nil {
		return invalidInput(err)
	}
	return awaitStart(ctx, startTransfer(ctx, in, parsed))
}

// TransferOf is the ID of the transfer that a step's key belongs to.
func TransferOf(key string) string {
	return strings.TrimPrefix(key[:max(strings.LastIndexByte(key, '/'), 0)], transferWorkflowIDPrefix)
}

// decisionText tells a person what was decided.
func decisionText(action Action, by, reason string) string {
	text := fmt.Sprintf("%s by %s", action, by)
	if reason != "" {
		text += ": " + reason
	}
	return strings.ToValidUTF8(text, "")
}

func refuseDecision(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), ErrorDecisionRefused, nil)
}
