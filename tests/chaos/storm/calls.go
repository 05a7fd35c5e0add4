package storm

import (
	"fmt"
	"io"
	"sync"
	"time"

	"payonce/tests/chaos/checker"
	"payonce/workflows"
)

// record is what happens in a round, for the checker and for counting. Its methods may be called from several goroutines.
type record struct {
	mu           sync.Mutex
	calls        []checker.Call
	payoutCalls  []checker.PayoutCall
	disturbances []checker.Disturbance
	troubles     map[string]string
	discarded    map[string]bool
	prompt       map[string]time.Duration
	deaths       []string
	faults       map[string]int

	trace io.Writer // nil: nowhere
}

func newRecord(trace io.Writer) *record {
	return &record{
		trace: trace, troubles: make(map[string]string), discarded: make(map[string]bool), prompt: make(map[string]time.Duration),
		faults: make(map[string]int),
	}
}

func (r *record) call(c checker.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	told := c.Told
	if told == "" {
		told = "no end: " + c.Note
	}
	r.tell("%s waited %s for %s: %s", c.Client, c.Returned.Sub(c.Called).Round(time.Millisecond), c.Request.ID, told)
}

func (r *record) payoutCall(c checker.PayoutCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.payoutCalls = append(r.payoutCalls, c)
	r.tell("%s waited %s for payout %s: %s %s", c.Client, c.Returned.Sub(c.Called).Round(time.Millisecond), c.Request.ID, c.Told, c.Note)
}

// tell traces what has happened.
func (r *record) tell(format string, args ...any) {
	if r.trace != nil {
		fmt.Fprintf(r.trace, time.Now().UTC().Format("15:04:05.000 ")+format+"\n", args...)
	}
}

// struck counts a fault that has struck.
func (r *record) struck(fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[fault]++
}

// disturbed notes a fault that strikes everybody, from a moment until now, and counts it.
func (r *record) disturbed(fault, detail string, from time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[fault]++
	r.tell("%s for %s: %s", fault, time.Since(from).Round(time.Millisecond), detail)
	r.disturbances = append(r.disturbances, checker.Disturbance{Fault: fault, Detail: detail, From: from, To: time.Now()})
}

// trouble notes what was done to one transfer.
func (r *record) trouble(id, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.troubles[id] != "" {
		what = r.troubles[id] + ", " + what
	}
	r.troubles[id] = what
}

// discards notes that somebody says to discard a transfer.
func (r *record) discards(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.discarded[id] = true
}

func (r *record) mustBePrompt(id string, limit time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prompt[id] = limit
}

func (r *record) died(how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deaths = append(r.deaths, how)
}

// requestOf is a request in the checker's words.
func requestOf(in workflows.TransferInput) checker.Request {
	return checker.Request{ID: in.ID, From: in.From, To: in.To, Amount: in.Amount, Asset: in.Asset}
}
