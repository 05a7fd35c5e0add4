package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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

func (a *app) deadLetterCommand() *cobra.Command {
	return group("deadletter", "See the steps that were set aside after their attempts ran out",
		a.deadLetterListCommand(),
		a.deadLetterShowCommand(),
	)
}

// stateAll is the filter that lets every dead letter through.
const stateAll = "all"

func (a *app) deadLetterListCommand() *cobra.Command {
	var ledgerName, state string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "list [LEDGER]",
		Short: "List the dead letters of a ledger, newest first",
		Long: fmt.Sprintf(`List the dead letters of a ledger, newest first: those that still want a person's attention, or with --state also others.
A transfer's dead letters are on the ledger that it pays from. At most %d are listed.`, ledger.PageSizeMax),
		Args: cobra.MaximumNArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			name, err := chooseLedger(args, ledgerName)
			if err != nil {
				return err
			}
			in := activities.DeadLetterListInput{Ledger: name, Limit: ledger.PageSizeMax}
			switch state {
			case string(ledger.DeadLetterOpen), string(ledger.DeadLetterClosed):
				in.State = ledger.DeadLetterState(state)
			case stateAll:
			default:
				return usagef("state: %q is not open, closed or all", state)
			}
			return a.deadLetterList(cmd.Context(), in, timeout)
		}),
	}
	ledgerFlag(cmd, &ledgerName)
	cmd.Flags().StringVar(&state, "state", string(ledger.DeadLetterOpen), "open, closed or all")
	completeWith(cmd, "state", string(ledger.DeadLetterOpen), string(ledger.DeadLetterClosed), stateAll)
	timeoutFlag(cmd, &timeout, timeoutAccount)
	return cmd
}

func (a *app) deadLetterList(ctx context.Context, in activities.DeadLetterListInput, timeout time.Duration) error {
	var list activities.DeadLetterList
	err := a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		var err error
		list, err = a.askDeadLetters(ctx, c, in)
		return err
	})
	if err != nil {
		return err
	}
	if len(list.DeadLetters) == ledger.PageSizeMax {
		a.note("there may be more than these %d", ledger.PageSizeMax)
	}
	return a.print(list, func(w io.Writer) error { return writeDeadLetters(w, list.DeadLetters) })
}

func (a *app) askDeadLetters(ctx context.Context, c client.Client, in activities.DeadLetterListInput) (activities.DeadLetterList, error) {
	list, err := ask[activities.DeadLetterList](ctx, a, c, asking.Question{
		Workflow: workflows.DeadLetterListWorkflow, Name: "deadletter-list/" + in.Ledger, Input: in,
	})
	if list.DeadLetters == nil {
		list.DeadLetters = []activities.DeadLetterView{}
	}
	return list, err
}

func (a *app) deadLetterShowCommand() *cobra.Command {
	var ledgerName string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "show KEY|TRANSFER-ID",
		Short: "Show a dead letter, or those of a transfer",
		Long: `Show a dead letter, by its key, or all those of a transfer, by its ID.

They are on the ledger that the transfer pays from; --ledger names it when Temporal no longer knows the transfer.`,
		Args: cobra.ExactArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			if err := ledger.CheckID("key or transfer ID", args[0], ledger.KeyBytesMax); err != nil {
				return err
			}
			if ledgerName != "" {
				if err := ledger.CheckLedgerName("ledger", ledgerName); err != nil {
					return err
				}
			}
			return a.deadLetterShow(cmd.Context(), args[0], ledgerName, timeout)
		}),
	}
	cmd.Flags().StringVar(&ledgerName, "ledger", "", "the ledger that the transfer pays from")
	timeoutFlag(cmd, &timeout, timeoutAccount)
	return cmd
}

