package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/client"

	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/workflows"
)

// Config is what is to be reconciled.
type Config struct {
	Ledgers   []*postgres.Ledger
	Temporal  client.Client
	Namespace string // of Temporal
	// Repair starts again every transfer that has money in transit, and every payout that has money reserved, and no workflow
	// which moves it on.
	Repair bool
}

// Check names a promise.
type Check string

// The promises.
const (
	CheckUnfinished Check = "unfinished" // money that is in transit, or reserved, has a workflow that moves it on
	CheckOutcome    Check = "outcome"    // a workflow has ended with what the books have
)

// Finding is one broken promise.
type Finding struct {
	Check    Check
	Transfer string // the workflow ID
	Detail   string
	// Command is what a person runs to finish the transfer; "" if no command does.
	Command string
	// Repair is what was done about it; "" is nothing.
	Repair string
}

// Unaccounted is a transfer between two ledgers that is complete in the books, that Temporal knows nothing of, and that is
// younger than what Temporal forgets. Somebody has deleted it there, or written the books.
type Unaccounted struct {
	Transfer string // the workflow ID
	At       time.Time
}

// Report receives what Run sees, when it sees it, one call at a time. Each function may be nil.
type Report struct {
	Books       postgres.Report // Transfer is Run's own
	Finding     func(Finding)
	Unaccounted func(Unaccounted)
}

// Summary is what Run has read, and how much it has reported.
type Summary struct {
	Books    postgres.Summary
	Findings int64
	Started  int64 // of those: started again, to finish them
	// Of the workflows that are closed:
	Agreed  int64 // how they ended is what the books have
	Grouped int64 // how they ended in a group is what the books have: transfers, not workflows
	NoEnds  int64 // they failed, were terminated or timed out: what they left behind is judged by the books
	NotSeen int64 // they belong to ledgers that were not given
	// Of the transfers in the books:
	UnderWay        int64 // in transit, with an open workflow
	PayoutsUnderWay int64 // of the payouts: money reserved, with an open workflow
	Discarded       int64 // in transit, settled outside
	Forgotten       int64 // complete, without a workflow of their own: it is past Temporal's retention, or they were made in a group
	Unaccounted     int64 // complete, without a workflow although they need one and Temporal should still have it
	Retention       time.Duration
}

// idsMax is how many transfers Temporal and the ledgers are asked about at once.
const idsMax = 200

// Run verifies the books and reconciles them with Temporal. An error means that this could not be done to the end, not that
// anything is wrong.
func Run(ctx context.Context, config Config, report Report) (Summary, error) {
	r := &run{Config: config, report: report, now: time.Now()}
	var err error
	if r.summary.Retention, err = r.retention(ctx); err != nil {
		return Summary{}, err
	}
	books := report.Books
	books.Transfer = func(transfer string, records []postgres.Record) error { return r.transfer(ctx, transfer, records) }
	if r.summary.Books, err = postgres.Verify(ctx, config.Ledgers, books); err != nil {
		return Summary{}, err
	}
	if err := r.lookForWorkflows(ctx); err != nil {
		return Summary{}, err
	}
	for _, closed := range []func(context.Context) error{r.closedTransfers, r.closedGroups, r.closedPayouts} {
		if err := closed(ctx); err != nil {
			return Summary{}, err
		}
	}
	return r.summary, nil
}

// run is one reconciliation.
type run struct {
	Config

	report   Report
	summary  Summary
	now      time.Time
	complete []completeTransfer // that Temporal is still to be asked about
}

// completeTransfer is a transfer that is complete in the books.
type completeTransfer struct {
	Unaccounted

	needsWorkflow bool // it is between two ledgers: only a workflow of its own makes those
}

func (r *run) given(ledgerName string) bool {
	return slices.ContainsFunc(r.Ledgers, func(l *postgres.Ledger) bool { return l.Name() == ledgerName })
}

func (r *run) found(f Finding) {
	r.summary.Findings++
	if r.report.Finding != nil {
		r.report.Finding(f)
	}
}

// transfer takes a transfer, or a payout, that the snapshots have.
func (r *run) transfer(ctx context.Context, transfer string, records []postgres.Record) error {
	if records[0].Operation.Kind.IsPayout() {
		return r.payout(ctx, transfer, records)
	}
	reading := read(records, r.given)
	switch reading.standing {
	case standingUnfinished:
		return r.unfinished(ctx, transfer)
	case standingEnded:
		if reading.state == workflows.StateDiscarded && applied(reading.first) {
			r.summary.Discarded++
		}
		r.complete = append(r.complete, completeTransfer{
			Unaccounted:   Unaccounted{Transfer: transfer, At: reading.lastAt},
			needsWorkflow: reading.first.Operation.Kind == ledger.KindWithdraw,
		})
		if len(r.complete) == idsMax {
			return r.lookForWorkflows(ctx)
		}
	case standingNothing, standingBroken, standingUnseen:
	}
	return nil
}

