package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// tries is SQL that somebody runs at a prompt, and the constraint that refuses it.
type tries struct {
	name, sql, constraint string
}

// Operation 100 is new: applied, or not; operation 1 and 2 are there since before. Account 1 is world (version 2, -30.00),
// 2 is alice (1, 20.00), 3 is bob (1, 10.00), 4 is yen, in another asset, with nothing.
const (
	applied100 = `insert into operations (id, key, kind, request_hash, state, legs, memo, at)
		values (100, 'raw', 'post', sha256('x'), 'applied', '[]', '', clock_timestamp());`
	refused100 = `insert into operations (id, key, kind, request_hash, state, code, legs, memo, at)
		values (100, 'raw', 'post', sha256('x'), 'refused', 'x', '[]', '', clock_timestamp());`
	early100 = `insert into operations (id, key, kind, request_hash, state, legs, memo, at)
		values (100, 'raw', 'post', sha256('x'), 'applied', '[]', '', '2020-01-01');`
)

var walls = []tries{
	// case 80c: append-only, on every table of history.
	{"change an operation", `update operations set memo = 'other'`, "operations_append_only"},
	{"change no operation", `update operations set memo = 'other' where false`, "operations_append_only"},
	{"delete an operation", `delete from operations`, "operations_append_only"},
	{"truncate operations", `truncate operations`, "operations_append_only"},
	{"overwrite an operation", `insert into operations select * from operations on conflict (operation_claim(key)) do update set memo = ''`, "operations_append_only"},
	{"change an entry", `update entries set amount = 1`, "entries_append_only"},
	{"delete an entry", `delete from entries`, "entries_append_only"},
	{"truncate entries", `truncate entries`, "entries_append_only"},
	{"change a dead letter's action", `update dead_letter_actions set error = ''`, "dead_letter_actions_append_only"},
	{"delete a dead letter's action", `delete from dead_letter_actions`, "dead_letter_actions_append_only"},
	{"truncate a dead letter's actions", `truncate dead_letter_actions`, "dead_letter_actions_append_only"},
	{"delete an account", `delete from accounts where name = 'yen'`, "accounts_keep_wall"},
	{"truncate accounts", `truncate accounts`, "accounts_keep_wall"},

	{"a key twice", `insert into operations (key, kind, request_hash, state, legs, memo, at)
		select key, kind, request_hash, state, legs, memo, at from operations limit 1`, "operations_key_key"},

	{"money from nothing", `update accounts set balance = balance + 1 where name = 'alice'`, "accounts_change_wall"},
	{"a balance without an entry", `update accounts set balance = balance + 1, version = version + 1 where name = 'alice'`, "accounts_entry_wall"},
	{"a balance that is not the entry's", applied100 + `insert into entries values (2, 2, 100, 1, -500, 1500), (3, 2, 100, 1, 500, 1500);
		update accounts set balance = 1400, version = 2 where id = 2`, "accounts_entry_wall"},
	{"back to an earlier entry", `update accounts set balance = -2000, version = 1 where id = 1`, "accounts_change_wall"},
	{"another name", `update accounts set name = 'mallory' where name = 'alice'`, "accounts_change_wall"},
	{"another asset", `update accounts set asset = 'EUR/2' where name = 'alice'`, "accounts_change_wall"},
	{"another day of opening", `update accounts set opened_at = now() where name = 'alice'`, "accounts_change_wall"},
	{"an earlier last entry", `update accounts set entry_at = '2020-01-01' where name = 'alice'`, "accounts_change_wall"},
	{"an account with money", `insert into accounts (name, asset, balance) values ('rich', 'USD/2', 1)`, "accounts_open_wall"},
	{"an account with a past", `insert into accounts (name, asset, version, entry_at) values ('old', 'USD/2', 1, now())`, "accounts_open_wall"},
	{"an account below its floor", applied100 + `insert into entries values (2, 2, 100, 1, -2001, -1), (3, 2, 100, 1, 2001, 3001);
		update accounts set balance = -1, version = 2 where id = 2`, "accounts_floor_check"},
	{"a floor above the balance", `update accounts set floor = 2001 where name = 'alice'`, "accounts_floor_check"},
	{"a ceiling below the balance", `update accounts set ceiling = 1999 where name = 'alice'`, "accounts_ceiling_check"},
	{"an unknown status", `update accounts set status = 'gone' where name = 'alice'`, "accounts_status_check"},
	{"a name twice", `insert into accounts (name, asset) values ('alice', 'USD/2')`, "accounts_name_asset_key"},
	{"a name in two assets", `insert into accounts (name, asset) values ('alice', 'EUR/2')`, "accounts_name_key"},
	{"no name", `insert into accounts (name, asset) values ('', 'USD/2')`, "accounts_name_check"},
	{"no asset", `insert into accounts (name, asset) values ('x', '')`, "accounts_asset_check"}, // case 55
	{"an asset without a scale", `insert into accounts (name, asset) values ('x', 'USD')`, "accounts_asset_check"},
	{"an unused account with a last entry", `update accounts set entry_at = now() where name = 'yen'`, "accounts_entry_at_check"},

	{"entries of no operation", `insert into entries values (2, 2, 99, 1, -500, 1500), (3, 2, 99, 1, 500, 1500)`, "entries_operation_wall"},
	{"entries of an earlier operation", `insert into entries values (2, 2, 1, 1, -500, 1500), (3, 2, 1, 1, 500, 1500)`, "entries_operation_wall"},
	{"entries of a refused operation", refused100 + `insert into entries values (2, 2, 100, 1, -500, 1500), (3, 2, 100, 1, 500, 1500)`, "entries_operation_wall"},
	{"entries of no account", applied100 + `insert into entries values (2, 2, 100, 1, -500, 1500), (99, 1, 100, 1, 500, 500)`, "entries_operation_wall"},
	{"entries earlier than the last", early100 + `insert into entries values (2, 2, 100, 1, -500, 1500), (3, 2, 100, 1, 500, 1500)`, "entries_operation_wall"},
	{"an entry alone", applied100 + `insert into entries values (2, 2, 100, 1, 500, 2500)`, "entries_balanced_wall"},
	{"entries that make money", applied100 + `insert into entries values (2, 2, 100, 1, -500, 1500), (3, 2, 100, 1, 501, 1501)`, "entries_balanced_wall"},
	{"entries of two legs that balance together", applied100 + `insert into entries values (2, 2, 100, 1, -500, 1500), (3, 2, 100, 2, 500, 1500)`, "entries_balanced_wall"},
	{"entries in two assets", applied100 + `insert into entries values (2, 2, 100, 1, -500, 1500), (4, 1, 100, 1, 500, 500)`, "entries_balanced_wall"},
	{"a version left out", applied100 + `insert into entries values (2, 3, 100, 1, -500, 1500), (3, 2, 100, 1, 500, 1500)`, "entries_chain_wall"},
	{"a balance that does not add up", applied100 + `insert into entries values (2, 2, 100, 1, -500, 1600), (3, 2, 100, 1, 500, 1500)`, "entries_chain_wall"},
	{"a chain that breaks within the statement", applied100 + `insert into entries values
		(2, 2, 100, 1, -500, 1500), (3, 2, 100, 1, 500, 1500), (2, 3, 100, 2, -500, 1100), (3, 3, 100, 2, 500, 2000)`, "entries_chain_wall"},
	{"a version twice", applied100 + `insert into entries values (2, 1, 100, 1, -500, 1500), (3, 2, 100, 1, 500, 1500)`, "entries_pkey"},
	{"a leg with number zero", applied100 + `insert into entries values (2, 2, 100, 0, -500, 1500), (3, 2, 100, 0, 500, 1500)`, "entries_leg_check"},
	{"an entry of nothing", applied100 + `insert into entries values (2, 2, 100, 1, 0, 2000), (3, 2, 100, 1, 0, 1000)`, "entries_amount_check"}, // case 50
}

