package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/transfers"
	"payonce/workflows"
)

// decisionWords is what a person says beside which letters it is about.
type decisionWords struct {
	action         workflows.Action
	by, reason     string
	settledOutside bool
}

func (d *decisionWords) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.by, "by", "", "who decides (required)")
	cmd.Flags().StringVar(&d.reason, "reason", "", "why")
	if d.action == workflows.ActionDiscard {
		cmd.Flags().Lookup("reason").Usage = "why (required)"
		cmd.Flags().BoolVar(&d.settledOutside, "settled-outside", false,
			"whoever was to have the money has it: needed as long as it is in transit, or nobody knows where")
	}
}

func (d *decisionWords) check() error {
	words := ledger.Decision{By: d.by, Reason: d.reason}
	if err := words.Validate(); err != nil {
		return err
	}
	if d.action == workflows.ActionSettle && d.reason == "" {
		return usagef("reason: --reason is required: how it is known that the rail has paid")
	}
	if d.action == workflows.ActionDiscard && d.reason == "" {
		return usagef("reason: --reason is required: it is all that is left of the transfer's story")
	}
	return nil
}

// decisionView is what came of a decision.
type decisionView struct {
	Key      string           `json:"key"`
	Transfer string           `json:"transfer"`
	Action   workflows.Action `json:"action"`
	By       string           `json:"by"`
	Reason   string           `json:"reason,omitempty"`
	// Outcome is "taken", "would-be-taken", "refused", "pending" or "failed"; Detail says more, for a person.
	Outcome decisionOutcome `json:"outcome"`
	Detail  string          `json:"detail"`
	// NewTransfer is the ID of the transfer that is made in place of one that has ended.
	NewTransfer string `json:"new_transfer,omitempty"`
}

type decisionOutcome string

const (
	decisionTaken   decisionOutcome = "taken"
	decisionWould   decisionOutcome = "would-be-taken"
	decisionRefused decisionOutcome = "refused"
	decisionPending decisionOutcome = "pending"
	decisionFailed  decisionOutcome = "failed"
)

func (v *decisionView) text(w io.Writer) error {
	return writeLines(w, "", fmt.Sprintf("%s: %s by %s: %s: %s", v.Key, v.Action, v.By, v.Outcome, v.Detail))
}

var decideTexts = map[workflows.Action]struct{ short, long string }{
	workflows.ActionRetry: {"Give a parked step fresh attempts, or make a transfer anew that failed or was compensated", `Retry a dead letter.

A parked step gets fresh attempts, under the same key: whatever an earlier attempt has done is not done again. A transfer that
failed or was compensated is made anew under a new ID that names the old one (rent~retry-1 for rent), once, however often and
by however many people it is asked for. A transfer that completed, was rejected or was cancelled is not retried: to pay again
after a rejection is the client's to decide, with a new ID.

With --all and the filters of list, every open dead letter that fits is retried, --rate of them a second at most; --dry-run
only tells which.`},
	workflows.ActionCompensate: {"Take a parked transfer back", `Take a parked transfer back: a deposit that has no outcome is sealed, and the money refunded. What has arrived stays.

A payout is taken back at your word that its rail has not paid it, and never will; the reason says how that is known. The
rail is asked once more before, and its word goes before yours.`},
	workflows.ActionSettle: {"Book a parked payout as paid, at your word", `Book a parked payout as paid, at your word, when its rail does not tell. The reason says how it is known that the rail has paid.
Should the rail say otherwise later, that is a dead letter again.`},
	workflows.ActionDiscard: {"Close a dead letter for good, with a reason", `Close a dead letter for good, with a reason.

A transfer that has ended is not changed by it. A parked one ends as discarded: what has no outcome is sealed, so that nothing
of it can move any more, and money that is in transit stays in the transit account, in the books and in what worker verify
lists. That is refused unless --settled-outside says that whoever was to have the money has it.`},
}

