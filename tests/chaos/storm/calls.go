package storm

import (
	"sync"
	"time"

	"payonce/tests/chaos/checker"
	"payonce/workflows"
)

// record is what happens in a round, for the checker and for counting. Its methods may be called from several goroutines.
type record struct {
	mu           sync.Mutex
	calls        []checker.Call
	disturbances []checker.Disturbance
	troubles     map[string]string
	prompt       map[string]time.Duration
	deaths       []string
	faults       map[string]int
}

func newRecord() *record {
	return &record{troubles: make(map[string]string), prompt: make(map[string]time.Duration), faults: make(map[string]int)}
}

func (r *record) call(c checker.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
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
