package serve

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// FuzzParseLedgers reads settings as an operator may write them: an error never tells a password.
func FuzzParseLedgers(f *testing.F) {
	f.Add("us", "h:5432/us,eu=postgresql://app@h/eu")
	f.Add("us=postgres://h/us,eu", "h1,h2:5432/us?target_session_attrs=any")
	f.Add("US", "h/us")
	f.Add("us=host=h password=x us", "")
	f.Add(" , us ", "[::1]:x/?a=%zz")
	f.Add("us", "h/us,us2:x")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "hunter2hunter2"
		s := before + "=postgres://app:" + secret + "@" + after
		settings, err := parseLedgers(s)
		if err != nil {
			require.NotContains(t, err.Error(), secret)
			return
		}
		require.NotEmpty(t, settings)
		seen := make(map[string]bool)
		for _, one := range settings {
			require.NoError(t, ledger.CheckLedgerName("ledger", one.Name))
			require.False(t, seen[one.Name], "%s is there twice", one.Name)
			seen[one.Name] = true
			require.True(t, strings.HasPrefix(one.URL.Reveal(), "postgres://") || strings.HasPrefix(one.URL.Reveal(), "postgresql://"))
		}
	})
}
