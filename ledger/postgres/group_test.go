package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/internal/pgtest"
	"payonce/ledger"
)

// A database transaction marks the rows that it writes with its own number.
const transactionsSQL = `select count(distinct xmin::text) from operations`

func TestCallsShareTransactions(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "1000")
	b.open(t, "bob")
	owner := b.owner(t)
	before := queryInt(t, owner, transactionsSQL)
	const calls = 300
	atOnce(calls, func(i int) {
		outcome, err := b.Post(t.Context(), post(fmt.Sprint("k", i), "alice", "bob", "1"))
		assert.NoError(t, err)
		assert.Equal(t, ledger.Key(fmt.Sprint("k", i)), outcome.Key, "each caller gets its own outcome")
		assert.Equal(t, ledger.OutcomeApplied, outcome.State)
	})
	require.LessOrEqual(t, queryInt(t, owner, transactionsSQL)-before, calls/10)
	b.has(t, "bob", "300.00")
	sound(t, b)
}

// Of calls that share a database transaction, each gets what it would get alone.
func TestCallsSpoilNoOthers(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "1000")
	b.open(t, "bob")
	b.apply(t, post("taken", "alice", "bob", "1"))
	owner := b.owner(t)
	exec(t, owner, `alter table operations add constraint planted check (memo <> 'bad')`)
	const good = 100
	check := map[string]func(outcome ledger.Outcome, err error) bool{
		"applied": func(o ledger.Outcome, err error) bool {
			return err == nil && o.State == ledger.OutcomeApplied && !o.Repeat
		},
		"repeat": func(o ledger.Outcome, err error) bool {
			return err == nil && o.State == ledger.OutcomeApplied && o.Repeat
		},
		"refused":   func(o ledger.Outcome, err error) bool { return err == nil && o.State == ledger.OutcomeRefused },
		"conflict":  func(_ ledger.Outcome, err error) bool { return assert.ErrorIs(t, err, ledger.ErrKeyConflict) },
		"malformed": func(_ ledger.Outcome, err error) bool { return assert.ErrorContains(t, err, "asset") },
		"rejected":  func(_ ledger.Outcome, err error) bool { return assert.ErrorContains(t, err, "planted") },
	}
	rejected := post("rejected", "alice", "bob", "1")
	rejected.Memo = "bad"
	malformed := post("malformed", "alice", "bob", "1")
	malformed.Legs[0].Asset = ledger.Asset{}
	type request struct {
		operation ledger.Operation
		want      string
	}
	requests := []request{
		{post("taken", "alice", "bob", "1"), "repeat"},
		{post("taken", "alice", "bob", "2"), "conflict"},
		{post("too-much", "alice", "bob", "100000"), "refused"},
		{malformed, "malformed"},
		{rejected, "rejected"},
	}
	for i := range good {
		requests = append(requests, request{post(fmt.Sprint("k", i), "alice", "bob", "1"), "applied"})
	}
	atOnce(len(requests), func(i int) {
		outcome, err := b.Post(t.Context(), requests[i].operation)
		assert.True(t, check[requests[i].want](outcome, err), "%s: %+v, %v", requests[i].operation.Key, outcome, err)
	})
	b.has(t, "bob", "101.00")
	exec(t, owner, `alter table operations drop constraint planted`)
	sound(t, b)
}

// What shares no account with a group that is under way goes at once; what does waits without a connection, and not in the
// database; but not for ever, if the group hangs.
func TestCallsTakeTurns(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	for _, name := range []string{"alice", "bob", "carol", "dave"} {
		b.fund(t, name, "100")
	}
	l, proxy := b.through(t)
	apply := func(key, from, to string) {
		outcome, err := l.Post(t.Context(), post(key, from, to, "1"))
		assert.NoError(t, err)
		assert.Equal(t, ledger.OutcomeApplied, outcome.State)
	}
	for round, turnMax := range []time.Duration{time.Hour, 50 * time.Millisecond} {
		l.SetTurnMax(turnMax)
		held, release := proxy.HoldBefore(func(m pgtest.Message) bool { return m.FromServer && m.Tag == "COMMIT" })
		defer release()
		var hanging, waiting sync.WaitGroup
		hanging.Go(func() { apply(fmt.Sprint("held", round), "alice", "bob") })
		<-held
		for i := range 20 {
			waiting.Go(func() { apply(fmt.Sprint("call", round, i), "bob", "alice") })
		}
		apply(fmt.Sprint("free", round), "carol", "dave")
		if turnMax == time.Hour {
			assert.Equal(t, 1, l.PoolStat().ConnsInUse)
			b.has(t, "bob", "101.00")
			release()
		}
		waiting.Wait()
		release()
		hanging.Wait()
	}
	b.has(t, "alice", "138.00")
	b.has(t, "dave", "102.00")
	sound(t, b)
}

// hold holds an account as a session that does not end its database transaction does.
func (b *books) hold(t *testing.T, account string) (release func()) {
	t.Helper()
	owner := b.owner(t)
	exec(t, owner, "begin")
	exec(t, owner, "select from accounts where name = $1 for update", account)
	return sync.OnceFunc(func() { exec(t, owner, "rollback") })
}

