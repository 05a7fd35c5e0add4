package serve

import (
	"fmt"
	"sync"
	"time"

	"payonce/ledger"
)

// gate says whether a ledger is in use. While it is closed, the ledger's worker takes no tasks, and calls are answered
// as an outage without a try. Calls close it, its monitor alone opens it.
type gate struct {
	name      string
	slots     *slots
	closed    chan struct{} // holds a token when the gate has been closed; its monitor takes it
	suspected chan struct{} // holds a token when a call gives reason to check the ledger now

	mu         sync.Mutex
	open       bool
	generation int       // counts the openings: what a call says is about the one that it began in
	answeredAt time.Time // when the ledger last answered a call
	since      time.Time // of the state
	cause      error     // why it is closed
	lost       int       // how often it has been closed
}

// newGate returns a closed gate.
func newGate(name string, slots *slots, cause error) *gate {
	return &gate{
		name: name, slots: slots, closed: make(chan struct{}, 1), suspected: make(chan struct{}, 1),
		since: time.Now(), cause: cause,
	}
}

// gateStatus is a gate's state, to be shown.
type gateStatus struct {
	open  bool
	since time.Time
	cause error
	lost  int
}

func (g *gate) status() gateStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	return gateStatus{open: g.open, since: g.since, cause: g.cause, lost: g.lost}
}

// call is one call through an open gate.
type call struct {
	generation int
	begun      time.Time
}

// enter begins a call. The error is that of a closed gate, a ledger.ErrUnavailable.
func (g *gate) enter() (call, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if !g.open {
		// The cause is told and not wrapped: it is another call's.
		return call{}, fmt.Errorf("%w: not asked, because %s has been out of reach for %s: %s",
			ledger.ErrUnavailable, g.name, now.Sub(g.since).Round(time.Second), g.cause.Error())
	}
	return call{generation: g.generation, begun: now}, nil
}

// answered notes that the ledger answered a call, whatever it said.
func (g *gate) answered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answeredAt = time.Now()
}

// suspect asks the monitor to check the ledger now.
func (g *gate) suspect() {
	select {
	case g.suspected <- struct{}{}:
	default:
	}
}

// answeredSince says whether the ledger has answered a call since a moment.
func (g *gate) answeredSince(t time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.answeredAt.After(t)
}

// fail closes the gate because a call could not reach the ledger. A call that began before the last opening says
// nothing about now; and when the ledger has answered another call since this one began, a check must tell which of the
// two is the exception.
func (g *gate) fail(c call, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.open || c.generation != g.generation:
	case g.answeredAt.After(c.begun):
		g.suspect()
	default:
		g.open, g.since, g.cause = false, time.Now(), cause
		g.lost++
		g.slots.setLimit(0)
		g.closed <- struct{}{} // never waits: the monitor takes the token before it opens the gate again
	}
}

// unlock opens the gate for calls, and for limit tasks at once. Only the monitor calls it.
func (g *gate) unlock(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.since, g.cause = true, time.Now(), nil
	g.generation++
	g.slots.setLimit(limit)
}

// widen lets more tasks through an open gate. It reports false when the gate has been closed meanwhile.
func (g *gate) widen(limit int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		g.slots.setLimit(limit)
	}
	return g.open
}

// explain updates why the gate is closed.
func (g *gate) explain(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		g.cause = cause
	}
}
