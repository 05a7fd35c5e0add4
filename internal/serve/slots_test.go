package serve

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSlots(t *testing.T) {
	t.Run("closed until there is a limit", func(t *testing.T) {
		s := newSlots(4)
		assert.Nil(t, s.TryReserveSlot(nil))
		assert.Equal(t, 4, s.MaxSlots())
		s.setLimit(1)
		assert.NotNil(t, s.TryReserveSlot(nil))
		assert.Nil(t, s.TryReserveSlot(nil))
		s.ReleaseSlot(nil)
		assert.NotNil(t, s.TryReserveSlot(nil))
	})

	t.Run("never more than the size", func(t *testing.T) {
		s := newSlots(2)
		s.setLimit(100)
		assert.NotNil(t, s.TryReserveSlot(nil))
		assert.NotNil(t, s.TryReserveSlot(nil))
		assert.Nil(t, s.TryReserveSlot(nil))
	})

	t.Run("a lower limit takes no slot away", func(t *testing.T) {
		s := newSlots(4)
		s.setLimit(4)
		for range 4 {
			require.NotNil(t, s.TryReserveSlot(nil))
		}
		s.setLimit(2)
		issued, limit := s.use()
		assert.Equal(t, 4, issued)
		assert.Equal(t, 2, limit)
		s.ReleaseSlot(nil)
		s.ReleaseSlot(nil)
		assert.Nil(t, s.TryReserveSlot(nil), "two are still in use")
		s.ReleaseSlot(nil)
		assert.NotNil(t, s.TryReserveSlot(nil))
	})

	t.Run("who waits is served in order", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSlots(4)
			var order []int
			for i := range 3 {
				go func() {
					permit, err := s.ReserveSlot(t.Context(), nil)
					assert.NoError(t, err)
					assert.NotNil(t, permit)
					order = append(order, i)
				}()
				synctest.Wait()
			}
			s.setLimit(1)
			synctest.Wait()
			assert.Equal(t, []int{0}, order)
			assert.Nil(t, s.TryReserveSlot(nil), "others wait")
			s.setLimit(2)
			synctest.Wait()
			assert.Equal(t, []int{0, 1}, order)
			s.ReleaseSlot(nil)
			synctest.Wait()
			assert.Equal(t, []int{0, 1, 2}, order)
		})
	})

	t.Run("who gives up leaves no gap", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSlots(1)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := s.ReserveSlot(ctx, nil)
				failed <- err
			}()
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-failed, context.Canceled)
			s.setLimit(1)
			assert.NotNil(t, s.TryReserveSlot(nil))
		})
	})

	t.Run("a slot granted to who has just given up goes on", func(t *testing.T) {
		// Both may be ready at once, and select chooses at random: try until each has been chosen.
		for range 200 {
			s := newSlots(1)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan bool)
			go func() {
				permit, _ := s.ReserveSlot(ctx, nil)
				done <- permit != nil
			}()
			go cancel()
			s.setLimit(1)
			if <-done {
				s.ReleaseSlot(nil)
			}
			cancel()
			issued, _ := s.use()
			require.Zero(t, issued)
			require.NotNil(t, s.TryReserveSlot(nil))
		}
	})
}
