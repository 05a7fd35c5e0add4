package ledger_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

func TestHideSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"connect to postgres://app:hunter2@db:5432/books failed":      "connect to postgres://app:***@db:5432/books failed",
		"us=postgres://a:x@h/d,eu=postgresql://b:p%40ss@h/d?x=1":      "us=postgres://a:***@h/d,eu=postgresql://b:***@h/d?x=1",
		"amqp://:hunter2@q and redis://u:hun:ter@2@r":                 "amqp://:***@q and redis://u:***@r",
		"host=db user=app password=hunter2 dbname=books":              "host=db user=app password=*** dbname=books",
		`host=db password='hunter \'2' sslmode=off`:                   "host=db password=*** sslmode=off",
		"PGPASSWORD=hunter2 psql":                                     "PGPASSWORD=*** psql",
		`{"user":"app","password":"hunter\"2","n":1}`:                 `{"user":"app","password":***,"n":1}`,
		`{"access_token":"hunter2","expires":3600}`:                   `{"access_token":"***","expires":3600}`,
		"Authorization: Basic YXBwOmh1bnRlcjI= was refused":           "Authorization: *** was refused",
		"header Authorization: Bearer hunter2hunter2, and no more":    "header Authorization: ***, and no more",
		"sent Bearer hunter2hunter2 to the bank":                      "sent Bearer *** to the bank",
		"GET /v1/pay?api_key=hunter2&id=7":                            "GET /v1/pay?api_key=***&id=7",
		"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2ln bad": "token *** bad",

		// What carries no secret stays as it is.
		`password authentication failed for user "app" (SQLSTATE 28P01)`:                                      "",
		`invalid token at offset 7: unexpected token: }`:                                                      "",
		`duplicate key value violates unique constraint "operations_key_key" (SQLSTATE 23505)`:                "",
		`dial tcp 127.0.0.1:5432: connect: connection refused; see https://example.org/a:b and mail a@b.test`: "",
	} {
		if want == "" {
			want = text
		}
		got := ledger.HideSecrets(text)
		require.Equal(t, want, got)
		require.Equal(t, got, ledger.HideSecrets(got), "again")
		require.NotContains(t, strings.ToLower(got), "hunter2")
	}
}

// A long text is kept in bounded work, and no secret gets through where it is cut.
func TestKeepError(t *testing.T) {
	t.Parallel()
	const bytesMax = 20_000
	for _, filler := range []string{"x ", "<", "ü", "wörd\x00 "} {
		for position := range 60 {
			// A secret at every place, in a text longer than what is looked at.
			secret := "postgres://app:hunter2@bank/eu password=hunter2 Bearer hunter2hunter2 "
			before := strings.Repeat(filler, 1+position*1_000/len(filler))
			text := "begin " + before + secret + strings.Repeat(filler, 60_000/len(filler)) + "the end"
			kept := ledger.KeepError(text, bytesMax)
			require.LessOrEqual(t, len(kept), bytesMax)
			require.Greater(t, len(kept), bytesMax/2)
			require.True(t, strings.HasPrefix(kept, "begin "))
			require.True(t, strings.HasSuffix(kept, "the end"))
			require.Contains(t, kept, "bytes left out")
			require.NotContains(t, kept, "hunter")
			require.True(t, utf8.ValidString(kept))
		}
	}
	short := "short, with password=hunter2"
	require.Equal(t, "short, with password=***", ledger.KeepError(short, bytesMax))
	require.LessOrEqual(t, len(ledger.KeepError(strings.Repeat("y", 1_000_000), 100)), 100)

	begun := time.Now()
	kept := ledger.KeepError(strings.Repeat("password=hunter2 ", 5_000_000), ledger.ErrorBytesMax)
	require.NotContains(t, kept, "hunter")
	require.Less(t, time.Since(begun), 2*time.Minute, "85 MB")
}
