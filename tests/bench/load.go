package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// measured is what a load has shown.
type measured struct {
	PerSecond     float64
	P50, P95, P99 time.Duration
	Calls         int
}

// errEnough ends a load before its time without an error.
var errEnough = errors.New("enough")

// load has callers call, each again as soon as it is answered, for a while; calls that began in that while count. It stops
// at the first error.
func load(ctx context.Context, callers int, while time.Duration, call func(ctx context.Context, n int64) error) (measured, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var number atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	begun := time.Now()
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			var mine []time.Duration
			for time.Since(begun) < while && ctx.Err() == nil {
				at := time.Now()
				if err := call(ctx, number.Add(1)); err != nil {
					cancel(err)
					break
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	calling.Wait()
	elapsed := time.Since(begun)
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errEnough) {
		return measured{}, err
	}
	if len(took) == 0 {
		return measured{}, nil
	}
	slices.Sort(took)
	at := func(share float64) time.Duration { return took[min(len(took)-1, int(share*float64(len(took))))] }
	return measured{PerSecond: float64(len(took)) / elapsed.Seconds(), P50: at(0.5), P95: at(0.95), P99: at(0.99), Calls: len(took)}, nil
}
