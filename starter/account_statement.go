package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/internal/statement"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/workflows"
)

// statementView is an account's entries in a time, as they are printed.
type statementView struct {
	Account        string                 `json:"account"`
	Asset          string                 `json:"asset"`
	OpeningBalance string                 `json:"opening_balance"`
	Entries        []activities.EntryView `json:"entries"`
	ClosingBalance string                 `json:"closing_balance"`
	// More: --limit has left later entries out.
	More bool `json:"more"`
}

func (a *app) accountStatementCommand() *cobra.Command {
	var in activities.AccountStatementInput
	var from, to string
	var limit int
	var file statementFile
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "statement NAME",
		Short: "List the entries of an account, oldest first, or write them to a file",
		Long: `List the entries of an account, oldest first, or write them to a file.

With --out the period from --from to --to is written as a file for an accountant: CSV, or camt.053, the ISO 20022 message that
accounting programs read. The period must be over. The same command writes the same bytes again; the file is replaced as a
whole, also when the command is interrupted. In a folder its name follows from the account and the period.`,
		Example: `  starter account statement us/alice --from 2026-09-01
  starter account statement us/alice --from 2026-09-01 --to 2026-10-01 --out statements/
  starter account statement us/alice --from 2026-09-01 --to 2026-10-01 --out september.xml --format camt053`,
		Args: cobra.ExactArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			var err error
			in.Account = args[0]
			if err := checkReading(in.Account, in.Asset); err != nil {
				return err
			}
			if in.From, err = parseMoment("from", from); err != nil {
				return err
			}
			if in.To, err = parseMoment("to", to); err != nil {
				return err
			}
			if limit < 0 {
				return usagef("limit: %d is below 0", limit)
			}
			if file.out != "" {
				if limit > 0 {
					return usagef("limit: a file has all entries of its period")
				}
				return a.accountStatementFile(cmd.Context(), in, file, timeout)
			}
			if file.format != "" {
				return usagef("format: it is that of a file: name --out")
			}
			return a.accountStatement(cmd.Context(), in, limit, timeout)
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "the first moment: 2006-01-02T15:04:05Z, or a date, which begins at 00:00 UTC")
	cmd.Flags().StringVar(&to, "to", "", "the first moment that is not included any more")
	cmd.Flags().IntVar(&limit, "limit", 0, "the most entries to list; 0 is all")
	cmd.Flags().StringVar(&file.out, "out", "", "write a file: its path, or a folder")
	cmd.Flags().StringVar(&file.format, "format", "", "the form of the file: csv or camt053 (default csv)")
	completeWith(cmd, "format", statement.Formats()...)
	assetFlag(cmd, &in.Asset)
	timeoutFlag(cmd, &timeout, timeoutAccount)
	return cmd
}

func (a *app) accountStatement(ctx context.Context, in activities.AccountStatementInput, limit int, timeout time.Duration) error {
	var view statementView
	err := a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		var err error
		if view, err = a.readStatement(ctx, c, in, limit); err != nil {
			return err
		}
		return a.readBalances(ctx, c, in, &view)
	})
	if err != nil {
		return err
	}
	return a.print(view, view.text)
}

// readStatement reads all pages, up to limit entries; 0 is no limit.
func (a *app) readStatement(ctx context.Context, c client.Client, in activities.AccountStatementInput, limit int) (statementView, error) {
	view := statementView{Entries: []activities.EntryView{}}
	for {
		// One more than wanted tells whether there are more.
		in.Limit = ledger.PageSizeMax
		if limit > 0 {
			in.Limit = min(in.Limit, limit+1-len(view.Entries))
		}
		page, err := ask[activities.AccountStatement](ctx, a, c, asking.Question{
			Workflow: workflows.AccountStatementWorkflow, Name: "account-statement/" + in.Account, Input: in,
		})
		if err != nil {
			return view, err
		}
		view.Account, view.Asset = page.Account, page.Asset
		view.Entries = append(view.Entries, page.Entries...)
		if limit > 0 && len(view.Entries) > limit {
			view.Entries, view.More = view.Entries[:limit], true
			return view, nil
		}
		if page.Next == 0 {
			return view, nil
		}
		in.Cursor = page.Next
	}
}

// readBalances finds the balance before the first entry and after the last.
func (a *app) readBalances(ctx context.Context, c client.Client, in activities.AccountStatementInput, v *statementView) error {
	asset, err := ledger.ParseAsset(v.Asset)
	if err != nil {
		return err
	}
	if len(v.Entries) > 0 {
		first, last := v.Entries[0], v.Entries[len(v.Entries)-1]
		balance, err := ledger.ParseSignedAmount(first.Balance, asset)
		if err != nil {
			return err
		}
		amount, err := ledger.ParseSignedAmount(first.Amount, asset)
		if err != nil {
			return err
		}
		opening, ok := balance.Sub(amount)
		if !ok {
			return fmt.Errorf("the balance of %s before its entry %d has too many digits", v.Account, first.Version)
		}
		v.OpeningBalance, v.ClosingBalance = opening.Format(asset), last.Balance
		return nil
	}
	v.OpeningBalance = ledger.Amount{}.Format(asset)
	if in.From != nil {
		account, err := ask[activities.AccountView](ctx, a, c, asking.Question{
			Workflow: workflows.AccountShowWorkflow, Name: "account-show/" + in.Account,
			Input: activities.AccountShowInput{Account: in.Account, Asset: in.Asset, At: in.From},
		})
		if err != nil {
			return err
		}
		v.OpeningBalance = account.Balance
	}
	v.ClosingBalance = v.OpeningBalance
	return nil
}

func (v *statementView) text(w io.Writer) error {
	rows := [][]string{{"opening balance", "", v.OpeningBalance}}
	for i := range v.Entries {
		e := &v.Entries[i]
		rows = append(rows, []string{timeText(e.At), e.Amount, e.Balance, string(e.Kind), e.Other, e.Key, e.Memo})
	}
	closing := "closing balance"
	if v.More {
		closing = "balance so far"
	}
	rows = append(rows, []string{closing, "", v.ClosingBalance})
	if _, err := fmt.Fprintf(w, "%s, %s\n", v.Account, v.Asset); err != nil {
		return err
	}
	head := []string{"TIME", "AMOUNT", "BALANCE", "KIND", "OTHER ACCOUNT", "KEY", "MEMO"}
	if err := (table{head: head, rows: rows, right: []int{1, 2}}).write(w); err != nil {
		return err
	}
	if v.More {
		_, err := fmt.Fprintln(w, "there are more entries: raise --limit, or begin later with --from")
		return err
	}
	return nil
}
