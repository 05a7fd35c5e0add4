package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"payonce/ledger/postgres"
)

// textReport writes what is found while it is found.
type textReport struct {
	out io.Writer
	err error
}

func (r *textReport) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(r.out, format, args...); err != nil && r.err == nil {
		r.err = err
	}
}

func (r *textReport) finding(f postgres.Finding) {
	r.printf("WRONG  %s: %s: %s: %s\n       %s\n", f.Ledger, f.Check, f.Subject, f.Detail, advice(f.Check))
}

func (r *textReport) inTransit(t postgres.InTransit) {
	r.printf("in transit  %s %s from %s to %s since %s: %s\n",
		t.Amount.Format(t.Asset), t.Asset, t.From, t.To, t.Since.UTC().Format(time.RFC3339), t.Transfer)
}

func (r *textReport) end(s postgres.Summary) error {
	for _, l := range s.Ledgers {
		r.printf("%s: %d accounts, %d operations, %d entries, as of %s\n",
			l.Ledger, l.Accounts, l.Operations, l.Entries, l.SnapshotAt.UTC().Format(time.RFC3339))
	}
	for _, t := range s.InTransit {
		r.printf("in transit from %s to %s: %s %s in %s\n", t.From, t.To, t.Amount.Format(t.Asset), t.Asset, count(t.Transfers, "transfer"))
	}
	if len(s.NotChecked) > 0 {
		r.printf("not checked, because no settings are given for them, though money went there or came from there: %s\n",
			strings.Join(s.NotChecked, ", "))
	}
	if s.Findings == 0 {
		r.printf("The books are right.\n")
	} else {
		r.printf("The books are WRONG: %s.\n", count(s.Findings, "finding"))
	}
	return r.err
}

func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
