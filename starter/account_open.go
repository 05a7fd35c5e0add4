package main

import (
	"time"

	"github.com/spf13/cobra"

	"payonce/activities"
	"payonce/ledger"
	"payonce/workflows"
)

func (a *app) accountOpenCommand() *cobra.Command {
	var in activities.AccountOpenInput
	var metadata []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "open NAME --asset ASSET",
		Short: "Open an account",
		Long: `Open an account, with the balance 0. An account that is open already with the same settings is left as it is.

By default a balance may not fall below 0. An account without a floor is how money comes in: the world outside.`,
		Example: `  starter account open us/alice --asset USD
  starter account open us/world --asset USD --floor none`,
		Args: cobra.ExactArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			var err error
			in.Account = args[0]
			if in.Metadata, err = parseMetadata(metadata); err != nil {
				return err
			}
			if err := checkOpen(in); err != nil {
				return err
			}
			return a.askAccount(cmd.Context(), timeout, accountQuestion{
				workflow: workflows.AccountOpenWorkflow, verb: "account-open", account: in.Account, input: in,
			})
		}),
	}
	cmd.Flags().StringVar(&in.Asset, "asset", "", "USD, JPY, …, or code and decimal digits: POINTS/0, ETH/18 (required)")
	cmd.Flags().StringVar(&in.Floor, "floor", "", `the least balance: an amount such as -100.00, or "none" (default 0)`)
	cmd.Flags().StringVar(&in.Ceiling, "ceiling", "", `the greatest balance: an amount, or "none" (default none)`)
	metadataFlag(cmd.Flags(), &metadata)
	timeoutFlag(cmd, &timeout, timeoutAccount)
	return cmd
}

// checkOpen finds what is malformed before anything is sent.
func checkOpen(in activities.AccountOpenInput) error {
	ref, err := ledger.ParseAccountRef("account", in.Account)
	if err != nil {
		return err
	}
	asset, err := ledger.ParseAsset(in.Asset)
	if err != nil {
		return err
	}
	account := ledger.NewAccount(ref.Name, asset)
	if in.Floor != "" {
		limit, err := activities.ParseLimit("floor", in.Floor, asset)
		if err != nil {
			return err
		}
		account.Floor = limit.Pointer()
	}
	if in.Ceiling != "" {
		limit, err := activities.ParseLimit("ceiling", in.Ceiling, asset)
		if err != nil {
			return err
		}
		account.Ceiling = limit.Pointer()
	}
	return account.Validate()
}
