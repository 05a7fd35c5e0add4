package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/workflows"
)

func (a *app) accountListCommand() *cobra.Command {
	var ledgerName string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "list [LEDGER]",
		Short: "List the accounts of a ledger",
		Args:  cobra.MaximumNArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			name, err := chooseLedger(args, ledgerName)
			if err != nil {
				return err
			}
			return a.accountList(cmd.Context(), name, timeout)
		}),
	}
	ledgerFlag(cmd, &ledgerName)
	timeoutFlag(cmd, &timeout, timeoutAccount)
	return cmd
}

func (a *app) accountList(ctx context.Context, ledgerName string, timeout time.Duration) error {
	list := activities.AccountList{Accounts: []activities.AccountView{}}
	err := a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		in := activities.AccountListInput{Ledger: ledgerName, Limit: ledger.PageSizeMax}
		for {
			page, err := ask[activities.AccountList](ctx, a, c, asking.Question{
				Workflow: workflows.AccountListWorkflow, Name: "account-list/" + ledgerName, Input: in,
			})
			if err != nil {
				return err
			}
			list.Accounts = append(list.Accounts, page.Accounts...)
			if page.Next == 0 {
				return nil
			}
			in.Cursor = page.Next
		}
	})
	if err != nil {
		return err
	}
	return a.print(list, func(w io.Writer) error { return writeAccounts(w, list.Accounts) })
}

func writeAccounts(w io.Writer, accounts []activities.AccountView) error {
	rows := make([][]string, len(accounts))
	for i := range accounts {
		view := &accounts[i]
		rows[i] = []string{view.Account, view.Asset, view.Balance, limitText(view.Floor), limitText(view.Ceiling), string(view.Status)}
	}
	return table{head: []string{"ACCOUNT", "ASSET", "BALANCE", "FLOOR", "CEILING", "STATUS"}, rows: rows, right: []int{2, 3, 4}}.write(w)
}
