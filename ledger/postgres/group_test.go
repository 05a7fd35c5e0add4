package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/internal/pgtest"
	"payonce/ledger"
	"payonce/ledger/postgres"
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
	for round, patient := range []bool{true, false} {
		held, release := proxy.HoldBefore(func(m pgtest.Message) bool { return m.FromServer && m.Tag == "COMMIT" })
		var hanging, waiting sync.WaitGroup
		begun := time.Now()
		hanging.Go(func() { apply(fmt.Sprint("held", round), "alice", "bob") })
		<-held
		for i := range 20 {
			waiting.Go(func() { apply(fmt.Sprint("call", round, i), "bob", "alice") })
		}
		apply(fmt.Sprint("free", round), "carol", "dave")
		if patient {
			conns := l.PoolStat().ConnsInUse
			bob, err := b.Account(t.Context(), "bob", ledger.Asset{})
			assert.NoError(t, err)
			if time.Since(begun) < postgres.TurnMax { // afterwards nobody waits any more
				assert.Equal(t, 1, conns)
				assert.Equal(t, "101.00", bob.Balance.Format(bob.Asset))
			}
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
	release := b.hold(t, "carol")
	const stuck = 40
	var waiting sync.WaitGroup
	for i := range stuck {
		waiting.Go(func() {
			outcome, err := b.Post(t.Context(), post(fmt.Sprint("stuck", i), "alice", "carol", "1"))
			assert.NoError(t, err)
			assert.Equal(t, ledger.OutcomeApplied, outcome.State)
		})
	}
	owner := b.owner(t)
	waitFor(t, owner, blocked(1))
	begun := time.Now()
	for i := range 50 {
		b.apply(t, post(fmt.Sprint("k", i), "alice", "bob", "1")) // alice, who pays carol too, is free
		b.apply(t, post(fmt.Sprint("l", i), "bob", "dave", "1"))
	}
	took := time.Since(begun)
	waitFor(t, owner, blocked(1)) // one connection for all
	release()
	waiting.Wait()
	// If each had waited for carol once it would be ten seconds.
	require.Less(t, took, 5*time.Second, "100 calls, while carol was held")
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
	waitFor(t, b.owner(t), blocked(1))
	begun := time.Now()
	b.apply(t, deposit("transfer/b/deposit", "carol"))
	require.Less(t, time.Since(begun), time.Second)
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
	l := openLedger(t, "us", b.WorkerURL+"&lock_timeout=500")
	release := b.hold(t, "bob")
	begun := time.Now()
	_, err := l.Post(t.Context(), post("k", "alice", "bob", "1"))
	require.ErrorContains(t, err, "bob")
	require.ErrorContains(t, err, "55P03", "lock_not_available")
	require.NotErrorIs(t, err, ledger.ErrUnavailable, "a lock is no outage")
	require.NotErrorIs(t, err, ledger.ErrUnknownOutcome)
	require.Less(t, time.Since(begun), 3*time.Second)
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
	var waiting sync.WaitGroup
	for i := range calls {
		waiting.Go(func() {
			if i%2 == 0 {
				_, err := b.Post(ctx, post(fmt.Sprint("left", i), "alice", "bob", "1"))
				assert.ErrorIs(t, err, context.Canceled)
				assert.NotErrorIs(t, err, ledger.ErrUnknownOutcome)
				return
			}
			_, err := b.Post(t.Context(), post(fmt.Sprint("stayed", i), "alice", "bob", "1"))
			assert.NoError(t, err)
		})
	}
	waitFor(t, b.owner(t), blocked(1))
	cancel()
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
