package devstack

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

const (
	// WorkerRole is the database role that workers log in with.
	WorkerRole = "payonce_worker"

	// LedgerDefault is the ledger of a stack that names none.
	LedgerDefault = "main"

	databasePrefix = "payonce_"
)

// Config describes a stack to start. The zero value is a stack with one ledger
// that keeps nothing.
type Config struct {
	// Ledgers are the names of the ledgers, each with a database payonce_NAME.
	// Empty: LedgerDefault.
	Ledgers []string

	// Dir keeps PostgreSQL's cluster, Temporal's state and the passwords, and is
	// made if it is absent. Empty: nothing is kept.
	Dir string

	// Log gets a line for each thing that takes a while. Nil: nowhere.
	Log io.Writer

	// UI runs Temporal's web UI too.
	UI bool

	// SearchAttributes are registered with Temporal: see TemporalConfig.
	SearchAttributes map[string]string

	// PostgresSettings are further settings of PostgreSQL: see PostgresConfig.
	PostgresSettings map[string]string
}

// Stack is PostgreSQL and Temporal, with a database for each ledger.
type Stack struct {
	Postgres *Postgres
	Temporal *Temporal

	// Ledgers are the names of the ledgers, in the order of the Config.
	Ledgers []string

	workerPassword string
}

// Start starts PostgreSQL and Temporal at the same time, and makes a database
// for each ledger and the role WorkerRole, which may connect to them and no
// more: the tables, and the rights to them, come with the ledger's migrations.
// The context bounds the start alone.
//
// A repeat with the same Dir finds what the last one kept, under the same
// passwords, on other ports. Errors are those of [StartPostgres] and
// [StartTemporal]; nothing is left behind after one.
func Start(ctx context.Context, c Config) (_ *Stack, err error) {
	s := &Stack{Ledgers: slices.Clone(c.Ledgers)}
	if len(s.Ledgers) == 0 {
		s.Ledgers = []string{LedgerDefault}
	}
	if err := checkLedgers(s.Ledgers); err != nil {
		return nil, err
	}
	if c.Log != nil {
		c.Log = &lineWriter{w: c.Log}
	}
	pg := PostgresConfig{Log: c.Log, Settings: c.PostgresSettings}
	tc := TemporalConfig{Log: c.Log, UI: c.UI, SearchAttributes: c.SearchAttributes}
	if c.Dir != "" {
		acc, err := serverAccount()
		if err != nil {
			return nil, err
		}
		if err := makeDir(c.Dir, acc); err != nil {
			return nil, err
		}
		pg.Dir = filepath.Join(c.Dir, "postgres")
		tc.DBFile = filepath.Join(c.Dir, "temporal", "temporal.db")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		var err error
		if s.Postgres, err = StartPostgres(groupCtx, pg); err != nil {
			return err
		}
		return s.prepareLedgers(groupCtx, c.Dir)
	})
	group.Go(func() error {
		var err error
		s.Temporal, err = StartTemporal(groupCtx, tc)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return s, nil
}

func checkLedgers(names []string) error {
	for i, name := range names {
		fits := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
		if !fits || checkIdentifier(databasePrefix+name) != nil {
			return fmt.Errorf("the ledger name %q is not of 1 to %d letters, digits, _ and -", name, identifierBytesMax-len(databasePrefix))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("the ledger name %q is there twice", name)
		}
	}
	return nil
}

func (s *Stack) prepareLedgers(ctx context.Context, dir string) error {
	var err error
	switch {
	case s.Postgres.External():
		s.workerPassword = s.derivedPassword()
	case dir != "":
		s.workerPassword, err = keptSecret(filepath.Join(dir, "worker-password"))
	default:
		s.workerPassword = rand.Text()
	}
	if err != nil {
		return err
	}
	if err := s.Postgres.CreateRole(ctx, WorkerRole, s.workerPassword); err != nil {
		return err
	}
	for _, ledger := range s.Ledgers {
		database := Database(ledger)
		if err := s.Postgres.CreateDatabase(ctx, database, ""); err != nil {
			return err
		}
		if err := s.Postgres.grantConnect(ctx, WorkerRole, database); err != nil {
			return err
		}
	}
	return nil
}

// derivedPassword returns the worker role's password on an external server,
// which several stacks may share: each must come to the same one, or the last
// to start would lock out the workers of the others. It takes the owner's
// password to know it.
func (s *Stack) derivedPassword() string {
	owner, _ := s.Postgres.base.User.Password()
	mac := hmac.New(sha256.New, []byte(owner))
	mac.Write([]byte(WorkerRole))
	return base32.StdEncoding.EncodeToString(mac.Sum(nil))[:26]
}

// Database returns the name of a ledger's database.
func Database(ledger string) string { return databasePrefix + ledger }

// LedgersURL returns the setting LEDGERS for a worker, which connects as
// WorkerRole: "us=postgres://…,eu=postgres://…". It holds a password: don't
// print it where it is not wanted.
func (s *Stack) LedgersURL() string {
	return s.ledgers(func(database string) string { return s.Postgres.URLAs(WorkerRole, s.workerPassword, database) })
}

// LedgersOwnerURL returns the same setting for the databases' owner, who
// migrates them. It holds a password: don't print it where it is not wanted.
func (s *Stack) LedgersOwnerURL() string { return s.ledgers(s.Postgres.URL) }

func (s *Stack) ledgers(url func(database string) string) string {
	var list []string
	for _, ledger := range s.Ledgers {
		// A comma would end the entry, and means the same in this form.
		list = append(list, ledger+"="+strings.ReplaceAll(url(Database(ledger)), ",", "%2C"))
	}
	return strings.Join(list, ",")
}

// Env returns the stack's settings as NAME=value: LEDGERS for workers,
// MIGRATE_LEDGERS for the owner, TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.
func (s *Stack) Env() []string {
	return []string{
		"LEDGERS=" + s.LedgersURL(),
		"MIGRATE_LEDGERS=" + s.LedgersOwnerURL(),
		"TEMPORAL_ADDRESS=" + s.Temporal.Address,
		"TEMPORAL_NAMESPACE=" + s.Temporal.Namespace,
	}
}

// Close stops what is ours of the stack, and removes its temporary folders.
// Safe to call twice.
func (s *Stack) Close() error {
	if s == nil {
		return nil
	}
	// Temporal first: it is the one that sends workers to the database.
	return errors.Join(s.Temporal.Stop(), s.Postgres.Stop())
}

// lineWriter keeps the lines of two servers that start at once apart.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
