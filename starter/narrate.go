package main

import (
	"context"
	"time"
)

// narrate tells a person who has waited for a while what the wait is for, whenever that changes; "" is nothing to tell.
// Call stop before writing anything else.
func (a *app) narrate(ctx context.Context, tell func(context.Context) string) (stop func()) {
	const first, then = 3 * time.Second, 5 * time.Second
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		said := ""
		timer := time.NewTimer(first)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			if text := tell(ctx); text != "" && text != said && ctx.Err() == nil {
				a.note("waiting: %s", text)
				said = text
			}
			timer.Reset(then)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
