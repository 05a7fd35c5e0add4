package ledger_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// FuzzCheckID looks for an ID that passes and that a person could not tell from another one, or a database not keep.
func FuzzCheckID(f *testing.F) {
	for _, seed := range []string{"rent-1", "Überweisung 7", " a", "a ", "a\x00", "a\u200b", "a\u202e", "\xff", "日本", strings.Repeat("a", 200), "a\n", "\ufeffa"} {
		f.Add(seed, 200)
	}
	f.Fuzz(func(t *testing.T, id string, bytesMax int) {
		err := ledger.CheckID("id", id, bytesMax)
		if err != nil {
			var invalid *ledger.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, "id", invalid.Field)
			require.Less(t, len(err.Error()), 512, "a long input is not repeated")
			return
		}
		require.NotEmpty(t, id)
		require.LessOrEqual(t, len(id), bytesMax)
		require.True(t, utf8.ValidString(id))
		require.Equal(t, id, strings.TrimSpace(id))
		for _, r := range id {
			require.False(t, unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zs, r) && r != ' ', "%U", r)
		}
	})
}

// FuzzClip looks for a text that makes a note or an error unfit to be kept.
func FuzzClip(f *testing.F) {
	for _, seed := range []string{"", "a\x00b", "\xff", strings.Repeat("ü", 600), strings.Repeat("\x01", 20_000), "a\tb\nc"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		note := ledger.ClipNote(s)
		require.NoError(t, ledger.CheckNotes(note, nil))
		require.Equal(t, note, ledger.ClipNote(note), "what fits stays as it is")
		const bytesMax = 500
		text := ledger.ClipError(s, bytesMax)
		require.LessOrEqual(t, len(text), bytesMax)
		require.Equal(t, text, ledger.ClipError(text, bytesMax), "what fits stays as it is")
		require.True(t, utf8.ValidString(text))
		require.NotContains(t, text, "\x00")
	})
}
