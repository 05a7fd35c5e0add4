package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"payonce/internal/reconcile"
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

func (r *textReport) report() reconcile.Report {
	return reconcile.Report{
		Books:       postgres.Report{Finding: r.bookFinding, InTransit: r.inTransit, Reserved: r.reserved},
		Finding:     r.finding,
		Unaccounted: r.unaccounted,
	}
}

func (r *textReport) bookFinding(f postgres.Finding) {
	r.printf("WRONG  %s: %s: %s: %s\n       %s\n", f.Ledger, f.Check, f.Subject, f.Detail, reconcile.BookAdvice(f.Check))
}

func (r *textReport) inTransit(t postgres.InTransit) {
	r.printf("in transit  %s %s from %s to %s since %s: %s\n",
		t.Amount.Format(t.Asset), t.Asset, t.From, t.To, t.Since.UTC().Format(time.RFC3339), t.Transfer)
}

func (r *textReport) reserved(p postgres.Reserved) {
	r.printf("reserved  %s %s of %s in %s since %s: %s\n",
		p.Amount.Format(p.Asset), p.Asset, p.From, p.Account, p.Since.UTC().Format(time.RFC3339), p.Payout)
}

func (r *textReport) finding(f reconcile.Finding) {
	r.printf("WRONG  %s: %s: %s\n       %s\n", f.Check, f.Transfer, f.Detail, f.Advice())
	if f.Command != "" {
		r.printf("       %s\n", f.Command)
	}
	if f.Repair != "" {
		r.printf("       %s\n", f.Repair)
	}
}

func (r *textReport) unaccounted(u reconcile.Unaccounted) {
	r.printf("no workflow  %s: complete in the books since %s\n", u.Transfer, u.At.Format(time.RFC3339))
}

func (r *textReport) endBooks(s postgres.Summary) error {
	r.books(s)
	r.printf("%s\n", reconcile.BooksConclusion(s))
	return r.err
}

func (r *textReport) end(s reconcile.Summary) error {
	r.books(s.Books)
	for _, line := range s.Lines() {
		r.printf("%s\n", line)
	}
	r.printf("%s\n", s.Conclusion())
	return r.err
}

func (r *textReport) books(s postgres.Summary) {
	for _, l := range s.Ledgers {
		r.printf("%s: %d accounts, %d operations, %d entries, as of %s\n",
			l.Ledger, l.Accounts, l.Operations, l.Entries, l.SnapshotAt.UTC().Format(time.RFC3339))
	}
	for _, t := range s.InTransit {
		r.printf("in transit from %s to %s: %s %s in %s\n", t.From, t.To, t.Amount.Format(t.Asset), t.Asset, reconcile.Count(t.Transfers, "transfer"))
	}
	for _, t := range s.Reserved {
		r.printf("reserved in %s: %s %s in %s\n", t.Account, t.Amount.Format(t.Asset), t.Asset, reconcile.Count(t.Payouts, "payout"))
	}
	if len(s.NotChecked) > 0 {
		r.printf("not checked, because no settings are given for them, though money went there or came from there: %s\n",
			strings.Join(s.NotChecked, ", "))
	}
}
