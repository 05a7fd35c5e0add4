package workflows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// payout is one run of a Payout.
type payout struct {
	run

	parsed ParsedPayout
	status PayoutStatus
	hints  workflow.ReceiveChannel

	reservedAt    time.Time // by the ledger's clock: no submit was before
	books         booked
	submitted     bool // this run has submitted it, or was about to
	submits       int  // how often this run has had it submitted, each time with its attempts
	mayNotSubmit  bool // the rail may have forgotten the key, or does not take it
	cancelTried   bool // the rail was asked to cancel
	cancelDone    bool // and has answered, or can't
	contradicting *contradiction
	word          activities.RailAnswer // the rail's, or a person's in its place, that the end follows from
}

// booked is what the books have of a payout beside its reserve.
type booked struct {
	read                       bool   // the reserve was there before, and the books were read
	run                        string // that has reserved
	settled, returned, bounced bool
}

func (b *booked) ended() bool { return b.settled || b.returned }

// end is the end that the books have.
func (b *booked) end() State {
	if b.settled && !b.bounced {
		return StateSettled
	}
	return StateReturned
}

func (b *booked) add(kind ledger.Kind) {
	switch kind { //nolint:exhaustive // the others are no steps after a reserve
	case ledger.KindSettle:
		b.settled = true
	case ledger.KindReturn:
		b.returned = true
	case ledger.KindBounce:
		b.bounced = true
	}
}

// contradiction is a word of the rail that the books speak against.
type contradiction struct {
	step Step // which the word asks for
	text string
}

// What is kept with a reserve beside the client's metadata: the run that has made it, since only if that is this very run nobody
// has submitted before; and who is to be told, so that a payout that is opened again tells them too.
const (
	metadataOurs   = "payonce-"
	metadataRun    = metadataOurs + "run"
	metadataNotify = metadataOurs + "notify"
	metadataAdded  = 2
)

// newPayout checks the request and answers queries and updates from then on.
func (w *Workflows) newPayout(ctx workflow.Context, input PayoutInput) (*payout, error) {
	parsed, err := ParsePayout(input)
	if err != nil {
		return nil, invalidInput(err)
	}
	if err := checkWorkflowID(ctx, "payout", input.ID, PayoutWorkflowID(input.ID)); err != nil {
		return nil, err
	}
	p := &payout{parsed: parsed, status: PayoutStatus{Request: input}, hints: workflow.GetSignalChannel(ctx, PayoutHintSignal)}
	about := subject{
		what: "payout", id: input.ID, letters: PayoutWorkflowID(input.ID), from: parsed.From, to: parsed.Counterparty,
		amount: parsed.Amount.Format(parsed.Asset), asset: parsed.Asset.String(),
		memo: input.Memo, metadata: input.Metadata, text: parsed.String(),
	}
	if p.run, err = newRun(ctx, w.options, about, p, &p.status, &p.status.Standing); err != nil {
		return nil, err
	}
	return p, takeDecisions(ctx, &p.run, &p.status)
}

func (p *payout) reserve() step {
	s := p.step(StepReserve, ledger.KindReserve, "Reserve", p.parsed.From.Name, ledger.RailAccount(p.parsed.Rail))
	s.resolve = StepResolveReserve
	s.input.Metadata = make(map[string]string, len(p.about.metadata)+metadataAdded)
	//workflowcheck:ignore from a map to a map, in whatever order
	maps.Copy(s.input.Metadata, p.about.metadata)
	s.input.Metadata[metadataRun] = p.runID
	if names := p.status.Request.Notify; len(names) > 0 {
		s.input.Metadata[metadataNotify] = strings.Join(names, ",")
	}
	return s
}

func (p *payout) settleStep() step {
	return p.step(StepSettle, ledger.KindSettle, "Settle", ledger.RailAccount(p.parsed.Rail), ledger.SettledAccount(p.parsed.Rail))
}

func (p *payout) returnStep() step {
	return p.back(p.step(StepReturn, ledger.KindReturn, "Return", ledger.RailAccount(p.parsed.Rail), p.parsed.From.Name))
}

func (p *payout) bounceStep() step {
	return p.back(p.step(StepBounce, ledger.KindBounce, "Bounce", ledger.SettledAccount(p.parsed.Rail), p.parsed.From.Name))
}

func (p *payout) step(name Step, kind ledger.Kind, activity, from, to string) step {
	return step{
		name: name, kind: kind, activity: activity,
		input: p.stepInput(name, p.parsed.From.Ledger, from, to, p.parsed.Counterparty),
	}
}

// back makes a step one that gives back what was reserved.
func (p *payout) back(s step) step {
	s.input.Reverses = StepKey(p.workflowID, StepReserve)
	return s
}

