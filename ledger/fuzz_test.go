package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// FuzzHideSecrets looks for a text in which a secret of a known form is told.
func FuzzHideSecrets(f *testing.F) {
	f.Add("dial ", ": connection refused")
	f.Add("postgres://a:b@h/ ", "@")
	f.Add(`{"error": "`, `"}`)
	f.Add("password=", " token=\xff")
	f.Add("bearer eyJ", "\x00'")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "hunter2hunter2"
		for _, form := range []string{" postgres://app:" + secret + "@h/us ", " password=" + secret + " ", " Authorization: Bearer " + secret + " "} {
			require.NotContains(t, ledger.HideSecrets(before+form+after), secret)
		}
	})
}
