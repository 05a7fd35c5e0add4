package harness

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/internal/faultworker/wrongclock"
)

// StartSkewedWorker is StartFaultWorker on a machine whose wall clock is ahead by skew, or behind if skew is below zero.
func (w *World) StartSkewedWorker(t testing.TB, skew time.Duration, c FaultConfig) *FaultWorker {
	t.Helper()
	binary, err := skewedBinary()
	require.NoError(t, err)
	c.binary = binary
	c.Env = append(c.Env, wrongclock.Env(skew))
	return w.StartFaultWorker(t, c)
}

// skewedBinary builds the worker with faults for such a machine, once.
var skewedBinary = sync.OnceValues(func() (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	return wrongclock.Build(context.Background(), dir)
})
