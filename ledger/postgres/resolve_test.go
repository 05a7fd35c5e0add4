package postgres_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/internal/pgtest"
	"payonce/ledger"
	"payonce/ledger/postgres"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "20")
	b.open(t, "bob")

	t.Run("a key without an outcome is sealed, for good", func(t *testing.T) {
		o := post("k1", "alice", "bob", "10")
		o.Memo, o.Metadata = "rent", map[string]string{"order": "7"}
		s := ledger.Seal{Operation: o, Code: ledger.CodeCancelled, Detail: "broken \x00\xff " + strings.Repeat("ä", 1000)}
		first, err := b.Resolve(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, ledger.OutcomeSealed, first.State)
		require.Equal(t, ledger.CodeCancelled, first.Code)
		require.Equal(t, ledger.ClipNote(s.Detail), first.Detail)
		require.False(t, first.Repeat)
		require.WithinDuration(t, time.Now(), first.At, time.Minute)

		s.Code, s.Detail = ledger.CodeAttemptsExhausted, "another time"
		again, err := b.Resolve(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, repeated(first), again)
		late, err := b.Post(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, repeated(first), late)
		b.has(t, "bob", "0.00")
		record, err := b.Operation(t.Context(), "k1")
		require.NoError(t, err)
		require.Equal(t, o, record.Operation)
		require.Equal(t, o.RequestHash(), record.RequestHash)
	})
	t.Run("an outcome is returned as it is", func(t *testing.T) {
		applied := b.apply(t, post("k2", "alice", "bob", "10"))
		got, err := b.Resolve(t.Context(), seal(post("k2", "alice", "bob", "10")))
		require.NoError(t, err)
		require.Equal(t, repeated(applied), got)
		refused := b.refuse(t, post("k3", "alice", "bob", "1000"), ledger.CodeInsufficientFunds)
		got, err = b.Resolve(t.Context(), seal(post("k3", "alice", "bob", "1000")))
		require.NoError(t, err)
		require.Equal(t, repeated(refused), got)
	})
	t.Run("a key of other content is a conflict", func(t *testing.T) {
		_, err := b.Resolve(t.Context(), seal(post("k2", "alice", "bob", "11")))
		require.ErrorIs(t, err, ledger.ErrKeyConflict)
		_, err = b.Resolve(t.Context(), seal(post("k1", "bob", "alice", "10")))
		require.ErrorIs(t, err, ledger.ErrKeyConflict)
	})
	t.Run("malformed", func(t *testing.T) {
		_, err := b.Resolve(t.Context(), ledger.Seal{Operation: post("k9", "alice", "bob", "1"), Code: "why not"})
		var invalid *ledger.InvalidError
		require.ErrorAs(t, err, &invalid)
	})
	t.Run("every kind of operation", func(t *testing.T) {
		w := withdraw("t/withdraw", "alice", "eu/bob", "1")
		for _, o := range []ledger.Operation{w, deposit("t/deposit", "jp/bob", "alice", "1"), refund("t/refund", w, "1")} {
			got, err := b.Resolve(t.Context(), seal(o))
			require.NoError(t, err)
			require.Equal(t, ledger.OutcomeSealed, got.State)
			record, err := b.Operation(t.Context(), o.Key)
			require.NoError(t, err)
			require.Equal(t, o, record.Operation)
		}
	})
	sound(t, b)
}

// case 24: river#1135; case 18: killbill#1015: a late attempt is stuck behind a lock while its step is given up.
func TestLateAttemptBehindALockIsSealed(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "20")
	b.open(t, "bob")
	owner := b.owner(t)
	exec(t, owner, "begin")
	exec(t, owner, "select from accounts where name = 'bob' for update")

	o := post("transfer/t1/post", "alice", "bob", "10")
	late := make(chan ledger.Result)
	go func() {
		outcome, err := b.Post(t.Context(), o)
		late <- ledger.Result{Outcome: outcome, Err: err}
	}()
	waitFor(t, owner, blocked(1))

	// It needs none of the locks that the late attempt holds or waits for.
	sealed, err := b.Resolve(t.Context(), seal(o))
	require.NoError(t, err)
	require.Equal(t, ledger.OutcomeSealed, sealed.State)

	exec(t, owner, "commit")
	require.Equal(t, ledger.Result{Outcome: repeated(sealed)}, <-late)
	b.has(t, "alice", "20.00")
	b.has(t, "bob", "0.00")
	sound(t, b)
}

