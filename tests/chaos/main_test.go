package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"payonce/tests/chaos/storm"
)

// testsAtOnce is how many rounds run at once when nobody says: they mostly wait for others.
const testsAtOnce = 6

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(testsAtOnce)); err != nil {
			panic(err) // the flag is package testing's own
		}
	}
	code := m.Run()
	if err := takeDown(); err != nil {
		fmt.Fprintf(os.Stderr, "chaos: taking everything down: %v\n", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// shared is what the tests of this process share, started when the first one needs it.
var shared struct {
	mu   sync.Mutex
	ends []func() error
}

func atLast(do func() error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.ends = append(shared.ends, do)
}

func takeDown() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	var errs []error
	for _, end := range slices.Backward(shared.ends) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// envBinaries names a folder with the programs of `make build`, which are not built again then.
const envBinaries = "PAYONCE_BIN"

// programs are the paths of what a round runs.
type programs struct{ faultWorker, starter, planted string }

// build builds the programs, once.
var build = sync.OnceValues(func() (p programs, err error) {
	dir, err := os.MkdirTemp("", "payonce-chaos-test-")
	if err != nil {
		return p, err
	}
	atLast(func() error { return os.RemoveAll(dir) })
	built := dir
	packages := []string{"./tests/chaos/planted", "./internal/faultworker", "./starter"}
	if given := os.Getenv(envBinaries); given != "" {
		packages = packages[:1]
		if built, err = filepath.Abs(given); err != nil {
			return p, err
		}
	}
	command := exec.CommandContext(context.Background(), "go",
		append([]string{"build", "-buildvcs=false", "-o", dir + string(filepath.Separator)}, packages...)...)
	command.Dir = filepath.Join("..", "..")
	if out, err := command.CombinedOutput(); err != nil {
		return p, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return programs{
		faultWorker: filepath.Join(built, "faultworker"), starter: filepath.Join(built, "starter"), planted: filepath.Join(dir, "planted"),
	}, nil
})

// steadyServers are servers that nobody kills.
var steadyServers = sync.OnceValues(func() (*storm.Servers, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	servers, err := storm.StartServers(ctx, storm.ServersConfig{Volatile: true})
	if err == nil {
		atLast(servers.Close)
	}
	return servers, err
})
