package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"payonce/tests/chaos/storm"
)

func TestMain(m *testing.M) {
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

// programs builds the programs of a round, once, and returns their folder.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "payonce-chaos-test-")
	if err != nil {
		return "", err
	}
	atLast(func() error { return os.RemoveAll(dir) })
	build := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", dir+string(filepath.Separator),
		"./internal/faultworker", "./starter", "./tests/chaos/planted")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
})

// steadyServers are servers that nobody kills.
var steadyServers = sync.OnceValues(func() (*storm.Servers, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	servers, err := storm.StartServers(ctx, storm.ServersConfig{Hasty: true})
	if err == nil {
		atLast(servers.Close)
	}
	return servers, err
})
