package main

import (
	"time"

	"github.com/spf13/cobra"

	"payonce/activities"
	"payonce/workflows"
)

func (a *app) accountShowCommand() *cobra.Command {
	var in activities.AccountShowInput
	var at string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show an account and its balance, now or at a moment",
		Args:  cobra.ExactArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			var err error
			in.Account = args[0]
			if err := checkReading(in.Account, in.Asset); err != nil {
				return err
			}
			if in.At, err = parseMoment("at", at); err != nil {
				return err
			}
			return a.askAccount(cmd.Context(), timeout, accountQuestion{
				workflow: workflows.AccountShowWorkflow, verb: "account-show", account: in.Account, input: in,
			})
		}),
	}
	cmd.Flags().StringVar(&at, "at", "", "show the balance as it was at this moment: 2006-01-02T15:04:05Z, or a date")
	assetFlag(cmd, &in.Asset)
	timeoutFlag(cmd, &timeout, timeoutAccount)
	return cmd
}
