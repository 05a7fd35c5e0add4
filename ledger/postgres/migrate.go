package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"payonce/ledger"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const (
	schemaTable = "schema_migrations"

	// Migrators of one database take turns with this advisory lock. The number is arbitrary, but must stay.
	lockMigrate = 0x7061796f6e6365 // "payonce"

	// The lock is tried once a second for five minutes: another machine may be in the middle of a long migration.
	lockMigratePeriodSeconds, lockMigrateTries = 1, 300
)

// MigrateOptions says what Migrate does beside migrating.
type MigrateOptions struct {
	// WorkerRole is the database role that workers log in as. It gets the rights that a worker needs, and loses every
	// other one on the ledger's tables. "" leaves rights as they are.
	WorkerRole string
	// Log gets a line for each migration; nil: none.
	Log *slog.Logger
}

// Migrate brings the database at url to this binary's schema, as the role of the url, which owns the tables. A repeat
// changes nothing, and two at once take turns. There is no way back: what is wrong is put right by a newer migration.
func Migrate(ctx context.Context, url string, options MigrateOptions) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("migrate: %w", &ledger.InvalidError{Field: "database URL", Reason: reasonURL})
	}
	if err := configureSession(config, url); err != nil {
		return fmt.Errorf("migrate: %w", &ledger.InvalidError{Field: "database URL", Reason: err.Error()})
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	return takeTurns(ctx, db, func() error {
		if err := migrate(ctx, db, options.Log); err != nil {
			return fmt.Errorf("migrate: %w", translate(err))
		}
		if options.WorkerRole == "" {
			return nil
		}
		if err := grant(ctx, config, options.WorkerRole); err != nil {
			return fmt.Errorf("migrate: grant rights to role %q: %w", options.WorkerRole, translate(err))
		}
		return nil
	})
}

// takeTurns holds the lock of migrators while do runs. goose could hold it itself, but it makes its own table before it does:
// two that make it at once can leave its sequence with another name than the one that grant knows.
func takeTurns(ctx context.Context, db *sql.DB, do func() error) (err error) {
	locker, err := lock.NewPostgresSessionLocker(
		lock.WithLockID(lockMigrate),
		lock.WithLockTimeout(lockMigratePeriodSeconds, lockMigrateTries),
		lock.WithUnlockTimeout(lockMigratePeriodSeconds, lockMigrateTries),
	)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", translate(err))
	}
	// Closing the database ends the session, and with it the lock.
	defer func() { _ = conn.Close() }()
	if err := locker.SessionLock(ctx, conn); err != nil {
		return fmt.Errorf("migrate: take turns with other migrators: %w", translate(err))
	}
	err = do()
	return errors.Join(err, locker.SessionUnlock(context.WithoutCancel(ctx), conn))
}

func migrate(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(schemaTable), goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return err
	}
	for _, result := range results {
		if log != nil {
			log.InfoContext(ctx, "migrated", "migration", result.Source.Path, "took", result.Duration)
		}
	}
	current, target, err := provider.GetVersions(ctx)
	if err == nil && current > target {
		err = errSchemaNewer(current)
	}
	return err
}

// schemaVersion is the version of the newest migration of this binary.
func schemaVersion() (int64, error) {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	var newest int64
	for _, file := range files {
		version, err := goose.NumericComponent(file)
		if err != nil {
			return 0, err
		}
		newest = max(newest, version)
	}
	return newest, nil
}

const schemaVersionSQL = `select coalesce(max(version_id), 0) from ` + schemaTable + ` where is_applied`

// CheckSchema says whether the database has the schema that this binary was built for. If it has not, the error says
// what to do: migrate, grant, or run a newer binary.
func (l *Ledger) CheckSchema(ctx context.Context) error {
	want, err := schemaVersion()
	if err != nil {
		return err
	}
	return l.withConn(ctx, "check schema", func(ctx context.Context, conn *pgx.Conn) error {
		var got int64
		err := conn.QueryRow(ctx, schemaVersionSQL).Scan(&got)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "42P01" { // undefined_table: never migrated
			got, err = 0, nil
		}
		switch pgErr, _ := errors.AsType[*pgconn.PgError](err); {
		case pgErr != nil && pgErr.Code == "42501": // insufficient_privilege
			return fmt.Errorf("the role may not read the books: run `worker migrate --worker-role` with its name: %w", translate(err))
		case err != nil:
			return translate(err)
		case got < want:
			return fmt.Errorf("the database has schema version %d and this binary needs %d: run `worker migrate`", got, want)
		case got > want:
			return errSchemaNewer(got)
		}
		return nil
	})
}

func errSchemaNewer(got int64) error {
	return fmt.Errorf("the database has schema version %d, which is newer than this binary: run a newer binary", got)
}
