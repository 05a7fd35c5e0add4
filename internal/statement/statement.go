package statement

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"payonce/ledger"
)

// Format is the form of a statement.
type Format string

// The formats.
const (
	FormatCSV     Format = "csv"     // RFC 4180; any asset
	FormatCamt053 Format = "camt053" // ISO 20022 camt.053.001.08; assets with a code of three letters and at most five decimal digits
)

// Formats are all formats.
func Formats() []string { return []string{string(FormatCSV), string(FormatCamt053)} }

// ParseFormat reads a format; "" is CSV. The error is a *ledger.InvalidError.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case "":
		return FormatCSV, nil
	case FormatCSV, FormatCamt053:
		return f, nil
	default:
		return "", &ledger.InvalidError{Field: "format", Reason: fmt.Sprintf("%q is not %s", s, strings.Join(Formats(), " or "))}
	}
}

// Statement is what a file is to say, but for the entries.
type Statement struct {
	Ledger string
	Period ledger.Period
	Format Format
}

// account is the account's name across ledgers.
func (s *Statement) account() string {
	return ledger.AccountRef{Ledger: s.Ledger, Name: s.Period.Account}.String()
}

// other is the account at the other end of an entry: on this ledger, or on another.
func (s *Statement) other(e *ledger.Entry) string {
	if e.Counterparty != "" {
		return e.Counterparty
	}
	return ledger.AccountRef{Ledger: s.Ledger, Name: e.Other}.String()
}

// Pages are the entries of a period, read page by page: read returns the entries after a version, in order, at most limit.
// It may return fewer before the end.
func Pages(period *ledger.Period, limit int, read func(afterVersion int64, limit int) ([]ledger.Entry, error)) iter.Seq2[*ledger.Entry, error] {
	return func(yield func(*ledger.Entry, error) bool) {
		last := period.VersionBefore + period.Entries
		for after := period.VersionBefore; after < last; {
			page, err := read(after, int(min(last-after, int64(limit))))
			if err != nil {
				yield(nil, err)
				return
			}
			if len(page) == 0 {
				return // too few: whoever adds up notices
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
			}
			after = page[len(page)-1].Version
		}
	}
}

// ErrMismatch says that the entries that were read don't lead from the opening to the closing balance. Nothing was written.
var ErrMismatch = errors.New("the statement's entries don't add up")

// form writes one format.
type form interface {
	begin() error
	entry(e *ledger.Entry) error
	end() error
}

// render writes a statement, and adds its entries up as they pass.
func render(w io.Writer, s *Statement, entries iter.Seq2[*ledger.Entry, error]) error {
	var f form
	switch s.Format {
	case FormatCSV:
		f = newCSV(w, s)
	case FormatCamt053:
		f = newCamt(w, s)
	default:
		return fmt.Errorf("statement: no format %q", s.Format)
	}
	if err := f.begin(); err != nil {
		return err
	}
	sum := sum{period: &s.Period, version: s.Period.VersionBefore, balance: s.Period.Opening}
	for e, err := range entries {
		if err != nil {
			return err
		}
		if err := sum.add(e); err != nil {
			return err
		}
		if err := f.entry(e); err != nil {
			return err
		}
	}
	if err := sum.finish(); err != nil {
		return err
	}
	return f.end()
}

// sum is where the entries so far have led.
type sum struct {
	period  *ledger.Period
	version int64
	balance ledger.Amount
}

func (s *sum) add(e *ledger.Entry) error {
	balance, ok := s.balance.Add(e.Amount)
	switch {
	case e.Version != s.version+1:
		return fmt.Errorf("%w: entry %d of %s comes after entry %d", ErrMismatch, e.Version, s.period.Account, s.version)
	case e.At.Before(s.period.From) || !e.At.Before(s.period.To):
		return fmt.Errorf("%w: entry %d of %s is not of the period", ErrMismatch, e.Version, s.period.Account)
	case !ok || balance.Cmp(e.Balance) != 0:
		return fmt.Errorf("%w: entry %d of %s leads to %s, and says %s", ErrMismatch, e.Version, s.period.Account,
			balance.Format(s.period.Asset), e.Balance.Format(s.period.Asset))
	}
	s.version, s.balance = e.Version, balance
	return nil
}

func (s *sum) finish() error {
	if got := s.version - s.period.VersionBefore; got != s.period.Entries {
		return fmt.Errorf("%w: %s has %d entries in the period, and %d were read", ErrMismatch, s.period.Account, s.period.Entries, got)
	}
	if s.balance.Cmp(s.period.Closing) != 0 {
		return fmt.Errorf("%w: the entries of %s lead to %s, and the closing balance is %s", ErrMismatch, s.period.Account,
			s.balance.Format(s.period.Asset), s.period.Closing.Format(s.period.Asset))
	}
	return nil
}
