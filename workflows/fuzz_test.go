package workflows

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// FuzzRetryTransferID looks for an ID of which the transfer in its place has no ID of its own, or none that is well formed.
func FuzzRetryTransferID(f *testing.F) {
	for _, seed := range []string{"rent", "rent~retry-1", "rent~retry-999999999", "~retry-1", "a~retry-01", "a~retry-0", strings.Repeat("ü", 100), strings.Repeat("a", 193) + "~retry-9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if ledger.CheckID("id", id, TransferIDBytesMax) != nil {
			return
		}
		seen := map[string]bool{id: true}
		for range 12 {
			id = RetryTransferID(id)
			require.NoError(t, ledger.CheckID("id", id, TransferIDBytesMax))
			require.False(t, seen[id], "%q is in place of two", id)
			seen[id] = true
		}
	})
}
