package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeHealth is a ledger that is up or down.
type fakeHealth struct {
	mu     sync.Mutex
	ping   error
	schema error
	hang   bool // until the caller's time is up
	pings  int
}

func (f *fakeHealth) set(ping error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ping = ping
}

func (f *fakeHealth) Ping(ctx context.Context) error {
	f.mu.Lock()
	f.pings++
	hang, err := f.hang, f.ping
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

func (f *fakeHealth) CheckSchema(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.schema
}

func (f *fakeHealth) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pings
}

// watched runs a test in a bubble of time, with a monitor over an open gate of 16 slots.
func watched(t *testing.T, test func(t *testing.T, m *monitor, h *fakeHealth)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHealth{}
		g := newGate("eu", newSlots(16), errNotChecked)
		m := &monitor{gate: g, books: h, pacing: defaultPacing(), log: slog.New(slog.DiscardHandler)}
		m.open()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.run(ctx)
		}()
		synctest.Wait()
		test(t, m, h)
		cancel()
		<-done
	})
}

// lose closes the gate as a call that can't reach the ledger does.
func lose(t *testing.T, g *gate) {
	t.Helper()
	call, err := g.enter()
	require.NoError(t, err)
	g.fail(call, errRefused)
	require.False(t, g.status().open)
}

func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the bubble's clock
	synctest.Wait()
}

// until waits for a condition, and returns how long it took on the bubble's clock.
func until(t *testing.T, limit time.Duration, condition func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !condition() {
		require.Less(t, time.Since(begun), limit, "the condition is not met in time")
		sleep(time.Millisecond)
	}
	return time.Since(begun)
}

func TestMonitorReopens(t *testing.T) {
	watched(t, func(t *testing.T, m *monitor, h *fakeHealth) {
		h.set(errRefused)
		lose(t, m.gate)
		sleep(time.Minute)
		assert.False(t, m.gate.status().open)
		checks := h.count()
		assert.Greater(t, checks, 40, "about one check a second")
		assert.Less(t, checks, 90)

		h.set(nil)
		isOpen := func() bool { return m.gate.status().open }
		assert.Less(t, until(t, 2*time.Second, isOpen), 1300*time.Millisecond, "opened at the next check")

		// Work comes back gradually, and soon all of it.
		_, limit := m.gate.slots.use()
		assert.Equal(t, 1, limit)
		var limits []int
		last := 0
		took := until(t, 3*time.Second, func() bool {
			if _, limit := m.gate.slots.use(); limit != last {
				limits, last = append(limits, limit), limit
			}
			return last == 16
		})
		assert.Equal(t, []int{1, 2, 4, 8, 16}, limits)
		assert.Greater(t, took, 400*time.Millisecond)
		assert.Less(t, took, time.Second)
	})
}

func TestMonitorReopensAtOnceAfterABlip(t *testing.T) {
	watched(t, func(t *testing.T, m *monitor, _ *fakeHealth) {
		sleep(time.Minute)
		lose(t, m.gate)
		took := until(t, time.Second, func() bool { return m.gate.status().open })
		assert.Less(t, took, 150*time.Millisecond)
	})
}

func TestMonitorFindsAnOutageThatNoCallMeets(t *testing.T) {
	watched(t, func(t *testing.T, m *monitor, h *fakeHealth) {
		sleep(time.Minute)
		assert.True(t, m.gate.status().open)
		h.set(errRefused)
		took := until(t, 10*time.Second, func() bool { return !m.gate.status().open })
		assert.Less(t, took, 5*time.Second)
		assert.ErrorIs(t, m.gate.status().cause, errRefused)
	})
}

func TestMonitorChecksAtOnceWhenAskedTo(t *testing.T) {
	watched(t, func(t *testing.T, m *monitor, h *fakeHealth) {
		h.set(errRefused)
		m.gate.suspect()
		took := until(t, time.Second, func() bool { return !m.gate.status().open })
		assert.Less(t, took, 10*time.Millisecond)
	})
	t.Run("but not more often than is useful", func(t *testing.T) {
		watched(t, func(t *testing.T, m *monitor, h *fakeHealth) {
			for range 1000 {
				m.gate.suspect()
				sleep(time.Millisecond)
			}
			assert.LessOrEqual(t, h.count(), 5)
			assert.True(t, m.gate.status().open)
		})
	})
}

func TestMonitorLeavesABusyLedgerAlone(t *testing.T) {
	watched(t, func(t *testing.T, m *monitor, h *fakeHealth) {
		// Every connection is in use, so that a check gets none, and calls are answered.
		h.mu.Lock()
		h.hang = true
		h.mu.Unlock()
		for range 60 {
			m.gate.answered()
			m.gate.suspect()
			sleep(time.Second)
			require.True(t, m.gate.status().open)
		}
		// Then nothing is answered any more.
		took := until(t, time.Minute, func() bool { return !m.gate.status().open })
		assert.Less(t, took, 12*time.Second)
	})
}

