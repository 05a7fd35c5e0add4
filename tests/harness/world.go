package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"payonce/internal/devstack"
	"payonce/starter/transfers"
)

// Config is a world to make. The zero value has the ledgers us and eu, on the shared servers.
type Config struct {
	// Ledgers are the names of the ledgers, each with a database of its own; nil is us and eu.
	Ledgers []string
	// OwnPostgres and OwnTemporal give the world servers of its own, for a test that crashes them. Such a PostgreSQL writes
	// durably, and such a Temporal keeps its state in a file.
	OwnPostgres, OwnTemporal bool
	// Schedules gives the world a Temporal server of its own too, one that carries out Schedules.
	Schedules bool
	// NotMigrated leaves the databases empty.
	NotMigrated bool
	// BooksMayBeWrong leaves out the audit at the end, for a test that breaks the books, or leaves money in transit.
	BooksMayBeWrong bool
}

// World is a set of ledgers and a Temporal namespace for one test, or for a test and its subtests, which may run in
// parallel. Methods take the test that they are called by; a failure is that test's.
type World struct {
	Ledgers   []string
	Namespace string
	// Temporal is a client of the namespace, Transfers the Go client of payonce that uses it.
	Temporal  client.Client
	Transfers *transfers.Client
	// Postgres and TemporalServer are the servers: not to be touched unless they are the world's own.
	Postgres       *devstack.Postgres
	TemporalServer *devstack.Temporal

	config   Config
	postgres *postgresServer
	temporal *temporalServer
	names    map[string]string // databases by ledger
	counter  atomic.Int64

	mu     sync.Mutex
	pools  map[string]*pgxpool.Pool // by their URLs
	opened map[string]bool          // the accounts that money comes from
	ends   []func(t testing.TB)
}

var worlds atomic.Int64

// New makes a world and takes it down at the end of the test, after all of its subtests.
func New(t testing.TB, c Config) *World {
	t.Helper()
	if c.Ledgers == nil {
		c.Ledgers = []string{"us", "eu"}
	}
	number := worlds.Add(1)
	w := &World{
		Ledgers: slices.Clone(c.Ledgers), Namespace: strings.ReplaceAll(fmt.Sprintf("%s_%d", runName(), number), "_", "-"), config: c,
		names: make(map[string]string), pools: make(map[string]*pgxpool.Pool), opened: make(map[string]bool),
	}
	w.startServers(t)
	// Only now: the first world has to wait for the programs to be built.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, ledger := range w.Ledgers {
		name := fmt.Sprintf("%s_%d_%s", runName(), number, ledger)
		w.names[ledger] = name
		from := w.postgres.template
		if c.NotMigrated {
			from = ""
		}
		require.NoError(t, w.postgres.CreateDatabase(ctx, name, from))
	}
	var err error
	w.Temporal, err = w.temporal.makeNamespace(ctx, w.Namespace)
	require.NoError(t, err)
	w.Transfers = transfers.New(w.Temporal, transfers.Options{})
	t.Cleanup(func() { w.close(t) })
	return w
}

func (w *World) startServers(t testing.TB) {
	t.Helper()
	var err error
	// Before the servers, so that a failed build says so.
	_, err = binaries()
	require.NoError(t, err)
	if w.config.OwnPostgres {
		w.postgres, err = startPostgres(false)
	} else {
		w.postgres, err = sharedPostgres()
	}
	require.NoError(t, err)
	if w.config.OwnTemporal || w.config.Schedules {
		dir, errFolder := folder()
		require.NoError(t, errFolder)
		w.temporal, err = startTemporal(filepath.Join(dir, fmt.Sprintf("temporal-%d.db", worlds.Load())), w.config.Schedules)
	} else {
		w.temporal, err = sharedTemporal.take()
	}
	require.NoError(t, err)
	w.Postgres, w.TemporalServer = w.postgres.Postgres, w.temporal.Temporal
}

