package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"payonce/internal/statement"
	"payonce/ledger"
)

// timeoutPage bounds the reading of a page: the activity's own time-out is for all of them.
const timeoutPage = 20 * time.Second

// AccountPeriodInput asks for what an account had at the two ends of a time that is over.
type AccountPeriodInput struct {
	Account string    `json:"account"`
	Asset   string    `json:"asset,omitempty"` // only for a transit account that has several
	From    time.Time `json:"from"`            // included
	To      time.Time `json:"to"`              // not included
}

// AccountPeriod is what an account had at the two ends of a time that is over. It never changes.
type AccountPeriod struct {
	Account        string    `json:"account"` // "eu/alice"
	Asset          string    `json:"asset"`   // "USD/2"
	From           time.Time `json:"from"`
	To             time.Time `json:"to"`
	OpeningBalance string    `json:"opening_balance"`
	ClosingBalance string    `json:"closing_balance"`
	// VersionBefore is the version of the last entry before; the period's own are the next ones.
	VersionBefore int64 `json:"version_before"`
	Entries       int64 `json:"entries"` // their number
}

// StatementWriteInput asks for a statement's file.
type StatementWriteInput struct {
	AccountPeriodInput

	Format string `json:"format,omitempty"` // "csv", which is the default, or "camt053"
}

// StatementFile is a statement's file that was written.
type StatementFile struct {
	AccountPeriod

	Format string `json:"format"`
	Path   string `json:"path"` // on the machine of whoever wrote it
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hexadecimal digits
}

// AccountPeriod reads what an account had at the two ends of a time that is over. While entries may still be added the error
// is ErrorPeriodUnfinished. Level 1: a read.
func (a *Activities) AccountPeriod(ctx context.Context, in AccountPeriodInput) (AccountPeriod, error) {
	ref, books, err := a.account(in.Account)
	if err != nil {
		return AccountPeriod{}, err
	}
	period, err := readPeriod(ctx, books, ref, in)
	if err != nil {
		return AccountPeriod{}, err
	}
	return periodView(ref.Ledger, &period), nil
}

// StatementWrite writes a statement to its file in StatementsDir: see package statement. It reads page by page, so it needs
// little memory, and tells Temporal with each page that it is at it. Level 1: an absolute write, to a path that follows from
// the account, the asset, the period and the format, of bytes that do too.
//
// Errors that no repeat helps with: ErrorStatementsNotKept, ErrorStatementMismatch, ErrorInvalidInput when the format can't
// say what the account holds. ErrorPeriodUnfinished passes.
func (a *Activities) StatementWrite(ctx context.Context, in StatementWriteInput) (StatementFile, error) {
	ref, books, err := a.account(in.Account)
	if err != nil {
		return StatementFile{}, err
	}
	format, err := statement.ParseFormat(in.Format)
	if err != nil {
		return StatementFile{}, errInvalid(err)
	}
	if a.StatementsDir == "" {
		return StatementFile{}, temporal.NewNonRetryableApplicationError(
			"this worker keeps no statements: each worker of the ledger "+ref.Ledger+" needs a folder for them (PAYONCE_STATEMENTS_DIR)",
			ErrorStatementsNotKept, nil)
	}
	period, err := readPeriod(ctx, books, ref, in.AccountPeriodInput)
	if err != nil {
		return StatementFile{}, err
	}
	doing := "write the statement of " + ref.String()
	s := &statement.Statement{Ledger: ref.Ledger, Period: period, Format: format}
	pages := statement.Pages(&period, ledger.PageSizeMax, func(afterVersion int64, limit int) ([]ledger.Entry, error) {
		activity.RecordHeartbeat(ctx, fmt.Sprintf("%d of %d entries", afterVersion-period.VersionBefore, period.Entries))
		ctx, cancel := context.WithTimeout(ctx, timeoutPage)
		defer cancel()
		return books.Entries(ctx, ledger.EntriesPage{Account: period.Account, Asset: period.Asset, AfterVersion: afterVersion, Limit: limit})
	})
	file, err := statement.Write(statement.Path(a.StatementsDir, s), s, pages)
	if err != nil {
		return StatementFile{}, toTemporal(ctx, doing, err)
	}
	return StatementFile{
		AccountPeriod: periodView(ref.Ledger, &period), Format: string(format), Path: file.Path, Bytes: file.Bytes, SHA256: file.SHA256,
	}, nil
}

func readPeriod(ctx context.Context, books Ledger, ref ledger.AccountRef, in AccountPeriodInput) (ledger.Period, error) {
	asset, err := optionalAsset(in.Asset)
	if err != nil {
		return ledger.Period{}, errInvalid(err)
	}
	period, err := books.Period(ctx, ledger.PeriodQuery{Account: ref.Name, Asset: asset, From: in.From, To: in.To})
	if err != nil {
		return ledger.Period{}, toTemporal(ctx, "period of "+ref.String(), err)
	}
	return period, nil
}

func periodView(ledgerName string, p *ledger.Period) AccountPeriod {
	return AccountPeriod{
		Account: ledger.AccountRef{Ledger: ledgerName, Name: p.Account}.String(), Asset: p.Asset.String(), From: p.From.UTC(), To: p.To.UTC(),
		OpeningBalance: p.Opening.Format(p.Asset), ClosingBalance: p.Closing.Format(p.Asset),
		VersionBefore: p.VersionBefore, Entries: p.Entries,
	}
}
