package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.temporal.io/sdk/client"

	"payonce/starter/transfers"
	"payonce/workflows"
)

// transferFlags is the command line of transfer.
type transferFlags struct {
	input    workflows.TransferInput
	metadata []string
	wait     bool
	timeout  time.Duration
}

func (f *transferFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.input.ID, "id", "", "the transfer's ID: choose it once, keep it for every retry (required)")
	flags.StringVar(&f.input.From, "from", "", "the account to pay from, such as us/alice (required)")
	flags.StringVar(&f.input.To, "to", "", "the account to pay to, such as eu/bob (required)")
	flags.StringVar(&f.input.Amount, "amount", "", "a plain decimal number, such as 10.00 (required)")
	flags.StringVar(&f.input.Asset, "asset", "", "USD, JPY, …, or code and decimal digits: POINTS/0, ETH/18 (required)")
	flags.StringVar(&f.input.Memo, "memo", "", "a text to keep with the entries")
	metadataFlag(flags, &f.metadata)
	notifyFlag(flags, &f.input.Notify)
	flags.BoolVar(&f.wait, "wait", true, "wait for the end")
}

// request is the transfer that the flags ask for, known to be well formed.
func (f *transferFlags) request() (workflows.TransferInput, error) {
	in := f.input
	if in.ID == "" {
		return in, usagef("id: --id is required, and is never made up: with a fresh ID for each attempt, an attempt that is repeated pays twice. " +
			"Choose it once, before the first attempt, and keep it for every retry")
	}
	var err error
	if in.Metadata, err = parseMetadata(f.metadata); err != nil {
		return in, err
	}
	_, err = workflows.ParseTransfer(in)
	return in, err
}

func (a *app) transferCommand() *cobra.Command {
	var flags transferFlags
	cmd := &cobra.Command{
		Use:   "transfer --id ID --from ACCOUNT --to ACCOUNT --amount AMOUNT --asset ASSET",
		Short: "Move money from one account to another, once",
		Long: `Move money from one account to another, once.

The ID names the payment: running the command again with the same ID finds the same transfer and gives the same result,
whether the first run succeeded, failed half-way or lost its answer. The same ID with another request is an error, exit
code 6. The transfer goes on by itself if the command is interrupted or its --timeout ends, exit code 5.`,
		Example: `  starter transfer --id invoice-1001 --from us/alice --to eu/bob --amount 10.00 --asset USD`,
		Args:    cobra.NoArgs,
		RunE: a.command(func(cmd *cobra.Command, _ []string) error {
			return a.transfer(cmd.Context(), &flags)
		}),
	}
	flags.register(cmd.Flags())
	timeoutFlag(cmd, &flags.timeout, timeoutTransfer)
	return cmd
}

func (a *app) transfer(ctx context.Context, flags *transferFlags) error {
	in, err := flags.request()
	if err != nil {
		return err
	}
	return a.withTemporal(ctx, flags.timeout, func(ctx context.Context, c client.Client) error {
		return a.transferOn(ctx, transfers.New(c, transfers.Options{}), in, flags.wait)
	})
}

func (a *app) transferOn(ctx context.Context, client *transfers.Client, in workflows.TransferInput, wait bool) error {
	handle, err := client.Start(ctx, in)
	if err != nil {
		return a.reportTransferError(err, nil)
	}
	if !wait {
		return a.reportAccepted(ctx, client, handle, in)
	}
	stop := a.narrate(ctx, func(ctx context.Context) string {
		status, err := client.Status(ctx, in.ID)
		if err != nil || status.Ended() {
			return ""
		}
		return strings.Join(append([]string{status.Detail}, status.Notes...), "; ")
	})
	result, err := handle.Wait(ctx)
	stop()
	if err != nil {
		return a.reportTransferError(err, &handle.Attached)
	}
	return a.reportTransfer(endView(result, &handle.Attached))
}

// reportAccepted tells where a transfer stands that nobody waits for.
func (a *app) reportAccepted(ctx context.Context, client *transfers.Client, handle *transfers.Handle, in workflows.TransferInput) error {
	status := transfers.Status{TransferStatus: workflows.TransferStatus{
		Request: in, Standing: workflows.Standing{State: workflows.StateRunning, Detail: "accepted"},
	}}
	if handle.Attached {
		// It may have ended long ago.
		var err error
		if status, err = client.Status(ctx, in.ID); err != nil {
			return a.reportTransferError(err, &handle.Attached)
		}
	}
	view := statusView(&status)
	view.Attached = &handle.Attached
	err := a.reportTransfer(view)
	if exit := (*exitError)(nil); status.State == workflows.StateRunning && errors.As(err, &exit) && exit.err == nil {
		return nil // Accepted is what was asked for.
	}
	return err
}

// reportTransferError tells where a transfer stands that has not ended, if that is what err is about. attached is nil when
// nobody knows whether it had been started before.
func (a *app) reportTransferError(err error, attached *bool) error {
	var pending *transfers.PendingError
	var closed *transfers.ClosedError
	switch {
	case errors.As(err, &pending):
		view := statusView(&pending.Status)
		view.Attached = attached
		if pending.Cause != nil {
			reason := "interrupted"
			if timeout, ok := errors.AsType[*timeoutError](pending.Cause); ok {
				reason = timeout.Error()
			}
			a.note("%s; the transfer goes on by itself: run the same command again, or starter status %q", reason, pending.Status.Request.ID)
		}
		return a.reportTransfer(view)
	case errors.As(err, &closed) && exitOfClosed(closed.How) == exitPending:
		return a.reportTransfer(transferView{TransferResult: workflows.TransferResult{ID: closed.ID, State: transfers.StateUnknown, Detail: closed.Error()}, Attached: attached})
	default:
		return err
	}
}
