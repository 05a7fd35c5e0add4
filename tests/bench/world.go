package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"payonce/activities"
	"payonce/internal/devstack"
	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/starter/transfers"
	"payonce/workflows"
)

const (
	ledgerName = "us"
	accounts   = 1_000

	timeoutStart = 10 * time.Minute
	timeoutStop  = 30 * time.Second
)

// postgresSettings are what an operator of a busy ledger sets. Commits stay durable. PostgreSQL's defaults are for a small machine:
// a checkpoint every gigabyte has each page written to the log once more, whole.
var postgresSettings = map[string]string{"shared_buffers": "2GB", "max_wal_size": "16GB", "checkpoint_timeout": "30min"}

// world is the servers, on this machine and with durable commits, and one ledger.
type world struct {
	stack *devstack.Stack
	log   *slog.Logger
	bin   string // the folder of the programs
}

func newWorld(ctx context.Context, bin string, stderr io.Writer) (*world, error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutStart)
	defer cancel()
	stack, err := devstack.Start(ctx, devstack.Config{
		Ledgers: []string{ledgerName}, Log: stderr, SearchAttributes: transfers.SearchAttributes(),
		PostgresSettings: postgresSettings,
	})
	if err != nil {
		return nil, err
	}
	w := &world{stack: stack, bin: bin, log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if err := newBooks(ctx, w.database()); err != nil {
		return nil, errors.Join(err, stack.Close())
	}
	return w, nil
}

func (w *world) close() error { return w.stack.Close() }

// database is the ledger's database, as its owner.
func (w *world) database() string { return w.stack.Postgres.URL(devstack.Database(ledgerName)) }

// newBooks makes a ledger anew: empty, with the accounts a0, a1, …, which may go below zero.
func newBooks(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `drop schema public cascade; create schema public; grant usage on schema public to public`); err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, database, postgres.MigrateOptions{WorkerRole: devstack.WorkerRole}); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `insert into accounts (name, asset, floor) select 'a' || i, 'USD/2', null from generate_series(0, $1 - 1) i`, accounts)
	return err
}

// emptyBooks empties the ledger while connections to it stay. Its walls are against that, so they are taken down meanwhile.
func (w *world) emptyBooks(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, w.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range []string{
		`set session_replication_role = replica`, `truncate operations, entries`,
		`update accounts set balance = 0, version = 0, entry_at = null`, `vacuum full accounts`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// ledgerURL is how a worker reaches the ledger.
func (w *world) ledgerURL() string {
	_, url, _ := strings.Cut(w.stack.LedgersURL(), "=")
	return strings.ReplaceAll(url, "%2C", ",")
}

func (w *world) openBooks(ctx context.Context) (*postgres.Ledger, error) {
	return postgres.Open(ctx, postgres.Config{Name: ledgerName, URL: w.ledgerURL()})
}

func (w *world) dial(ctx context.Context) (client.Client, error) {
	return client.DialContext(ctx, client.Options{
		HostPort: w.stack.Temporal.Address, Namespace: w.stack.Temporal.Namespace, Logger: sdklog.NewStructuredLogger(w.log),
	})
}

// startWorker runs a worker in this process, with c as its client, so that eager starts reach it. more registers more.
func (w *world) startWorker(ctx context.Context, c client.Client, more func(worker.Registry, *postgres.Ledger)) (stop func(), err error) {
	books, err := w.openBooks(ctx)
	if err != nil {
		return nil, err
	}
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	acts := activities.New(map[string]activities.Ledger{ledgerName: books})
	main := worker.New(c, workflows.TaskQueue, worker.Options{WorkflowTaskPollerBehavior: pollers, ActivityTaskPollerBehavior: pollers})
	workflows.New(workflows.DefaultOptions()).Register(main)
	main.RegisterActivity(acts)
	if more != nil {
		more(main, books)
	}
	durable := worker.New(c, workflows.LedgerTaskQueue(ledgerName), worker.Options{DisableWorkflowWorker: true, ActivityTaskPollerBehavior: pollers})
	durable.RegisterActivity(acts)
	for _, one := range []worker.Worker{main, durable} {
		if err := one.Start(); err != nil {
			books.Close()
			return nil, err
		}
	}
	return func() {
		main.Stop()
		durable.Stop()
		books.Close()
	}, nil
}

// apart is a worker program that runs beside this one.
type apart struct{ cmd *exec.Cmd }

// startWorkerApart runs the worker program, with its own defaults.
func (w *world) startWorkerApart(ctx context.Context, stderr io.Writer) (*apart, error) {
	return w.startApart(ctx, stderr, filepath.Join(w.bin, "worker"), "run")
}

// startTemplateApart runs a worker for the template's shape, which is this program.
func (w *world) startTemplateApart(ctx context.Context, stderr io.Writer) (*apart, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return w.startApart(ctx, stderr, self, templateWorker)
}

func (w *world) startApart(ctx context.Context, stderr io.Writer, program, command string) (*apart, error) {
	cmd := exec.CommandContext(ctx, program, command)
	cmd.Env = append(os.Environ(), append(w.stack.Env(), "PAYONCE_LOG_LEVEL=warn", "PAYONCE_LISTEN=127.0.0.1:0", envLedger+"="+w.ledgerURL())...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = timeoutStop
	return &apart{cmd}, cmd.Start()
}

func (a *apart) pid() int { return a.cmd.Process.Pid }

// stop stops the worker in order.
func (a *apart) stop() error {
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return a.cmd.Wait()
}

// request is a new transfer between two of the accounts.
func request(prefix string, n int64) workflows.TransferInput {
	from := n * 7919 % accounts
	to := (from + 1 + n%(accounts-1)) % accounts
	return workflows.TransferInput{
		ID: fmt.Sprintf("%s-%d", prefix, n), From: fmt.Sprintf("%s/a%d", ledgerName, from), To: fmt.Sprintf("%s/a%d", ledgerName, to),
		Amount: fmt.Sprintf("%d.%02d", 1+n%100, n%100), Asset: "USD",
	}
}

func operation(prefix string, n int64) ledger.Operation {
	in := request(prefix, n)
	parsed, err := workflows.ParseTransfer(in)
	if err != nil {
		panic(err) // request makes well-formed ones
	}
	return ledger.Operation{
		Key: ledger.Key(workflows.StepKey(workflows.TransferWorkflowID(in.ID), workflows.StepPost)), Kind: ledger.KindPost,
		Legs: []ledger.Leg{{From: parsed.From.Name, To: parsed.To.Name, Asset: parsed.Asset, Amount: parsed.Amount}},
	}
}
