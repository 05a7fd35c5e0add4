package storm

import (
	"context"
	"errors"
	"time"
)

const pollInterval = 50 * time.Millisecond

// retry does something until it says that its end is final, or the context ends.
func retry(ctx context.Context, do func() (final bool, err error)) error {
	for {
		final, err := do()
		if final {
			return err
		}
		if errPause := pause(ctx, pollInterval); errPause != nil {
			return errors.Join(errPause, err)
		}
	}
}

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
