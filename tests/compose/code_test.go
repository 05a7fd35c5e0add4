package compose

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// code is what the programs know of themselves.
type code struct {
	// folders of ours that each program is made of, the program's own among them, as "ledger/postgres".
	folders map[string][]string
	// versions has the programs whose main package has a string variable that the build can set.
	versions map[string]bool
	// paths that the worker serves over HTTP.
	paths map[string]bool
	// attributes are the search attributes that workflows set, with their types.
	attributes map[string]string

	binaries string
	mutex    sync.Mutex
	commands map[string]bool
}

// binaries is where the programs are built, once for all tests.
var binaries string

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "payonce-compose-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(binaries)
	m.Run()
}

var (
	readCodeOnce sync.Once
	codeRead     *code
	errCode      error
)

// readCode builds the programs and reads their sources, once.
func readCode(t *testing.T) *code {
	t.Helper()
	readCodeOnce.Do(func() { codeRead, errCode = newCode(context.WithoutCancel(t.Context())) })
	require.NoError(t, errCode)
	return codeRead
}

func newCode(ctx context.Context) (*code, error) {
	c := &code{
		folders:    make(map[string][]string),
		versions:   make(map[string]bool),
		paths:      make(map[string]bool),
		attributes: make(map[string]string),
		commands:   make(map[string]bool),
		binaries:   binaries,
	}
	if _, err := run(ctx, "go", "build", "-ldflags=-s -w", "-o", binaries+"/", "./worker", "./starter"); err != nil {
		return nil, err
	}
	for _, program := range []string{"worker", "starter", "docker/probe"} {
		listed, err := run(ctx, "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+program)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(listed) {
			if folder, ok := strings.CutPrefix(strings.TrimSpace(line), "payonce/"); ok {
				c.folders[program] = append(c.folders[program], folder)
			}
		}
		if err := c.readVersion(program); err != nil {
			return nil, err
		}
	}
	if err := c.readPaths(); err != nil {
		return nil, err
	}
	if err := c.readAttributes(); err != nil {
		return nil, err
	}
	for _, program := range []string{"worker", "starter"} {
		if c.hasCommand(ctx, program, "no-such-command") {
			return nil, fmt.Errorf("%s takes every command: this test can't tell which it has", program)
		}
	}
	return c, nil
}

// readVersion looks for what `go build -ldflags "-X main.version=…"` sets; the linker says nothing if it is not there.
func (c *code) readVersion(program string) error {
	return inspectFolder(program, func(node ast.Node) {
		file, ok := node.(*ast.File)
		if !ok {
			return
		}
		for _, declaration := range file.Decls {
			variables, ok := declaration.(*ast.GenDecl)
			if !ok || variables.Tok != token.VAR {
				continue
			}
			for _, spec := range variables.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if !ok || len(value.Names) != 1 || len(value.Values) > 1 {
					continue
				}
				if len(value.Values) == 1 {
					literal, ok := value.Values[0].(*ast.BasicLit)
					if !ok || literal.Kind != token.STRING {
						continue
					}
				}
				c.versions[program+" main."+value.Names[0].Name] = true
			}
		}
	})
}

// readPaths looks for the patterns that the worker's handlers are registered under.
func (c *code) readPaths() error {
	for _, folder := range c.folders["worker"] {
		err := inspectFolder(folder, func(node ast.Node) {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				return
			}
			if pattern := strings.TrimPrefix(text, "GET "); strings.HasPrefix(pattern, "/") && !strings.ContainsAny(pattern, " \n") {
				c.paths[pattern] = true
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readAttributes looks for temporal.NewSearchAttributeKeyKeyword("PayonceState") and the like.
func (c *code) readAttributes() error {
	return inspectFolder("workflows", func(node ast.Node) {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return
		}
		function, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return
		}
		kind, ok := strings.CutPrefix(function.Sel.Name, "NewSearchAttributeKey")
		if !ok {
			return
		}
		name := "?"
		if literal, ok := call.Args[0].(*ast.BasicLit); ok {
			name = strings.Trim(literal.Value, "`\"")
		}
		if !strings.HasPrefix(name, "Temporal") { // those are the server's own, and there
			c.attributes[name] = kind
		}
	})
}

// hasCommand says whether a program has a command, by asking for its help.
func (c *code) hasCommand(ctx context.Context, program, command string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	name := program + " " + command
	if known, ok := c.commands[name]; ok {
		return known
	}
	// A program may answer a name that it does not know with the help of the whole: look at whose help it is.
	help, err := run(ctx, filepath.Join(c.binaries, program), command, "--help")
	usage := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(name) + `(\s|$)`)
	c.commands[name] = err == nil && usage.MatchString(help)
	return c.commands[name]
}

// isProgram says whether a folder of ours is one that the tests know as a program.
func (c *code) isProgram(folder string) bool {
	_, ok := c.folders[folder]
	return ok
}

// foldersOf returns the folders of ours that these programs are made of.
func (c *code) foldersOf(programs []string) []string {
	needed := make(map[string]bool)
	for _, program := range programs {
		for _, folder := range c.folders[program] {
			needed[folder] = true
		}
	}
	return slices.Sorted(maps.Keys(needed))
}

// inspectFolder calls a function for each node of each file of a package that is no test.
func inspectFolder(folder string, visit func(ast.Node)) error {
	names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("%s has no Go files", folder)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			visit(node)
			return true
		})
	}
	return nil
}

// run runs a program in the module's folder and returns what it says. Nothing of this process's settings reaches it.
func run(ctx context.Context, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = root
	if path.Base(program) != "go" {
		command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + binaries}
	}
	out, err := command.Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return "", fmt.Errorf("%s %s: %w: %s", path.Base(program), strings.Join(args, " "), err, failed.Stderr)
		}
		return "", fmt.Errorf("%s %s: %w", path.Base(program), strings.Join(args, " "), err)
	}
	return string(out), nil
}
