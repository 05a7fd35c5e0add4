package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payonce/activities"
	"payonce/ledger"
	"payonce/workflows"
)

func (a *app) accountSetCommand() *cobra.Command {
	var in activities.AccountSetInput
	var metadata []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change settings of an account",
		Long: `Change settings of an account. What is not named stays as it is.

A setting is written as it stands, so that repeating the command is safe. An account that holds money can't be closed, and
no limit can be set that the balance is already beyond: exit code 3.`,
		Example: `  starter account set eu/bob --status frozen
  starter account set us/alice --floor -100.00 --ceiling none`,
		Args: cobra.ExactArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			var err error
			in.Account = args[0]
			if in.Metadata, err = parseMetadata(metadata); err != nil {
				return err
			}
			if err := checkSet(in); err != nil {
				return err
			}
			return a.askAccount(cmd.Context(), timeout, accountQuestion{
				workflow: workflows.AccountSetWorkflow, verb: "account-set", account: in.Account, input: in,
			})
		}),
	}
	cmd.Flags().StringVar(&in.Status, "status", "", "open, frozen or closed")
	cmd.Flags().StringVar(&in.Floor, "floor", "", `the least balance: an amount such as -100.00, or "none"`)
	cmd.Flags().StringVar(&in.Ceiling, "ceiling", "", `the greatest balance: an amount, or "none"`)
	metadataFlag(cmd.Flags(), &metadata)
	completeWith(cmd, "status", string(ledger.AccountOpen), string(ledger.AccountFrozen), string(ledger.AccountClosed))
	timeoutFlag(cmd, &timeout, timeoutAccount)
	return cmd
}

func checkSet(in activities.AccountSetInput) error {
	if _, err := ledger.ParseAccountRef("account", in.Account); err != nil {
		return err
	}
	if in.Status == "" && in.Floor == "" && in.Ceiling == "" && in.Metadata == nil {
		return usagef("nothing to set: name --status, --floor, --ceiling or --metadata")
	}
	if in.Status != "" {
		if _, err := ledger.ParseAccountStatus(in.Status); err != nil {
			return err
		}
	}
	if err := checkLimitForm("floor", in.Floor); err != nil {
		return err
	}
	if err := checkLimitForm("ceiling", in.Ceiling); err != nil {
		return err
	}
	return ledger.CheckNotes("", in.Metadata)
}

// checkLimitForm checks a limit of an account whose asset only its ledger knows: it takes the one that fits best.
func checkLimitForm(field, s string) error {
	if s == "" {
		return nil
	}
	_, fraction, _ := strings.Cut(s, ".")
	asset, err := ledger.ParseAsset(fmt.Sprintf("ANY/%d", min(len(fraction), ledger.AssetScaleMax)))
	if err != nil {
		return err
	}
	_, err = activities.ParseLimit(field, s, asset)
	return err
}
