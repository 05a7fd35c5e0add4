package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"payonce/ledger"
	"payonce/starter/transfers"
	"payonce/workflows"
)

func (a *app) statusCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status ID",
		Short: "Tell where a transfer stands",
		Long: `Tell where a transfer stands, without waiting for its end. The exit code is that of the transfer.

A transfer that Temporal no longer keeps is read from the ledgers, which keep every step for good.`,
		Args: cobra.ExactArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			return a.status(cmd.Context(), args[0], timeout)
		}),
	}
	timeoutFlag(cmd, &timeout, timeoutTransfer)
	return cmd
}

func (a *app) status(ctx context.Context, id string, timeout time.Duration) error {
	if err := ledger.CheckID("id", id, workflows.TransferIDBytesMax); err != nil {
		return err
	}
	return a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		status, err := transfers.New(c, transfers.Options{}).Status(ctx, id)
		if err != nil {
			return a.reportTransferError(err, nil)
		}
		return a.reportTransfer(statusView(&status))
	})
}
