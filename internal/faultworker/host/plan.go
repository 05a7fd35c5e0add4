package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
)

// blockExcess is how far past the attempt's time-out a block lasts that does not say.
const blockExcess = 500 * time.Millisecond

// plan is which faults strike at which points, and how often they have.
type plan struct {
	announce *announcer
	polls    *polls
	letGo    <-chan struct{} // closed when what is held is to go on

	mu     sync.Mutex
	faults []*armedFault
}

type armedFault struct {
	fault.Fault
	passed int // how often its point was passed unharmed
	struck int
}

func newPlan(faults []fault.Fault, announce *announcer, polls *polls, letGo <-chan struct{}) *plan {
	p := &plan{announce: announce, polls: polls, letGo: letGo}
	for _, f := range faults {
		p.faults = append(p.faults, &armedFault{Fault: f})
	}
	return p
}

// next is the fault that strikes now, if one does, and the how many-th of its strikes this is.
func (p *plan) next(point fault.Point, key string) (f fault.Fault, strike int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, armed := range p.faults {
		switch {
		case !armed.Matches(point, key):
		case !armed.Always && armed.struck >= max(armed.Times, 1):
		case armed.passed < armed.Skip:
			armed.passed++
		default:
			armed.struck++
			return armed.Fault, armed.struck, true
		}
	}
	return fault.Fault{}, 0, false
}

// strike does what the plan has for this point. The context is what to go on with, and an error is what to return in
// place of going on.
func (p *plan) strike(ctx context.Context, point fault.Point, key string) (context.Context, error) {
	f, strike, ok := p.next(point, key)
	if !ok {
		return ctx, nil
	}
	event := eventOf(ctx, fault.EventFault, point, key)
	event.Action, event.Strike = f.Action, strike
	switch f.Action {
	case fault.ActionKill:
		p.announce.write(event)
		killSelf()
	case fault.ActionFreeze:
		if !f.KeepPolls {
			p.polls.hangUp()
		}
		p.announce.write(event)
		freezeSelf()
		p.polls.resume()
		return p.resume(ctx, event), nil
	case fault.ActionBlock:
		p.announce.write(event)
		block(ctx, time.Duration(f.For))
		return p.resume(ctx, event), nil
	case fault.ActionHold:
		p.announce.write(event)
		<-p.letGo
		return p.resume(ctx, event), nil
	case fault.ActionFail:
		p.announce.write(event)
		return ctx, failure(f, strike)
	case fault.ActionPanic:
		p.announce.write(event)
		panic(fmt.Sprintf("fault at %s, strike %d", point, strike))
	case fault.ActionDrop:
		p.announce.write(event)
		return ctx, fmt.Errorf("fault at %s, strike %d: the answer is lost: %w", point, strike, ledger.ErrUnknownOutcome)
	}
	return ctx, nil
}

// resume lets an attempt go on after its deadline: what is on its way is not stopped by it.
func (p *plan) resume(ctx context.Context, event fault.Event) context.Context {
	event.Event = fault.EventResumed
	p.announce.write(event)
	return unhurried{context.WithoutCancel(ctx), time.Now().Add(unhurriedTime)}
}

// unhurriedTime is longer than anybody waits for what is on its way. A ledger would else bound a call without a deadline itself.
const unhurriedTime = 10 * time.Minute

// unhurried is a context with a deadline that it does not end at.
type unhurried struct {
	context.Context
	deadline time.Time
}

func (u unhurried) Deadline() (deadline time.Time, ok bool) { return u.deadline, true }

// answered announces what a ledger has answered.
func (p *plan) answered(ctx context.Context, kind fault.Kind, key string, outcome ledger.Outcome, err error) {
	event := eventOf(ctx, fault.EventAnswer, fault.Point{Kind: kind, Moment: fault.After}, key)
	if err != nil {
		event.Error = ledger.ClipNote(err.Error()) // an announcement is one line, and not a long one
	} else {
		event.State, event.Code, event.Repeat = outcome.State, outcome.Code, outcome.Repeat
	}
	p.announce.write(event)
}

func eventOf(ctx context.Context, name fault.EventName, point fault.Point, key string) fault.Event {
	event := fault.Event{Event: name, Point: point, Key: key}
	if activity.IsActivity(ctx) {
		info := activity.GetInfo(ctx)
		event.Attempt, event.Local = info.Attempt, info.IsLocalActivity
	}
	return event
}

// failure is the error of ActionFail.
func failure(f fault.Fault, strike int) error {
	text := fmt.Sprintf("fault at %s, strike %d", f.Point, strike)
	switch f.Error {
	case fault.ErrorUnavailable:
		return fmt.Errorf("%s: %w", text, ledger.ErrUnavailable)
	case fault.ErrorUnknown:
		return fmt.Errorf("%s: %w", text, ledger.ErrUnknownOutcome)
	case fault.ErrorPlain:
		return errors.New(text)
	default:
		return errors.New(text)
	}
}

// block waits, and does not listen to the context: for a time, or until past its end.
func block(ctx context.Context, d time.Duration) {
	if d == 0 {
		<-ctx.Done()
		d = blockExcess
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
