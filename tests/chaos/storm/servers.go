package storm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"payonce/internal/devstack"
	"payonce/internal/headers"
	"payonce/ledger/postgres"
	"payonce/starter/transfers"
)

const (
	connectionsMax = 400
	retention      = 24 * time.Hour
	workerRole     = "payonce_chaos_worker"
	template       = "payonce_chaos_template"

	// timeoutWorkflowTask is how long a workflow waits for a worker that was killed with its task in hand. The server's
	// default, 10 s, would be most of a round.
	timeoutWorkflowTask = 4 * time.Second
)

// ServersConfig says which servers to start.
type ServersConfig struct {
	// Dir keeps Temporal's state, so that it survives being killed; "" is in memory.
	Dir string
	// Volatile leaves out waiting for the disk.
	Volatile bool
	Log      io.Writer // gets a line for each thing that takes a while; nil: nowhere
}

// Servers are PostgreSQL and Temporal, with an empty ledger to copy.
type Servers struct {
	postgres *devstack.Postgres
	temporal *devstack.Temporal
	durable  bool // a restart of Temporal loses nothing
	client   client.Client
	password string // of the workers' role
}

// StartServers starts both servers. Nothing is left behind after an error.
func StartServers(ctx context.Context, c ServersConfig) (_ *Servers, err error) {
	s := &Servers{password: rand.Text(), durable: c.Dir != ""}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		config := devstack.PostgresConfig{Log: c.Log, MaxConnections: connectionsMax, Volatile: c.Volatile}
		if s.postgres, err = devstack.StartPostgres(groupCtx, config); err != nil {
			return err
		}
		return s.makeTemplate(groupCtx)
	})
	group.Go(func() (err error) {
		config := devstack.TemporalConfig{Log: c.Log, Settings: []string{
			fmt.Sprintf("history.defaultWorkflowTaskTimeout=%q", timeoutWorkflowTask),
			// A deleted workflow is gone after the queues have told how far they are.
			`history.transferProcessorUpdateAckInterval="200ms"`,
			`history.visibilityProcessorUpdateAckInterval="200ms"`,
		}}
		if c.Dir != "" {
			config.DBFile = filepath.Join(c.Dir, "temporal.db")
		}
		s.temporal, err = devstack.StartTemporal(groupCtx, config)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if s.postgres.External() || s.temporal.External() {
		return nil, errors.New("the servers are killed and their clocks run by the round: unset DATABASE_URL and TEMPORAL_ADDRESS")
	}
	s.client, err = dial(ctx, s.temporal.Address, s.temporal.Namespace)
	return s, err
}

// Close stops the servers. Safe to call twice.
func (s *Servers) Close() error {
	if s == nil {
		return nil
	}
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
	return errors.Join(s.temporal.Stop(), s.postgres.Stop())
}

// The poison and the flaky account are the database's doing: what is written for the one is refused each time, for the
// other every second time, with an error that says nothing. Giving money back, and sealing, always succeed.
const poisonSQL = `
create function chaos_poison() returns trigger language plpgsql as $$
begin
	raise exception 'chaos: the database chokes on %', new.key;
end
$$;
create trigger chaos_poison before insert on operations
	for each row when (
		new.state = 'applied' and new.kind <> 'refund'
		and (new.legs::text like '%"cursed%' or (new.legs::text like '%"flaky%' and random() < 0.5)))
	execute function chaos_poison()`

func (s *Servers) makeTemplate(ctx context.Context) error {
	if err := s.postgres.CreateRole(ctx, workerRole, s.password); err != nil {
		return err
	}
	if err := s.postgres.CreateDatabase(ctx, template, ""); err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, s.postgres.URL(template), postgres.MigrateOptions{WorkerRole: workerRole}); err != nil {
		return err
	}
	return s.exec(ctx, template, poisonSQL)
}

// exec runs SQL on a database as the superuser.
func (s *Servers) exec(ctx context.Context, database, sql string, args ...any) error {
	return s.withDatabase(ctx, database, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	})
}

func (s *Servers) withDatabase(ctx context.Context, database string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.postgres.URL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}

// makeNamespace makes a namespace that is ready for transfers.
func (s *Servers) makeNamespace(ctx context.Context, name string) error {
	_, err := s.client.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(retention),
	})
	if err != nil {
		return fmt.Errorf("make the namespace %s: %w", name, err)
	}
	attributes := make(map[string]enums.IndexedValueType)
	var query []string
	for name, kind := range transfers.SearchAttributes() {
		if attributes[name], err = enums.IndexedValueTypeFromString(kind); err != nil {
			return err
		}
		query = append(query, name+" is not null")
	}
	return retry(ctx, func() (bool, error) {
		_, err := s.client.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: name, SearchAttributes: attributes,
		})
		var exists *serviceerror.AlreadyExists
		if err != nil && !errors.As(err, &exists) {
			return false, err
		}
		// Once a query knows them, they are in force.
		_, err = s.client.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: name, Query: strings.Join(query, " and "),
		})
		return err == nil, err
	})
}

func dial(ctx context.Context, address, namespace string) (client.Client, error) {
	return client.DialContext(ctx, client.Options{
		HostPort: address, Namespace: namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{headers.DialOption()}},
	})
}