func (a *app) deadLetterShow(ctx context.Context, name, ledgerName string, timeout time.Duration) error {
	list := activities.DeadLetterList{DeadLetters: []activities.DeadLetterView{}}
	id, keys := deadLetterKeys(name)
	err := a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		if ledgerName == "" {
			var err error
			if ledgerName, err = sourceLedger(ctx, transfers.New(c, transfers.Options{}), id); err != nil {
				return err
			}
		}
		for _, key := range keys {
			found, err := a.askDeadLetters(ctx, c, activities.DeadLetterListInput{Ledger: ledgerName, Key: key})
			if err != nil {
				return err
			}
			list.DeadLetters = append(list.DeadLetters, found.DeadLetters...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(list.DeadLetters) == 0 {
		return usagef("there is no dead letter of %q on the ledger %s", name, ledgerName)
	}
	return a.print(list, func(w io.Writer) error { return writeDeadLetterDetails(w, list.DeadLetters) })
}

// deadLetterSteps are the steps that can be set aside.
var deadLetterSteps = []workflows.Step{
	workflows.StepPost, workflows.StepWithdraw, workflows.StepDeposit, workflows.StepRefund,
	workflows.StepResolvePost, workflows.StepResolveWithdraw, workflows.StepResolveDeposit,
}

// deadLetterKeys reads a dead letter's key or a transfer's ID: the transfer's ID, and the keys to look up.
func deadLetterKeys(name string) (id string, keys []string) {
	if cut := strings.LastIndexByte(name, '/'); cut > 0 && slices.Contains(deadLetterSteps, workflows.Step(name[cut+1:])) {
		if id, ok := strings.CutPrefix(name[:cut], workflows.TransferWorkflowID("")); ok && id != "" {
			return id, []string{name}
		}
	}
	for _, step := range deadLetterSteps {
		keys = append(keys, workflows.StepKey(workflows.TransferWorkflowID(name), step))
	}
	return name, keys
}

// sourceLedger is the ledger that a transfer pays from.
func sourceLedger(ctx context.Context, c *transfers.Client, id string) (string, error) {
	in, err := c.Request(ctx, id)
	if errors.Is(err, transfers.ErrUnknown) {
		var status transfers.Status
		status, err = c.Status(ctx, id)
		in = status.Request
	}
	if err != nil {
		return "", err
	}
	ref, err := ledger.ParseAccountRef("from", in.From)
	return ref.Ledger, err
}

func writeDeadLetters(w io.Writer, letters []activities.DeadLetterView) error {
	rows := make([][]string, len(letters))
	for i := range letters {
		l := &letters[i]
		rows[i] = []string{l.Key, stateText(l), fmt.Sprint(l.Attempts), timeText(l.LastAt), l.Amount, l.Asset, l.Account, l.Error}
	}
	head := []string{"KEY", "STATE", "ATTEMPTS", "LAST ATTEMPT", "AMOUNT", "ASSET", "MONEY IS IN", "ERROR"}
	return table{head: head, rows: rows, right: []int{2, 4}}.write(w)
}

func stateText(l *activities.DeadLetterView) string {
	if l.Parked && l.State == ledger.DeadLetterOpen {
		return "parked"
	}
	return string(l.State)
}

func writeDeadLetterDetails(w io.Writer, letters []activities.DeadLetterView) error {
	for i := range letters {
		l := &letters[i]
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		rows := [][]string{
			{"key", l.Key},
			{"transfer", l.Transfer},
			{"step", l.Step},
			{"state", stateText(l)},
			{"attempts", fmt.Sprintf("%d, from %s to %s", l.Attempts, timeText(l.FirstAt), timeText(l.LastAt))},
			{"error", l.Error},
			{"money", fmt.Sprintf("%s %s in %s (%s)", l.Amount, l.Asset, l.Account, l.Place)},
		}
		if len(l.Choices) > 0 {
			rows = append(rows, []string{"choices", strings.Join(l.Choices, ", ")})
		}
		if l.Resolution != "" {
			rows = append(rows, []string{"resolution", l.Resolution})
		}
		if err := (table{rows: rows}).write(w); err != nil {
			return err
		}
	}
	return nil
}
