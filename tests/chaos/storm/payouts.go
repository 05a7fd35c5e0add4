package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"payonce/internal/railsim/sim"
	"payonce/starter/transfers"
	"payonce/tests/chaos/checker"
	"payonce/workflows"
)

// remittance is one payout that clients ask for, and what its rail and others do to it.
type remittance struct {
	request workflows.PayoutInput
	plan    sim.Plan
	// after is how many transfers of the storm are sent before it.
	after  int
	copies int
	// blow strikes its workflow, after a time.
	blow      string
	blowAfter time.Duration
}

// remittances are n payouts beside a storm of so many transfers.
func (d *drawing) remittances(n, storm int) []*remittance {
	var list []*remittance
	for range n {
		here, _ := d.twoLedgers()
		m := &remittance{
			after: d.random.IntN(storm), copies: 1, plan: d.plan(),
			request: workflows.PayoutInput{
				ID: d.id(KindPayout), From: here + "/" + plainOf(d.random.IntN(plains)), Rail: railName,
				Payee: map[string]string{"iban": "DE02120300000000202051", "name": "ж " + here}, Amount: d.amount(100, 900), Asset: dollar,
			},
		}
		switch d.random.IntN(10) {
		case 0:
			m.request.From = here + "/" + poor
		case 1:
			m.request.From = here + "/" + closed
		}
		if d.random.IntN(4) == 0 {
			m.copies = 2 + d.random.IntN(2)
		}
		m.blow = pick(d.random, []string{"", "", "", "", "", "", FaultCancel, FaultTerminate, FaultTerminate, FaultReset})
		m.blowAfter = between(d.random, 0, 900*time.Millisecond)
		list = append(list, m)
	}
	return list
}

// plan draws what the rail does to a payout. It decides each within seconds, some against it, and some come back afterwards.
func (d *drawing) plan() sim.Plan {
	var p sim.Plan
	faults := func(least, most int) (list []sim.Fault) {
		for range least + d.random.IntN(most-least+1) {
			f := sim.Fault{Executed: d.random.IntN(3) > 0}
			switch f.Do = pick(d.random, []string{"drop", "drop", "status", "status", "empty", "cut_json", "cut_connection", "wrong_type", "in_flight", "answer", "two_words"}); f.Do {
			case "status":
				f.Status = pick(d.random, []int{500, 502, 503, 429})
			case "answer":
				f.Executed, f.AfterMS = false, d.milliseconds(800, 2500) // later than an attempt waits
			case "cut_json", "cut_connection", "wrong_type", "in_flight", "two_words":
				f.Executed = false // it says itself whether it carries out
			}
			list = append(list, f)
		}
		return list
	}
	if d.random.IntN(3) > 0 {
		p.Submit = faults(1, 3)
	}
	if d.random.IntN(3) == 0 {
		p.Lookup = faults(1, 2)
	}
	if d.random.IntN(2) == 0 {
		p.DecideAfterMS = d.milliseconds(50, 2500)
	}
	switch d.random.IntN(10) {
	case 0, 1:
		p.Outcome, p.Code, p.Detail = "rejected", "AC04", "the account is closed"
	case 2, 3, 4:
		p.ReturnAfterMS, p.Code = d.milliseconds(50, 2500), "AC04"
	}
	if d.random.IntN(4) == 0 {
		p.UnknownForMS = d.milliseconds(200, 2500)
	}
	p.Callbacks = sim.Callbacks{
		Times: 1 + d.random.IntN(3), DelayMS: d.milliseconds(0, 600), Early: d.random.IntN(3) == 0, RetryMS: d.milliseconds(100, 400),
	}
	return p
}

func (d *drawing) milliseconds(least, most int64) int64 { return least + d.random.Int64N(most-least+1) }

// bounces says whether a payout comes back after it was settled.
func (r *round) bounces(reference string) bool {
	for _, m := range r.remittances {
		if m.request.ID == reference {
			return m.plan.ReturnAfterMS > 0
		}
	}
	return false
}

