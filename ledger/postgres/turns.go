package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"payonce/ledger"
)

const (
	// groupMax bounds the operations of a group.
	groupMax = 500
	// connsPerGroup: one group is under way at once for so many connections of the pool, and two at least: while one commits,
	// the next is decided.
	connsPerGroup = 5
	groupsMin     = 2
	// turnMax bounds how long something may be under way before others no longer wait for it here: its connection may hang.
	turnMax = time.Second
	// turnsLook bounds how far into the queue it is looked for what may go.
	turnsLook = 4 * groupMax
)

// turns says when an operation may go to the database. What shares an account with something of this process that is under
// way waits until that has ended, in the order in which it came; what shares none goes at once. Waiting in the database
// instead would hold a connection, and cost more than the posting: PostgreSQL looks again at each row that has changed
// while it waited.
//
// Nothing depends on it but speed. Other processes are met at the database's locks, and so is this one where it must be.
type turns struct {
	groupsMax int
	carryOut  func(group []*call)

	mu     sync.Mutex
	queue  []*turn
	wanted map[accountName]int      // the accounts of the queue, and by how many
	taken  map[accountName]struct{} // the accounts of what is under way
	groups int                      // under way, or about to be gathered
}

// turn is what waits: a call of Post, which goes in a group, or a batch.
type turn struct {
	accounts []accountName
	call     *call         // nil: a batch
	came     chan *holding // a batch's, when it may go
}

// holding is the accounts of something that is under way.
type holding struct {
	accounts []accountName
	ended    bool
	late     *time.Timer
}

func newTurns(connsMax int, carryOut func(group []*call)) *turns {
	return &turns{
		groupsMax: max(groupsMin, connsMax/connsPerGroup), carryOut: carryOut,
		wanted: make(map[accountName]int), taken: make(map[accountName]struct{}),
	}
}

// join queues calls.
func (t *turns) join(calls ...*call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range calls {
		w := &turn{accounts: c.accounts, call: c}
		free := t.free(w)
		t.enqueue(w)
		if free {
			t.gather()
		}
	}
}

// batch waits for the turn of a batch that touches the accounts, until four fifths of the time that there is have gone; end is
// to be called when it is no longer under way.
func (t *turns) batch(ctx context.Context, accounts []accountName) (end func(), err error) {
	w := &turn{accounts: accounts, came: make(chan *holding, 1)}
	t.mu.Lock()
	if t.free(w) {
		w.came <- t.begin(accounts)
	} else {
		t.enqueue(w)
	}
	t.mu.Unlock()

	deadline, _ := ctx.Deadline()
	patience := time.NewTimer(patienceUntil(deadline))
	defer patience.Stop()
	select {
	case held := <-w.came:
		return func() { t.endAndWake(held) }, nil
	case <-patience.C:
		err = errNoTurn
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !t.leave(w) {
		t.endAndWake(<-w.came)
	}
	return nil, err
}

// errNoTurn: a ledger that can be reached gets to everyone in far less time.
var errNoTurn = fmt.Errorf("%w: no turn in time: %w", ledger.ErrUnavailable, context.DeadlineExceeded)

// patienceUntil is how long what must have its answer by the deadline may wait for its turn.
func patienceUntil(deadline time.Time) time.Duration { return time.Until(deadline) * 8 / 10 }

// leave takes a batch out of the queue. It reports false if its turn has come.
func (t *turns) leave(w *turn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.queue {
		if t.queue[i] == w {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			t.forget(w)
			t.wake()
			return true
		}
	}
	return false
}

// work carries groups out until there is nothing that may go.
func (t *turns) work() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		group, accounts, more := t.next(groupMax)
		if len(group) == 0 {
			t.groups--
			return
		}
		held := t.begin(accounts)
		if more {
			t.gather()
		}
		t.mu.Unlock()
		t.carryOut(group)
		t.mu.Lock()
		t.end(held)
	}
}

// wake has what may go gone.
func (t *turns) wake() {
	if _, _, more := t.next(0); more {
		t.gather()
	}
}

// gather begins another group, if few enough are under way.
func (t *turns) gather() {
	if t.groups < t.groupsMax {
		t.groups++
		go t.work()
	}
}

// next goes through the queue: batches that may go are let go, and calls that may are gathered into a group of at most size,
// with its accounts. more says that there are further calls that may go. Of two that share an account the first in the queue
// is always first.
func (t *turns) next(size int) (group []*call, accounts []accountName, more bool) {
	behind, gathered := make(map[accountName]struct{}), make(map[accountName]struct{})
	kept := t.queue[:0]
	for i, w := range t.queue {
		if i == turnsLook {
			kept = append(kept, t.queue[i:]...)
			break
		}
		may := !touches(w.accounts, t.taken) && !touches(w.accounts, behind)
		switch {
		case w.call != nil && w.call.state.Load() == callLeft:
			t.forget(w)
		case may && w.call == nil && !touches(w.accounts, gathered):
			t.forget(w)
			w.came <- t.begin(w.accounts)
		case may && w.call != nil && len(group) < size:
			t.forget(w)
			group, accounts = append(group, w.call), append(accounts, w.accounts...)
			add(gathered, w.accounts)
		default:
			more = more || may && w.call != nil
			kept = append(kept, w)
			add(behind, w.accounts)
		}
	}
	clear(t.queue[len(kept):])
	t.queue = kept
	return group, accounts, more
}

// free says whether nothing that is under way or queued shares an account with w.
func (t *turns) free(w *turn) bool {
	return !touches(w.accounts, t.taken) && !touches(w.accounts, t.wanted)
}

func (t *turns) enqueue(w *turn) {
	t.queue = append(t.queue, w)
	for _, account := range w.accounts {
		t.wanted[account]++
	}
}

// forget is for what leaves the queue.
func (t *turns) forget(w *turn) {
	for _, account := range w.accounts {
		if t.wanted[account]--; t.wanted[account] == 0 {
			delete(t.wanted, account)
		}
	}
}

// begin has others wait that need the accounts, until end, or for as long as something may take.
func (t *turns) begin(accounts []accountName) *holding {
	add(t.taken, accounts)
	held := &holding{accounts: accounts}
	held.late = time.AfterFunc(turnMax, func() { t.endAndWake(held) })
	return held
}

func (t *turns) end(held *holding) {
	if held.ended {
		return
	}
	held.ended = true
	held.late.Stop()
	for _, account := range held.accounts {
		delete(t.taken, account)
	}
}

func (t *turns) endAndWake(held *holding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(held)
	t.wake()
}

func add(set map[accountName]struct{}, accounts []accountName) {
	for _, account := range accounts {
		set[account] = struct{}{}
	}
}

func touches[V any](accounts []accountName, set map[accountName]V) bool {
	if len(set) == 0 {
		return false
	}
	for _, account := range accounts {
		if _, ok := set[account]; ok {
			return true
		}
	}
	return false
}
