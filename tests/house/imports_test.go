package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rule is what one package, or all below a folder, may import. A pattern is an import path, or a folder and all below
// it with "/..." at the end. Tests are not bound: they import what they need.
type rule struct {
	of  string
	why string

	only  []string // beside the standard library it imports these at most; nil: whatever it likes
	not   []string // it does not import these itself, even where they are in the standard library
	never []string // it does not reach these, not even through other packages

	// through may reach what never forbids: the search does not look behind these.
	through []string
}

var (
	databases = []string{"database/sql", "github.com/jackc/pgx/..."}
	outside   = []string{"database/sql/...", "io/fs", "log/...", "net/...", "os/...", "syscall/..."}
	faults    = []string{"payonce/internal/devstack/...", "payonce/internal/faultworker/...", "payonce/internal/railsim/..."}
)

var rules = []rule{
	{
		of:  "payonce/ledger",
		why: "the books are pure Go: the standard library, big decimals and the currencies' table",
		only: []string{
			"github.com/bojanz/currency",
			"github.com/cockroachdb/apd/v3",
		},
		not: outside,
	},
	{
		of:  "payonce/ledger/postgres",
		why: "the books in PostgreSQL know the books, and PostgreSQL",
		only: []string{
			"payonce/ledger",
			"github.com/cockroachdb/apd/v3",
			"github.com/exaring/otelpgx",
			"github.com/jackc/pgx/v5/...",
			"github.com/pressly/goose/v3/...",
			"go.opentelemetry.io/otel/trace",
		},
		never: []string{"go.temporal.io/..."},
	},
	{
		of:  "payonce/activities",
		why: "a step knows the ledger as an interface of its own, and Temporal's activity API",
		only: []string{
			"payonce/internal/statement",
			"payonce/ledger",
			"go.temporal.io/api/enums/v1",
			"go.temporal.io/sdk/activity",
			"go.temporal.io/sdk/log",
			"go.temporal.io/sdk/temporal",
		},
		never: append([]string{"payonce/ledger/postgres"}, databases...),
	},
	{
		of:  "payonce/workflows",
		why: "a workflow knows the steps' names and payloads, and Temporal's workflow API; it does no I/O",
		only: []string{
			"payonce/activities",
			"payonce/ledger",
			"go.temporal.io/api/enums/v1",
			"go.temporal.io/sdk/converter",
			"go.temporal.io/sdk/log",
			"go.temporal.io/sdk/temporal",
			"go.temporal.io/sdk/worker",
			"go.temporal.io/sdk/workflow",
		},
		not:   append([]string{"crypto/rand", "math/rand/..."}, outside...),
		never: append([]string{"payonce/ledger/postgres"}, databases...),
	},
	{
		of:    "payonce/worker",
		why:   "the production worker carries neither faults nor the development stack, nor the CLI",
		not:   []string{"testing", "github.com/stretchr/testify/..."},
		never: append([]string{"payonce/starter/..."}, faults...),
	},
	{
		of:    "payonce/starter/...",
		why:   "the CLI speaks to Temporal only; the one thing that may open a database is the development stack",
		not:   databases,
		never: append([]string{"payonce/ledger/postgres", "payonce/worker/..."}, databases...),
		// It creates and drops the databases that it hands out.
		through: []string{"payonce/internal/devstack"},
	},
	{
		of:    "payonce/starter/...",
		why:   "the CLI has no way to the books but Temporal's",
		never: []string{"payonce/ledger/postgres"},
	},
	{
		of:    "payonce/internal/devstack/...",
		why:   "the stack runs servers and knows nothing of what is built on them",
		never: []string{"payonce/ledger/...", "payonce/activities", "payonce/workflows", "payonce/starter/...", "payonce/worker/..."},
	},
	{
		of:    "payonce/internal/httprail",
		why:   "the wire knows what a rail is asked, and what money looks like",
		only:  []string{"payonce/activities", "payonce/internal/secret", "payonce/internal/setting", "payonce/ledger"},
		never: append([]string{"payonce/workflows", "payonce/ledger/postgres"}, databases...),
	},
	{
		of:  "payonce/internal/notify",
		why: "an endpoint knows what it is told, and the far side's protocols",
		only: []string{
			"payonce/activities",
			"payonce/internal/secret",
			"payonce/internal/setting",
			"payonce/workflows",
			"github.com/standard-webhooks/standard-webhooks/libraries/go",
			"github.com/wneessen/go-mail",
		},
		never: append([]string{"payonce/ledger/postgres"}, databases...),
	},
	{
		of:   "payonce/internal/railsim",
		why:  "the simulator's program is flags around it",
		only: []string{"payonce/internal/railsim/sim", "github.com/spf13/pflag"},
	},
	{
		of:   "payonce/internal/railsim/sim",
		why:  "the simulated rail has the contract from its page alone: a fault of payonce must not hide itself",
		only: []string{},
	},
	{
		of:   "payonce/internal/secret",
		why:  "what hides secrets needs nothing that could show them",
		only: []string{},
	},
	{
		of:   "payonce/internal/setting",
		why:  "how a setting is read says nothing of what it is for",
		only: []string{},
	},
	{
		of:   "payonce/internal/statement",
		why:  "a statement's file knows the books' values, and the file system",
		only: []string{"payonce/ledger", "github.com/google/renameio/v2"},
		not:  []string{"net/...", "log/..."},
	},
	{
		of:    "payonce/internal/...",
		why:   "what serves others does not know the programs",
		never: []string{"payonce/starter/..."},
	},
	{
		of:   "payonce/docker/probe",
		why:  "the health check is the standard library's HTTP client",
		only: []string{},
	},
	{
		of:  "payonce/tests/...",
		why: "tests may import anything",
	},
	{
		of:  "payonce/tests/chaos/checker",
		why: "the checker uses nothing of the code that it audits: a fault of the product must not hide itself",
		only: []string{
			"github.com/anishathalye/porcupine",
			"github.com/jackc/pgx/v5/...",
			"go.temporal.io/api/...",
			"golang.org/x/sync/errgroup",
		},
	},
}

