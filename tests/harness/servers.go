package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"payonce/internal/devstack"
	"payonce/internal/headers"
	"payonce/starter/transfers"
)

const (
	// connectionsMax is for many worlds at once, each with several workers.
	connectionsMax = 500
	retention      = 24 * time.Hour
)

// runName makes the names of this test process's databases, roles and namespaces its own, also on servers that others use.
var runName = sync.OnceValue(func() string { return "payonce_test_" + strings.ToLower(rand.Text()[:8]) })

// postgresServer is a PostgreSQL server with a role for workers, and a database that ledgers are copied from.
type postgresServer struct {
	*devstack.Postgres

	role     string
	password string
	template string

	dropping sync.WaitGroup
}

var sharedPostgres = sync.OnceValues(func() (*postgresServer, error) {
	// It is never crashed, so nothing is lost by not waiting for the disk. A world that crashes its server has its own.
	return startPostgres(true)
})

func startPostgres(volatile bool) (*postgresServer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	pg, err := devstack.StartPostgres(ctx, devstack.PostgresConfig{Log: os.Stderr, MaxConnections: connectionsMax, Volatile: volatile})
	if err != nil {
		return nil, err
	}
	s := &postgresServer{Postgres: pg, role: runName() + "_worker", password: rand.Text(), template: runName() + "_template"}
	shared.atLast(s.close)
	if err := s.CreateRole(ctx, s.role, s.password); err != nil {
		return nil, err
	}
	if err := s.CreateDatabase(ctx, s.template, ""); err != nil {
		return nil, err
	}
	return s, s.migrate(ctx, s.template)
}

// migrate brings a database up to date as an operator does.
func (s *postgresServer) migrate(ctx context.Context, database string) error {
	dir, err := binaries()
	if err != nil {
		return err
	}
	migrate := exec.CommandContext(ctx, dir+string(os.PathSeparator)+worker, "migrate", "--worker-role", s.role)
	migrate.Env = append(BasicEnv(), "MIGRATE_DATABASE_URL="+s.URL(database))
	if out, err := migrate.CombinedOutput(); err != nil {
		return fmt.Errorf("worker migrate: %w\n%s", err, out)
	}
	return nil
}

// drop drops a database while others go on.
func (s *postgresServer) drop(name string) {
	s.dropping.Go(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := s.DropDatabase(ctx, name); err != nil {
			fmt.Fprintf(os.Stderr, "harness: %v\n", err)
		}
	})
}

func (s *postgresServer) close() error {
	s.dropping.Wait()
	var err error
	if s.External() {
		err = s.leave()
	}
	return errors.Join(err, s.Stop())
}

// leave removes what this process has made on a server that is not its own.
func (s *postgresServer) leave() error {
	ctx, cancel := cleanupContext()
	defer cancel()
	if err := s.DropDatabase(ctx, s.template); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "drop role if exists "+pgx.Identifier{s.role}.Sanitize())
	return err
}

// temporalServer is a Temporal server in which worlds have namespaces.
type temporalServer struct {
	*devstack.Temporal

	client client.Client
	end    func() error // safe to call twice
	given  int          // how many worlds it has been given to; guarded by its pool
	living int          // how many of them are left
}

var temporalSettings = []string{
	// A deleted workflow is gone after seconds, and not half a minute: it waits for the queues to say how far they are.
	`history.transferProcessorUpdateAckInterval="200ms"`,
	`history.visibilityProcessorUpdateAckInterval="200ms"`,
}

// noSchedules: the server has no workers of its own in each namespace, which would poll for as long as the tests run.
const noSchedules = `worker.perNamespaceWorkerCount=0`

// temporalPool has a Temporal server for each world, shared by some dozens of them. One that is our own gets slower and larger
// with each namespace, also with those that nobody uses any more, so it is replaced before that hurts.
type temporalPool struct {
	mu      sync.Mutex
	current *temporalServer
}

