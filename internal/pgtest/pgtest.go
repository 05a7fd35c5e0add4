// Package pgtest gives tests real PostgreSQL databases with the schema of a ledger.
//
// A test binary has one server, started when the first test asks for a database, and every test has databases of its
// own, copied from a migrated template, so that tests run in parallel. The server is devstack's: a private one, or the
// one that DATABASE_URL names.
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/devstack"
	"payonce/ledger/postgres"
)

const (
	// The worker's role has the rights of a worker in production and no more. Its password is no secret: it opens nothing
	// but test databases.
	workerRole     = "payonce_test_worker"
	workerPassword = "payonce-test-worker"

	connectionsMax = 300
	startTimeout   = 5 * time.Minute
)

// Database is one ledger's database, migrated and empty.
type Database struct {
	Name      string
	WorkerURL string // as the role of a worker
	OwnerURL  string // as the role that owns the tables, a superuser
}

var server struct {
	mu       sync.Mutex
	started  bool
	err      error
	postgres *devstack.Postgres
	prefix   string // of the names of this binary's databases
	number   atomic.Int64
}

// Main runs the tests, stops the server, and then makes further checks, such as for goroutines that are left. Call it from
// TestMain: it exits.
func Main(m *testing.M, checks ...func() error) {
	code := m.Run()
	for _, check := range append([]func() error{stop}, checks...) {
		if err := check(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = 1
		}
	}
	os.Exit(code) //nolint:forbidigo // TestMain ends here
}

// NewDatabase returns a database of the test's own, which is dropped when the test ends.
func NewDatabase(t testing.TB) Database {
	t.Helper()
	return newDatabase(t, true)
}

// NewEmptyDatabase returns a database without a schema.
func NewEmptyDatabase(t testing.TB) Database {
	t.Helper()
	return newDatabase(t, false)
}

// WorkerRole is the role of Database.WorkerURL.
func WorkerRole() string { return workerRole }

func newDatabase(t testing.TB, migrated bool) Database {
	t.Helper()
	p, err := start()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	from := ""
	if migrated {
		from = template()
	}
	name := fmt.Sprintf("%s_%d", server.prefix, server.number.Add(1))
	// A test that has a deadline of its own must not leave its database behind.
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := p.CreateDatabase(ctx, name, from); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := p.DropDatabase(context.Background(), name); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return Database{Name: name, WorkerURL: p.URLAs(workerRole, workerPassword, name), OwnerURL: p.URL(name)}
}

func template() string { return server.prefix + "_template" }

// start starts the server and makes the template, once.
func start() (*devstack.Postgres, error) {
	server.mu.Lock()
	defer server.mu.Unlock()
	if !server.started {
		server.started = true
		server.postgres, server.err = startServer()
	}
	return server.postgres, server.err
}

func startServer() (*devstack.Postgres, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	// Databases come and go by the hundred, and none of them has to outlive a crash of the machine. Benchmarks get a server
	// with durable commits.
	f := flag.Lookup("test.bench")
	volatile := f == nil || f.Value.String() == ""
	p, err := devstack.StartPostgres(ctx, devstack.PostgresConfig{MaxConnections: connectionsMax, Volatile: volatile})
	if err != nil {
		return nil, err
	}
	// Several test binaries may share a server that DATABASE_URL names.
	random := make([]byte, 4)
	_, _ = rand.Read(random)
	server.prefix = "payonce_test_" + hex.EncodeToString(random)
	if err := makeTemplate(ctx, p); err != nil {
		_ = p.Stop()
		return nil, err
	}
	return p, nil
}

func makeTemplate(ctx context.Context, p *devstack.Postgres) error {
	if err := p.CreateRole(ctx, workerRole, workerPassword); err != nil {
		return err
	}
	if err := p.CreateDatabase(ctx, template(), ""); err != nil {
		return err
	}
	return postgres.Migrate(ctx, p.URL(template()), postgres.MigrateOptions{WorkerRole: workerRole})
}

func stop() error {
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.postgres == nil {
		return nil
	}
	if server.postgres.External() {
		if err := server.postgres.DropDatabase(context.Background(), template()); err != nil {
			return err
		}
	}
	return server.postgres.Stop()
}
