package postgres_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// A transfer's ID that Temporal has forgotten may come back with another request, whose first step is another one. The
// ledger remembers: one ID pays once, whichever way.
func TestOneTransferBeginsOnce(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "20")
	b.open(t, "carol")
	posted := post("transfer/t1/post", "alice", "carol", "1")
	b.apply(t, posted)
	withdrawn := withdraw("transfer/t2/withdraw", "alice", "eu/bob", "1")
	b.apply(t, withdrawn)

	conflict := func(t *testing.T, o ledger.Operation) {
		t.Helper()
		_, err := b.Post(t.Context(), o)
		require.ErrorIs(t, err, ledger.ErrKeyConflict)
		_, err = b.Resolve(t.Context(), ledger.Seal{Operation: o, Code: ledger.CodeCancelled})
		require.ErrorIs(t, err, ledger.ErrKeyConflict)
		_, err = b.Operation(t.Context(), o.Key)
		require.ErrorIs(t, err, ledger.ErrOperationUnknown)
	}
	t.Run("posted, then withdrawn", func(t *testing.T) {
		conflict(t, withdraw("transfer/t1/withdraw", "alice", "eu/bob", "1"))
	})
	t.Run("withdrawn, then posted", func(t *testing.T) {
		conflict(t, post("transfer/t2/post", "alice", "carol", "1"))
		conflict(t, post("transfer/t2/post", "world", "carol", "1"))
	})
	t.Run("sealed, then withdrawn", func(t *testing.T) {
		sealed := post("transfer/t3/post", "alice", "carol", "1")
		_, err := b.Resolve(t.Context(), ledger.Seal{Operation: sealed, Code: ledger.CodeCancelled})
		require.NoError(t, err)
		conflict(t, withdraw("transfer/t3/withdraw", "alice", "eu/bob", "1"))
	})
	t.Run("in one batch", func(t *testing.T) {
		results, err := b.PostBatch(t.Context(), []ledger.Operation{
			post("transfer/t4/post", "alice", "carol", "1"), withdraw("transfer/t4/withdraw", "alice", "eu/bob", "1"),
		})
		require.NoError(t, err)
		require.Equal(t, ledger.OutcomeApplied, results[0].Outcome.State)
		require.ErrorIs(t, results[1].Err, ledger.ErrKeyConflict)
	})
	t.Run("at once, from accounts that have no lock in common", func(t *testing.T) {
		b.fund(t, "dora", "20")
		var applied, conflicts atomic.Int32
		atOnce(40, func(i int) {
			o := post("transfer/t5/post", "alice", "carol", "1")
			if i%2 == 0 {
				o = withdraw("transfer/t5/withdraw", "dora", "asia/bob", "1")
			}
			outcome, err := b.Post(t.Context(), o)
			switch {
			case err != nil:
				assert.ErrorIs(t, err, ledger.ErrKeyConflict)
				conflicts.Add(1)
			case !outcome.Repeat:
				applied.Add(1)
			}
		})
		require.EqualValues(t, 1, applied.Load())
		require.EqualValues(t, 20, conflicts.Load())
	})
	t.Run("a repeat is still a repeat", func(t *testing.T) {
		for _, o := range []ledger.Operation{posted, withdrawn} {
			outcome, err := b.Post(t.Context(), o)
			require.NoError(t, err)
			require.True(t, outcome.Repeat)
		}
	})
	sound(t, b)
}
