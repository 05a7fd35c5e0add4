package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/activity"

	"payonce/activities"
	"payonce/ledger"
	"payonce/tests/chaos/storm"
)

// books are a ledger's books with a fault.
type books struct {
	activities.Ledger // the real ones

	plant plant
	owner *pgxpool.Pool

	mu      sync.Mutex
	applied int
	cached  map[string]string // balances, by key and account
}

// plant is a fault: what is done in place of posting or resolving; nil is what the real books do.
type plant struct {
	post    func(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error)
	resolve func(ctx context.Context, b *books, s ledger.Seal) (ledger.Outcome, error)
}

var plants = map[string]plant{
	storm.PlantKeyBefore:        {post: keyBefore},
	storm.PlantKeyAfter:         {post: keyAfter},
	storm.PlantNoKey:            {post: noKey, resolve: resolveByPrefix},
	storm.PlantRunKey:           {post: runKey, resolve: resolveByRun},
	storm.PlantAttemptKey:       {post: attemptKey, resolve: resolveByPrefix},
	storm.PlantUnresolved:       {resolve: unresolved},
	storm.PlantLooksOnly:        {resolve: looksOnly},
	storm.PlantRefusalForgotten: {post: refusalForgotten},
	storm.PlantLateApplied:      {post: lateApplied},
	storm.PlantEntryLost:        {post: entryLost},
	storm.PlantEntryChanged:     {post: entryChanged},
	storm.PlantBalanceCached:    {post: balanceCached},
}

// Post carries an operation out, with the fault.
func (b *books) Post(ctx context.Context, o ledger.Operation) (ledger.Outcome, error) {
	if b.plant.post == nil {
		return b.Ledger.Post(ctx, o)
	}
	return b.plant.post(ctx, b, o)
}

// Resolve decides an operation's outcome, with the fault.
func (b *books) Resolve(ctx context.Context, s ledger.Seal) (ledger.Outcome, error) {
	if b.plant.resolve == nil {
		return b.Ledger.Resolve(ctx, s)
	}
	return b.plant.resolve(ctx, b, s)
}

// gap is how long a planted fault leaves between two database transactions that should be one: long enough that a worker which
// is killed at any moment of a round is likely to be within it, also on a fast machine.
const gap = 300 * time.Millisecond

