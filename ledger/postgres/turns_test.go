package postgres

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// underWay is what is under way, and fails a test in which two have an account at once.
type underWay struct {
	t  *testing.T
	mu sync.Mutex
	by map[accountName]int
}

func (u *underWay) run(number int, accounts []accountName) {
	u.mu.Lock()
	for _, account := range accounts {
		other, taken := u.by[account]
		assert.False(u.t, taken && other != number, "%v is taken by %d, and by %d", account, other, number)
		u.by[account] = number
	}
	u.mu.Unlock()
	for range rand.N(20) {
		runtime.Gosched()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, account := range accounts {
		delete(u.by, account)
	}
}

// Whatever comes, stays or leaves: two groups that share an account are never under way at once, everybody has a turn, and
// nothing is left behind.
func TestTurns(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	u := &underWay{t: t, by: make(map[accountName]int)}
	numbers := make(map[*call]int)
	var mu sync.Mutex // of numbers
	turns := newTurns(10, nil)
	turns.turnMax = time.Hour
	turns.carryOut = func(group []*call) {
		var accounts []accountName
		for _, c := range group {
			accounts = append(accounts, c.accounts...)
		}
		mu.Lock()
		number := numbers[group[0]]
		mu.Unlock()
		u.run(number, accounts)
		for _, c := range group {
			c.answer(ledger.Result{})
		}
	}
	const callers, callsEach, accounts = 3_000, 20, 3_000
	var all sync.WaitGroup
	for caller := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(caller)))
		all.Go(func() {
			for i := range callsEach {
				touched := []accountName{{name: fmt.Sprint(random.IntN(accounts))}, {name: fmt.Sprint("to ", random.IntN(accounts))}}
				if random.IntN(3) == 0 {
					touched[0].name = "hot"
				}
				c := &call{accounts: touched, done: make(chan struct{})}
				mu.Lock()
				numbers[c] = caller*callsEach + i
				mu.Unlock()
				turns.join(c)
				if random.IntN(10) == 0 && c.leave() {
					continue
				}
				select {
				case <-c.done:
				case <-time.After(10 * time.Minute):
					assert.Fail(t, "no turn")
				}
			}
		})
	}
	all.Wait()
	// Who has left is forgotten when somebody looks.
	last := &call{accounts: []accountName{{name: "hot"}}, done: make(chan struct{})}
	turns.join(last)
	<-last.done
	require.Eventually(t, func() bool {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		return turns.groups == 0
	}, time.Minute, time.Millisecond)
	require.Empty(t, turns.queue)
	require.Empty(t, turns.wanted)
	require.Empty(t, turns.taken)
}

// heldTurns are turns whose groups are told of when they begin, and go on when they are let.
type heldTurns struct {
	*turns

	begun chan []string // keys
	goOn  chan struct{}
}

func newHeldTurns() *heldTurns {
	h := &heldTurns{begun: make(chan []string), goOn: make(chan struct{})}
	h.turns = newTurns(10, func(group []*call) {
		var keys []string
		for _, c := range group {
			keys = append(keys, string(c.operation.Key))
		}
		h.begun <- keys
		<-h.goOn
		for _, c := range group {
			c.answer(ledger.Result{})
		}
	})
	return h
}

func newCall(key string, accounts ...string) *call {
	c := &call{operation: &ledger.Operation{Key: ledger.Key(key)}, done: make(chan struct{})}
	for _, name := range accounts {
		c.accounts = append(c.accounts, accountName{name: name})
	}
	return c
}

// Of two that share an account the one that came first is first; who shares none goes at once.
func TestTurnsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	h := newHeldTurns()
	h.turnMax = time.Hour
	h.join(newCall("first", "alice", "bob"))
	require.Equal(t, []string{"first"}, <-h.begun)
	h.join(newCall("second", "bob", "carol"), newCall("third", "carol", "dave"))
	h.join(newCall("at once", "erin", "frank"))
	require.Equal(t, []string{"at once"}, <-h.begun)
	h.goOn <- struct{}{}
	h.goOn <- struct{}{}
	require.Equal(t, []string{"second", "third"}, <-h.begun)
	h.goOn <- struct{}{}
}

// A group that hangs holds up those who share an account with it for as long as a group may take, and nobody else.
func TestTurnsBesideOneThatHangs(t *testing.T) {
	t.Parallel()
	h := newHeldTurns()
	h.turnMax = 50 * time.Millisecond
	begun := time.Now()
	h.join(newCall("hangs", "alice", "bob"))
	<-h.begun
	h.join(newCall("next", "bob", "carol"))
	require.Equal(t, []string{"next"}, <-h.begun)
	require.GreaterOrEqual(t, time.Since(begun), h.turnMax)
	// What the one that hangs had is the other's now, also when it ends.
	h.join(newCall("third", "carol", "dave"))
	h.goOn <- struct{}{}
	h.goOn <- struct{}{}
	require.Equal(t, []string{"third"}, <-h.begun)
	h.goOn <- struct{}{}
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.groups == 0 && len(h.taken) == 0
	}, time.Minute, time.Millisecond)
}
