package main

import (
	"encoding/json"
	"io"
	"time"

	"payonce/ledger/postgres"
)

// jsonReport writes one JSON object at the end. Its lists are cut at listMax, so that it does not grow with what is
// wrong; the counts are of all.
type jsonReport struct {
	out     io.Writer
	listMax int
	report  verifyReport
}

// verifyReport is what `worker verify --output json` prints.
type verifyReport struct {
	OK            bool            `json:"ok"`
	Findings      []findingView   `json:"findings"`
	FindingsCount int64           `json:"findings_count"`
	InTransit     []inTransitView `json:"in_transit"`
	// InTransitTotals count all transfers in transit, by where they are on their way from and to.
	InTransitTotals []transitTotalView `json:"in_transit_totals"`
	Ledgers         []ledgerCountView  `json:"ledgers"`
	// NotChecked are ledgers that money is on its way from or to, and that no settings were given for.
	NotChecked []string `json:"not_checked"`
}

type findingView struct {
	Ledger  string `json:"ledger"`
	Check   string `json:"check"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
	Advice  string `json:"advice"`
}

type inTransitView struct {
	Transfer string    `json:"transfer"` // the workflow ID
	Key      string    `json:"key"`      // of its withdraw
	From     string    `json:"from"`
	To       string    `json:"to"`
	Amount   string    `json:"amount"`
	Asset    string    `json:"asset"`
	Since    time.Time `json:"since"`
}

type transitTotalView struct {
	From      string `json:"from"` // a ledger
	To        string `json:"to"`
	Amount    string `json:"amount"`
	Asset     string `json:"asset"`
	Transfers int64  `json:"transfers"`
}

type ledgerCountView struct {
	Ledger     string    `json:"ledger"`
	SnapshotAt time.Time `json:"snapshot_at"` // what had been committed then was checked
	Accounts   int64     `json:"accounts"`
	Operations int64     `json:"operations"`
	Entries    int64     `json:"entries"`
}

func (r *jsonReport) finding(f postgres.Finding) {
	if len(r.report.Findings) < r.listMax {
		r.report.Findings = append(r.report.Findings, findingView{
			Ledger: f.Ledger, Check: string(f.Check), Subject: f.Subject, Detail: f.Detail, Advice: advice(f.Check),
		})
	}
}

func (r *jsonReport) inTransit(t postgres.InTransit) {
	if len(r.report.InTransit) < r.listMax {
		r.report.InTransit = append(r.report.InTransit, inTransitView{
			Transfer: t.Transfer, Key: string(t.Key), From: t.From.String(), To: t.To.String(),
			Amount: t.Amount.Format(t.Asset), Asset: t.Asset.String(), Since: t.Since.UTC(),
		})
	}
}

func (r *jsonReport) end(s postgres.Summary) error {
	report := &r.report
	report.OK = s.Findings == 0
	report.FindingsCount = s.Findings
	report.NotChecked = s.NotChecked
	for _, total := range s.InTransit {
		report.InTransitTotals = append(report.InTransitTotals, transitTotalView{
			From: total.From, To: total.To, Amount: total.Amount.Format(total.Asset), Asset: total.Asset.String(), Transfers: total.Transfers,
		})
	}
	for _, l := range s.Ledgers {
		report.Ledgers = append(report.Ledgers, ledgerCountView{
			Ledger: l.Ledger, SnapshotAt: l.SnapshotAt.UTC(), Accounts: l.Accounts, Operations: l.Operations, Entries: l.Entries,
		})
	}
	// Empty lists are [], not null, for programs that read them.
	report.Findings = append([]findingView{}, report.Findings...)
	report.InTransit = append([]inTransitView{}, report.InTransit...)
	report.InTransitTotals = append([]transitTotalView{}, report.InTransitTotals...)
	report.Ledgers = append([]ledgerCountView{}, report.Ledgers...)
	report.NotChecked = append([]string{}, report.NotChecked...)
	encoder := json.NewEncoder(r.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(report)
}
