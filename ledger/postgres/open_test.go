package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"payonce/ledger"
	"payonce/ledger/postgres"
)

func TestOpenRefusesWhatItCantUse(t *testing.T) {
	t.Parallel()
	const password = "s3cret"
	for name, config := range map[string]postgres.Config{
		"no name":         {URL: "postgres://h/db"},
		"bad name":        {Name: "US", URL: "postgres://h/db"},
		"not a URL":       {Name: "us", URL: "postgres://u:" + password + "@h:port/db"},
		"a stray slash":   {Name: "us", URL: "postgres://u:" + password + "/x@h/db"},
		"bad parameter":   {Name: "us", URL: "postgres://u:" + password + "@h/db?sslmode=" + password},
		"standby":         {Name: "us", URL: "postgres://u:" + password + "@h/db?target_session_attrs=standby"},
		"standby keyword": {Name: "us", URL: "host=h password=" + password + " target_session_attrs=prefer-standby"},
		"read-only":       {Name: "us", URL: "postgres://u:" + password + "@h/db?target_session_attrs=read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := postgres.Open(t.Context(), config)
			var invalid *ledger.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.NotContains(t, err.Error(), password)
		})
	}
	err := postgres.Migrate(t.Context(), "postgres://u:"+password+"@h:port/db", postgres.MigrateOptions{})
	var invalid *ledger.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.NotContains(t, err.Error(), password)
}

// What a session is like, whatever the role's and the database's own settings are.
func TestSessionSettings(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	owner := b.owner(t)
	for _, setting := range []string{
		"synchronous_commit = off", "timezone = 'Asia/Tokyo'", "search_path = nowhere", "default_transaction_isolation = 'serializable'",
		"statement_timeout = 0", "idle_in_transaction_session_timeout = 0", "enable_seqscan = on",
	} {
		exec(t, owner, "alter database "+b.Database.Name+" set "+setting)
	}
	// A function that every statement's insert calls tells what the session is like.
	exec(t, owner, `create table seen (name text, value text)`)
	exec(t, owner, `grant insert on seen to public`)
	exec(t, owner, `create function look() returns trigger language plpgsql as $$
		begin
			insert into public.seen select name, setting from pg_settings where name in ('synchronous_commit', 'TimeZone',
				'search_path', 'transaction_isolation', 'statement_timeout', 'lock_timeout',
				'idle_in_transaction_session_timeout', 'application_name');
			return null;
		end $$`)
	exec(t, owner, `create trigger look after insert on operations for each statement execute function look()`)
	l := openLedger(t, "us", b.WorkerURL)
	outcome, err := l.Post(t.Context(), post("k", "alice", "bob", "1"))
	require.NoError(t, err)
	require.Equal(t, ledger.CodeAccountUnknown, outcome.Code)

	rows, err := owner.Query(t.Context(), "select name, value from public.seen")
	require.NoError(t, err)
	seen := make(map[string]string)
	for rows.Next() {
		var name, value string
		require.NoError(t, rows.Scan(&name, &value))
		seen[name] = value
	}
	require.NoError(t, rows.Err())
	require.Equal(t, map[string]string{
		"synchronous_commit": "on", "TimeZone": "UTC", "search_path": "public", "transaction_isolation": "read committed",
		"statement_timeout": "8000", "lock_timeout": "5000", "idle_in_transaction_session_timeout": "10000", "application_name": "payonce",
	}, seen)
}

func TestURLSettingsWin(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	separator := "?"
	if strings.Contains(b.WorkerURL, "?") {
		separator = "&"
	}
	l := openLedger(t, "us", b.WorkerURL+separator+"application_name=mine&target_session_attrs=primary&lock_timeout=1234")
	require.NoError(t, l.Ping(t.Context()))
	require.Equal(t, 1, queryInt(t, b.owner(t), "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'mine'"))
}

func TestPoolStatAndTracing(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	l, err := postgres.Open(t.Context(), postgres.Config{Name: "us", URL: patient(t, b.WorkerURL), ConnsMax: 3, TimeoutAcquire: time.Minute, TracerProvider: sdktrace.NewTracerProvider()})
	require.NoError(t, err)
	t.Cleanup(l.Close)
	require.NoError(t, l.Ping(t.Context()))
	stat := l.PoolStat()
	require.Equal(t, 3, stat.ConnsMax)
	require.Equal(t, 1, stat.ConnsTotal)
	require.Zero(t, stat.ConnsInUse)
	require.Positive(t, stat.Acquired)
	require.Equal(t, "us", l.Name())
}
