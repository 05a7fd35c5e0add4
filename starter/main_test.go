package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"payonce/internal/devstack"
	"payonce/starter/internal/standin"
	"payonce/starter/transfers"
)

const (
	eventually = 5 * time.Minute
	tick       = 20 * time.Millisecond

	// nowhere is an address that nobody listens on.
	nowhere = "127.0.0.1:1"
)

func TestMain(m *testing.M) {
	// The test binary stands in for both programs, under their names.
	switch filepath.Base(os.Args[0]) {
	case "worker":
		os.Exit(standInWorker())
	case "starter":
		main()
	}
	// The tests bring their own servers, and no profile of whoever runs them.
	for _, setting := range os.Environ() {
		if name, _, _ := strings.Cut(setting, "="); name == "DATABASE_URL" || name == "LEDGERS" || strings.HasPrefix(name, "TEMPORAL_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("TEMPORAL_CONFIG_FILE", os.DevNull)
	os.Exit(runTests(m))
}

// server is the Temporal server of the tests, which run one after the other: transfers have one task queue.
var server *devstack.Temporal

func runTests(m *testing.M) int {
	var err error
	server, err = devstack.StartTemporal(context.Background(), devstack.TemporalConfig{SearchAttributes: transfers.SearchAttributes()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// finished is what a command line has left.
type finished struct {
	code           exitCode
	stdout, stderr string
}

// starter runs a command line against the tests' server.
func starter(t *testing.T, args ...string) finished {
	t.Helper()
	return starterAt(t, server.Address, args...)
}

func starterAt(t *testing.T, address string, args ...string) finished {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	return starterWithin(ctx, append(args, "--address", address)...)
}

func starterWithin(ctx context.Context, args ...string) finished {
	var stdout, stderr buffer
	code := run(ctx, args, strings.NewReader(""), &stdout, &stderr)
	return finished{code, stdout.String(), stderr.String()}
}

// succeeds runs a command line that must succeed, and returns what it printed.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	got := starter(t, args...)
	require.Equal(t, exitDone, got.code, "%s\n%s", got.stdout, got.stderr)
	return got.stdout
}

// object runs a command line with --output json, checks its exit code, and returns the one document it printed.
func object(t *testing.T, want exitCode, args ...string) map[string]any {
	t.Helper()
	got := starter(t, append(args, "--output", "json")...)
	require.Equal(t, want, got.code, "%s\n%s", got.stdout, got.stderr)
	var document map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &document), got.stdout)
	return document
}

// until runs a command line, whose time a busy machine may find too short to say all that it has to say, until it has said it.
func until(t *testing.T, said func(got finished) bool, args ...string) finished {
	t.Helper()
	var got finished
	for deadline := time.Now().Add(eventually); ; {
		got = starter(t, args...)
		if said(got) || time.Now().After(deadline) {
			return got
		}
	}
}

// buffer is an output that several goroutines write to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func dialServer(t *testing.T) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{
		// The SDK would give up a call after ten seconds, which one to a busy server may take.
		RPCTimeout: time.Minute, ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: time.Minute},
		HostPort: server.Address, Namespace: server.Namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// world is a worker with the ledgers us and eu.
type world struct{ us, eu *standin.Books }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{us: standin.NewBooks(), eu: standin.NewBooks()}
	stop, err := standin.Worker(dialServer(t), standin.Options(), map[string]*standin.Books{"us": w.us, "eu": w.eu})
	require.NoError(t, err)
	t.Cleanup(stop)
	return w
}

// newFundedWorld is one in which us/alice has 20.00 and eu/bob nothing.
func newFundedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	succeeds(t, "account", "open", "us/world", "--asset", "USD", "--floor", "none")
	succeeds(t, "account", "open", "us/alice", "--asset", "USD")
	succeeds(t, "account", "open", "eu/bob", "--asset", "USD")
	succeeds(t, "transfer", "--id", "fund "+newID(t), "--from", "us/world", "--to", "us/alice", "--amount", "20.00", "--asset", "USD")
	return w
}

func requireBalance(t *testing.T, account, want string) {
	t.Helper()
	require.Equal(t, want, object(t, exitDone, "account", "show", account)["balance"])
}
