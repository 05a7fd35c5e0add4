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
	f.Add("us=postgres://h/us?sslrootcert=/us.pem eu", "h/eu")
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

// FuzzDatabaseURL reads the setting of one ledger, as a URL or as keywords: an error never tells a password.
func FuzzDatabaseURL(f *testing.F) {
	f.Add("postgres://app:", "@h:5432/main?sslmode=verify-full")
	f.Add("postgresql://app:", "@h1,h2:x/main")
	f.Add("host=h dbname=main password=", " sslmode=disable")
	f.Add("host=h password='", "")
	f.Add("postgres://h/us?sslrootcert=/us.pem postgres://app:", "@h/eu")
	f.Add("postgres://h/main?sslpassword=", "&sslcert=/no/such.pem")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "hunter2hunter2"
		namesFile := strings.Contains(before, "file=") || strings.Contains(before, "cert=") || strings.Contains(before, "key=")
		secondURL := strings.HasPrefix(strings.TrimSpace(before), "postgres") && strings.Count(before, "://") > 1
		if namesFile && !secondURL {
			return // the name of a file is told, and is no secret
		}
		dsn := before + secret + after
		settings, err := readLedgers(env(map[string]string{EnvDatabaseURL: dsn}))
		if err != nil {
			require.NotContains(t, err.Error(), secret)
			return
		}
		require.Equal(t, []LedgerSetting{{Name: ledger.DefaultLedger, URL: Secret(strings.TrimSpace(dsn))}}, settings)
	})
}
