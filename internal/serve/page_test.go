package serve

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "../../docs/settings.md"

// TestPageOfSettings holds the page against the list: each variable has its row there, word for word, and no row is of
// anything else.
func TestPageOfSettings(t *testing.T) {
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	onPage := make(map[string]string)
	for _, match := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)…?` .*$").FindAllStringSubmatch(string(raw), -1) {
		assert.NotContains(t, onPage, match[1], "it is there twice")
		onPage[match[1]] = match[0]
	}
	for _, v := range Variables() {
		assert.Equal(t, row(v), onPage[v.Name], "the row of %s", v.Name)
		delete(onPage, v.Name)
	}
	assert.Empty(t, onPage, "rows of variables that nothing reads")
}

// row is a variable's line in the page's table.
func row(v Variable) string {
	name := "`" + v.Name + "`"
	if v.Prefix {
		name = "`" + v.Name + "…`"
	}
	flag := ""
	if v.Flag != "" {
		flag = "`--" + v.Flag + "`"
	}
	secret := ""
	if v.Secret {
		secret = "secret"
	}
	cells := []string{name, flag, v.Default, strings.Join(v.Commands, ", "), secret, v.Meaning}
	return fmt.Sprintf("| %s |", strings.Join(cells, " | "))
}