// readBooks reads what the books have of the payout. It asks until they answer.
func (p *payout) readBooks(ctx workflow.Context) {
	var in activities.OperationListInput
	for _, name := range []Step{StepReserve, StepSettle, StepReturn, StepBounce} {
		in.Keys = append(in.Keys, StepKey(p.workflowID, name))
	}
	options := p.options.Record.durable(LedgerTaskQueue(p.parsed.From.Ledger), "read what the books have")
	var list activities.OperationList
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), OperationListWorkflow, in).Get(ctx, &list); err != nil {
		// It is retried without end, on a context that is not cancelled, so only a defect leads here.
		panic(err)
	}
	p.books = booked{read: true}
	for i := range list.Operations {
		operation := &list.Operations[i]
		if operation.Ledger != p.parsed.From.Ledger || operation.State != ledger.OutcomeApplied {
			continue
		}
		if operation.Kind == ledger.KindReserve {
			p.books.run = operation.Metadata[metadataRun]
			// The rail takes a key with the same content only, and a memo is part of that.
			p.about.memo = operation.Memo
		}
		p.books.add(operation.Kind)
	}
}

// firstRun says that no run but this one has reserved, so that no other can have submitted. A run that goes on from a point of
// another, after a reset, is not the first.
func (p *payout) firstRun(ctx workflow.Context) bool {
	return recorded(ctx, func() bool {
		if p.books.read && p.books.run != p.runID {
			return false
		}
		// Every server names the original run; Temporal's test environment does not, and resets nothing.
		original := workflow.GetInfo(ctx).OriginalRunID
		return original == "" || original == p.runID
	})
}

// summary labels a step's activity in Temporal's web UI: "reserve 10.00 USD/2 of us/alice".
func (p *payout) summary(name Step) string {
	money := p.about.money()
	switch name { //nolint:exhaustive // the others have no activity of a ledger
	case StepReserve:
		return fmt.Sprintf("reserve %s of %s for %s", money, p.parsed.From, p.parsed.Rail)
	case StepReturn, StepBounce:
		return fmt.Sprintf("%s %s to %s", name, money, p.parsed.From)
	default:
		return fmt.Sprintf("%s %s", name, money)
	}
}

// whereabouts say where the money is while a step is parked.
func (p *payout) whereabouts(name Step) (ledger.Place, string) {
	switch {
	case name == StepReserve || name == StepResolveReserve:
		return ledger.PlaceUnknown, fmt.Sprintf("%s or %s", p.parsed.From, p.account(ledger.RailAccount(p.parsed.Rail)))
	case p.books.returned || p.books.bounced:
		return ledger.PlaceSource, p.parsed.From.String()
	case p.books.settled:
		return ledger.PlaceDestination, p.account(ledger.SettledAccount(p.parsed.Rail))
	default:
		return ledger.PlaceTransit, p.account(ledger.RailAccount(p.parsed.Rail))
	}
}

func (p *payout) account(name string) string {
	return ledger.AccountRef{Ledger: p.parsed.From.Ledger, Name: name}.String()
}

// choices are what a person can decide. Where the books speak against the rail, nothing moves but what was settled.
func (p *payout) choices(name Step) []Action {
	switch {
	case p.contradicting != nil && name == StepReturn:
		return []Action{ActionRetry, ActionCompensate, ActionDiscard}
	case p.contradicting != nil:
		return []Action{ActionRetry, ActionDiscard}
	case name == StepSubmit && p.books.ended():
		return []Action{ActionRetry, ActionDiscard}
	case name == StepSubmit:
		return []Action{ActionRetry, ActionSettle, ActionCompensate}
	case name == StepResolveReserve:
		return []Action{ActionRetry, ActionCompensate}
	default:
		return []Action{ActionRetry}
	}
}

// end completes the payout. why is the outcome that kept it from being reserved, or nil.
func (p *payout) end(ctx workflow.Context, state State, why *activities.StepOutcome) (PayoutResult, error) {
	result := PayoutResult{
		ID: p.about.id, State: state, From: p.parsed.From.String(), Rail: p.parsed.Rail, Payee: p.status.Request.Payee,
		Amount: p.about.amount, Asset: p.about.asset, Steps: slices.Clone(p.status.Steps),
	}
	left := Whereabouts{Amount: p.about.amount, Asset: p.about.asset}
	left.Place, left.Account = p.whereabouts("")
	if why != nil {
		left.Place, left.Account = ledger.PlaceSource, p.parsed.From.String()
		result.Code, result.Detail = string(why.Code), why.Detail
		if why.Code == ledger.CodeAttemptsExhausted {
			p.setAside(ctx, StepReserve, state, why, []string{string(ActionDiscard)})
		}
	}
	if p.word.State.Definite() {
		result.Code, result.Detail, result.RailID = p.word.Code, p.word.Detail, p.word.RailID
	}
	if state == StateDiscarded {
		result.Left = &left
	}
	p.settle(ctx, state, left)
	p.status.Result = &result
	detail := string(state)
	if result.Detail != "" {
		detail += ": " + result.Detail
	}
	p.say(ctx, detail)
	p.publish(ctx, state)
	p.notify(ctx, p.status.Request.Notify, state, result, left)
	if err := p.letters.flush(ctx); err != nil {
		return PayoutResult{}, err
	}
	return result, nil
}
