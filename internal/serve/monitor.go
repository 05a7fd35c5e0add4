package serve

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// books is what a monitor needs of a ledger.
type books interface {
	// Ping says whether the ledger can be reached.
	Ping(ctx context.Context) error
	// CheckSchema says whether its tables are those that this program knows.
	CheckSchema(ctx context.Context) error
}

// pacing is when a monitor looks at its ledger, and how fast it lets work back in.
type pacing struct {
	// While the ledger answers: how often it is checked when no call shows that it answers, and how far checks are
	// apart that calls have asked for.
	checkEvery time.Duration
	checkApart time.Duration
	// checkTimeout bounds one check.
	checkTimeout time.Duration
	// While it does not: the pause before the next check, doubling.
	pauseFirst time.Duration
	pauseMax   time.Duration
	// A ledger that is lost again within settled of its return must wait longer before its first check, doubling up to
	// holdMax: it may answer checks and fail at work.
	settled time.Duration
	holdMax time.Duration
	// After its return: how long each doubling of the tasks at once takes, from 1.
	rampStep time.Duration
}

func defaultPacing() pacing {
	return pacing{
		checkEvery: 3 * time.Second, checkApart: 250 * time.Millisecond, checkTimeout: 3 * time.Second,
		pauseFirst: 100 * time.Millisecond, pauseMax: time.Second,
		settled: 10 * time.Second, holdMax: 5 * time.Second,
		rampStep: 150 * time.Millisecond,
	}
}

// monitor watches one ledger and moves its gate. Many workers watch the same ledger: every wait has a random part, so
// that they don't act as one.
type monitor struct {
	gate   *gate
	books  books
	pacing pacing
	log    *slog.Logger
}

// open opens the gate for everything, as for a ledger that has been seen to work when the program starts.
func (m *monitor) open() { m.gate.unlock(m.gate.slots.size) }

// run moves the gate until ctx ends. It leaves the gate as it is then.
func (m *monitor) run(ctx context.Context) {
	hold := m.pacing.pauseFirst
	for {
		if !m.gate.status().open {
			lost := time.Now()
			if !m.awaitReturn(ctx, hold) {
				return
			}
			m.log.Info("the ledger is back; its task queue is served again", "ledger", m.gate.name,
				"after", time.Since(lost).Round(time.Millisecond))
		}
		opened := time.Now()
		if !m.ramp(ctx) && !m.watch(ctx) {
			return
		}
		m.log.Warn("the ledger can't be reached; its task queue waits", "ledger", m.gate.name, "error", m.gate.status().cause)
		if time.Since(opened) < m.pacing.settled {
			hold = min(2*hold, m.pacing.holdMax)
		} else {
			hold = m.pacing.pauseFirst
		}
	}
}

// awaitReturn checks the ledger until it can be used again, and opens the gate a little. It returns false when ctx ends.
func (m *monitor) awaitReturn(ctx context.Context, pause time.Duration) bool {
	said := time.Now()
	for {
		if !wait(ctx, jitter(pause)) {
			return false
		}
		err := m.check(ctx, true)
		if err == nil {
			m.gate.unlock(1)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		m.gate.explain(err)
		if time.Since(said) >= time.Minute {
			said = time.Now()
			m.log.Warn("the ledger still can't be used", "ledger", m.gate.name, "error", err)
		}
		pause = max(pause, min(2*pause, m.pacing.pauseMax))
	}
}

// ramp doubles the tasks that the gate lets through until all slots are in use. It returns true when the gate has been
// closed.
func (m *monitor) ramp(ctx context.Context) (closed bool) {
	for {
		_, limit := m.gate.slots.use()
		if limit >= m.gate.slots.size {
			return false
		}
		timer := time.NewTimer(jitter(m.pacing.rampStep))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-m.gate.closed:
			timer.Stop()
			return true
		case <-timer.C:
			m.gate.widen(2 * limit)
		}
	}
}

// watch returns true when the gate has been closed, by a call or by a check of its own, and false when ctx ends.
func (m *monitor) watch(ctx context.Context) (closed bool) {
	for {
		timer := time.NewTimer(jitter(m.pacing.checkEvery))
		suspected := false
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-m.gate.closed:
			timer.Stop()
			return true
		case <-m.gate.suspected:
			timer.Stop()
			suspected = true
		case <-timer.C:
		}
		if !suspected && m.gate.answeredSince(time.Now().Add(-m.pacing.checkEvery)) {
			continue
		}
		entered, err := m.gate.enter()
		if err != nil {
			continue // just closed by a call
		}
		if err := m.check(ctx, false); err != nil && ctx.Err() == nil {
			m.gate.fail(entered, err)
		}
		apart := time.NewTimer(m.pacing.checkApart)
		select {
		case <-ctx.Done():
			apart.Stop()
			return false
		case <-m.gate.closed:
			apart.Stop()
			return true
		case <-apart.C:
		}
	}
}

// check asks the ledger once.
func (m *monitor) check(ctx context.Context, schema bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, m.pacing.checkTimeout, fmt.Errorf("no answer within %s", m.pacing.checkTimeout))
	defer cancel()
	if err := m.books.Ping(ctx); err != nil {
		return err
	}
	if !schema {
		return nil
	}
	return m.books.CheckSchema(ctx)
}

// jitter is d, more or less a quarter.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}

// wait returns false when ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