// The wall holds for everybody: for the owner by constraint and trigger, for the worker's role by missing rights too.
func TestWalls(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.open(t, "world", unlimited)
	b.open(t, "alice")
	b.open(t, "bob")
	b.open(t, "yen", in(jpy))
	b.apply(t, post("k1", "world", "alice", "20"))
	b.apply(t, post("k2", "world", "bob", "10"))
	require.NoError(t, b.DeadLetterPut(t.Context(), deadLetter("k")))
	owner, worker := b.owner(t), connect(t, b.WorkerURL)

	try := func(t *testing.T, conn *pgx.Conn, sql string) *pgconn.PgError {
		t.Helper()
		// In one database transaction, and in the simple protocol, as at a prompt.
		_, err := conn.Exec(t.Context(), "begin; "+sql, pgx.QueryExecModeSimpleProtocol)
		_, rollbackErr := conn.Exec(t.Context(), "rollback")
		require.NoError(t, rollbackErr)
		var pgErr *pgconn.PgError
		if err != nil {
			require.ErrorAs(t, err, &pgErr)
		}
		return pgErr
	}
	for _, wall := range walls {
		t.Run(wall.name, func(t *testing.T) {
			pgErr := try(t, owner, wall.sql)
			require.NotNil(t, pgErr, "the owner is not refused")
			require.Equal(t, "23", pgErr.Code[:2], pgErr.Message)
			require.Equal(t, wall.constraint, pgErr.ConstraintName, pgErr.Message)

			pgErr = try(t, worker, wall.sql)
			require.NotNil(t, pgErr, "the worker is not refused")
			if pgErr.Code != "42501" { // insufficient_privilege
				require.Equal(t, wall.constraint, pgErr.ConstraintName, pgErr.Message)
			}
		})
	}
	for _, check := range []struct{ name, columns, constraint string }{
		{"a key that is empty", "'' , 'post', sha256('x'), 'applied', null, null, null, null", "operations_key_check"},
		{"a key that is too long", "repeat('k', 257), 'post', sha256('x'), 'applied', null, null, null, null", "operations_key_check"},
		{"an unknown kind", "'raw', 'gift', sha256('x'), 'applied', null, null, null, 'eu/bob'", "operations_kind_check"},
		{"a hash of another length", "'raw', 'post', '\\x00', 'applied', null, null, null, null", "operations_request_hash_check"},
		{"an unknown state", "'raw', 'post', sha256('x'), 'pending', 'x', null, null, null", "operations_state_check"},
		{"applied with a code", "'raw', 'post', sha256('x'), 'applied', 'x', null, null, null", "operations_code_check"},
		{"applied with a detail", "'raw', 'post', sha256('x'), 'applied', null, 'x', null, null", "operations_code_check"},
		{"refused without a code", "'raw', 'post', sha256('x'), 'refused', null, null, null, null", "operations_code_check"},
		{"sealed without a code", "'raw', 'post', sha256('x'), 'sealed', null, null, null, null", "operations_code_check"},
		{"a refund of nothing", "'raw', 'refund', sha256('x'), 'applied', null, null, null, 'eu/bob'", "operations_reverses_check"},
		{"a post that reverses", "'raw', 'post', sha256('x'), 'applied', null, null, 'k', null", "operations_reverses_check"},
		{"a withdraw for nobody", "'raw', 'withdraw', sha256('x'), 'applied', null, null, null, null", "operations_counterparty_check"},
		{"a post to another ledger", "'raw', 'post', sha256('x'), 'applied', null, null, null, 'eu/bob'", "operations_counterparty_check"},
	} {
		t.Run(check.name, func(t *testing.T) {
			sql := `insert into operations (key, kind, request_hash, state, code, detail, reverses, counterparty, legs, memo, at)
				values (` + check.columns + `, '[]', '', now())`
			for _, conn := range []*pgx.Conn{owner, worker} {
				pgErr := try(t, conn, sql)
				require.NotNil(t, pgErr)
				require.Equal(t, check.constraint, pgErr.ConstraintName, pgErr.Message)
			}
		})
	}
	t.Run("a table that pretends to be another", func(t *testing.T) {
		pgErr := try(t, owner, `create temporary table operations as select 99::bigint as id, 'applied' as state, now() as at;
			insert into public.entries values (2, 2, 99, 1, -500, 1500), (3, 2, 99, 1, 500, 1500)`)
		require.NotNil(t, pgErr)
		require.Equal(t, "entries_operation_wall", pgErr.ConstraintName, pgErr.Message)
	})
	t.Run("what is right is not refused", func(t *testing.T) {
		for _, conn := range []*pgx.Conn{owner, worker} {
			require.Nil(t, try(t, conn, applied100+`insert into entries values (2, 2, 100, 1, -500, 1500), (3, 2, 100, 1, 500, 1500);
				update accounts set (balance, version, entry_at) = (1500, 2, clock_timestamp()) where id in (2, 3)`))
			require.Nil(t, try(t, conn, `update accounts set status = 'frozen', floor = -1, ceiling = 2000, metadata = '{}' where id = 2`))
		}
	})
	t.Run("entries without their balances stop the account", func(t *testing.T) {
		exec(t, owner, "begin; "+applied100+`insert into entries values (2, 2, 100, 1, -500, 1500), (3, 2, 100, 1, 500, 1500); commit`, pgx.QueryExecModeSimpleProtocol)
		_, err := b.Post(t.Context(), post("k", "alice", "world", "1"))
		require.ErrorContains(t, err, "entries_pkey")
		require.NotErrorIs(t, err, ledger.ErrUnavailable)
	})
}

