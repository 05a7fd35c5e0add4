package httprail

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/activities"
)

// TestPage holds the page of the contract against what is sent and read here.
func TestPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/rails.md")
	require.NoError(t, err)
	page := string(raw)
	block := func(language string) string {
		found := regexp.MustCompile("(?s)```" + language + "\n(.*?)\n```").FindStringSubmatch(page)
		require.NotNil(t, found, language)
		page = strings.Replace(page, found[0], "", 1)
		return found[1]
	}

	sent := recorded(t, nil, func(rail *Rail) {
		p := payment()
		p.Memo = "March"
		_, _ = rail.Submit(t.Context(), p)
	})
	sent = strings.ReplaceAll(strings.ReplaceAll(sent, "\r\n", "\n"), "HOST", "bank.example")
	assert.Equal(t, sent, block("http"))

	p, err := parsePayout([]byte(block("json")))
	require.NoError(t, err)
	assert.Equal(t, "rent-7", p.reference)
	assert.Equal(t, "rp-1", p.answer.RailID)
	callback, err := parseCallback([]byte(block("json")))
	require.NoError(t, err)
	assert.Equal(t, activities.RailSettled, callback.Answer.State)

	for _, setting := range []string{envToken, envHMACSecret, envCAFile, envKeysKept, envPlainHTTP} {
		assert.Contains(t, page, "\n| `RAIL_<NAME>_"+setting+"` |")
	}
	for _, state := range append([]activities.RailState{activities.RailUnknown}, anyState...) {
		row := regexp.MustCompile("\n\\| `" + string(state) + "` \\|.*\\| (yes|no) \\|\n").FindStringSubmatch(page)
		require.NotNil(t, row, state)
		assert.Equal(t, state.Definite(), row[1] == "yes", state)
	}
}
