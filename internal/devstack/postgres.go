package devstack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	postgresSuperuser   = "postgres"
	postgresMaintenance = "postgres" // the database that is always there
	postgresConfFile    = "payonce.conf"

	// startTimeout bounds a start whose context does not: a slow machine, or a
	// recovery after a crash.
	startTimeout = 5 * time.Minute

	// crashTimeout is how long a server that is told to end at once may take
	// before it is killed: it waits for its children, and they for the disk.
	crashTimeout = 30 * time.Second

	// backendsTimeout is how long the last of its children may take.
	backendsTimeout = time.Minute
)

// PostgresConfig describes a PostgreSQL server to start. The zero value is a
// server in a temporary folder.
type PostgresConfig struct {
	// Dir keeps the cluster and its password, and is made if it is absent. A
	// cluster that is there already is started as it is. Empty: a temporary
	// folder, removed by Stop.
	Dir string

	// Log gets a line for each thing that takes a while. Nil: nowhere.
	Log io.Writer

	// MaxConnections is the server's max_connections. 0: PostgreSQL's default, 100.
	MaxConnections int

	// Volatile is for what need not outlive a crash of the machine, as in tests: the
	// server waits for no disk, and a temporary folder is in memory if there is room.
	// A crash of the server itself loses nothing.
	Volatile bool

	// Settings are further settings for postgresql.conf, by name. Commits are
	// durable (fsync and synchronous_commit are on) unless they, or Volatile, say
	// otherwise.
	Settings map[string]string
}

// Postgres is a PostgreSQL server: one of our own, or the one that DATABASE_URL
// names. Its methods may be called from several goroutines.
type Postgres struct {
	base     url.URL // the owner's URL of the maintenance database
	external bool
	log      io.Writer

	mu       sync.Mutex
	config   PostgresConfig
	binaries postgresBinaries
	account  *account
	dir      *workdir
	port     *port
	server   *child // nil before the first start
	stopped  bool
}

// StartPostgres starts a PostgreSQL server and returns when it accepts
// connections; the context bounds the start alone. If DATABASE_URL is set, it
// only checks that the server there answers.
//
// Errors: [ErrInUse] when another live process runs a server in Dir, and
// [ErrNoPostgres], with what to install, when there is none to run. Nothing is
// left behind after an error. It may take minutes the first time on a machine
// without PostgreSQL, when the server is downloaded.
func StartPostgres(ctx context.Context, c PostgresConfig) (*Postgres, error) {
	if given := os.Getenv("DATABASE_URL"); given != "" {
		return usePostgres(ctx, given, c.Log)
	}
	return startPostgres(ctx, c, defaultPostgresSearch())
}

func usePostgres(ctx context.Context, given string, log io.Writer) (*Postgres, error) {
	base, err := url.Parse(given)
	// The parser's error would show the password.
	if err != nil || base.Scheme != "postgres" && base.Scheme != "postgresql" {
		return nil, errors.New("DATABASE_URL is not of the form postgres://user:password@host:port/database")
	}
	p := &Postgres{base: *base, external: true, log: log}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.do(ctx, func(*pgx.Conn) error { return nil }); err != nil {
		return nil, fmt.Errorf("PostgreSQL at DATABASE_URL: %w", err)
	}
	logf(log, "using PostgreSQL at %s, from DATABASE_URL", base.Host)
	return p, nil
}

func startPostgres(ctx context.Context, c PostgresConfig, search postgresSearch) (_ *Postgres, err error) {
	if !supported {
		return nil, fmt.Errorf("running PostgreSQL on this system: %w: set DATABASE_URL to a running one", errors.ErrUnsupported)
	}
	for _, name := range []string{"port", "listen_addresses", "unix_socket_directories"} {
		if _, ok := c.Settings[name]; ok {
			return nil, fmt.Errorf("the setting %s is not for the caller to choose", name)
		}
	}
	begun := time.Now()
	p := &Postgres{log: c.Log, config: c}
	if p.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if p.dir, err = p.openDir(); err != nil {
		return nil, fmt.Errorf("folder for PostgreSQL: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Stop())
		}
	}()

	if err := os.RemoveAll(p.LogFile()); err != nil {
		return nil, err
	}
	major, err := clusterVersion(p.data())
	if err != nil {
		return nil, err
	}
	if p.binaries, err = search.find(ctx, p.account, major, c.Log); err != nil {
		return nil, err
	}
	password, err := keptSecret(filepath.Join(p.dir.path, "password"))
	if err != nil {
		return nil, err
	}
	if major == 0 {
		if err := p.initialise(ctx); err != nil {
			return nil, err
		}
	} else if err := p.mustOwn(p.data()); err != nil {
		return nil, err
	}
	p.base = url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(postgresSuperuser, password),
		Path:     "/" + postgresMaintenance,
		RawQuery: "sslmode=disable",
	}

	const attemptsMax = 5
	for attempt := 1; ; attempt++ {
		if p.port, err = reservePort(0); err != nil {
			return nil, err
		}
		p.base.Host = p.port.address()
		logf(c.Log, "starting PostgreSQL %s from %s on %s", p.binaries.version, p.binaries.dir, p.port.address())
		err := p.launch(ctx)
		if err == nil {
			logf(c.Log, "PostgreSQL is ready (%s)", time.Since(begun).Round(10*time.Millisecond))
			return p, nil
		}
		if !portTaken(err) || attempt == attemptsMax {
			return nil, err
		}
		p.port.release()
	}
}