// What a worker's role can do, and nothing else.
func TestWorkerRights(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "20")
	worker := connect(t, b.WorkerURL)
	for _, sql := range []string{
		"update operations set memo = ''", "delete from operations", "truncate operations",
		"update entries set amount = 1", "delete from entries", "truncate entries",
		"update accounts set name = 'x'", "update accounts set asset = 'x'", "update accounts set opened_at = now()",
		"update accounts set id = default", "delete from accounts", "truncate accounts",
		"delete from dead_letters", "truncate dead_letters cascade",
		"update dead_letter_actions set error = ''", "delete from dead_letter_actions",
		"insert into schema_migrations (version_id, is_applied) values (99, true)", "delete from schema_migrations",
		"create table mine ()", "alter table accounts disable trigger all", "drop trigger entries_check on entries",
		"alter table accounts drop constraint accounts_floor_check", "drop table entries",
		"create or replace function entries_check() returns trigger language plpgsql as 'begin return null; end'",
		"set session_replication_role = replica", "set role postgres",
		"select setval('operations_id_seq', 1)",
	} {
		_, err := worker.Exec(t.Context(), sql)
		var pgErr *pgconn.PgError
		require.ErrorAs(t, err, &pgErr, sql)
		require.Equal(t, "42501", pgErr.Code, "%s: %s", sql, pgErr.Message)
	}
}