func (a *app) deadLetterDecideCommand(action workflows.Action) *cobra.Command {
	words := decisionWords{action: action}
	var seen int64
	var all deadLettersAll
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   string(action) + " KEY|TRANSFER-ID --by NAME --reason TEXT",
		Short: decideTexts[action].short,
		Long:  decideTexts[action].long,
		Args:  cobra.MaximumNArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			if err := words.check(); err != nil {
				return err
			}
			if all.all {
				return a.deadLetterDecideAll(cmd, args, words, &all, timeout)
			}
			if err := all.checkUnused(cmd); err != nil {
				return err
			}
			if len(args) != 1 {
				return usagef("name one dead letter, by its key, its transfer's ID, or payout/ID")
			}
			if err := checkDeadLetterName(args[0], all.filter.ledger); err != nil {
				return err
			}
			return a.deadLetterDecide(cmd.Context(), args[0], all.filter.ledger, seen, words, timeout)
		}),
	}
	words.register(cmd)
	if action == workflows.ActionRetry {
		cmd.Use = "retry KEY|TRANSFER-ID|--all --by NAME --reason TEXT"
		all.register(cmd)
	} else {
		cmd.Flags().StringVar(&all.filter.ledger, "ledger", "", "")
	}
	cmd.Flags().Lookup("ledger").Usage = "the ledger that the transfer pays from; needed when Temporal no longer knows the transfer"
	cmd.Flags().Int64Var(&seen, "version", 0, "the version of the dead letter that you have seen: refused if it has changed since")
	timeoutFlag(cmd, &timeout, timeoutAccount)
	return cmd
}

func (a *app) deadLetterDecide(ctx context.Context, name, ledgerName string, seen int64, words decisionWords, timeout time.Duration) error {
	var view decisionView
	err := a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		letter, err := a.openDeadLetter(ctx, c, name, ledgerName, words.action, seen == 0)
		if closed, ok := errors.AsType[*closedLetterError](err); ok {
			view, err = a.decidedBefore(ctx, c, closed, words)
			return err
		}
		if err != nil {
			return err
		}
		if seen > 0 && letter.Version != seen {
			return refusedf("%s: it is at version %d, and you have seen version %d: look again", letter.Key, letter.Version, seen)
		}
		view, err = decideAbout(ctx, c, letter, words)
		return err
	})
	if err != nil {
		return err
	}
	return a.print(view, view.text)
}

// refusedf is a decision that is refused here, as a worker would.
func refusedf(format string, args ...any) error {
	return &exitError{code: exitRejected, err: fmt.Errorf(format, args...)}
}

// openDeadLetter is the one open dead letter that a key or a transfer's ID names. A transfer that is parked tells itself, unless
// its letter is wanted: that may be on a ledger that does not answer, or not be written yet.
func (a *app) openDeadLetter(ctx context.Context, c client.Client, name, ledgerName string, action workflows.Action, byTransfer bool,
) (*activities.DeadLetterView, error) {
	n := deadLetterName(name)
	lookCtx, cancel := context.WithTimeout(ctx, timeoutWaiting)
	subject, errStatus := n.subject(lookCtx, transfers.New(c, transfers.Options{}))
	cancel()
	if p := subject.parking; byTransfer && errStatus == nil && p != nil && (n.step == "" || n.step == p.Step) {
		return &activities.DeadLetterView{
			Key: workflows.StepKey(n.workflowID(), p.Step), Transfer: n.letters(), Step: string(p.Step), Parked: true,
			Run: p.Run, Parking: p.Number, Place: p.Place, Account: p.Account,
		}, nil
	}
	letters, on, err := a.deadLettersOf(ctx, c, name, ledgerName)
	if err != nil {
		return nil, err
	}
	var open []activities.DeadLetterView
	var keys []string
	for i := range letters {
		if letters[i].State == ledger.DeadLetterOpen {
			open, keys = append(open, letters[i]), append(keys, letters[i].Key)
		}
	}
	switch {
	case len(open) == 1:
		return &open[0], nil
	case len(open) > 1:
		return nil, usagef("%q has several open dead letters: name one of %s", name, strings.Join(keys, ", "))
	case len(letters) > 0:
		return nil, &closedLetterError{&letters[0]}
	case errStatus != nil:
		return nil, usagef("there is no dead letter of %q on the ledger %s", name, on)
	case subject.state == workflows.StateRejected && action == workflows.ActionRetry:
		return nil, refusedf("%s was rejected, and is no dead letter: to pay again is a new ID", &n)
	case subject.ended:
		return nil, refusedf("%s has ended as %s, and has no dead letter: there is nothing to %s", &n, subject.state, action)
	default:
		return nil, refusedf("%s is %s, and has no dead letter: there is nothing to %s", &n, subject.state, action)
	}
}

// closedLetterError says that a dead letter is closed.
type closedLetterError struct{ letter *activities.DeadLetterView }

func (e *closedLetterError) Error() string {
	return fmt.Sprintf("%s: it is closed: %s", e.letter.Key, e.letter.Resolution)
}

