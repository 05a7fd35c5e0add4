package reconcile

import (
	"fmt"
	"time"

	"payonce/ledger/postgres"
)

// View is a verification as JSON. Its lists are cut, so that it does not grow with what is wrong; the counts are of all.
type View struct {
	OK bool `json:"ok"`
	// Conclusion says the same to a person.
	Conclusion    string          `json:"conclusion"`
	Findings      []FindingView   `json:"findings"`
	FindingsCount int64           `json:"findings_count"`
	InTransit     []InTransitView `json:"in_transit"`
	// InTransitTotals count all transfers in transit, by where they are on their way from and to.
	InTransitTotals []TransitTotalView `json:"in_transit_totals"`
	Reserved        []ReservedView     `json:"reserved"`
	// ReservedTotals count all payouts that have money reserved, by the rail's account.
	ReservedTotals []ReservedTotalView `json:"reserved_totals"`
	Ledgers        []LedgerView        `json:"ledgers"`
	// NotChecked are ledgers that money is on its way from or to, and that no settings were given for.
	NotChecked []string `json:"not_checked"`
	// Temporal is what the workflows say, if they were asked.
	Temporal *TemporalView `json:"temporal,omitempty"`
}

// FindingView is a finding in the books.
type FindingView struct {
	Ledger  string `json:"ledger"`
	Check   string `json:"check"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
	Advice  string `json:"advice"`
}

// InTransitView is a transfer whose money is in transit.
type InTransitView struct {
	Transfer string    `json:"transfer"` // the workflow ID
	Key      string    `json:"key"`      // of its withdraw
	From     string    `json:"from"`
	To       string    `json:"to"`
	Amount   string    `json:"amount"`
	Asset    string    `json:"asset"`
	Since    time.Time `json:"since"`
}

// TransitTotalView is all that is in transit from one ledger to another in one asset.
type TransitTotalView struct {
	From      string `json:"from"` // a ledger
	To        string `json:"to"`
	Amount    string `json:"amount"`
	Asset     string `json:"asset"`
	Transfers int64  `json:"transfers"`
}

// ReservedView is a payout whose money is reserved.
type ReservedView struct {
	Payout  string    `json:"payout"` // the workflow ID
	Key     string    `json:"key"`    // of its reserve
	From    string    `json:"from"`
	Account string    `json:"account"` // the rail's
	Amount  string    `json:"amount"`
	Asset   string    `json:"asset"`
	Since   time.Time `json:"since"`
}

// ReservedTotalView is all that is reserved for one rail in one asset.
type ReservedTotalView struct {
	Account string `json:"account"`
	Amount  string `json:"amount"`
	Asset   string `json:"asset"`
	Payouts int64  `json:"payouts"`
}

// LedgerView is how much was read of a ledger.
type LedgerView struct {
	Ledger     string    `json:"ledger"`
	SnapshotAt time.Time `json:"snapshot_at"` // what had been committed then was checked
	Accounts   int64     `json:"accounts"`
	Operations int64     `json:"operations"`
	Entries    int64     `json:"entries"`
}

// TemporalView is how the books and the workflows of transfers agree.
type TemporalView struct {
	Findings      []TransferFindingView `json:"findings"`
	FindingsCount int64                 `json:"findings_count"`
	Started       int64                 `json:"started"` // of those: started again, to finish them

	// Of the workflows that are closed, of transfers and payouts:
	Agreed         int64 `json:"agreed"`           // how they ended is what the books have
	Grouped        int64 `json:"grouped"`          // the same of transfers that were made in groups
	ClosedByForce  int64 `json:"closed_by_force"`  // failed, terminated, timed out: they have no result to compare
	OnOtherLedgers int64 `json:"on_other_ledgers"` // no settings were given for those

	// Of the transfers in the books:
	UnderWay        int64 `json:"under_way"`         // in transit, with an open workflow
	PayoutsUnderWay int64 `json:"payouts_under_way"` // money reserved, with an open workflow
	Discarded       int64 `json:"discarded"`         // in transit, and settled outside
	Forgotten       int64 `json:"forgotten"`         // complete, without a workflow of their own: past Temporal's retention, or made in a group
	// Unaccounted are complete and without a workflow, although they need one and Temporal should still have it.
	Unaccounted      []UnaccountedView `json:"unaccounted"`
	UnaccountedCount int64             `json:"unaccounted_count"`
	Retention        string            `json:"retention"` // of closed workflows: "72h0m0s"
}

// TransferFindingView is a transfer about which the books and its workflow don't agree.
type TransferFindingView struct {
	Check    string `json:"check"`
	Transfer string `json:"transfer"` // the workflow ID
	Detail   string `json:"detail"`
	Advice   string `json:"advice"`
	Command  string `json:"command,omitempty"` // what finishes it
	Repair   string `json:"repair,omitempty"`  // what was done about it
}

// UnaccountedView is a transfer that is complete in the books, without a workflow.
type UnaccountedView struct {
	Transfer string    `json:"transfer"` // the workflow ID
	At       time.Time `json:"at"`       // when its latest step was recorded
}

// Viewer makes a View of what is reported. Its lists have at most ListMax elements.
type Viewer struct {
	ListMax int

	view     View
	temporal TemporalView
}

// Report is what the Viewer is told by.
func (v *Viewer) Report() Report {
	return Report{
		Books:       postgres.Report{Finding: v.bookFinding, InTransit: v.inTransit, Reserved: v.reserved},
		Finding:     v.finding,
		Unaccounted: v.unaccounted,
	}
}

func (v *Viewer) bookFinding(f postgres.Finding) {
	if len(v.view.Findings) < v.ListMax {
		v.view.Findings = append(v.view.Findings, FindingView{
			Ledger: f.Ledger, Check: string(f.Check), Subject: f.Subject, Detail: f.Detail, Advice: BookAdvice(f.Check),
		})
	}
}

func (v *Viewer) inTransit(t postgres.InTransit) {
	if len(v.view.InTransit) < v.ListMax {
		v.view.InTransit = append(v.view.InTransit, InTransitView{
			Transfer: t.Transfer, Key: string(t.Key), From: t.From.String(), To: t.To.String(),
			Amount: t.Amount.Format(t.Asset), Asset: t.Asset.String(), Since: t.Since.UTC(),
		})
	}
}

func (v *Viewer) reserved(p postgres.Reserved) {
	if len(v.view.Reserved) < v.ListMax {
		v.view.Reserved = append(v.view.Reserved, ReservedView{
			Payout: p.Payout, Key: string(p.Key), From: p.From.String(), Account: p.Account.String(),
			Amount: p.Amount.Format(p.Asset), Asset: p.Asset.String(), Since: p.Since.UTC(),
		})
	}
}

func (v *Viewer) finding(f Finding) {
	if len(v.temporal.Findings) < v.ListMax {
		v.temporal.Findings = append(v.temporal.Findings, TransferFindingView{
			Check: string(f.Check), Transfer: f.Transfer, Detail: f.Detail, Advice: f.Advice(), Command: f.Command, Repair: f.Repair,
		})
	}
}

func (v *Viewer) unaccounted(u Unaccounted) {
	if len(v.temporal.Unaccounted) < v.ListMax {
		v.temporal.Unaccounted = append(v.temporal.Unaccounted, UnaccountedView(u))
	}
}

// EndBooks returns the view of a verification of the books alone.
func (v *Viewer) EndBooks(s postgres.Summary) View {
	view := &v.view
	view.OK = s.Findings == 0
	view.Conclusion = BooksConclusion(s)
	view.FindingsCount = s.Findings
	view.NotChecked = s.NotChecked
	for _, total := range s.InTransit {
		view.InTransitTotals = append(view.InTransitTotals, TransitTotalView{
			From: total.From, To: total.To, Amount: total.Amount.Format(total.Asset), Asset: total.Asset.String(), Transfers: total.Transfers,
		})
	}
	for _, total := range s.Reserved {
		view.ReservedTotals = append(view.ReservedTotals, ReservedTotalView{
			Account: total.Account.String(), Amount: total.Amount.Format(total.Asset), Asset: total.Asset.String(), Payouts: total.Payouts,
		})
	}
	for _, l := range s.Ledgers {
		view.Ledgers = append(view.Ledgers, LedgerView{
			Ledger: l.Ledger, SnapshotAt: l.SnapshotAt.UTC(), Accounts: l.Accounts, Operations: l.Operations, Entries: l.Entries,
		})
	}
	// Empty lists are [], not null, for programs that read them.
	view.Findings = append([]FindingView{}, view.Findings...)
	view.InTransit = append([]InTransitView{}, view.InTransit...)
	view.InTransitTotals = append([]TransitTotalView{}, view.InTransitTotals...)
	view.Reserved = append([]ReservedView{}, view.Reserved...)
	view.ReservedTotals = append([]ReservedTotalView{}, view.ReservedTotals...)
	view.Ledgers = append([]LedgerView{}, view.Ledgers...)
	view.NotChecked = append([]string{}, view.NotChecked...)
	return *view
}

// End returns the view of a verification with Temporal.
func (v *Viewer) End(s Summary) View {
	view := v.EndBooks(s.Books)
	t := &v.temporal
	t.FindingsCount, t.Started = s.Findings, s.Started
	t.Agreed, t.Grouped, t.ClosedByForce, t.OnOtherLedgers = s.Agreed, s.Grouped, s.NoEnds, s.NotSeen
	t.PayoutsUnderWay = s.PayoutsUnderWay
	t.UnderWay, t.Discarded, t.Forgotten, t.UnaccountedCount = s.UnderWay, s.Discarded, s.Forgotten, s.Unaccounted
	t.Retention = s.Retention.String()
	t.Findings = append([]TransferFindingView{}, t.Findings...)
	t.Unaccounted = append([]UnaccountedView{}, t.Unaccounted...)
	view.OK = s.OK()
	view.Conclusion = s.Conclusion()
	view.Temporal = t
	return view
}

// OK says that nothing was found.
func (s *Summary) OK() bool { return s.Books.Findings == 0 && s.Findings == 0 }

// Conclusion is the whole in one line.
func (s *Summary) Conclusion() string {
	agree := "The workflows agree with them."
	if s.Findings > 0 {
		agree = fmt.Sprintf("The workflows DON'T agree with them: %s", Count(s.Findings, "finding"))
		if s.Started > 0 {
			agree += fmt.Sprintf(", %s started again", Count(s.Started, "transfer"))
		}
		agree += "."
	}
	return BooksConclusion(s.Books) + " " + agree
}

// BooksConclusion is a verification of the books in one line.
func BooksConclusion(s postgres.Summary) string {
	if s.Findings > 0 {
		return fmt.Sprintf("The books are WRONG: %s.", Count(s.Findings, "finding"))
	}
	return "The books are right."
}

// Count is a number of things: "1 finding", "2 findings".
func Count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Lines are the counts of a verification with Temporal for a person. Those that are zero and of no interest then are left out.
func (s *Summary) Lines() []string {
	lines := []string{fmt.Sprintf("%s closed as the books have it, %d closed by force, without a result", Count(s.Agreed, "workflow"), s.NoEnds)}
	add := func(n int64, format string, args ...any) {
		if n > 0 {
			lines = append(lines, Count(n, "transfer")+" "+fmt.Sprintf(format, args...))
		}
	}
	add(s.Grouped, "ended in groups as the books have it")
	add(s.UnderWay, "in transit with an open workflow")
	if s.PayoutsUnderWay > 0 {
		lines = append(lines, Count(s.PayoutsUnderWay, "payout")+" with money reserved and an open workflow")
	}
	add(s.Discarded, "in transit for good: settled outside, and discarded")
	add(s.Forgotten, "complete in the books, without a workflow of their own: older than the %s that Temporal keeps a closed one, "+
		"or made in a group", s.Retention)
	add(s.Unaccounted, "between two ledgers complete in the books, without the workflow that Temporal should still have")
	if s.NotSeen > 0 {
		lines = append(lines, Count(s.NotSeen, "workflow")+" of ledgers that no settings are given for: not compared")
	}
	return lines
}
