package devstack

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newPostgres(t testing.TB, c PostgresConfig) *Postgres {
	t.Helper()
	if c.Log == nil {
		c.Log = testLog(t)
	}
	p, err := StartPostgres(within(t), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop()) })
	return p
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(within(t), url)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

func query[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, conn.QueryRow(within(t), sql, args...).Scan(&value))
	return value
}

func execute(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := conn.Exec(within(t), sql, args...)
	require.NoError(t, err)
}

func state(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}

func TestPostgresStartAndStop(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	p := newPostgres(t, PostgresConfig{Log: log, MaxConnections: 37, Settings: map[string]string{"application_name": "it's"}})
	require.False(t, p.External())
	conn := connect(t, p.URL("postgres"))
	for setting, want := range map[string]string{
		"fsync":                   "on",
		"synchronous_commit":      "on",
		"full_page_writes":        "on",
		"max_connections":         "37",
		"application_name":        "it's",
		"listen_addresses":        loopback,
		"unix_socket_directories": "",
	} {
		assert.Equal(t, want, query[string](t, conn, "select setting from pg_settings where name = $1", setting), setting)
	}
	require.Contains(t, log.String(), "starting PostgreSQL")
	require.NotContains(t, log.String(), mustPassword(t, p))

	_, err := pgx.Connect(within(t), p.URLAs("postgres", "wrong", "postgres"))
	require.Equal(t, "28P01", state(err), "a wrong password must be refused")

	pid, dir := p.PID(), p.dir.path
	require.NotZero(t, pid)
	require.NoError(t, p.Stop())
	require.True(t, gone(pid))
	require.NoDirExists(t, dir)
	require.Zero(t, p.PID())
	require.NoError(t, p.Stop(), "stopping again does nothing")
	require.ErrorIs(t, p.Restart(within(t)), ErrStopped)
	require.NoError(t, p.Kill(within(t)), "killing what is down does nothing")
}

func mustPassword(t testing.TB, p *Postgres) string {
	t.Helper()
	password, ok := p.base.User.Password()
	require.True(t, ok)
	require.NotEmpty(t, password)
	return password
}

func TestPostgresSideBySide(t *testing.T) {
	t.Parallel()
	servers := make([]*Postgres, 2)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			var err error
			servers[i], err = StartPostgres(within(t), PostgresConfig{Log: testLog(t)})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	for i, p := range servers {
		require.NotNil(t, p)
		t.Cleanup(func() { require.NoError(t, p.Stop()) })
		execute(t, connect(t, p.URL("postgres")), "create table here as select $1::int as number", i)
	}
	for i, p := range servers {
		require.Equal(t, i, query[int](t, connect(t, p.URL("postgres")), "select number from here"))
	}
	require.NotEqual(t, servers[0].URL("postgres"), servers[1].URL("postgres"))
	require.NoError(t, servers[0].Stop())
	require.NoError(t, connect(t, servers[1].URL("postgres")).Ping(within(t)))
}

func TestPostgresCrashKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	p := newPostgres(t, PostgresConfig{})
	url := p.URL("postgres")
	conn := connect(t, url)
	execute(t, conn, "create table money (amount int not null)")
	for crash := range 3 {
		execute(t, conn, "insert into money values ($1)", crash)
		open, err := connect(t, url).Begin(ctx)
		require.NoError(t, err)
		_, err = open.Exec(ctx, "insert into money values (1000)")
		require.NoError(t, err)

		pid := p.PID()
		require.NoError(t, p.Kill(ctx))
		require.True(t, gone(pid))
		require.Error(t, conn.Ping(ctx), "the connection must be broken")
		_, err = pgx.Connect(ctx, url)
		require.Error(t, err)

		require.NoError(t, p.Restart(ctx))
		require.Equal(t, url, p.URL("postgres"))
		conn = connect(t, url)
		require.Equal(t, crash+1, query[int](t, conn, "select count(*) from money"))
	}

	t.Run("in order", func(t *testing.T) {
		require.NoError(t, p.Shutdown(ctx))
		require.Zero(t, p.PID())
		require.NoError(t, p.Restart(ctx))
		require.Equal(t, 3, query[int](t, connect(t, url), "select count(*) from money"))
	})
	t.Run("while it runs", func(t *testing.T) {
		pid := p.PID()
		require.NoError(t, p.Restart(ctx))
		require.NotEqual(t, pid, p.PID())
		require.Equal(t, 3, query[int](t, connect(t, url), "select count(*) from money"))
	})
}

