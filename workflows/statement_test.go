package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The last whole day, month or year, in UTC, is that before the moment for which it was asked, wherever that was.
func TestStatementPeriod(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("", 3600)
	for _, row := range []struct {
		last, at, from, to string
	}{
		{"day", "2026-10-02T00:00:00Z", "2026-10-01", "2026-10-02"},
		{"day", "2026-10-01T23:59:59Z", "2026-09-30", "2026-10-01"},
		{"day", "2028-03-01T12:00:00Z", "2028-02-29", "2028-03-01"},
		{"month", "2026-10-01T00:00:00Z", "2026-09-01", "2026-10-01"},
		{"month", "2026-01-31T00:00:00Z", "2025-12-01", "2026-01-01"},
		{"year", "2026-12-31T23:59:59Z", "2025-01-01", "2026-01-01"},
	} {
		at, err := time.Parse(time.RFC3339, row.at)
		require.NoError(t, err)
		in := StatementInput{Account: "us/alice", Last: row.last}
		for _, same := range []time.Time{at, at.In(berlin)} {
			from, to, err := in.period(same)
			require.NoError(t, err)
			require.Equal(t, []string{row.from, row.to}, []string{from.Format(time.DateOnly), to.Format(time.DateOnly)})
			require.Equal(t, []time.Time{from.UTC().Truncate(24 * time.Hour), to.UTC().Truncate(24 * time.Hour)}, []time.Time{from, to})
		}
	}
}
