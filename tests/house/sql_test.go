package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sqlPlaces are the folders in which SQL may stand, each with its reason. Tests may have it anywhere: they look at what
// is really there, and break what the code can't.
var sqlPlaces = map[string]string{
	"ledger/postgres":      "the books in PostgreSQL: that is what it is for",
	"internal/devstack":    "creates and drops the databases and roles that it hands out; it never reads a ledger",
	"internal/faultworker": "the naive transfer, shown for contrast, is plain SQL on a table of its own",
	"tests/harness":        "the outside audit: it must not trust the code that it audits",
	"tests/bench":          "the usual way and the bulk-load limit, which payonce is measured against; it empties the ledger between measurements",
	"tests/chaos":          "the same, and the faults: a lock that somebody holds, poison, what is planted behind the walls",
}

// statement matches text that starts as an SQL statement does. It is crude, and meant to be: whoever writes SQL in the
// wrong place does not hide it.
var statement = regexp.MustCompile(`(?is)^\s*(` + strings.Join([]string{
	`select\s.+\sfrom\s`,
	`select\s+\w+\s*\(`,
	`with\s+\w+\s+as\s*\(`,
	`insert\s+into\s`,
	`update\s+\S+\s+set\s`,
	`delete\s+from\s`,
	`truncate\s+(table\s)?\w`,
	`lock\s+table\s`,
	`(create|alter|drop)\s+(database|role|user|schema|table|index|extension|function|trigger)\s+[\w"%$]`,
	`(grant|revoke)\s+(all|select|insert|update|delete|usage|connect|execute)\b`,
}, "|") + `)`)

func TestSQLStandsWithTheDatabase(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	used := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		inside = filepath.ToSlash(inside)
		if entry.IsDir() {
			if inside == "bin" || inside != "." && strings.HasPrefix(entry.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		var found []string
		switch {
		case strings.HasSuffix(path, "_test.go"):
		case filepath.Ext(path) == ".go":
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found = sqlIn(t, source)
		case filepath.Ext(path) == ".sql":
			found = []string{"the whole file"}
		}
		if len(found) == 0 {
			return nil
		}
		if place, ok := sqlPlace(inside); ok {
			used[place] = true
			return nil
		}
		for _, text := range found {
			t.Errorf("%s: SQL outside ledger/postgres: %s", inside, text)
		}
		return nil
	})
	require.NoError(t, err)
	for place := range sqlPlaces {
		require.True(t, used[place], "%s has no SQL any more: take it off the list", place)
	}
}

func TestSQLCheckFindsPlantedSQL(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		source string
		want   bool
	}{
		"select":                     {"const q = `select balance from accounts where name = $1`", true},
		"upper case":                 {`const q = "SELECT balance FROM accounts"`, true},
		"a function":                 {`const q = "select pg_sleep(1)"`, true},
		"over lines":                 {"const q = `\n\tselect balance\n\tfrom accounts`", true},
		"put together":               {`var q = "select " + columns + " from accounts"; var columns string`, true},
		"insert":                     {`const q = "insert into operations values ($1)"`, true},
		"update":                     {`const q = "update accounts set balance = 0"`, true},
		"delete":                     {`const q = "delete from entries"`, true},
		"a common table expression":  {`const q = "with due as (select 1) select * from due"`, true},
		"create database":            {`const q = "create database us"`, true},
		"grant":                      {`const q = "grant select on accounts to worker"`, true},
		"in a call":                  {`func f(run func(string)) { run("truncate accounts") }`, true},
		"a sentence":                 {`const s = "Select an account from the list"`, false},
		"an error":                   {`const s = "create database: no such role"`, false},
		"a flag's help":              {`const s = "grant the worker's rights to this role"`, false},
		"a comment":                  {"// select balance from accounts\nconst s = 1", false},
		"a word that starts with it": {`const s = "selected from the two ledgers"`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, len(sqlIn(t, []byte("package p\n"+test.source))) > 0)
		})
	}
}

// sqlPlace returns the place of the allow-list that a file lies in.
func sqlPlace(file string) (string, bool) {
	for place := range sqlPlaces {
		if strings.HasPrefix(file, place+"/") {
			return place, true
		}
	}
	return "", false
}

// sqlIn returns the SQL statements among the strings of a Go file.
func sqlIn(t *testing.T, source []byte) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		expression, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		text, ok := textOf(expression)
		if !ok {
			return true
		}
		if isStatement(text) {
			found = append(found, strconv.Quote(text))
		}
		return false
	})
	return found
}

// textOf returns what a string expression says; what is not a literal in it becomes a question mark.
func textOf(expression ast.Expr) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, isLeft := textOf(e.X)
		right, isRight := textOf(e.Y)
		if !isLeft {
			left = "?"
		}
		if !isRight {
			right = "?"
		}
		return left + right, isLeft || isRight
	default:
		return "", false
	}
}

// isStatement tells SQL, whose words are all of one case, from a sentence, which starts with a capital.
func isStatement(text string) bool {
	if !statement.MatchString(text) {
		return false
	}
	word := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' })[0]
	return slices.Contains([]string{strings.ToLower(word), strings.ToUpper(word)}, word)
}