// graph has every package of a build, and what it imports, by its path.
type graph map[string]node

type node struct {
	standard bool
	imports  []string
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, broken := range load(t).check(rules) {
		t.Error(broken)
	}
}

// Each row plants a chain of imports in the real graph, and the check must say so.
func TestImportsCheckFindsPlantedImports(t *testing.T) {
	t.Parallel()
	whole := load(t)
	tests := map[string]struct {
		from string
		to   []string // the first is imported by from, the next by the first, and so on
		want string
	}{
		"ledger on PostgreSQL":              {"payonce/ledger", []string{"payonce/ledger/postgres"}, "payonce/ledger imports payonce/ledger/postgres"},
		"ledger on a third party":           {"payonce/ledger", []string{"github.com/google/uuid"}, "payonce/ledger imports github.com/google/uuid"},
		"ledger on the network":             {"payonce/ledger", []string{"net/http"}, "payonce/ledger imports net/http"},
		"ledger on the file system":         {"payonce/ledger", []string{"os"}, "payonce/ledger imports os"},
		"PostgreSQL on activities":          {"payonce/ledger/postgres", []string{"payonce/activities"}, "payonce/ledger/postgres imports payonce/activities"},
		"activities on pgx":                 {"payonce/activities", []string{"github.com/jackc/pgx/v5"}, "payonce/activities imports github.com/jackc/pgx/v5"},
		"activities on pgx by another":      {"payonce/activities", []string{"payonce/ledger", "payonce/planted", "github.com/jackc/pgx/v5"}, "payonce/activities → payonce/ledger → payonce/planted → github.com/jackc/pgx/v5"},
		"activities on the workflow API":    {"payonce/activities", []string{"go.temporal.io/sdk/workflow"}, "payonce/activities imports go.temporal.io/sdk/workflow"},
		"workflows on PostgreSQL":           {"payonce/workflows", []string{"payonce/ledger/postgres"}, "payonce/workflows imports payonce/ledger/postgres"},
		"workflows on PostgreSQL by others": {"payonce/workflows", []string{"payonce/activities", "payonce/ledger/postgres"}, "payonce/workflows → payonce/activities → payonce/ledger/postgres"},
		"workflows on the file system":      {"payonce/workflows", []string{"os"}, "payonce/workflows imports os"},
		"workflows on randomness":           {"payonce/workflows", []string{"math/rand/v2"}, "payonce/workflows imports math/rand/v2"},
		"workflows on the client":           {"payonce/workflows", []string{"go.temporal.io/sdk/client"}, "payonce/workflows imports go.temporal.io/sdk/client"},
		"worker on the stack":               {"payonce/worker", []string{"payonce/internal/devstack"}, "payonce/worker → payonce/internal/devstack"},
		"worker on faults by another":       {"payonce/worker", []string{"payonce/planted", "payonce/internal/faultworker"}, "payonce/worker → payonce/planted → payonce/internal/faultworker"},
		"starter on PostgreSQL":             {"payonce/starter", []string{"payonce/ledger/postgres"}, "payonce/starter → payonce/ledger/postgres"},
		"starter on PostgreSQL by devstack": {"payonce/starter", []string{"payonce/internal/devstack", "payonce/ledger/postgres"}, "payonce/starter → payonce/internal/devstack → payonce/ledger/postgres"},
		"starter on pgx":                    {"payonce/starter", []string{"github.com/jackc/pgx/v5/pgxpool"}, "payonce/starter imports github.com/jackc/pgx/v5/pgxpool"},
		"starter on pgx by another":         {"payonce/starter", []string{"payonce/planted", "github.com/jackc/pgx/v5"}, "payonce/starter → payonce/planted → github.com/jackc/pgx/v5"},
		"worker on the simulated rail":      {"payonce/worker", []string{"payonce/internal/railsim/sim"}, "payonce/worker → payonce/internal/railsim/sim"},
		"the simulated rail on the adapter": {"payonce/internal/railsim/sim", []string{"payonce/internal/httprail"}, "payonce/internal/railsim/sim imports payonce/internal/httprail"},
		"the adapter on workflows":          {"payonce/internal/httprail", []string{"payonce/workflows"}, "payonce/internal/httprail imports payonce/workflows"},
		"devstack on the books":             {"payonce/internal/devstack", []string{"payonce/ledger"}, "payonce/internal/devstack → payonce/ledger"},
		"checker on the product":            {"payonce/tests/chaos/checker", []string{"payonce/workflows"}, "payonce/tests/chaos/checker imports payonce/workflows"},
		"a package that no rule names":      {"payonce/planted", []string{"fmt"}, "payonce/planted: no rule says"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planted := whole.with(append([]string{test.from}, test.to...)...)
			got := strings.Join(planted.check(rules), "\n")
			require.Contains(t, got, test.want)
		})
	}
}

