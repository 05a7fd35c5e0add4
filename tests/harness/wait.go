package harness

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// patience is how long anything may take: far longer than it does, also on a busy machine.
	patience = 2 * time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 15 * time.Millisecond
)

// Eventually waits until a condition holds, and fails the test if it does not within two minutes. what says what is waited
// for. The condition is looked at in the test's own goroutine, so that it may fail the test itself.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	EventuallyWithin(t, patience, what, holds)
}

// EventuallyWithin is Eventually with a limit of its own.
func EventuallyWithin(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticks := time.NewTicker(pollInterval)
	defer ticks.Stop()
	for !holds() {
		select {
		case <-ticks.C:
		case <-deadline.C:
			require.FailNow(t, "waited in vain", "%s: not within %s", what, limit)
		}
	}
}

// Within returns a context for a part of a test that must not take for ever. It ends with the test.
func Within(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// cleanupContext is for work after the end of a test, when its own context has ended.
func cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}
