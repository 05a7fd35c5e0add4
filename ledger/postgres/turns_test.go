package postgres

import (
	"context"
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

// Whatever comes, stays or leaves: two that share an account are never under way at once, everybody has a turn, and nothing
// is left behind.
func TestTurns(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	u := &underWay{t: t, by: make(map[accountName]int)}
	numbers := make(map[*call]int)
	var mu sync.Mutex // of numbers
	turns := newTurns(10, nil)
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
	const postings, accounts, callers = 20_000, 60, 40
	var all sync.WaitGroup
	for caller := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(caller)))
		all.Go(func() {
			for i := range postings / callers {
				number := caller*postings + i
				touched := make([]accountName, 1+random.IntN(5))
				for i, n := range random.Perm(accounts)[:len(touched)] {
					touched[i] = accountName{name: fmt.Sprint(n)}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				switch random.IntN(5) {
				case 0: // somebody who may leave
					cancel()
					fallthrough
				case 1:
					end, err := turns.batch(ctx, touched)
					if err == nil {
						u.run(number, touched)
						end()
					} else {
						assert.ErrorIs(t, err, context.Canceled)
					}
				default:
					c := &call{accounts: touched, done: make(chan struct{})}
					mu.Lock()
					numbers[c] = number
					mu.Unlock()
					turns.join(c)
					select {
					case <-c.done:
					case <-ctx.Done():
						assert.Fail(t, "no turn")
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.Eventually(t, func() bool {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		return turns.groups == 0
	}, time.Minute, time.Millisecond)
	require.Empty(t, turns.queue)
	require.Empty(t, turns.wanted)
	require.Empty(t, turns.taken)
}

// Of two that share an account the one that came first is first, whether it is a call or a batch.
func TestTurnsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	const alice, bob, carol = "alice", "bob", "carol"
	names := func(all ...string) (accounts []accountName) {
		for _, name := range all {
			accounts = append(accounts, accountName{name: name})
		}
		return accounts
	}
	var order []string
	begun, goOn := make(chan struct{}), make(chan struct{})
	turns := newTurns(10, func(group []*call) {
		for _, c := range group {
			order = append(order, string(c.operation.Key))
		}
		begun <- struct{}{}
		<-goOn
		for _, c := range group {
			c.answer(ledger.Result{})
		}
	})
	newCall := func(key string, accounts ...string) *call {
		return &call{operation: &ledger.Operation{Key: ledger.Key(key)}, accounts: names(accounts...), done: make(chan struct{})}
	}
	turns.join(newCall("first", alice, bob))
	<-begun
	batch := make(chan func())
	go func() {
		end, err := turns.batch(within(t), names(bob, carol))
		assert.NoError(t, err)
		order = append(order, "batch")
		batch <- end
	}()
	require.Eventually(t, func() bool {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		return len(turns.queue) == 1
	}, time.Minute, time.Millisecond)
	// Nothing has carol, but the batch came first; and nothing that waits needs dave.
	turns.join(newCall("after the batch", carol))
	turns.join(newCall("at once", "dave"))
	<-begun
	goOn <- struct{}{}
	goOn <- struct{}{}
	end := <-batch
	require.Equal(t, []string{"first", "at once", "batch"}, order)
	end()
	<-begun
	goOn <- struct{}{}
	require.Equal(t, []string{"first", "at once", "batch", "after the batch"}, order)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A batch that has had no turn when four fifths of its time have gone has certainty while there is time to say so, and leaves
// the way free for those behind it.
func TestTurnDoesNotCome(t *testing.T) {
	t.Parallel()
	turns := newTurns(10, func(group []*call) {
		for _, c := range group {
			c.answer(ledger.Result{})
		}
	})
	alice, bob := []accountName{{name: "alice"}}, []accountName{{name: "bob"}}
	end, err := turns.batch(within(t), alice)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	waiting := make(chan error)
	go func() {
		_, err := turns.batch(ctx, append(alice, bob...))
		waiting <- err
	}()
	require.Eventually(t, func() bool {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		return len(turns.queue) == 1
	}, time.Minute, time.Millisecond)
	behind := &call{operation: &ledger.Operation{}, accounts: bob, done: make(chan struct{})}
	turns.join(behind)
	err = <-waiting
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.NoError(t, ctx.Err(), "there is time left to say so")
	<-behind.done
	end()
}