func (p *Postgres) openDir() (*workdir, error) {
	if p.config.Volatile && p.config.Dir == "" {
		if base, ok := memoryBase(p.account); ok {
			return makeTemporary(base, p.account, p.log)
		}
	}
	return openWorkdir(p.config.Dir, p.account, p.log)
}

func (p *Postgres) data() string { return filepath.Join(p.dir.path, "data") }

// LogFile returns the path of the server's log, which begins anew with each
// StartPostgres and goes with its folder. Empty for an external server.
func (p *Postgres) LogFile() string {
	if p.external {
		return ""
	}
	return filepath.Join(p.dir.path, "postgres.log")
}

// clusterVersion returns the major version of the cluster in a folder, 0 when
// there is none.
func clusterVersion(data string) (int, error) {
	raw, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("%s holds a PostgreSQL cluster of version %q, which is too old", data, strings.TrimSpace(string(raw)))
	}
	return major, nil
}

// mustOwn tells apart early what the server would refuse with less clarity.
func (p *Postgres) mustOwn(data string) error {
	info, err := os.Stat(data)
	if err != nil {
		return err
	}
	if owner := ownerOf(info); owner != p.account.id() {
		return fmt.Errorf("the cluster in %s belongs to user ID %d, and the server would run under user ID %d: "+
			"start it as the user who made it, or choose another folder", data, owner, p.account.id())
	}
	return nil
}

// keptSecret returns the password kept in a file, and makes one up when there
// is none.
func keptSecret(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(raw))) > 0 {
		return strings.TrimSpace(string(raw)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	secret := rand.Text()
	return secret, os.WriteFile(path, []byte(secret+"\n"), 0o600)
}

// initialise makes the cluster. It appears under its name when it is complete,
// so that one cut short is made anew.
func (p *Postgres) initialise(ctx context.Context) error {
	making := p.data() + ".new"
	if err := os.RemoveAll(making); err != nil {
		return err
	}
	if err := os.Mkdir(making, 0o700); err != nil {
		return err
	}
	password := filepath.Join(p.dir.path, "password")
	for _, path := range []string{making, password} {
		if err := p.account.give(path); err != nil {
			return err
		}
	}
	args := []string{
		"--pgdata", making,
		"--username", postgresSuperuser, "--pwfile", password,
		"--auth", "scram-sha-256",
		// The same order of texts on every machine.
		"--encoding", "UTF8", "--no-locale",
	}
	if p.dir.temporary {
		// What a crash of the machine would lose here is gone after it anyway.
		args = append(args, "--no-sync")
	}
	logf(p.log, "making a PostgreSQL %s cluster in %s", p.binaries.version, p.dir.path)
	lock, err := p.dir.lockServer(ctx, p.log)
	if err != nil {
		return err
	}
	defer lock.Close()
	initdb, err := startChild(childConfig{
		name:        "initdb",
		path:        p.binaries.program("initdb"),
		args:        args,
		env:         environment("LC_ALL=C"),
		dir:         p.dir.path,
		logPath:     filepath.Join(p.dir.path, "initdb.log"),
		account:     p.account,
		deathSignal: syscall.SIGTERM,
		lock:        lock,
	})
	if err != nil {
		return err
	}
	if err := initdb.wait(ctx); err != nil {
		return errors.Join(err, initdb.end(context.Background(), farewell{syscall.SIGTERM, 5 * time.Second}))
	}
	if initdb.code != 0 {
		return fmt.Errorf("make a PostgreSQL cluster: %w", initdb.exit())
	}
	conf, err := os.OpenFile(filepath.Join(making, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conf, "\ninclude '%s'\n", postgresConfFile)
	if err := errors.Join(err, conf.Close()); err != nil {
		return err
	}
	return os.Rename(making, p.data())
}

// launch starts the server on its port and returns when it is ready.
func (p *Postgres) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("PostgreSQL is not ready after %s", startTimeout))
	defer cancel()
	lock, err := p.dir.lockServer(ctx, p.log)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := p.writeConf(); err != nil {
		return err
	}
	server, err := startChild(childConfig{
		name:        "PostgreSQL",
		path:        p.binaries.program("postgres"),
		args:        []string{"-D", p.data()},
		env:         environment("LC_ALL=C"),
		dir:         p.dir.path,
		logPath:     p.LogFile(),
		account:     p.account,
		deathSignal: syscall.SIGINT, // a fast shutdown
		lock:        lock,
	})
	if err != nil {
		return err
	}
	var last error
	err = poll(ctx, func() (bool, error) {
		if !server.alive() {
			return false, server.exit()
		}
		last = p.do(ctx, func(*pgx.Conn) error { return nil })
		return last == nil, nil
	})
	if err != nil {
		if server.alive() {
			err = fmt.Errorf("%w: %w", err, last)
		}
		return errors.Join(err, server.end(context.Background(), farewell{syscall.SIGQUIT, crashTimeout}))
	}
	p.server = server
	return nil
}