// decidedBefore is the answer to a decision about a letter that is closed: as it was given before if the same command was, in
// the same words, and a refusal otherwise.
func (a *app) decidedBefore(ctx context.Context, c client.Client, closed *closedLetterError, words decisionWords) (decisionView, error) {
	letter := closed.letter
	story, err := a.askDeadLetter(ctx, c, letter)
	if err != nil {
		return decisionView{}, err
	}
	last := -1
	for i := range story.Actions {
		if story.Actions[i].By != "" {
			last = i
		}
	}
	if last < 0 || !words.are(&story.Actions[last]) {
		return decisionView{}, refusedf("%w", closed)
	}
	// A decision about a transfer that has ended is the letter's last change.
	ended := words.aboutEnded(letter, letter.Version-1)
	if story.Actions[last].UpdateID == ended.ID() {
		return words.sendEnded(ctx, transfers.New(c, transfers.Options{}), letter, ended)
	}
	view := words.view(letter)
	view.Outcome, view.Detail = decisionTaken, "it was taken before; "+letter.Resolution
	return view, nil
}

// are says whether an action is the decision.
func (d *decisionWords) are(action *activities.DeadLetterActionView) bool {
	return action.Action == string(d.action) && action.By == d.by && action.Reason == d.reason
}

func (d *decisionWords) view(letter *activities.DeadLetterView) decisionView {
	return decisionView{Key: letter.Key, Transfer: letter.Transfer, Action: d.action, By: d.by, Reason: d.reason}
}

func (d *decisionWords) aboutEnded(letter *activities.DeadLetterView, version int64) workflows.EndedDecision {
	return workflows.EndedDecision{Ledger: letter.Ledger, Key: letter.Key, Version: version, Action: d.action, By: d.by, Reason: d.reason}
}

// sendEnded sends a decision about a letter whose transfer has ended.
func (d *decisionWords) sendEnded(ctx context.Context, payments *transfers.Client, letter *activities.DeadLetterView, ended workflows.EndedDecision,
) (decisionView, error) {
	view := d.view(letter)
	decided, err := payments.DecideEnded(ctx, ended)
	if err != nil {
		return view, err
	}
	view.Outcome, view.Detail, view.NewTransfer = decisionTaken, "the letter is closed", decided.Transfer
	if decided.Transfer != "" {
		view.Detail = fmt.Sprintf("made anew as %q", decided.Transfer)
	}
	return view, nil
}

// decideAbout sends a decision about a letter as it was read: to its transfer if that is parked, else to its ledger.
func decideAbout(ctx context.Context, c client.Client, letter *activities.DeadLetterView, words decisionWords) (decisionView, error) {
	view := words.view(letter)
	payments := transfers.New(c, transfers.Options{})
	ended := words.aboutEnded(letter, letter.Version)
	n := deadLetterName(letter.Key)
	if letter.Parked {
		state, err := n.decide(ctx, payments, workflows.Decision{
			Action: words.action, Parking: letter.Parking, Run: letter.Run, By: words.by, Reason: words.reason, SettledOutside: words.settledOutside,
		})
		if err == nil {
			view.Outcome, view.Detail = decisionTaken, fmt.Sprintf("the %s is %s", n.what, state)
			return view, nil
		}
		if !errors.Is(err, transfers.ErrEnded) {
			return view, err
		}
		// Its workflow was closed by force. Another run may have ended it since.
		now, err := n.subject(ctx, payments)
		if err != nil {
			return view, err
		}
		switch {
		case now.ended:
			ended.Ended = now.state
		case n.what == ofNotification && words.action == workflows.ActionRetry:
			view.Outcome, view.Detail = decisionTaken, "its workflow was closed by force, and is started again"
			return view, payments.StartNotificationAgain(ctx, n.id)
		case n.what == ofNotification:
			ended.Ended = workflows.StateDiscarded
		default:
			return view, refusedf("%s: the %s's workflow was closed by force: start the %s again with the same ID, and it goes on from where it stopped",
				letter.Key, n.what, n.what)
		}
	}
	switch {
	case words.action == workflows.ActionCompensate || words.action == workflows.ActionSettle:
		return view, refusedf("%s: the %s has ended: there is nothing to %s", letter.Key, n.what, words.action)
	case words.action == workflows.ActionRetry && n.what == ofNotification:
		return view, refusedf("%s: the notification has ended: there is nothing to retry", letter.Key)
	case words.action == workflows.ActionRetry && n.what == ofPayout:
		return view, refusedf("%s: the payout has ended: to pay again is a new ID", letter.Key)
	}
	return words.sendEnded(ctx, payments, letter, ended)
}

// isRefused says whether err is a decision that was refused, and nothing else went wrong.
func isRefused(err error) bool {
	var exit *exitError
	var application *temporal.ApplicationError
	return (errors.As(err, &exit) && exit.code == exitRejected) ||
		(errors.As(err, &application) && application.Type() == workflows.ErrorDecisionRefused)
}
