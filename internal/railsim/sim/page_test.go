package sim

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPage: the page has each fault and each field of a plan, and its example is a plan.
func TestPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../docs/rails.md")
	require.NoError(t, err)
	page := string(raw)
	for _, word := range faultWords {
		assert.Contains(t, page, "`"+word+"`")
	}
	for _, part := range []any{Plan{}, Fault{}, Callbacks{}} {
		for field := range reflect.TypeOf(part).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			assert.Regexp(t, "[`\"]"+name+"[`\"]", page)
		}
	}
	example := regexp.MustCompile(`(?s)/sim/plans -d '(.*?)'`).FindStringSubmatch(page)
	require.NotNil(t, example)
	rules, err := ParseRules([]byte(example[1]))
	require.NoError(t, err)
	for _, rule := range rules {
		require.NoError(t, rule.check())
	}
}