func TestPostgresKeepsAGivenFolder(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	dir := filepath.Join(publicDir(t), "kept")
	p := newPostgres(t, PostgresConfig{Dir: dir})
	execute(t, connect(t, p.URL("postgres")), "create table kept as select 42 as number")
	password := mustPassword(t, p)

	info, err := os.Stat(filepath.Join(dir, "password"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	_, err = StartPostgres(ctx, PostgresConfig{Dir: dir})
	require.ErrorIs(t, err, ErrInUse)
	require.Equal(t, 42, query[int](t, connect(t, p.URL("postgres")), "select number from kept"), "the first goes on")

	require.NoError(t, p.Stop())
	p = newPostgres(t, PostgresConfig{Dir: dir})
	require.Equal(t, password, mustPassword(t, p))
	require.Equal(t, 42, query[int](t, connect(t, p.URL("postgres")), "select number from kept"))

	t.Run("of another version", func(t *testing.T) {
		require.NoError(t, p.Stop())
		require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("99\n"), 0o600))
		search := defaultPostgresSearch()
		search.download = func(context.Context, *account, io.Writer) (string, error) { return "", errors.New("no network") }
		_, err := startPostgres(ctx, PostgresConfig{Dir: dir}, search)
		require.ErrorIs(t, err, ErrNoPostgres)
		require.ErrorContains(t, err, "of version 99")
		require.FileExists(t, filepath.Join(dir, "password"), "what was there stays there")
	})
}

func TestPostgresMakesACutShortClusterAnew(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data.new", "PG_VERSION"), []byte("15\n"), 0o600))
	p := newPostgres(t, PostgresConfig{Dir: dir})
	require.NoError(t, connect(t, p.URL("postgres")).Ping(within(t)))
}

func TestPostgresDatabases(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	p := newPostgres(t, PostgresConfig{})
	require.NoError(t, p.CreateDatabase(ctx, "books", ""))
	conn := connect(t, p.URL("books"))
	require.Equal(t, "UTF8", query[string](t, conn, "select pg_encoding_to_char(encoding) from pg_database where datname = 'books'"))
	execute(t, conn, "create table page as select 7 as number")
	require.NoError(t, conn.Close(ctx))

	require.NoError(t, p.CreateDatabase(ctx, "books", ""), "there already is fine")
	require.Equal(t, 7, query[int](t, connect(t, p.URL("books")), "select number from page"))
	require.NoError(t, p.DropDatabase(ctx, "books"), "connections are no obstacle")
	require.NoError(t, p.DropDatabase(ctx, "books"), "gone already is fine")

	t.Run("from a template, many at once", func(t *testing.T) {
		require.NoError(t, p.CreateDatabase(ctx, "template", ""))
		conn := connect(t, p.URL("template"))
		execute(t, conn, "create table page as select 7 as number")
		require.NoError(t, conn.Close(ctx))
		var wg sync.WaitGroup
		names := []string{"a", "b", "c", "d"}
		for _, name := range names {
			wg.Go(func() { assert.NoError(t, p.CreateDatabase(ctx, name, "template")) })
		}
		wg.Wait()
		for _, name := range names {
			require.Equal(t, 7, query[int](t, connect(t, p.URL(name)), "select number from page"))
		}
		require.ErrorIs(t, p.CreateDatabase(ctx, "a", "template"), ErrDatabaseExists)
		require.Equal(t, "3D000", state(p.CreateDatabase(ctx, "e", "no such")))
	})
	t.Run("one name, many at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { assert.NoError(t, p.CreateDatabase(ctx, "contended", "")) })
		}
		wg.Wait()
	})
	for _, name := range []string{`quo"te`, "two words", "Ümläut/?&=%20", "a'; drop database books; --"} {
		t.Run("named "+name, func(t *testing.T) {
			require.NoError(t, p.CreateDatabase(ctx, name, ""))
			require.Equal(t, name, query[string](t, connect(t, p.URL(name)), "select current_database()"))
			require.NoError(t, p.DropDatabase(ctx, name))
		})
	}
	for _, name := range []string{"", strings.Repeat("x", 64)} {
		require.Error(t, p.CreateDatabase(ctx, name, ""))
	}
}

