package devstack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	stateDuplicateDatabase = "42P04"
	stateUniqueViolation   = "23505"
	stateObjectInUse       = "55006"

	// identifierBytesMax is where PostgreSQL would cut a name off, without an error.
	identifierBytesMax = 63

	// connectTimeout bounds a connection to a server that takes it and does not
	// answer. One that nobody listens for fails at once.
	connectTimeout = time.Minute
)

// URL returns the owner's URL of a database on the server, whether the database
// exists or not. It holds a password: don't print it.
func (p *Postgres) URL(database string) string {
	u := p.base
	u.Path, u.RawPath = "/"+database, ""
	return u.String()
}

// URLAs returns a role's URL of a database on the server. It holds a password:
// don't print it.
func (p *Postgres) URLAs(role, password, database string) string {
	u := p.base
	u.User = url.UserPassword(role, password)
	u.Path, u.RawPath = "/"+database, ""
	return u.String()
}

// CreateDatabase makes a database in UTF-8 that orders texts by their bytes.
// With a template, it makes a copy of that database, and waits as long as the
// context lasts until nobody is connected to that: a session that has ended is
// cleared away a moment later.
//
// A repeat is safe without a template: a database that exists is left as it
// is. With one it is [ErrDatabaseExists], since what is there may be no copy.
func (p *Postgres) CreateDatabase(ctx context.Context, name, template string) error {
	if err := checkIdentifier(name); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	statement := "create database " + quoteIdentifier(name)
	if template == "" {
		statement += " template template0 encoding 'UTF8' locale 'C'"
	} else {
		statement += " template " + quoteIdentifier(template)
	}
	var last error
	err := poll(ctx, func() (done bool, err error) {
		last = p.do(ctx, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, statement)
			return err
		})
		if pgErr, ok := errors.AsType[*pgconn.PgError](last); ok && pgErr.Code == stateObjectInUse {
			return false, nil
		}
		return true, last
	})
	if err != nil && !errors.Is(err, last) {
		err = fmt.Errorf("%w: %w", err, last)
	}
	// Two at once can both find the name free: the index then refuses the second.
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	exists := ok && (pgErr.Code == stateDuplicateDatabase || pgErr.Code == stateUniqueViolation)
	switch {
	case exists && template == "":
		return nil
	case exists:
		return fmt.Errorf("create database %q from %q: %w", name, template, ErrDatabaseExists)
	case err != nil:
		return fmt.Errorf("create database %q: %w", name, err)
	}
	return nil
}

// DropDatabase drops a database and ends the connections to it. A repeat is
// safe: one that does not exist is fine.
func (p *Postgres) DropDatabase(ctx context.Context, name string) error {
	err := p.do(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "drop database if exists "+quoteIdentifier(name)+" with (force)")
		return err
	})
	if err != nil {
		return fmt.Errorf("drop database %q: %w", name, err)
	}
	return nil
}

// CreateRole makes a role that may log in and has no privileges. A repeat is
// safe: one that exists gets this password. A superuser of that name is an
// error, and left as it is.
func (p *Postgres) CreateRole(ctx context.Context, name, password string) error {
	if err := checkIdentifier(name); err != nil {
		return fmt.Errorf("create role: %w", err)
	}
	err := p.do(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return createRole(ctx, tx, name, password) })
	})
	if err != nil {
		return fmt.Errorf("create role %q: %w", name, err)
	}
	return nil
}

func createRole(ctx context.Context, tx pgx.Tx, name, password string) error {
	// Concurrent changes of one role fail, rather than wait for each other.
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtext('payonce devstack role'))"); err != nil {
		return err
	}
	var super bool
	verb := "alter role "
	err := tx.QueryRow(ctx, "select rolsuper from pg_roles where rolname = $1", name).Scan(&super)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		verb = "create role "
	case err != nil:
		return err
	case super:
		return errors.New("there is a superuser of that name")
	}
	literal, err := tx.Conn().PgConn().EscapeString(password)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, verb+quoteIdentifier(name)+" login password '"+literal+"'")
	return err
}

// grantConnect lets a role connect to a database. A repeat is safe.
func (p *Postgres) grantConnect(ctx context.Context, role, database string) error {
	err := p.do(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtext('payonce devstack role'))"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "grant connect on database "+quoteIdentifier(database)+" to "+quoteIdentifier(role))
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("let %q connect to %q: %w", role, database, err)
	}
	return nil
}

// do runs f on a connection to the maintenance database.
func (p *Postgres) do(ctx context.Context, f func(*pgx.Conn) error) error {
	config, err := pgx.ParseConfig(p.base.String())
	if err != nil {
		return err
	}
	config.ConnectTimeout = connectTimeout
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	// With the caller's context ended, a goodbye must not wait for long.
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bye)
	}()
	return f(conn)
}

func quoteIdentifier(name string) string { return pgx.Identifier{name}.Sanitize() }

func checkIdentifier(name string) error {
	if name == "" || len(name) > identifierBytesMax {
		return fmt.Errorf("the name %q has %d bytes: 1 to %d are allowed", name, len(name), identifierBytesMax)
	}
	return nil
}