// load asks the go command for this module's packages and everything that they need.
func load(t *testing.T) graph {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports", "./...")
	command.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, stderr.String())

	loaded := make(graph)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			ImportPath string   `json:"ImportPath"`
			Standard   bool     `json:"Standard"`
			Imports    []string `json:"Imports"`
		}
		err := decoder.Decode(&listed)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		loaded[listed.ImportPath] = node{standard: listed.Standard, imports: listed.Imports}
	}
	require.Contains(t, loaded, "payonce/ledger")
	return loaded
}

// with returns a copy of the graph in which each package of the chain imports the next.
func (g graph) with(chain ...string) graph {
	planted := maps.Clone(g)
	for i, path := range chain {
		n, known := planted[path]
		if !known {
			n.standard = !strings.Contains(strings.Split(path, "/")[0], ".") && !strings.HasPrefix(path, "payonce/")
		}
		if i+1 < len(chain) {
			n.imports = append(slices.Clone(n.imports), chain[i+1])
		}
		planted[path] = n
	}
	return planted
}

// check returns what breaks the rules, each with the way to the import. A package of ours that no rule names is
// reported too: a new folder needs a decision.
func (g graph) check(rules []rule) []string {
	var broken []string
	for path := range g {
		if !covers("payonce/...", path) {
			continue
		}
		bound := false
		for _, r := range rules {
			if covers(r.of, path) {
				bound = true
				broken = append(broken, g.checkOne(r, path)...)
			}
		}
		if !bound {
			broken = append(broken, path+": no rule says what it may import")
		}
	}
	slices.Sort(broken)
	return broken
}

func (g graph) checkOne(r rule, path string) []string {
	var broken []string
	for _, imported := range g[path].imports {
		stranger := r.only != nil && !g[imported].standard && !coveredBy(r.only, imported)
		if stranger || coveredBy(r.not, imported) {
			broken = append(broken, fmt.Sprintf("%s imports %s: %s", path, imported, r.why))
		}
	}
	for _, forbidden := range r.never {
		if way := g.way(path, forbidden, r.through); way != nil {
			broken = append(broken, fmt.Sprintf("%s: %s", strings.Join(way, " → "), r.why))
		}
	}
	return broken
}

// way returns the shortest chain of imports from a package to one that the pattern covers, or nil.
func (g graph) way(from, pattern string, through []string) []string {
	importer := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at != from {
			if covers(pattern, at) {
				var way []string
				for ; at != ""; at = importer[at] {
					way = append(way, at)
				}
				slices.Reverse(way)
				return way
			}
			if coveredBy(through, at) {
				continue
			}
		}
		for _, next := range g[at].imports {
			if _, seen := importer[next]; !seen {
				importer[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

func coveredBy(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return covers(pattern, path) })
}

func covers(pattern, path string) bool {
	folder, below := strings.CutSuffix(pattern, "/...")
	return path == folder || below && strings.HasPrefix(path, folder+"/")
}