func TestMonitorHoldsBackALedgerThatFailsAtWork(t *testing.T) {
	watched(t, func(t *testing.T, m *monitor, h *fakeHealth) {
		// It answers each check and fails each call: a role without rights, for example.
		for range 10 {
			lose(t, m.gate)
			until(t, 10*time.Second, func() bool { return m.gate.status().open })
		}
		lose(t, m.gate)
		took := until(t, 10*time.Second, func() bool { return m.gate.status().open })
		assert.Greater(t, took, 3*time.Second, "the pause has grown")

		sleep(time.Minute)
		lose(t, m.gate)
		took = until(t, time.Minute, func() bool { return m.gate.status().open })
		assert.Less(t, took, 7*time.Second)
		sleep(time.Minute)
		lose(t, m.gate)
		took = until(t, time.Minute, func() bool { return m.gate.status().open })
		assert.Less(t, took, 150*time.Millisecond, "and is forgotten after a while in use")
		assert.Less(t, h.count(), 100)
	})
}

func TestMonitorKeepsALedgerWithOtherTablesOut(t *testing.T) {
	watched(t, func(t *testing.T, m *monitor, h *fakeHealth) {
		h.mu.Lock()
		h.schema = errors.New("run worker migrate")
		h.mu.Unlock()
		lose(t, m.gate)
		sleep(time.Minute)
		assert.False(t, m.gate.status().open)
		assert.ErrorContains(t, m.gate.status().cause, "run worker migrate")

		h.mu.Lock()
		h.schema = nil
		h.mu.Unlock()
		until(t, 2*time.Second, func() bool { return m.gate.status().open })
	})
}

func TestMonitorStopsWithItsContext(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, m *monitor, h *fakeHealth){
		"open": func(*testing.T, *monitor, *fakeHealth) {},
		"closed": func(t *testing.T, m *monitor, h *fakeHealth) {
			t.Helper()
			h.set(errRefused)
			lose(t, m.gate)
			sleep(time.Second)
		},
		"in the ramp": func(t *testing.T, m *monitor, _ *fakeHealth) {
			t.Helper()
			lose(t, m.gate)
			until(t, time.Second, func() bool { return m.gate.status().open })
		},
		"in a check": func(t *testing.T, m *monitor, h *fakeHealth) {
			t.Helper()
			h.mu.Lock()
			h.hang = true
			h.mu.Unlock()
			m.gate.suspect()
			synctest.Wait()
		},
	} {
		// watched waits for the monitor's end.
		t.Run(name, func(t *testing.T) { watched(t, prepare) })
	}
}

func TestMonitorsDoNotActAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 50
		h := &fakeHealth{ping: errRefused}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		gates := make([]*gate, count)
		for i := range gates {
			gates[i] = newGate("eu", newSlots(16), errRefused)
			m := &monitor{gate: gates[i], books: h, pacing: defaultPacing(), log: slog.New(slog.DiscardHandler)}
			running.Go(func() { m.run(ctx) })
		}
		sleep(10 * time.Second)
		h.set(nil)
		most, before := 0, 0
		until(t, 3*time.Second, func() bool {
			sleep(50 * time.Millisecond)
			opened := 0
			for _, g := range gates {
				if g.status().open {
					opened++
				}
			}
			most, before = max(most, opened-before), opened
			return opened == count
		})
		assert.Less(t, most, count/3, "they open one after the other")
		cancel()
		running.Wait()
	})
}

func TestMonitorLogsWithoutRepeatingItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		h := &fakeHealth{}
		g := newGate("eu", newSlots(16), errNotChecked)
		m := &monitor{gate: g, books: h, pacing: defaultPacing(), log: slog.New(slog.NewTextHandler(&out, nil))}
		m.open()
		ctx, cancel := context.WithCancel(t.Context())
		var ended atomic.Bool
		go func() {
			m.run(ctx)
			ended.Store(true)
		}()
		synctest.Wait()
		h.set(errRefused)
		lose(t, g)
		sleep(5*time.Minute + 30*time.Second)
		h.set(nil)
		sleep(5 * time.Second)
		cancel()
		synctest.Wait()
		require.True(t, ended.Load())
		assert.Equal(t, 1, bytes.Count(out.Bytes(), []byte("its task queue waits")), out.String())
		assert.Equal(t, 5, bytes.Count(out.Bytes(), []byte("still can't be used")), out.String())
		assert.Equal(t, 1, bytes.Count(out.Bytes(), []byte("the ledger is back")), out.String())
	})
}