// volatileSettings: what a crash of the machine would lose is gone after it
// anyway, and the log is for nobody but this server's own recovery, and short.
var volatileSettings = map[string]string{
	"fsync":            "off",
	"full_page_writes": "off",
	"wal_level":        "minimal",
	"max_wal_senders":  "0",
	"max_wal_size":     "256MB",
}

func (p *Postgres) writeConf() error {
	settings := map[string]string{
		"listen_addresses": loopback,
		"port":             strconv.Itoa(p.port.number),
		// No socket: its path has a limit that folders of tests exceed.
		"unix_socket_directories": "",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"cluster_name":            "payonce",
	}
	if p.config.MaxConnections > 0 {
		settings["max_connections"] = strconv.Itoa(p.config.MaxConnections)
	}
	if p.config.Volatile {
		maps.Copy(settings, volatileSettings)
	}
	maps.Copy(settings, p.config.Settings)
	var b strings.Builder
	b.WriteString("# Written anew at every start.\n")
	for _, name := range sortedKeys(settings) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	path := filepath.Join(p.data(), postgresConfFile)
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return err
	}
	return p.account.give(path)
}

// External reports whether the server is one that DATABASE_URL names.
func (p *Postgres) External() bool { return p.external }

// PID returns the process ID of our server, 0 while it is down and for an
// external one.
func (p *Postgres) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.server.alive() {
		return 0
	}
	return p.server.pid
}

// Kill crashes the server: it ends at once, without a checkpoint, and must
// recover when it is started again. Committed data survives that. The address
// stays reserved. Killing a server that is down does nothing. [ErrExternal] for
// an external server.
func (p *Postgres) Kill(ctx context.Context) error {
	return p.halt(ctx, farewell{syscall.SIGQUIT, crashTimeout})
}

// Shutdown ends the server in order, clients being disconnected, and keeps its
// folder and its address for a Restart. Shutting down a server that is down
// does nothing. [ErrExternal] for an external server.
func (p *Postgres) Shutdown(ctx context.Context) error { return p.halt(ctx, postgresGoodbye...) }

// postgresGoodbye is a fast shutdown and, for one that hangs, an immediate one.
var postgresGoodbye = []farewell{{syscall.SIGINT, time.Minute}, {syscall.SIGQUIT, crashTimeout}}

func (p *Postgres) halt(ctx context.Context, farewells ...farewell) error {
	if p.external {
		return ErrExternal
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.end(ctx, farewells...)
}

// Restart starts the server again after a Kill, a Shutdown or a crash of its
// own, with the same data on the same address; one that runs is shut down
// first. It returns when the server accepts connections, recovery included.
// [ErrExternal] for an external server, [ErrStopped] after Stop.
func (p *Postgres) Restart(ctx context.Context) error {
	if p.external {
		return ErrExternal
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return ErrStopped
	}
	if err := p.server.end(ctx, postgresGoodbye...); err != nil {
		return err
	}
	logf(p.log, "restarting PostgreSQL on %s", p.port.address())
	return p.launch(ctx)
}

// Stop shuts the server down and removes a temporary folder. An external server
// is left alone. Safe to call twice.
func (p *Postgres) Stop() error {
	if p == nil || p.external {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	p.stopped = true
	goodbye := postgresGoodbye
	if p.dir.temporary {
		// Nothing of it is kept, so there is nothing to write out first.
		goodbye = goodbye[1:]
	}
	err := p.server.end(context.Background(), goodbye...)
	if err == nil && p.dir.temporary {
		err = p.awaitBackends()
	}
	p.port.release()
	return errors.Join(err, p.dir.close())
}

// awaitBackends returns when the last of the server's processes is gone, which
// would otherwise write into the folder while it is being removed.
func (p *Postgres) awaitBackends() error {
	ctx, cancel := context.WithTimeout(context.Background(), backendsTimeout)
	defer cancel()
	lock, err := p.dir.lockServer(ctx, nil)
	if err != nil {
		return err
	}
	return lock.Close()
}

func sortedKeys(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}