func pause(ctx context.Context) error {
	timer := time.NewTimer(gap)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keyBefore records the key in a database transaction of its own, and then does the work. Between the two, the step is
// done for everybody who asks.
func keyBefore(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error) {
	if known, err := b.Operation(ctx, o.Key); !errors.Is(err, ledger.ErrOperationUnknown) {
		return known.Outcome, err
	}
	id, err := b.recordKey(ctx, &o)
	if err != nil {
		return ledger.Outcome{}, err
	}
	if err := pause(ctx); err != nil {
		return ledger.Outcome{}, err
	}
	return b.move(ctx, id, &o)
}

// keyAfter does the work, and then records the key in a database transaction of its own. Between the two, nobody knows that
// the step has been done.
func keyAfter(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error) {
	if known, err := b.Operation(ctx, o.Key); !errors.Is(err, ledger.ErrOperationUnknown) {
		return known.Outcome, err
	}
	id, err := b.nextID(ctx)
	if err != nil {
		return ledger.Outcome{}, err
	}
	outcome, err := b.move(ctx, id, &o)
	if err != nil {
		return outcome, err
	}
	if err := pause(ctx); err != nil {
		return ledger.Outcome{}, err
	}
	return outcome, b.recordOutcome(ctx, id, &o, outcome)
}

// noKey makes up a fresh key each time.
func noKey(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error) {
	return b.postAs(ctx, o, fmt.Sprintf("%s/%d", o.Key, rand.Uint64()))
}

// attemptKey has the attempt in the key.
func attemptKey(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error) {
	return b.postAs(ctx, o, fmt.Sprintf("%s/%d", o.Key, activity.GetInfo(ctx).Attempt))
}

// postAs posts under another key, and gives back what was taken under another one.
func (b *books) postAs(ctx context.Context, o ledger.Operation, key string) (ledger.Outcome, error) {
	if o.Reverses != "" {
		reverses, err := b.keyWithPrefix(ctx, o.Reverses)
		if err != nil {
			return ledger.Outcome{}, err
		}
		o.Reverses = reverses
	}
	o.Key = ledger.Key(key)
	return b.Ledger.Post(ctx, o)
}

// resolveByPrefix takes any attempt's outcome for the step's.
func resolveByPrefix(ctx context.Context, b *books, s ledger.Seal) (ledger.Outcome, error) {
	key, err := b.keyWithPrefix(ctx, s.Operation.Key)
	if err != nil || key == s.Operation.Key {
		return b.Ledger.Resolve(ctx, s)
	}
	known, err := b.Operation(ctx, key)
	return known.Outcome, err
}

// runKey has the run ID in the key.
func runKey(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error) {
	o.Key = inRun(ctx, o.Key)
	if o.Reverses != "" {
		o.Reverses = inRun(ctx, o.Reverses)
	}
	return b.Ledger.Post(ctx, o)
}

func resolveByRun(ctx context.Context, b *books, s ledger.Seal) (ledger.Outcome, error) {
	s.Operation.Key = inRun(ctx, s.Operation.Key)
	return b.Ledger.Resolve(ctx, s)
}

// inRun is a key with the run ID before the step.
func inRun(ctx context.Context, key ledger.Key) ledger.Key {
	slash := strings.LastIndexByte(string(key), '/')
	return key[:slash] + ledger.Key("/"+activity.GetInfo(ctx).WorkflowExecution.RunID) + key[slash:]
}

// unresolved takes a deposit whose attempts ran out for failed, and asks nobody.
func unresolved(ctx context.Context, b *books, s ledger.Seal) (ledger.Outcome, error) {
	if s.Operation.Kind != ledger.KindDeposit {
		return b.Ledger.Resolve(ctx, s)
	}
	return guessed(s), nil
}

// looksOnly looks whether the key has an outcome, and seals nothing.
func looksOnly(ctx context.Context, b *books, s ledger.Seal) (ledger.Outcome, error) {
	known, err := b.Operation(ctx, s.Operation.Key)
	if errors.Is(err, ledger.ErrOperationUnknown) {
		return guessed(s), nil
	}
	return known.Outcome, err
}

func guessed(s ledger.Seal) ledger.Outcome {
	return ledger.Outcome{Key: s.Operation.Key, State: ledger.OutcomeSealed, Code: s.Code, Detail: s.Detail, At: time.Now()}
}

// refusalForgotten leaves no trace of a refusal.
func refusalForgotten(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error) {
	outcome, err := b.Ledger.Post(ctx, o)
	if err == nil && outcome.State == ledger.OutcomeRefused {
		err = b.forget(ctx, o.Key)
	}
	return outcome, err
}

// lateApplied takes a seal for nothing.
func lateApplied(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error) {
	outcome, err := b.Ledger.Post(ctx, o)
	if err != nil || outcome.State != ledger.OutcomeSealed {
		return outcome, err
	}
	if err := b.forget(ctx, o.Key); err != nil {
		return ledger.Outcome{}, err
	}
	return b.Ledger.Post(ctx, o)
}

// entryLost loses an entry now and then.
func entryLost(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error) {
	outcome, err := b.Ledger.Post(ctx, o)
	if err == nil && b.nowAndThen(outcome) {
		err = b.loseEntry(ctx, o.Key)
	}
	return outcome, err
}

// entryChanged changes an account's first entry now and then.
func entryChanged(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error) {
	outcome, err := b.Ledger.Post(ctx, o)
	if err == nil && b.nowAndThen(outcome) {
		err = b.changeFirstEntry(ctx, o.Legs[0].To)
	}
	return outcome, err
}

// nowAndThen is true for every fifth operation that applies.
func (b *books) nowAndThen(outcome ledger.Outcome) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if outcome.State == ledger.OutcomeApplied && !outcome.Repeat {
		b.applied++
	}
	return b.applied > 0 && b.applied%5 == 0
}

// balanceCached reads the balance of the account that gets the money in the first attempt, and works with it in the next.
func balanceCached(ctx context.Context, b *books, o ledger.Operation) (ledger.Outcome, error) {
	to := o.Legs[0].To
	name := string(o.Key) + " " + to
	b.mu.Lock()
	cached, again := b.cached[name]
	b.mu.Unlock()
	if !again {
		balance, err := b.balance(ctx, to)
		if err != nil {
			return ledger.Outcome{}, err
		}
		b.mu.Lock()
		b.cached[name] = balance
		b.mu.Unlock()
		return b.Ledger.Post(ctx, o)
	}
	outcome, err := b.Ledger.Post(ctx, o)
	if err == nil && outcome.State == ledger.OutcomeApplied && !outcome.Repeat {
		err = b.overwriteBalance(ctx, o.Key, to, cached)
	}
	return outcome, err
}
