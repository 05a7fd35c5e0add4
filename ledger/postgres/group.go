package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/ledger"
)

const (
	// timeoutGroupLock is how long a group waits for an account. Others hold one for some milliseconds, if nothing is wrong.
	timeoutGroupLock = 100 * time.Millisecond
	// waitsAtOnceShare: waiting for accounts that somebody holds takes at most one connection of so many.
	waitsAtOnceShare = 2
)

// Post carries one operation out, once for its key. Level 2.
//
// Concurrent calls share a database transaction (group commit): a call that comes alone is carried out at once, one that shares
// no account with what is under way soon, and one that does when that has ended, with all that have come meanwhile. An
// operation that is refused, malformed or rejected, and a caller that leaves, spoil no other. Nor does an account whose row
// somebody holds: the operations that touch it wait apart, and hold nothing themselves meanwhile.
//
// A call that has waited for four fifths of its time without being decided leaves, so that its answer, which is certain, comes
// before its deadline, after which nothing is: ledger.ErrUnavailable if the ledger has not got to it, since one that can be
// reached does in far less, or an error that names the account that somebody holds. A context that ends after that leaves
// ledger.ErrUnknownOutcome.
func (l *Ledger) Post(ctx context.Context, operation ledger.Operation) (ledger.Outcome, error) {
	if err := operation.Validate(); err != nil {
		return ledger.Outcome{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	result, err := l.groups.post(ctx, &operation)
	if err == nil {
		err = result.Err
	}
	if err != nil {
		return ledger.Outcome{}, l.failed("post", err)
	}
	return result.Outcome, nil
}

// post joins a group, and waits.
func (g *groups) post(ctx context.Context, operation *ledger.Operation) (ledger.Result, error) {
	if err := ctx.Err(); err != nil {
		return ledger.Result{}, err
	}
	deadline, _ := ctx.Deadline()
	c := &call{
		operation: operation, hash: operation.RequestHash(), accounts: accountsTouched(operation),
		deadline: deadline, done: make(chan struct{}),
	}
	patience := time.NewTimer(time.Until(deadline) / 10 * 8)
	defer patience.Stop()
	g.join(c)
	for {
		select {
		case <-c.done:
			return c.result, nil
		case <-patience.C:
			if c.leave() {
				return ledger.Result{}, c.notDecided()
			}
			// It is being carried out, which may take the rest of the time.
		case <-ctx.Done():
			switch {
			case !c.leave():
				return ledger.Result{}, fmt.Errorf("%w: %w", ledger.ErrUnknownOutcome, ctx.Err())
			case errors.Is(ctx.Err(), context.DeadlineExceeded):
				return ledger.Result{}, c.notDecided()
			default:
				return ledger.Result{}, ctx.Err()
			}
		}
	}
}

// call is a call of Post.
type call struct {
	operation *ledger.Operation
	hash      ledger.RequestHash
	accounts  []accountName // that the operation touches
	deadline  time.Time
	state     atomic.Int32
	aside     atomic.Pointer[accountName] // the account that it waits for
	result    ledger.Result               // when done is closed
	done      chan struct{}
}

// The states of a call. It is either left by its caller or entered into a group's books, never both.
const (
	callWaits int32 = iota
	callEntered
	callLeft
)

// enter says whether the call's operation is to be carried out.
func (c *call) enter() bool {
	return c.state.CompareAndSwap(callWaits, callEntered) || c.state.Load() == callEntered
}

// leave says whether the call's operation will not be carried out.
func (c *call) leave() bool { return c.state.CompareAndSwap(callWaits, callLeft) }

// notDecided is the error of a call that has left when its time was up.
func (c *call) notDecided() error {
	if account := c.aside.Load(); account != nil {
		return &heldError{account: *account}
	}
	return fmt.Errorf("%w: no turn in time: %w", ledger.ErrUnavailable, context.DeadlineExceeded)
}

func (c *call) answer(r ledger.Result) {
	c.result = r
	close(c.done)
}

// accountsTouched are the accounts of an operation.
func accountsTouched(operation *ledger.Operation) []accountName {
	accounts := make([]accountName, 0, 2*len(operation.Legs))
	for i := range operation.Legs {
		pair := accountsOf(&operation.Legs[i])
		accounts = append(accounts, pair[:]...)
	}
	return accounts
}

// groups gathers calls into groups.
type groups struct {
	ledger *Ledger
	turns  *turns
	// waiting bounds the connections that wait for held accounts.
	waiting chan struct{}

	mu   sync.Mutex
	held map[accountName]*wait
}

// wait is the wait for an account that somebody holds, with the calls that need it.
type wait struct {
	account accountName
	calls   []*call
}

func newGroups(l *Ledger, connsMax int) *groups {
	g := &groups{ledger: l, waiting: make(chan struct{}, max(1, connsMax/waitsAtOnceShare)), held: make(map[accountName]*wait)}
	g.turns = newTurns(connsMax, g.carryOut)
	return g
}

// join queues calls, but for those that wait for an account.
func (g *groups) join(calls ...*call) {
	g.mu.Lock()
	free := calls[:0]
	for _, c := range calls {
		if w := g.waitOf(c); w != nil {
			c.aside.Store(&w.account)
			w.calls = append(w.calls, c)
			continue
		}
		c.aside.Store(nil)
		free = append(free, c)
	}
	g.mu.Unlock()
	g.turns.join(free...)
}

// waitOf is the wait for an account that the call needs, or nil.
func (g *groups) waitOf(c *call) *wait {
	for _, account := range c.accounts {
		if w := g.held[account]; w != nil {
			return w
		}
	}
	return nil
}

// carryOut carries a group out. The calls that touch an account which somebody holds are put aside.
func (g *groups) carryOut(group []*call) {
	items := make([]item, 0, len(group))
	calls := make([]*call, 0, len(group))
	results := make([]ledger.Result, len(group))
	var deadline time.Time
	for _, c := range group {
		if c.state.Load() == callLeft {
			continue
		}
		if c.deadline.After(deadline) {
			deadline = c.deadline
		}
		items = append(items, item{operation: c.operation, hash: c.hash, result: &results[len(calls)], enter: c.enter})
		calls = append(calls, c)
	}
	if len(calls) == 0 {
		return
	}
	// As long as somebody waits.
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	err := g.ledger.onConn(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := postItems(ctx, conn, items, locking{wait: timeoutGroupLock})
		if isLockTimeout(err) {
			err = postItems(ctx, conn, items, locking{skip: true})
		}
		return err
	})
	var aside []*call
	for i, c := range calls {
		if err != nil {
			results[i] = ledger.Result{Err: err}
		}
		if held, ok := errors.AsType[*heldError](results[i].Err); ok {
			g.await(held.account)
			aside = append(aside, c)
			continue
		}
		c.answer(results[i])
	}
	g.join(aside...)
}

// await has an account waited for, unless it is already.
func (g *groups) await(account accountName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held[account] != nil {
		return
	}
	w := &wait{account: account}
	g.held[account] = w
	go g.watch(w)
}

// An account that the ledger waits for is locked alone, so that the wait holds up nobody, and let go at once.
const awaitAccountSQL = `
select from accounts where name = $1 and $2 in ('', asset) for no key update`

// watch waits for an account, and lets the calls that need it go on. If the wait fails, they fail.
func (g *groups) watch(w *wait) {
	ctx, cancel := context.WithTimeout(context.Background(), TimeoutCall)
	defer cancel()
	err := g.slot(ctx, func() error {
		return g.ledger.onConn(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, awaitAccountSQL, w.account.name, w.account.asset.String())
			return translate(err)
		})
	})
	g.mu.Lock()
	delete(g.held, w.account)
	calls := w.calls
	g.mu.Unlock()
	if err == nil {
		g.join(calls...)
		return
	}
	for _, c := range calls {
		c.answer(ledger.Result{Err: fmt.Errorf("wait for account %s: %w", w.account.name, err)})
	}
}

// slot runs do when few enough others wait.
func (g *groups) slot(ctx context.Context, do func() error) error {
	select {
	case g.waiting <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.waiting }()
	return do()
}

// isLockTimeout says whether somebody has held an account for longer than the wait was bounded to.
func isLockTimeout(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "55P03" // lock_not_available
}
