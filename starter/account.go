package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/asking"
)

func (a *app) accountCommand() *cobra.Command {
	return group("account", "Open, change and read accounts",
		a.accountOpenCommand(),
		a.accountSetCommand(),
		a.accountShowCommand(),
		a.accountListCommand(),
		a.accountStatementCommand(),
	)
}

// accountQuestion asks about one account, or changes it.
type accountQuestion struct {
	workflow string
	verb     string // for the workflow's ID: "account-show"
	account  string
	input    any
}

// askAccount asks about one account and prints it.
func (a *app) askAccount(ctx context.Context, timeout time.Duration, q accountQuestion) error {
	ref, err := ledger.ParseAccountRef("account", q.account)
	if err != nil {
		return err
	}
	var view activities.AccountView
	err = a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		var err error
		view, err = ask[activities.AccountView](ctx, a, c, asking.Question{Workflow: q.workflow, Name: q.verb + "/" + ref.String(), Input: q.input})
		return err
	})
	if err != nil {
		return err
	}
	return a.print(view, func(w io.Writer) error { return writeAccount(w, &view) })
}

func writeAccount(w io.Writer, view *activities.AccountView) error {
	rows := [][]string{
		{"account", view.Account},
		{"asset", view.Asset},
		{"balance", view.Balance},
		{"floor", limitText(view.Floor)},
		{"ceiling", limitText(view.Ceiling)},
		{"status", string(view.Status)},
		{"entries", fmt.Sprint(view.Version)},
		{"opened", timeText(view.OpenedAt)},
	}
	keys := make([]string, 0, len(view.Metadata))
	for key := range view.Metadata {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		rows = append(rows, []string{"metadata", key + "=" + view.Metadata[key]})
	}
	return table{rows: rows}.write(w)
}

func limitText(limit *string) string {
	if limit == nil {
		return activities.LimitNone
	}
	return *limit
}