const worldsPerTemporal = 40

var sharedTemporal temporalPool

func (p *temporalPool) take() (*temporalServer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil || p.current.given >= worldsPerTemporal && !p.current.External() {
		fresh, err := startTemporal("", false)
		if err != nil {
			return nil, err
		}
		old := p.current
		p.current = fresh
		if err := p.stopUnused(old); err != nil {
			return nil, err
		}
	}
	p.current.given++
	p.current.living++
	return p.current, nil
}

// giveBack ends a world's use of a server.
func (p *temporalPool) giveBack(s *temporalServer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.living--
	return p.stopUnused(s)
}

// stopUnused stops a server that has been replaced and has no worlds left.
func (p *temporalPool) stopUnused(s *temporalServer) error {
	if s == nil || s == p.current || s.living > 0 {
		return nil
	}
	return s.end()
}

func startTemporal(dbFile string, schedules bool) (*temporalServer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	settings := slices.Clone(temporalSettings)
	if !schedules {
		settings = append(settings, noSchedules)
	}
	server, err := devstack.StartTemporal(ctx, devstack.TemporalConfig{Log: os.Stderr, DBFile: dbFile, Settings: settings})
	if err != nil {
		return nil, err
	}
	shared.atLast(server.Stop)
	c, err := client.DialContext(ctx, client.Options{
		// The SDK would give up a call after ten seconds, which on a machine that stalls says nothing about what is tested.
		RPCTimeout: patience,
		HostPort:   server.Address, Namespace: server.Namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{headers.DialOption()}},
	})
	if err != nil {
		return nil, err
	}
	s := &temporalServer{Temporal: server, client: c, end: sync.OnceValue(func() error {
		c.Close()
		return server.Stop()
	})}
	shared.atLast(s.end)
	return s, nil
}

// makeNamespace makes a namespace that is ready for transfers.
func (s *temporalServer) makeNamespace(ctx context.Context, name string) (client.Client, error) {
	_, err := s.client.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(retention),
	})
	if err != nil {
		return nil, fmt.Errorf("make the namespace: %w", err)
	}
	attributes := make(map[string]enums.IndexedValueType)
	var query []string
	for name, kind := range transfers.SearchAttributes() {
		if attributes[name], err = enums.IndexedValueTypeFromString(kind); err != nil {
			return nil, err
		}
		query = append(query, name+" is not null")
	}
	c, err := client.NewClientFromExistingWithContext(ctx, s.client, client.Options{
		Namespace: name, RPCTimeout: patience, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return nil, err
	}
	return c, retry(ctx, func() error {
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: name, SearchAttributes: attributes,
		})
		var exists *serviceerror.AlreadyExists
		if err != nil && !errors.As(err, &exists) {
			return err
		}
		// Once a query knows them, they are in force.
		_, err = c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: strings.Join(query, " and ")})
		return err
	})
}

// leaveNamespace removes a namespace from a server that is not ours.
func (s *temporalServer) leaveNamespace(name string) error {
	if !s.External() {
		return nil
	}
	ctx, cancel := cleanupContext()
	defer cancel()
	_, err := s.client.OperatorService().DeleteNamespace(ctx, &operatorservice.DeleteNamespaceRequest{Namespace: name})
	return err
}

// retry does something until it succeeds or the context ends.
func retry(ctx context.Context, do func() error) error {
	ticks := time.NewTicker(pollInterval)
	defer ticks.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-ticks.C:
		}
	}
}

// BasicEnv is an environment with what any program needs, and nothing that steers one of ours.
func BasicEnv() []string {
	env := []string{"TEMPORAL_CONFIG_FILE=" + os.DevNull}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "XDG_CACHE_HOME", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// escapeEntry makes a URL an entry of LEDGERS: a comma would end it.
func escapeEntry(dsn string) string { return strings.ReplaceAll(dsn, ",", "%2C") }