// pay has a payout made until everybody who asked for it is told its end.
func (r *round) pay(ctx context.Context, m *remittance) {
	r.record.struck(FaultPayout)
	if m.plan.ReturnAfterMS > 0 {
		r.record.struck(FaultBounce)
	}
	if len(m.plan.Submit)+len(m.plan.Lookup) > 0 || m.plan.UnknownForMS > 0 {
		r.record.trouble(workflows.PayoutWorkflowID(m.request.ID), "faults of the rail")
	}
	if err := r.world.rail.sim.Plan(sim.Rule{Reference: m.request.ID, Plan: m.plan}); err != nil {
		r.fail(fmt.Errorf("a plan of the rail: %w", err))
		return
	}
	var all sync.WaitGroup
	if m.blow != "" {
		blows := stream(r.config.Seed, m.request.ID+" blow")
		all.Go(func() {
			r.strikeWorkflow(ctx, blowOn{
				name: m.blow, after: m.blowAfter, workflowID: workflows.PayoutWorkflowID(m.request.ID), trouble: workflows.PayoutWorkflowID(m.request.ID),
			}, blows)
		})
	}
	for i := range m.copies {
		random := stream(r.config.Seed, fmt.Sprint(m.request.ID, i))
		k := pick(random, r.world.clients)
		all.Go(func() { r.insistOnPayout(ctx, k, random, m.request) })
	}
	all.Wait()
}

// insistOnPayout makes a call again and again until it is told an end.
func (r *round) insistOnPayout(ctx context.Context, k *clerk, random *rand.Rand, in workflows.PayoutInput) {
	for ctx.Err() == nil {
		callCtx, cancel := context.WithTimeout(ctx, between(random, patienceLeast, patienceMost))
		call := checker.PayoutCall{
			Client: k.name, Called: time.Now(),
			Request: checker.PayoutRequest{ID: in.ID, From: in.From, Rail: in.Rail, Amount: in.Amount, Asset: in.Asset},
		}
		result, err := k.transfers.Payout(callCtx, in)
		cancel()
		call.Returned = time.Now()
		if err != nil {
			call.Note = err.Error()
		} else {
			call.Told, call.Note = string(result.State), result.Detail
		}
		r.record.payoutCall(call)
		if call.Told != "" {
			return
		}
		if pending, ok := errors.AsType[*transfers.PayoutPendingError](err); ok && pending.Status.Parking != nil {
			r.decideOnPayout(ctx, k, in, pending.Status.Parking)
		}
		_ = pause(ctx, between(random, againLeast, againMost))
	}
}

// decideOnPayout decides about a parked payout as an operator does, who can telephone the rail: has it the payout, it is asked
// again; has it not, and nobody can be about to send it any more, the money is given back.
func (r *round) decideOnPayout(ctx context.Context, k *clerk, in workflows.PayoutInput, p *workflows.Parking) {
	r.record.struck(FaultParked)
	r.record.trouble(workflows.PayoutWorkflowID(in.ID), fmt.Sprintf("parked at %s", p.Step))
	ctx, cancel := context.WithTimeout(ctx, timeoutBlow)
	defer cancel()
	decision := workflows.Decision{Action: workflows.ActionRetry, Parking: p.Number, Run: p.Run, By: "chaos"}
	if p.Step == workflows.StepSubmit && r.phase.Load() != phaseStorm {
		books, err := r.world.rail.books(ctx, r.prefix)
		if err == nil && !slices.ContainsFunc(books.Payouts, func(p checker.RailPayout) bool { return p.Reference == in.ID }) {
			decision.Action, decision.Reason = workflows.ActionCompensate, "the rail has never had it"
		}
	}
	var all sync.WaitGroup
	for range 2 {
		// Refused, or not heard: the client will be told again that it is parked.
		all.Go(func() { _, _ = k.transfers.DecidePayout(ctx, in.ID, decision) })
	}
	all.Wait()
}
