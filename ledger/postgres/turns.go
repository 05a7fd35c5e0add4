package postgres

import (
	"sync"
	"time"
)

const (
	// groupMax bounds the operations of a group.
	groupMax = 500
	// groupLeast is worth a group beside another when there are enough calls for a whole one: two groups that share no account
	// are faster together than one after the other, but large ones are faster than small ones.
	groupLeast = groupMax / 4
	// connsPerGroup: one group is under way at once for so many connections of the pool, and two at least: while one commits,
	// the next is decided.
	connsPerGroup = 5
	groupsMin     = 2
	// turnMax bounds how long a group may be under way before others no longer wait for its accounts here: its connection may
	// hang.
	turnMax = time.Second
	// turnsLook bounds how far into the queue it is looked for what may go.
	turnsLook = 10_000
)

// turns says when calls may go to the database, and gathers them into groups. A call that shares an account with a group that
// is under way waits until that has ended, in the order in which it came; one that shares none need not. Waiting in the
// database instead would hold a connection, and cost more than the posting: PostgreSQL looks again at each row that has changed
// while it waited.
//
// Nothing depends on it but speed. Other processes are met at the database's locks, and so is this one where it must be.
type turns struct {
	groupsMax int
	turnMax   time.Duration
	carryOut  func(group []*call)

	mu     sync.Mutex
	queue  []*call
	wanted map[accountName]int      // the accounts of the queue, and by how many calls
	taken  map[accountName]struct{} // the accounts of the groups under way
	groups int                      // under way, or about to be gathered
}

func newTurns(connsMax int, carryOut func(group []*call)) *turns {
	return &turns{
		groupsMax: max(groupsMin, connsMax/connsPerGroup), turnMax: turnMax, carryOut: carryOut,
		wanted: make(map[accountName]int), taken: make(map[accountName]struct{}),
	}
}

// join queues calls.
func (t *turns) join(calls ...*call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range calls {
		unshared := !touches(c.accounts, t.taken) && !touches(c.accounts, t.wanted)
		t.queue = append(t.queue, c)
		for _, account := range c.accounts {
			t.wanted[account]++
		}
		// What shares an account with others is looked at when they end.
		if unshared {
			t.begin()
		}
	}
}

// begin begins another group, if few enough are under way.
func (t *turns) begin() {
	if t.groups < t.groupsMax {
		t.groups++
		go t.work()
	}
}

// work carries groups out until there is nothing that may go.
func (t *turns) work() {
	for {
		t.mu.Lock()
		group, more := t.gather()
		if len(group) == 0 {
			t.groups--
			t.mu.Unlock()
			return
		}
		held := t.hold(group)
		if more {
			t.begin()
		}
		t.mu.Unlock()
		t.carryOut(group)
		t.mu.Lock()
		t.release(held)
		t.mu.Unlock()
	}
}

// gather takes those out of the queue that may go. more says that a group has no room for all of them. Of two that share an
// account the first in the queue is always first.
func (t *turns) gather() (group []*call, more bool) {
	behind := make(map[accountName]struct{})
	kept := make([]*call, 0, len(t.queue))
	var left []*call
	for i, c := range t.queue {
		if i == turnsLook {
			kept = append(kept, t.queue[i:]...)
			break
		}
		may := !touches(c.accounts, t.taken) && !touches(c.accounts, behind)
		switch {
		case c.state.Load() == callLeft:
			left = append(left, c)
		case may && len(group) < groupMax:
			group = append(group, c)
		default:
			more = more || may
			kept = append(kept, c)
			for _, account := range c.accounts {
				behind[account] = struct{}{}
			}
		}
	}
	if len(t.taken) > 0 && len(group) < groupLeast && len(group)+len(kept) >= groupMax {
		return nil, false
	}
	t.queue = kept
	for _, c := range append(left, group...) {
		for _, account := range c.accounts {
			if t.wanted[account]--; t.wanted[account] == 0 {
				delete(t.wanted, account)
			}
		}
	}
	return group, more
}

// holding is the accounts of a group that is under way.
type holding struct {
	accounts []accountName
	ended    bool
	late     *time.Timer
}

// hold has others wait that need the accounts of a group, until release, or for as long as a group may take.
func (t *turns) hold(group []*call) *holding {
	held := &holding{}
	for _, c := range group {
		held.accounts = append(held.accounts, c.accounts...)
	}
	for _, account := range held.accounts {
		t.taken[account] = struct{}{}
	}
	held.late = time.AfterFunc(t.turnMax, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.release(held)
		t.begin()
	})
	return held
}

func (t *turns) release(held *holding) {
	if held.ended {
		return
	}
	held.ended = true
	held.late.Stop()
	for _, account := range held.accounts {
		delete(t.taken, account)
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
