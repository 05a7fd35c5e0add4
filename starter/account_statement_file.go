package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/internal/statement"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/workflows"
)

// statementFile says where a statement's file goes, and in which form.
type statementFile struct{ out, format string }

// statementPageSize is how many entries of a file come in one answer: so many that it fits into what Temporal carries, also if
// each has the longest key and memo and all of that needs escaping.
const statementPageSize = 200

// accountStatementFile writes an account's statement of a period to a file. A repeat writes the same again.
func (a *app) accountStatementFile(ctx context.Context, in activities.AccountStatementInput, file statementFile, timeout time.Duration) error {
	format, err := statement.ParseFormat(file.format)
	if err != nil {
		return err
	}
	for _, bound := range []struct {
		flag string
		at   *time.Time
	}{{"from", in.From}, {"to", in.To}} {
		if bound.at == nil {
			return usagef("%s: a file needs a period: name --from and --to", bound.flag)
		}
	}
	var view activities.StatementFile
	err = a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		var err error
		view, err = a.writeStatement(ctx, c, in, statementFile{out: file.out, format: string(format)})
		return err
	})
	if err != nil {
		return err
	}
	return a.print(view, func(w io.Writer) error { return writeStatementFile(w, &view) })
}

func (a *app) writeStatement(
	ctx context.Context, c client.Client, in activities.AccountStatementInput, file statementFile,
) (activities.StatementFile, error) {
	view := activities.StatementFile{Format: file.format}
	var err error
	view.AccountPeriod, err = ask[activities.AccountPeriod](ctx, a, c, asking.Question{
		Workflow: workflows.AccountPeriodWorkflow, Name: "account-period/" + in.Account,
		Input: activities.AccountPeriodInput{Account: in.Account, Asset: in.Asset, From: *in.From, To: *in.To},
	})
	if err != nil {
		return view, err
	}
	ref, period, err := readAccountPeriod(&view.AccountPeriod)
	if err != nil {
		return view, err
	}
	s := &statement.Statement{Ledger: ref.Ledger, Period: period, Format: statement.Format(file.format)}
	pages := statement.Pages(&period, statementPageSize, func(afterVersion int64, limit int) ([]ledger.Entry, error) {
		page, err := ask[activities.AccountStatement](ctx, a, c, asking.Question{
			Workflow: workflows.AccountStatementWorkflow, Name: "account-statement/" + in.Account,
			Input: activities.AccountStatementInput{Account: view.Account, Asset: view.Asset, Cursor: afterVersion, Limit: limit},
		})
		if err != nil {
			return nil, err
		}
		return readEntries(page.Entries, period.Asset)
	})
	written, err := statement.Write(statementPath(file.out, s), s, pages)
	view.Path, view.Bytes, view.SHA256 = written.Path, written.Bytes, written.SHA256
	return view, err
}

// statementPath is out itself, or the statement's own path in it if out is a folder.
func statementPath(out string, s *statement.Statement) string {
	info, err := os.Stat(out)
	if strings.HasSuffix(out, string(os.PathSeparator)) || err == nil && info.IsDir() {
		return statement.Path(out, s)
	}
	return out
}

// readAccountPeriod reads what AccountPeriod answers.
func readAccountPeriod(view *activities.AccountPeriod) (ledger.AccountRef, ledger.Period, error) {
	period := ledger.Period{VersionBefore: view.VersionBefore, Entries: view.Entries}
	ref, err := ledger.ParseAccountRef("account", view.Account)
	if err != nil {
		return ref, period, err
	}
	asset, err := ledger.ParseAsset(view.Asset)
	if err != nil {
		return ref, period, err
	}
	period.PeriodQuery = ledger.PeriodQuery{Account: ref.Name, Asset: asset, From: view.From, To: view.To}
	if period.Opening, err = ledger.ParseSignedAmount(view.OpeningBalance, asset); err != nil {
		return ref, period, err
	}
	period.Closing, err = ledger.ParseSignedAmount(view.ClosingBalance, asset)
	return ref, period, err
}

func readEntries(views []activities.EntryView, asset ledger.Asset) ([]ledger.Entry, error) {
	entries := make([]ledger.Entry, len(views))
	for i := range views {
		view := &views[i]
		amount, err := ledger.ParseSignedAmount(view.Amount, asset)
		if err != nil {
			return nil, err
		}
		balance, err := ledger.ParseSignedAmount(view.Balance, asset)
		if err != nil {
			return nil, err
		}
		entries[i] = ledger.Entry{
			Version: view.Version, At: view.At, Amount: amount, Balance: balance,
			Counterparty: view.Other, Kind: view.Kind, Key: ledger.Key(view.Key), Memo: view.Memo,
		}
	}
	return entries, nil
}

func writeStatementFile(w io.Writer, view *activities.StatementFile) error {
	return table{rows: [][]string{
		{"file", view.Path},
		{"account", view.Account},
		{"asset", view.Asset},
		{"from", timeText(view.From)},
		{"to", timeText(view.To)},
		{"opening", view.OpeningBalance},
		{"closing", view.ClosingBalance},
		{"entries", fmt.Sprint(view.Entries)},
		{"bytes", fmt.Sprint(view.Bytes)},
		{"sha256", view.SHA256},
	}}.write(w)
}
