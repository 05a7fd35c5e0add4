package main

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	m, err := load(t.Context(), 4, 50*time.Millisecond, func(context.Context, int64) error {
		time.Sleep(time.Millisecond) //nolint:forbidigo // what is measured
		return nil
	})
	require.NoError(t, err)
	require.Positive(t, m.Calls)
	require.GreaterOrEqual(t, m.P50, time.Millisecond)
	require.LessOrEqual(t, m.P50, m.P99)
	// Four callers, each a call a millisecond at most.
	require.LessOrEqual(t, m.PerSecond, 4_000.0)

	broken := errors.New("broken")
	_, err = load(t.Context(), 4, time.Hour, func(_ context.Context, n int64) error {
		if n > 10 {
			return broken
		}
		return nil
	})
	require.ErrorIs(t, err, broken)
	m, err = load(t.Context(), 4, time.Hour, func(_ context.Context, n int64) error {
		if n > 10 {
			return errEnough
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 10, m.Calls)
}

// The report has a plot for each part that was measured, and none for the others.
func TestReport(t *testing.T) {
	t.Parallel()
	r := results{Ledger: ledgerResults{ByBatch: map[string]float64{"1": 100, "500": 30_000, "10": 1_000}, BulkLimit: 40_000}}
	plots := plotsOf(&r)
	require.Len(t, plots, 1)
	var labels []string
	for _, b := range plots[0].Bars {
		labels = append(labels, b.Label)
	}
	require.Equal(t, []string{"1", "10", "500", "bulk-load limit"}, labels)
	require.InDelta(t, 75, plots[0].Bars[2].Width, 0.01)
	var page bytes.Buffer
	require.NoError(t, writeReport(&page, &r))
	require.Contains(t, page.String(), "30000 transfers/s")
	require.NotContains(t, page.String(), "Temporal, the time")
}
