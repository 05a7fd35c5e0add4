package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The programs.
const (
	worker      = "worker"
	starter     = "starter"
	faultWorker = "faultworker"
	railSim     = "railsim"
)

// envBinaries names a folder that has the programs.
const envBinaries = "PAYONCE_BIN"

// folderPrefix is the beginning of the names of our temporary folders; the process's ID follows.
const folderPrefix = "payonce-tests-"

// Binary returns the path of a program: worker, starter, faultworker or railsim. They are built once for a test process, as `make
// build` does, or taken from the folder PAYONCE_BIN.
func Binary(t testing.TB, program string) string {
	t.Helper()
	dir, err := binaries()
	require.NoError(t, err)
	path := filepath.Join(dir, program)
	require.FileExists(t, path)
	return path
}

var binaries = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(envBinaries); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := folder()
	if err != nil {
		return "", err
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", dir+string(filepath.Separator),
		"./worker", "./starter", "./internal/faultworker", "./internal/railsim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
})

// Root returns the folder of the module.
func Root() (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("look for go.mod: %w", err)
	}
	return filepath.Dir(string(bytes.TrimSpace(out))), nil
}

// folder makes the temporary folder of this process, and removes those of processes that were killed.
var folder = sync.OnceValues(func() (string, error) {
	removeAbandoned()
	dir, err := os.MkdirTemp("", folderPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", err
	}
	shared.atLast(func() error { return os.RemoveAll(dir) })
	return dir, nil
})

func removeAbandoned() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil {
		panic(err) // the pattern is malformed
	}
	for _, dir := range dirs {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), folderPrefix), "-")
		pid, err := strconv.Atoi(text)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			// One that can't be removed is somebody else's, or being removed by another test process.
			if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(os.Stderr, "harness: a folder of tests that were killed stays: %v\n", err)
			}
		}
	}
}
