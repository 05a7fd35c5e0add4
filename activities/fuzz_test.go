package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// FuzzDecodeCursor reads cursors as a client may send them: a place in the list, or an error of the input.
func FuzzDecodeCursor(f *testing.F) {
	f.Add(encodeCursor(ledger.DeadLetterCursor{LastAt: time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC), ID: 42}))
	f.Add("")
	f.Add("MjAyNi0wMS0wMlQwMzowNDowNVogLTE")
	f.Add("=/+")
	f.Fuzz(func(t *testing.T, s string) {
		cursor, err := decodeCursor(s)
		if err != nil {
			var invalid *ledger.InvalidError
			require.ErrorAs(t, err, &invalid)
			return
		}
		again, err := decodeCursor(encodeCursor(cursor))
		require.NoError(t, err)
		require.Equal(t, cursor.ID, again.ID)
		require.True(t, cursor.LastAt.Equal(again.LastAt))
	})
}