// close audits the world and takes it down. The test's own context has ended.
func (w *World) close(t testing.TB) {
	t.Helper()
	if !t.Failed() && !w.config.BooksMayBeWrong && !w.config.NotMigrated {
		w.AssertBooks(t)
	}
	w.mu.Lock()
	ends := w.ends
	w.ends = nil
	w.mu.Unlock()
	for _, end := range slices.Backward(ends) {
		end(t)
	}
	w.Temporal.Close()
	assert.NoError(t, w.temporal.leaveNamespace(w.Namespace))
	for _, pool := range w.pools {
		pool.Close()
	}
	if w.config.OwnPostgres {
		assert.NoError(t, w.postgres.Stop())
	} else {
		for _, ledger := range w.Ledgers {
			w.postgres.drop(w.names[ledger])
		}
	}
	if w.config.OwnTemporal || w.config.Schedules {
		assert.NoError(t, w.TemporalServer.Stop())
	} else {
		assert.NoError(t, sharedTemporal.giveBack(w.temporal))
	}
}

// atEnd has something done when the world is taken down, the latest first.
func (w *World) atEnd(do func(t testing.TB)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, do)
}

// Unique returns a name that no other call has returned: "alice-7".
func (w *World) Unique(name string) string { return fmt.Sprintf("%s-%d", name, w.counter.Add(1)) }

// LedgerURL is where a worker finds a ledger: its database, as the worker's role. It holds a password.
func (w *World) LedgerURL(ledger string) string {
	return w.postgres.URLAs(w.postgres.role, w.postgres.password, w.names[ledger])
}

// OwnerURL is the same as the role that owns the tables, and may do anything.
func (w *World) OwnerURL(ledger string) string { return w.postgres.URL(w.names[ledger]) }

// WorkerRole is the database role that workers have.
func (w *World) WorkerRole() string { return w.postgres.role }

// ClientEnv is the whole environment of a program that speaks to Temporal only.
func (w *World) ClientEnv() []string {
	return append(BasicEnv(), "TEMPORAL_ADDRESS="+w.TemporalServer.Address, "TEMPORAL_NAMESPACE="+w.Namespace)
}

// WorkerEnv is the whole environment of a worker that holds some ledgers; none are all.
func (w *World) WorkerEnv(ledgers ...string) []string {
	if len(ledgers) == 0 {
		ledgers = w.Ledgers
	}
	return append(w.ClientEnv(), "LEDGERS="+entries(ledgers, w.LedgerURL), "PAYONCE_POOL_SIZE=5")
}

// OwnerEnv is the whole environment of `worker migrate`.
func (w *World) OwnerEnv(ledgers ...string) []string {
	if len(ledgers) == 0 {
		ledgers = w.Ledgers
	}
	return append(w.ClientEnv(), "MIGRATE_LEDGERS="+entries(ledgers, w.OwnerURL))
}

func entries(ledgers []string, dsn func(string) string) string {
	list := make([]string, len(ledgers))
	for i, ledger := range ledgers {
		list[i] = ledger + "=" + escapeEntry(dsn(ledger))
	}
	return strings.Join(list, ",")
}

// DB is a ledger's database as the superuser: for looking at the books, for holding locks, and for breaking them.
func (w *World) DB(t testing.TB, ledger string) *pgxpool.Pool {
	t.Helper()
	return w.pool(t, ledger, w.OwnerURL)
}

// WorkerDB is a ledger's database as the role that workers have.
func (w *World) WorkerDB(t testing.TB, ledger string) *pgxpool.Pool {
	t.Helper()
	return w.pool(t, ledger, w.LedgerURL)
}

func (w *World) pool(t testing.TB, ledger string, dsn func(ledger string) string) *pgxpool.Pool {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Contains(t, w.names, ledger, "the world has no such ledger")
	if pool := w.pools[dsn(ledger)]; pool != nil {
		return pool
	}
	config, err := pgxpool.ParseConfig(dsn(ledger))
	require.NoError(t, err)
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	w.pools[dsn(ledger)] = pool
	return pool
}

// TempDir returns a folder that other accounts may enter, unlike the test's own.
func TempDir(t testing.TB) string {
	t.Helper()
	parent, err := folder()
	require.NoError(t, err)
	dir, err := os.MkdirTemp(parent, "") //nolint:usetesting // the test's own may not be entered by others
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return dir
}
