package postgres_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/internal/pgtest"
	"payonce/ledger"
	"payonce/ledger/postgres"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmptyDatabase(t)
	l := openLedger(t, "us", db.WorkerURL)
	owner := connect(t, db.OwnerURL)

	t.Run("before", func(t *testing.T) {
		require.NoError(t, l.Ping(t.Context()), "the database is there")
		err := l.CheckSchema(t.Context())
		require.ErrorContains(t, err, "worker migrate")
		require.NotErrorIs(t, err, ledger.ErrUnavailable)
	})
	t.Run("from empty, twice, by four at once", func(t *testing.T) {
		var log bytes.Buffer
		require.NoError(t, postgres.Migrate(t.Context(), db.OwnerURL, postgres.MigrateOptions{
			WorkerRole: pgtest.WorkerRole(), Log: slog.New(slog.NewTextHandler(&log, nil)),
		}))
		require.Contains(t, log.String(), "00001_ledger.sql")
		before := rights(t, db)
		require.NoError(t, l.CheckSchema(t.Context()))
		atOnce(4, func(int) {
			assert.NoError(t, postgres.Migrate(t.Context(), db.OwnerURL, postgres.MigrateOptions{WorkerRole: pgtest.WorkerRole()}))
		})
		require.Equal(t, before, rights(t, db))
		require.Equal(t, 3, queryInt(t, owner, "select count(*) from schema_migrations"), "and its own version 0")
	})
	t.Run("rights that are not a worker's are taken away", func(t *testing.T) {
		want := rights(t, db)
		exec(t, owner, "grant all on all tables in schema public to "+pgtest.WorkerRole())
		exec(t, owner, "grant all on all sequences in schema public to "+pgtest.WorkerRole())
		exec(t, owner, "grant create on schema public to "+pgtest.WorkerRole())
		require.NotEqual(t, want, rights(t, db))
		require.NoError(t, postgres.Migrate(t.Context(), db.OwnerURL, postgres.MigrateOptions{}))
		require.NotEqual(t, want, rights(t, db), "without a role, rights stay as they are")
		require.NoError(t, postgres.Migrate(t.Context(), db.OwnerURL, postgres.MigrateOptions{WorkerRole: pgtest.WorkerRole()}))
		require.Equal(t, want, rights(t, db))
	})
	t.Run("roles that can't be a worker's", func(t *testing.T) {
		for role, want := range map[string]string{
			"postgres": "superuser", "nobody; drop table accounts": "no such role", "NoSuchRole": "no such role",
		} {
			err := postgres.Migrate(t.Context(), db.OwnerURL, postgres.MigrateOptions{WorkerRole: role})
			require.ErrorContains(t, err, want)
			require.NotErrorIs(t, err, ledger.ErrUnavailable)
		}
	})
	t.Run("a database that is newer", func(t *testing.T) {
		exec(t, owner, "insert into schema_migrations (version_id, is_applied) values (9999, true)")
		for _, err := range []error{
			l.CheckSchema(t.Context()), postgres.Migrate(t.Context(), db.OwnerURL, postgres.MigrateOptions{WorkerRole: pgtest.WorkerRole()}),
		} {
			require.ErrorContains(t, err, "newer than this binary")
			require.NotErrorIs(t, err, ledger.ErrUnavailable)
		}
	})
}

func TestMigrateAtOnceFromEmpty(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmptyDatabase(t)
	atOnce(4, func(int) {
		assert.NoError(t, postgres.Migrate(t.Context(), db.OwnerURL, postgres.MigrateOptions{WorkerRole: pgtest.WorkerRole()}))
	})
	b := &books{Ledger: openLedger(t, "us", db.WorkerURL), Database: db}
	b.fund(t, "alice", "10")
	sound(t, b)
}

// rights are all rights of the worker's role, a line each.
func rights(t testing.TB, db pgtest.Database) []string {
	t.Helper()
	conn := connect(t, db.OwnerURL)
	rows, err := conn.Query(t.Context(), `
		select concat_ws(' ', 'table', table_name, privilege_type) from information_schema.table_privileges where grantee = $1
		union all
		select concat_ws(' ', 'column', table_name, column_name, privilege_type) from information_schema.column_privileges
			where grantee = $1 and privilege_type = 'UPDATE'
		union all
		select concat_ws(' ', 'sequence', relname, (aclexplode(relacl)).privilege_type) from pg_class
			where relkind = 'S' and exists (select from aclexplode(relacl) where grantee = $1::regrole)
		union all
		select 'schema ' || privilege_type from pg_namespace, aclexplode(nspacl) where nspname = 'public' and grantee = $1::regrole`,
		pgtest.WorkerRole())
	require.NoError(t, err)
	defer rows.Close()
	var all []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		all = append(all, line)
	}
	require.NoError(t, rows.Err())
	slices.Sort(all)
	return all
}

// Who was granted nothing is told how to be.
func TestSchemaOfAnotherRole(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	exec(t, b.owner(t), "revoke select on schema_migrations from "+pgx.Identifier{pgtest.WorkerRole()}.Sanitize())
	err := b.CheckSchema(t.Context())
	require.ErrorContains(t, err, "`worker migrate --worker-role`")
	require.ErrorIs(t, err, ledger.ErrUnavailable, "it may be granted any moment")
}

func TestRights(t *testing.T) {
	t.Parallel()
	got := rights(t, pgtest.NewDatabase(t))
	got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "sequence ") })
	require.Equal(t, []string{
		"column accounts balance UPDATE", "column accounts ceiling UPDATE", "column accounts entry_at UPDATE",
		"column accounts floor UPDATE", "column accounts metadata UPDATE", "column accounts status UPDATE", "column accounts version UPDATE",
		"column dead_letters account UPDATE", "column dead_letters amount UPDATE", "column dead_letters as_of UPDATE",
		"column dead_letters asset UPDATE", "column dead_letters attempts UPDATE", "column dead_letters causes UPDATE",
		"column dead_letters choices UPDATE", "column dead_letters ended UPDATE", "column dead_letters error UPDATE",
		"column dead_letters error_type UPDATE", "column dead_letters first_at UPDATE", "column dead_letters from_account UPDATE",
		"column dead_letters id UPDATE", "column dead_letters key UPDATE", "column dead_letters last_at UPDATE",
		"column dead_letters memo UPDATE", "column dead_letters metadata UPDATE", "column dead_letters parked UPDATE",
		"column dead_letters parking UPDATE", "column dead_letters place UPDATE", "column dead_letters resolution UPDATE",
		"column dead_letters run UPDATE", "column dead_letters state UPDATE", "column dead_letters step UPDATE",
		"column dead_letters to_account UPDATE", "column dead_letters transfer UPDATE", "column dead_letters version UPDATE",
		"schema USAGE",
		"table accounts INSERT", "table accounts SELECT",
		"table dead_letter_actions INSERT", "table dead_letter_actions SELECT",
		"table dead_letters INSERT", "table dead_letters SELECT", "table dead_letters UPDATE",
		"table entries INSERT", "table entries SELECT", "table operations INSERT", "table operations SELECT",
		"table schema_migrations SELECT",
	}, got)
}