// Who needs an account that another session holds waits apart, and holds nothing meanwhile: neither its other account nor
// the turns of others.
func TestHeldAccountHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	for _, name := range []string{"alice", "bob", "carol", "dave"} {
		b.fund(t, name, "100")
	}
	l, proxy := b.through(t)
	var waits atomic.Int32 // for an account, in vain
	proxy.CutBefore(func(m pgtest.Message) bool {
		if m.FromServer && m.Type == 'E' {
			waits.Add(1)
		}
		return false
	})
	release := b.hold(t, "carol")
	const stuck = 40
	var waiting sync.WaitGroup
	for i := range stuck {
		waiting.Go(func() {
			outcome, err := l.Post(t.Context(), post(fmt.Sprint("stuck", i), "alice", "carol", "1"))
			assert.NoError(t, err)
			assert.Equal(t, ledger.OutcomeApplied, outcome.State)
		})
	}
	owner := b.owner(t)
	waitFor(t, owner, blocked(1))
	before := waits.Load()
	for i := range 50 {
		for _, o := range []ledger.Operation{
			post(fmt.Sprint("k", i), "alice", "bob", "1"), // alice, who pays carol too, is free
			post(fmt.Sprint("l", i), "bob", "dave", "1"),
		} {
			outcome, err := l.Post(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, ledger.OutcomeApplied, outcome.State)
		}
	}
	// Those who need carol may come late, and make a few that are with them wait; but not each of 100.
	require.Less(t, waits.Load()-before, int32(20), "calls that have waited for carol")
	waitFor(t, owner, blocked(1)) // one connection for all
	release()
	waiting.Wait()
	b.has(t, "carol", "140.00")
	sound(t, b)
}

// A transit account is held for no longer than it takes, whoever waits for a payee.
func TestHeldPayeeHoldsUpNoCorridor(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.open(t, "bob")
	b.open(t, "carol")
	deposit := func(key, to string) ledger.Operation {
		o := post(key, ledger.TransitAccount("eu"), to, "1")
		o.Kind, o.Counterparty = ledger.KindDeposit, "eu/alice"
		return o
	}
	release := b.hold(t, "bob")
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_, err := b.PostBatch(t.Context(), []ledger.Operation{deposit("transfer/a/deposit", "bob")}) // which waits in the database
		assert.NoError(t, err)
	})
	owner := b.owner(t)
	waitFor(t, owner, blocked(1))
	b.apply(t, deposit("transfer/b/deposit", "carol"))
	waitFor(t, owner, blocked(1)) // the other one waits still, and is not over for another reason
	b.has(t, "bob", "0.00")
	release()
	waiting.Wait()
	b.has(t, "bob", "1.00")
}

// An account that stays held fails those who need it, in time, and nobody else.
func TestAccountStaysHeld(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	b.open(t, "bob")
	l := openLedger(t, "us", strings.Replace(patient(t, b.WorkerURL), "&lock_timeout=120000", "&lock_timeout=500", 1))
	release := b.hold(t, "bob")
	_, err := l.Post(t.Context(), post("k", "alice", "bob", "1"))
	require.ErrorContains(t, err, "bob")
	require.ErrorContains(t, err, "55P03", "lock_not_available: its own time is not over")
	require.NotErrorIs(t, err, ledger.ErrUnavailable, "a lock is no outage")
	require.NotErrorIs(t, err, ledger.ErrUnknownOutcome)
	release()
	b.apply(t, post("k", "alice", "bob", "1"))
}

// Who leaves before the operation is decided has certainty: it is not carried out later.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	b.open(t, "bob")
	release := b.hold(t, "bob")
	ctx, cancel := context.WithCancel(t.Context())
	const calls = 20
	var leaving, waiting sync.WaitGroup
	for i := range calls {
		if i%2 == 0 {
			leaving.Go(func() {
				_, err := b.Post(ctx, post(fmt.Sprint("left", i), "alice", "bob", "1"))
				assert.ErrorIs(t, err, context.Canceled)
				assert.NotErrorIs(t, err, ledger.ErrUnknownOutcome)
			})
			continue
		}
		waiting.Go(func() {
			_, err := b.Post(t.Context(), post(fmt.Sprint("stayed", i), "alice", "bob", "1"))
			assert.NoError(t, err)
		})
	}
	waitFor(t, b.owner(t), blocked(1))
	cancel()
	leaving.Wait() // before anything can be decided
	release()
	waiting.Wait()
	b.has(t, "bob", "10.00")
	for i := 0; i < calls; i += 2 {
		_, err := b.Operation(t.Context(), ledger.Key(fmt.Sprint("left", i)))
		require.ErrorIs(t, err, ledger.ErrOperationUnknown)
	}
	sound(t, b)
}

// Who leaves when COMMIT is on its way does not know, and the others are not hurt.
func TestCallerLeavesAtCommit(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	b.open(t, "bob")
	l, proxy := b.through(t)
	held, release := proxy.HoldBefore(func(m pgtest.Message) bool { return m.FromServer && m.Tag == "COMMIT" })
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := l.Post(ctx, post("left", "alice", "bob", "1"))
		left <- err
	}()
	<-held
	cancel()
	err := <-left
	require.ErrorIs(t, err, ledger.ErrUnknownOutcome)
	require.ErrorIs(t, err, context.Canceled)
	release()
	outcome := b.apply(t, post("left", "alice", "bob", "1"))
	require.True(t, outcome.Repeat, "it had been applied")
	b.has(t, "bob", "1.00")
}
