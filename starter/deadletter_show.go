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

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/starter/transfers"
	"payonce/workflows"
)

// deadLetterStories is what show prints.
type deadLetterStories struct {
	DeadLetters []activities.DeadLetterStory `json:"dead_letters"`
}

func (a *app) deadLetterShowCommand() *cobra.Command {
	var ledgerName string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "show KEY|TRANSFER-ID|payout/ID",
		Short: "Show a dead letter, or those of a transfer, with all that happened to them",
		Long: `Show a dead letter, by its key, or all those of a transfer, by its ID, or of a payout, as payout/ID: the whole error, where the money is, what can be
decided, and all that happened so far, with who decided what and why.

They are on the ledger that the transfer pays from; --ledger names it when Temporal no longer knows the transfer.`,
		Args: cobra.ExactArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			if err := checkDeadLetterName(args[0], ledgerName); err != nil {
				return err
			}
			return a.deadLetterShow(cmd.Context(), args[0], ledgerName, timeout)
		}),
	}
	cmd.Flags().StringVar(&ledgerName, "ledger", "", "the ledger that the transfer pays from")
	timeoutFlag(cmd, &timeout, timeoutAccount)
	return cmd
}

func (a *app) deadLetterShow(ctx context.Context, name, ledgerName string, timeout time.Duration) error {
	var stories deadLetterStories
	err := a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		letters, on, err := a.deadLettersOf(ctx, c, name, ledgerName)
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			return usagef("there is no dead letter of %q on the ledger %s", name, on)
		}
		for i := range letters {
			story, err := a.askDeadLetter(ctx, c, &letters[i])
			if err != nil {
				return err
			}
			stories.DeadLetters = append(stories.DeadLetters, story)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.print(stories, stories.text)
}

// askDeadLetter reads a listed dead letter whole.
func (a *app) askDeadLetter(ctx context.Context, c client.Client, letter *activities.DeadLetterView) (activities.DeadLetterStory, error) {
	return ask[activities.DeadLetterStory](ctx, a, c, asking.Question{
		Workflow: workflows.DeadLetterShowWorkflow, Name: "deadletter-show/" + letter.Key,
		Input: activities.DeadLetterShowInput{Ledger: letter.Ledger, Key: letter.Key},
	})
}

// sourceLedger is the ledger that a transfer or a payout pays from, or that a notification is about.
func sourceLedger(ctx context.Context, c *transfers.Client, n *letterName) (string, error) {
	from, err := n.requestedFrom(ctx, c)
	if errors.Is(err, transfers.ErrUnknown) {
		var subject letterSubject
		subject, err = n.subject(ctx, c)
		from = subject.from
	}
	if err != nil {
		return "", err
	}
	ref, err := ledger.ParseAccountRef("from", from)
	return ref.Ledger, err
}

// requestedFrom is the account that the request names, as Temporal keeps it.
func (n *letterName) requestedFrom(ctx context.Context, c *transfers.Client) (string, error) {
	switch n.what {
	case ofPayout:
		in, err := c.PayoutRequest(ctx, n.id)
		return in.From, err
	case ofNotification:
		in, err := c.NotificationRequest(ctx, n.id)
		return in.Letter.From, err
	}
	in, err := c.Request(ctx, n.id)
	return in.From, err
}

func (s *deadLetterStories) text(w io.Writer) error {
	for i := range s.DeadLetters {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := writeStory(w, &s.DeadLetters[i]); err != nil {
			return err
		}
	}
	return nil
}

func writeStory(w io.Writer, l *activities.DeadLetterStory) error {
	state := stateText(&l.DeadLetterView)
	if l.Parked {
		state += fmt.Sprintf(" (parking %d)", l.Parking)
	}
	rows := [][]string{
		{"key", l.Key},
		{"transfer", fmt.Sprintf("%s: %s %s from %s to %s", l.Transfer, l.Amount, l.Asset, l.From, l.To)},
		{"step", l.Step},
		{"state", fmt.Sprintf("%s, version %d", state, l.Version)},
		{"attempts", fmt.Sprintf("%d, from %s to %s", l.Attempts, timeText(l.FirstAt), timeText(l.LastAt))},
		{"money", fmt.Sprintf("%s %s in %s (%s)", l.Amount, l.Asset, l.Account, l.Place)},
	}
	if len(l.Choices) > 0 {
		rows = append(rows, []string{"choices", strings.Join(l.Choices, ", ")})
	}
	if l.Resolution != "" {
		rows = append(rows, []string{"resolution", l.Resolution})
	}
	rows = append(rows, []string{"error", l.ErrorType})
	if err := (table{rows: rows}).write(w); err != nil {
		return err
	}
	// Whole, with its line breaks.
	if err := writeLines(w, "  ", strings.Split(l.Error, "\n")...); err != nil {
		return err
	}
	for _, cause := range l.Causes {
		text := cause.Type
		if cause.Text != "" {
			text += ": " + cause.Text
		}
		if err := writeLines(w, "    ", text); err != nil {
			return err
		}
	}
	if l.ActionsLeftOut > 0 {
		if err := writeLines(w, "", fmt.Sprintf("what happened, without the %d oldest", l.ActionsLeftOut)); err != nil {
			return err
		}
	} else if err := writeLines(w, "", "what happened"); err != nil {
		return err
	}
	return writeActions(w, l.Actions)
}

func writeActions(w io.Writer, actions []activities.DeadLetterActionView) error {
	rows := make([][]string, len(actions))
	for i := range actions {
		action := &actions[i]
		what := action.Action
		detail := action.Detail
		switch {
		case action.By != "":
			what += " by " + action.By
			detail = action.Reason
		case detail == "":
			detail = shortText(action.Error)
		}
		rows[i] = []string{timeText(action.At), what, fmt.Sprintf("%s (%s)", action.Account, action.Place), detail}
	}
	return table{rows: rows, indent: "  "}.write(w)
}