func TestPostgresRoles(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	p := newPostgres(t, PostgresConfig{})
	const name = `o'brien "x"`
	const first, second = `pass'word\`, "with space@/:?#"
	require.NoError(t, p.CreateRole(ctx, name, first))
	conn := connect(t, p.URLAs(name, first, "postgres"))
	require.Equal(t, name, query[string](t, conn, "select current_user"))
	require.False(t, query[bool](t, conn, "select rolsuper or rolcreatedb or rolcreaterole from pg_roles where rolname = current_user"))

	require.NoError(t, p.CreateRole(ctx, name, second))
	_, err := pgx.Connect(ctx, p.URLAs(name, first, "postgres"))
	require.Equal(t, "28P01", state(err), "the old password must be refused")
	connect(t, p.URLAs(name, second, "postgres"))

	t.Run("many at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { assert.NoError(t, p.CreateRole(ctx, "contended", "same")) })
		}
		wg.Wait()
		connect(t, p.URLAs("contended", "same", "postgres"))
	})
	t.Run("a superuser is left alone", func(t *testing.T) {
		require.Error(t, p.CreateRole(ctx, postgresSuperuser, "taken over"))
		connect(t, p.URL("postgres"))
	})
}

func TestPostgresEndsEarly(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	_, err := StartPostgres(within(t), PostgresConfig{Dir: dir, Settings: map[string]string{"shared_buffers": "plenty"}})
	require.ErrorContains(t, err, "ended early")
	require.ErrorContains(t, err, `invalid value for parameter "shared_buffers": "plenty"`)
	// Nothing holds the folder any more.
	p := newPostgres(t, PostgresConfig{Dir: dir})
	require.NoError(t, p.Stop())

	_, err = StartPostgres(within(t), PostgresConfig{Settings: map[string]string{"port": "1"}})
	require.ErrorContains(t, err, "port")
}

func TestPostgresMeetsATakenPort(t *testing.T) {
	t.Parallel()
	var taken []net.Listener
	log := &hookedLog{on: "starting PostgreSQL", do: func(line string) {
		if len(taken) == 2 {
			return
		}
		// A stranger is quicker than the server.
		l, err := net.Listen("tcp", strings.TrimSpace(line[strings.LastIndex(line, " "):]))
		assert.NoError(t, err)
		taken = append(taken, l)
	}}
	p := newPostgres(t, PostgresConfig{Log: log})
	require.NoError(t, connect(t, p.URL("postgres")).Ping(within(t)))
	require.Len(t, taken, 2)
	for _, l := range taken {
		require.NotEqual(t, l.Addr().String(), p.port.address())
		require.NoError(t, l.Close())
	}
}

func TestPostgresStartIsCancelled(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	reason := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(within(t))
	log := &hookedLog{on: "making a PostgreSQL", do: func(string) { cancel(reason) }}
	_, err := StartPostgres(ctx, PostgresConfig{Dir: dir, Log: log})
	require.ErrorIs(t, err, reason)
	require.NoDirExists(t, filepath.Join(dir, "data"))
	newPostgres(t, PostgresConfig{Dir: dir})
}

// hookedLog does something when a line is written.
type hookedLog struct {
	on string
	do func(line string)
}

func (l *hookedLog) Write(p []byte) (int, error) {
	if strings.Contains(string(p), l.on) {
		l.do(string(p))
	}
	return len(p), nil
}

func TestPostgresFolderOutOfReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server under another account")
	}
	t.Parallel()
	closed := filepath.Join(publicDir(t), "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	_, err := StartPostgres(within(t), PostgresConfig{Dir: filepath.Join(closed, "cluster")})
	require.ErrorContains(t, err, "can't enter "+closed+":")
}

func TestPostgresExternal(t *testing.T) {
	ctx := within(t)
	own := newPostgres(t, PostgresConfig{})
	t.Setenv("DATABASE_URL", own.URL("postgres"))

	p, err := StartPostgres(ctx, PostgresConfig{Log: testLog(t)})
	require.NoError(t, err)
	require.True(t, p.External())
	require.Empty(t, p.LogFile())
	require.NoError(t, p.CreateDatabase(ctx, "guest", ""))
	require.NoError(t, p.CreateRole(ctx, "guest", "secret"))
	require.Equal(t, "guest", query[string](t, connect(t, p.URLAs("guest", "secret", "guest")), "select current_user"))
	require.ErrorIs(t, p.Kill(ctx), ErrExternal)
	require.ErrorIs(t, p.Shutdown(ctx), ErrExternal)
	require.ErrorIs(t, p.Restart(ctx), ErrExternal)
	require.NoError(t, p.Stop())
	require.NoError(t, connect(t, own.URL("guest")).Ping(ctx), "what is not ours goes on")

	t.Run("errors keep the password", func(t *testing.T) {
		for _, url := range []string{
			"postgres://someone:topsecret@127.0.0.1:notaport/x",
			"host=127.0.0.1 password=topsecret",
			"mysql://someone:topsecret@127.0.0.1/x",
			own.URLAs("nobody", "topsecret", "postgres"),
			own.URLAs("postgres", "topsecret", "postgres") + "&sslmode=nonsense",
		} {
			t.Setenv("DATABASE_URL", url)
			_, err := StartPostgres(ctx, PostgresConfig{})
			require.ErrorContains(t, err, "DATABASE_URL")
			require.NotContains(t, err.Error(), "topsecret")
		}
	})
}
