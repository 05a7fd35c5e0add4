package reconcile

import (
	"context"
	"fmt"
	"strings"

	"go.temporal.io/api/workflow/v1"

	"payonce/activities"
	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/workflows"
)

// payoutReading is what the books have of a payout. All of it is on one ledger.
type payoutReading struct {
	end     workflows.State  // "" while money is reserved, or if nothing is recorded
	reserve *postgres.Record // nil: there is none
	steps   string           // for a person: "reserve applied, settle applied"
}

func readPayout(records []postgres.Record) payoutReading {
	var r payoutReading
	outcomes := make(map[workflows.Step]ledger.Outcome, len(records))
	for i := range records {
		record := &records[i]
		o := &record.Operation
		outcomes[workflows.Step(o.Kind)] = record.Outcome
		if o.Kind == ledger.KindReserve {
			r.reserve = record
		}
		if i > 0 {
			r.steps += ", "
		}
		r.steps += string(o.Kind) + " " + string(record.Outcome.State)
	}
	r.end = workflows.RecallPayout(func(step workflows.Step) (ledger.OutcomeState, ledger.Code) {
		return outcomes[step].State, outcomes[step].Code
	})
	return r
}

// reserved says whether money is reserved and has neither been settled nor gone back.
func (r *payoutReading) reserved() bool {
	return r.end == "" && applied(r.reserve) && len(r.reserve.Operation.Legs) == 1
}

// agrees says whether a workflow that ended as said is what the books have. A payout is discarded when its rail and the books
// contradict each other: the books keep the end that they have.
func (r *payoutReading) agrees(said workflows.State) bool {
	return r.end != "" && (r.end == said || said == workflows.StateDiscarded)
}

// String tells a person what the books have.
func (r *payoutReading) String() string {
	switch {
	case r.steps == "":
		return "nothing of it"
	case r.reserved():
		leg := &r.reserve.Operation.Legs[0]
		return fmt.Sprintf("%s %s reserved in %s/%s", leg.Amount.Format(leg.Asset), leg.Asset, r.reserve.Ledger, leg.To)
	case r.end == "":
		return "steps that don't follow from each other (" + r.steps + ")"
	default:
		return fmt.Sprintf("it %s (%s)", r.end, r.steps)
	}
}

// payout takes a payout that the snapshots have. One that has money reserved must have a workflow that asks its rail; what the
// rail has to say about it is that workflow's to find out.
func (r *run) payout(ctx context.Context, payout string, records []postgres.Record) error {
	reading := readPayout(records)
	if !reading.reserved() {
		return nil
	}
	w, still, err := r.abandoned(ctx, payout, &r.summary.PayoutsUnderWay, func() (bool, error) {
		now, err := r.payoutRecords(ctx, []string{payout})
		reading := readPayout(now[payout])
		return reading.reserved(), err
	})
	if err != nil || !still {
		return err
	}
	f := Finding{Check: CheckUnfinished, Transfer: payout, Detail: fmt.Sprintf("%s; the books have %s", w, &reading)}
	if w.completed() {
		f.Check, f.Command = CheckOutcome, resetCommand(r.Namespace, payout)
		r.found(f)
		return nil
	}
	in := payoutRequest(reading.reserve)
	parsed, err := workflows.ParsePayout(in)
	if err != nil {
		err = fmt.Errorf("no payout has such a reserve: %w", err)
	}
	return r.goOn(ctx, f, again{command: payoutCommand(in), summary: parsed, workflowType: workflows.PayoutWorkflow, in: in}, err)
}

func (r *run) payoutRecords(ctx context.Context, payouts []string) (map[string][]postgres.Record, error) {
	return r.recordsBy(ctx, payouts, (*postgres.Ledger).PayoutRecords)
}

// payoutRequest is the payout that a reserve is the first step of, as whoever asked for it would ask again.
func payoutRequest(reserve *postgres.Record) workflows.PayoutInput {
	o := &reserve.Operation
	leg := &o.Legs[0]
	// What is no reserve of a payout is no payout that can be parsed.
	in, _ := workflows.PayoutOf(strings.TrimPrefix(reserve.Transfer, workflows.PayoutWorkflowID("")), &activities.OperationView{
		Kind: o.Kind, From: reserve.Ledger + "/" + leg.From, Other: o.Counterparty,
		Amount: leg.Amount.Format(leg.Asset), Asset: leg.Asset.String(), Memo: o.Memo, Metadata: o.Metadata,
	})
	return in
}

// closedPayouts holds the ends that closed payouts have told against the books as they are now.
func (r *run) closedPayouts(ctx context.Context) error {
	return r.closed(ctx, workflows.PayoutWorkflow, func(completed []*workflow.WorkflowExecutionInfo, ids []string) error {
		records, err := r.payoutRecords(ctx, ids)
		if err != nil {
			return err
		}
		for i, w := range completed {
			reading := readPayout(records[ids[i]])
			if reading.agrees(workflows.State(listedState(w))) {
				r.summary.Agreed++
				continue
			}
			if err := r.endedPayout(ctx, ids[i], w.GetExecution().GetRunId()); err != nil {
				return err
			}
		}
		return nil
	})
}

// endedPayout looks at a payout that has ended with a result which the books seem not to have.
func (r *run) endedPayout(ctx context.Context, payout, runID string) error {
	w, err := r.latest(ctx, payout)
	if err != nil {
		return err
	}
	if w.runID != runID || !w.completed() {
		return nil // it has been opened again, or is gone
	}
	said, fault, err := told[workflows.PayoutResult](ctx, r, payout, w)
	if err != nil {
		return err
	}
	records, err := r.payoutRecords(ctx, []string{payout})
	if err != nil {
		return err
	}
	reading := readPayout(records[payout])
	from, parseErr := ledger.ParseAccountRef("from", said.From)
	switch {
	case reading.reserved():
		// This is for payout, now or in the next run.
	case fault == nil && reading.agrees(said.State):
		r.summary.Agreed++
	case reading.steps == "" && parseErr == nil && !r.given(from.Ledger):
		r.summary.NotSeen++
	default:
		r.found(Finding{
			Check: CheckOutcome, Transfer: payout, Detail: fmt.Sprintf("its workflow ended as %s; the books have %s", result{state: said.State, fault: fault}, &reading),
		})
	}
	return nil
}