// The late attempt has looked, found no outcome, decided to apply, and is frozen before it writes.
func TestLateAttemptThatHasDecidedIsSealed(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "20")
	b.open(t, "bob")
	frozen, proxy := b.through(t)
	o := post("transfer/t1/post", "alice", "bob", "10")
	_, err := frozen.Post(t.Context(), post("warm", "alice", "bob", "1"))
	require.NoError(t, err)
	reached, release := proxy.HoldBefore(runs(postgres.InsertOperationsSQL))
	defer release()
	late := make(chan ledger.Result)
	go func() {
		outcome, err := frozen.Post(t.Context(), o)
		late <- ledger.Result{Outcome: outcome, Err: err}
	}()
	<-reached

	sealed, err := b.Resolve(t.Context(), seal(o))
	require.NoError(t, err)
	require.Equal(t, ledger.OutcomeSealed, sealed.State)
	release()
	require.Equal(t, ledger.Result{Outcome: repeated(sealed)}, <-late)
	b.has(t, "alice", "19.00")
	sound(t, b)
}

// Resolve waits for an attempt that has written its key, and takes what becomes of it.
func TestResolveWaitsForAWrittenKey(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"that commits": "commit", "that rolls back": "rollback"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBooks(t)
			o := post("k", "alice", "bob", "10")
			hash := o.RequestHash()
			owner := b.owner(t)
			exec(t, owner, "begin")
			exec(t, owner, `insert into operations (key, kind, request_hash, state, code, legs, memo, at)
				values ('k', 'post', $1, 'refused', 'account_unknown', '[]', '', now())`, hash[:])
			resolved := make(chan ledger.Result)
			go func() {
				outcome, err := b.Resolve(t.Context(), seal(o))
				resolved <- ledger.Result{Outcome: outcome, Err: err}
			}()
			waitFor(t, b.owner(t), blocked(1))
			exec(t, owner, end)
			got := <-resolved
			require.NoError(t, got.Err)
			if end == "commit" {
				require.Equal(t, ledger.CodeAccountUnknown, got.Outcome.Code)
				require.True(t, got.Outcome.Repeat)
			} else {
				require.Equal(t, ledger.OutcomeSealed, got.Outcome.State)
				require.False(t, got.Outcome.Repeat)
			}
		})
	}
}

// Whoever is first, everybody is told the same.
func TestResolveAndPostAtOnce(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "1000")
	b.open(t, "bob")
	var applied, sealed atomic.Int64
	for round := range 20 {
		o := post("k"+strings.Repeat("x", round), "alice", "bob", "1")
		outcomes := make([]ledger.Outcome, 8)
		atOnce(8, func(i int) {
			var err error
			if i%2 == 0 {
				outcomes[i], err = b.Post(t.Context(), o)
			} else {
				outcomes[i], err = b.Resolve(t.Context(), seal(o))
			}
			assert.NoError(t, err)
		})
		firsts := 0
		for _, outcome := range outcomes {
			require.Equal(t, repeated(outcomes[0]), repeated(outcome))
			if !outcome.Repeat {
				firsts++
			}
		}
		require.Equal(t, 1, firsts)
		if outcomes[0].State == ledger.OutcomeApplied {
			applied.Add(1)
		} else {
			sealed.Add(1)
		}
	}
	bob, err := b.Account(t.Context(), "bob", usd)
	require.NoError(t, err)
	require.Equal(t, applied.Load(), bob.Version)
	t.Logf("%d applied, %d sealed", applied.Load(), sealed.Load())
	sound(t, b)
}

// runs matches the message that makes the server run a statement.
func runs(sql string) func(pgtest.Message) bool {
	sql = strings.TrimSpace(sql)
	return func(m pgtest.Message) bool { return !m.FromServer && m.Statement == sql }
}