// unfinished looks at a transfer that was in transit.
func (r *run) unfinished(ctx context.Context, transfer string) error {
	var now reading
	w, still, err := r.abandoned(ctx, transfer, &r.summary.UnderWay, func() (bool, error) {
		var err error
		now, err = r.current(ctx, transfer)
		return now.standing == standingUnfinished, err
	})
	if err != nil || !still {
		return err
	}
	return r.reportUnfinished(ctx, transfer, &now, w)
}

// abandoned says whether something that was unfinished in the snapshots is so for good. It looks into its workflow, then into
// the books as they are now, by unfinished, then into its workflow again, until that has not moved between. It counts what has
// an open workflow in underWay.
func (r *run) abandoned(ctx context.Context, workflowID string, underWay *int64, unfinished func() (bool, error)) (workflowRun, bool, error) {
	before, err := r.latest(ctx, workflowID)
	for {
		if err != nil {
			return before, false, err
		}
		if before.open() {
			*underWay++
			return before, false, nil
		}
		still, err := unfinished()
		if err != nil || !still {
			return before, false, err
		}
		after, err := r.latest(ctx, workflowID)
		if err != nil || after == before {
			return after, err == nil, err
		}
		before = after
	}
}

// current reads what the books have of a transfer now.
func (r *run) current(ctx context.Context, transfer string) (reading, error) {
	records, err := r.records(ctx, []string{transfer})
	return read(records[transfer], r.given), err
}

func (r *run) records(ctx context.Context, transfers []string) (map[string][]postgres.Record, error) {
	return r.recordsBy(ctx, transfers, (*postgres.Ledger).TransferRecords)
}

func (r *run) recordsBy(ctx context.Context, ids []string,
	read func(*postgres.Ledger, context.Context, []string) (map[string][]postgres.Record, error),
) (map[string][]postgres.Record, error) {
	all := make(map[string][]postgres.Record)
	for _, l := range r.Ledgers {
		some, err := read(l, ctx, ids)
		if err != nil {
			return nil, fmt.Errorf("ledger %s: %w", l.Name(), err)
		}
		for transfer, records := range some {
			all[transfer] = append(all[transfer], records...)
		}
	}
	return all, nil
}

func (r *run) reportUnfinished(ctx context.Context, transfer string, reading *reading, w workflowRun) error {
	if w.completed() {
		said, err := r.result(ctx, transfer, w)
		if err != nil {
			return err
		}
		r.found(Finding{
			Check: CheckOutcome, Transfer: transfer, Command: resetCommand(r.Namespace, transfer),
			Detail: fmt.Sprintf("its workflow ended as %s; the books have %s", said, reading),
		})
		return nil
	}
	f := Finding{Check: CheckUnfinished, Transfer: transfer, Detail: fmt.Sprintf("%s; the books have %s", w, reading)}
	in := reading.request()
	parsed, err := workflows.ParseTransfer(in)
	if err != nil {
		err = fmt.Errorf("no transfer has such a withdraw: %w", err)
	}
	return r.goOn(ctx, f, again{command: transferCommand(in), summary: parsed, workflowType: workflows.TransferWorkflow, in: in}, err)
}

// ended looks at a workflow that has ended with a result which the books seem not to have.
func (r *run) ended(ctx context.Context, transfer, runID string) error {
	w, err := r.latest(ctx, transfer)
	if err != nil {
		return err
	}
	if w.runID != runID || !w.completed() {
		return nil // it has been started again, or is gone
	}
	said, err := r.result(ctx, transfer, w)
	if err != nil {
		return err
	}
	reading, err := r.current(ctx, transfer)
	switch {
	case err != nil:
		return err
	case reading.standing == standingUnfinished:
		return nil // this is for unfinished, now or in the next run
	case reading.standing == standingUnseen, said.fault == nil && (!r.given(said.from) || !r.given(said.to)):
		r.summary.NotSeen++
		return nil
	case reading.standing == standingEnded && reading.state == said.state:
		r.summary.Agreed++
		return nil
	}
	f := Finding{
		Check: CheckOutcome, Transfer: transfer,
		Detail: fmt.Sprintf("its workflow ended as %s; the books have %s", said, &reading),
	}
	if reading.safeToRunAgain(said.state) {
		f.Command = resetCommand(r.Namespace, transfer)
	}
	r.found(f)
	return nil
}
