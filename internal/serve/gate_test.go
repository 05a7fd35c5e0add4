package serve

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/ledger"
)

// fakeBooks is a ledger whose answers the test chooses. Methods that it lacks panic.
type fakeBooks struct {
	activities.Ledger
	post  func(ctx context.Context) error
	calls int
}

func (f *fakeBooks) Post(ctx context.Context, operation ledger.Operation) (ledger.Outcome, error) {
	f.calls++
	if err := f.post(ctx); err != nil {
		return ledger.Outcome{}, err
	}
	return ledger.Outcome{Key: operation.Key, State: ledger.OutcomeApplied}, nil
}

func (f *fakeBooks) DeadLetterPut(ctx context.Context, _ ledger.DeadLetter) error { return f.post(ctx) }

var errRefused = fmt.Errorf("%w: connection refused", ledger.ErrUnavailable)

func openGate(size int) *gate {
	g := newGate("eu", newSlots(size), nil)
	g.unlock(size)
	return g
}

func TestGuard(t *testing.T) {
	operation := ledger.Operation{Key: "transfer/1/post"}
	answer := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	state := func(g *gate) (open, suspected bool, limit int) {
		_, limit = g.slots.use()
		return g.status().open, len(g.suspected) > 0, limit
	}

	t.Run("answers pass through", func(t *testing.T) {
		for _, err := range []error{nil, ledger.ErrKeyConflict, ledger.ErrAccountUnknown, errors.New("constraint violated")} {
			g := openGate(4)
			b := &fakeBooks{post: answer(err)}
			outcome, got := (&guard{books: b, gate: g}).Post(t.Context(), operation)
			assert.Equal(t, err, got)
			if err == nil {
				assert.Equal(t, operation.Key, outcome.Key)
			}
			open, suspected, limit := state(g)
			assert.True(t, open)
			assert.False(t, suspected)
			assert.Equal(t, 4, limit)
		}
	})

	t.Run("an outage closes the gate, and no call is made then", func(t *testing.T) {
		g := openGate(4)
		b := &fakeBooks{post: answer(errRefused)}
		guarded := &guard{books: b, gate: g}
		_, err := guarded.Post(t.Context(), operation)
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		open, _, limit := state(g)
		assert.False(t, open)
		assert.Zero(t, limit)
		assert.Nil(t, g.slots.TryReserveSlot(nil))

		_, err = guarded.Post(t.Context(), operation)
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		require.ErrorContains(t, err, "not asked")
		require.ErrorContains(t, err, "connection refused")
		require.ErrorIs(t, guarded.DeadLetterPut(t.Context(), ledger.DeadLetter{}), ledger.ErrUnavailable)
		assert.Equal(t, 1, b.calls)
		assert.Equal(t, 1, g.status().lost)
	})

	t.Run("a caller whose time is up says nothing about the ledger", func(t *testing.T) {
		g := openGate(4)
		ctx, cancel := context.WithCancel(t.Context())
		guarded := &guard{gate: g, books: &fakeBooks{post: func(context.Context) error {
			cancel()
			return fmt.Errorf("%w: %w", ledger.ErrUnavailable, context.Canceled)
		}}}
		_, err := guarded.Post(ctx, operation)
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		open, suspected, _ := state(g)
		assert.True(t, open)
		assert.True(t, suspected, "a check is asked for")
	})

	t.Run("a lost answer asks for a check", func(t *testing.T) {
		g := openGate(4)
		_, err := (&guard{gate: g, books: &fakeBooks{post: answer(ledger.ErrUnknownOutcome)}}).Post(t.Context(), operation)
		require.ErrorIs(t, err, ledger.ErrUnknownOutcome)
		open, suspected, _ := state(g)
		assert.True(t, open)
		assert.True(t, suspected)
	})

	t.Run("a call from before the last opening does not close it", func(t *testing.T) {
		g := openGate(4)
		old, err := g.enter()
		require.NoError(t, err)
		g.fail(old, errRefused)
		<-g.closed
		g.unlock(4)
		g.fail(old, errRefused)
		assert.True(t, g.status().open)
	})

	t.Run("one connection that is lost while others answer asks for a check", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := openGate(4)
			lost, err := g.enter()
			require.NoError(t, err)
			time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's clock
			g.answered()
			g.fail(lost, errRefused)
			open, suspected, _ := state(g)
			assert.True(t, open)
			assert.True(t, suspected)
		})
	})
}

// TestGateIsOfOneLedger shows that a ledger that is down does not stop another.
func TestGateIsOfOneLedger(t *testing.T) {
	us, eu := openGate(4), openGate(4)
	down := &guard{gate: us, books: &fakeBooks{post: func(context.Context) error { return errRefused }}}
	up := &guard{gate: eu, books: &fakeBooks{post: func(context.Context) error { return nil }}}
	_, err := down.Post(t.Context(), ledger.Operation{})
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	_, err = up.Post(t.Context(), ledger.Operation{})
	require.NoError(t, err)
	assert.NotNil(t, eu.slots.TryReserveSlot(nil))
	assert.Nil(t, us.slots.TryReserveSlot(nil))
}
