package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"payonce/ledger"
)

// The bounds of what a call may take. Callers that retry put their own time-outs above them: an attempt that is still
// running when its caller has given up holds locks for nothing.
const (
	TimeoutStatement         = 8 * time.Second  // one SQL statement
	TimeoutLock              = 5 * time.Second  // waiting for one lock
	TimeoutIdleInTransaction = 10 * time.Second // a frozen worker must not hold locks for ever
	TimeoutConnect           = 5 * time.Second  // one attempt to connect
	TimeoutAcquire           = 5 * time.Second  // waiting for a connection of the pool, when Config does not say
	// TimeoutCall bounds a call whose context has no deadline: a network that swallows packets must not hold it for ever.
	TimeoutCall = 30 * time.Second

	timeoutRollback = 2 * time.Second
)

// ConnsMaxDefault is the size of a ledger's pool when Config does not say. Few connections with large batches do more
// than many with small ones.
const ConnsMaxDefault = 10

// Config says where a ledger's books are.
type Config struct {
	// Name is the ledger's name in account references: "eu" in "eu/alice".
	Name string
	// URL is a PostgreSQL connection string, as a URL or as keywords. It may hold a password, so nothing prints it.
	// Settings of it win over the package's own, except that a standby is never read.
	URL string
	// ConnsMax is the size of the pool; 0: ConnsMaxDefault.
	ConnsMax int
	// TimeoutAcquire bounds the wait for a connection, after which the ledger counts as unavailable; 0: TimeoutAcquire.
	TimeoutAcquire time.Duration
	// TracerProvider receives a span for each database round trip, without the values; nil: no tracing.
	TracerProvider trace.TracerProvider
}

// Ledger is the books of one ledger in one database.
type Ledger struct {
	name           string
	pool           *pgxpool.Pool
	timeoutAcquire time.Duration
	groups         *groups
}

// Open prepares a pool of connections. It connects when the first call needs it, so a database that is down is found
// by Ping or by that call. The error is an *ledger.InvalidError, without any part of the URL.
func Open(ctx context.Context, config Config) (*Ledger, error) {
	if err := ledger.CheckLedgerName("ledger", config.Name); err != nil {
		return nil, err
	}
	poolConfig, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		// The parser's own text repeats the URL, and can't always tell which part of a malformed one is the password.
		return nil, &ledger.InvalidError{Field: "database URL of ledger " + config.Name, Reason: reasonURL}
	}
	if err := configureSession(poolConfig.ConnConfig, config.URL); err != nil {
		return nil, &ledger.InvalidError{Field: "database URL of ledger " + config.Name, Reason: err.Error()}
	}
	setDefaults(poolConfig.ConnConfig.RuntimeParams, poolParams)
	poolConfig.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		registerArrays(conn.TypeMap())
		return commitDurably(ctx, conn)
	}
	poolConfig.MaxConns = ConnsMaxDefault
	if config.ConnsMax > 0 {
		poolConfig.MaxConns = int32(min(config.ConnsMax, 10_000))
	}
	// Connections that are opened together don't expire together.
	poolConfig.MaxConnLifetimeJitter = poolConfig.MaxConnLifetime / 10
	if config.TracerProvider != nil {
		poolConfig.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(config.TracerProvider))
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("ledger %s: %w", config.Name, withoutConnString(err))
	}
	l := &Ledger{name: config.Name, pool: pool, timeoutAcquire: TimeoutAcquire}
	if config.TimeoutAcquire > 0 {
		l.timeoutAcquire = config.TimeoutAcquire
	}
	l.groups = newGroups(l, int(poolConfig.MaxConns))
	return l, nil
}

const reasonURL = "it is not a PostgreSQL connection string such as postgres://user:password@host:5432/database " +
	"(it is not repeated here, because it may hold a password)"

// sessionParams are the settings of every session of this package.
var sessionParams = map[string]string{
	"application_name": "payonce",
	"timezone":         "UTC",
	// Names are not qualified in Go, so they must not depend on the role's own path.
	"search_path": "public",
	// The server's side of a dead connection: without these it may keep a lost client's locks for two hours.
	"tcp_keepalives_idle":     "30",
	"tcp_keepalives_interval": "10",
	"tcp_keepalives_count":    "3",
}

// poolParams are the further settings of a pool's sessions.
var poolParams = map[string]string{
	"statement_timeout":                   milliseconds(TimeoutStatement),
	"lock_timeout":                        milliseconds(TimeoutLock),
	"idle_in_transaction_session_timeout": milliseconds(TimeoutIdleInTransaction),

	// Every statement of a pool finds its rows by an index, in a number that the planner can't know and that grows: it
	// is given a list of keys, and the triggers a list of new rows. Planned anew each time, a batch of one spends most of
	// its time on planning. Planned once, from the statistics of that moment, which on a new ledger are those of empty
	// tables, it keeps scanning or hashing whole tables when they are full. So it is planned once, and only in the one
	// way that is right for every size.
	"plan_cache_mode":  "force_generic_plan",
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	"enable_material":  "off",
	"jit":              "off",
}

func milliseconds(d time.Duration) string { return fmt.Sprint(max(d.Milliseconds(), 1)) }

// configureSession adds what every connection of this package has, unless the URL says otherwise.
func configureSession(config *pgx.ConnConfig, rawURL string) error {
	setDefaults(config.RuntimeParams, sessionParams)
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = TimeoutConnect
	}
	config.DialFunc = (&net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3},
	}).DialContext

	// Money is decided, and looked up, where it is written: a standby lags behind.
	switch attrs := targetSessionAttrs(rawURL); attrs {
	case "":
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	case "read-write", "primary", "any":
	default:
		return fmt.Errorf("target_session_attrs=%s: only the primary knows what happened; leave it out", attrs)
	}
	return nil
}

// targetSessionAttrs finds what the caller chose, which the parsed configuration does not keep apart from the default.
func targetSessionAttrs(rawURL string) string {
	const name = "target_session_attrs"
	if parsed, err := url.Parse(rawURL); err == nil && parsed.Scheme != "" {
		if value := parsed.Query().Get(name); value != "" {
			return value
		}
	} else {
		for word := range strings.FieldsSeq(rawURL) {
			if value, ok := strings.CutPrefix(word, name+"="); ok {
				return strings.Trim(value, "'")
			}
		}
	}
	return os.Getenv("PGTARGETSESSIONATTRS")
}

func setDefaults(params, defaults map[string]string) {
	for name, value := range defaults {
		if _, given := params[name]; !given {
			params[name] = value
		}
	}
}

const commitDurablySQL = `select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'`

// commitDurably refuses to lose what was answered as committed, whatever the database's or the role's setting is. Any
// setting but off is left to the server: the others wait for at least one disk.
func commitDurably(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, commitDurablySQL)
	return err
}

// Close waits for running calls and closes the connections.
func (l *Ledger) Close() { l.pool.Close() }

// Name is the ledger's name.
func (l *Ledger) Name() string { return l.name }

// Ping asks the database for an answer. The error is ledger.ErrUnavailable.
func (l *Ledger) Ping(ctx context.Context) error {
	return l.withConn(ctx, "ping", func(ctx context.Context, conn *pgx.Conn) error {
		return translate(conn.Ping(ctx))
	})
}

// PoolStat is how busy a ledger's pool is.
type PoolStat struct {
	ConnsMax, ConnsTotal, ConnsInUse int
	Acquired, AcquiredAfterWait      int64
	AcquireWait                      time.Duration // in all
}

// PoolStat returns how busy the pool is.
func (l *Ledger) PoolStat() PoolStat {
	stat := l.pool.Stat()
	return PoolStat{
		ConnsMax: int(stat.MaxConns()), ConnsTotal: int(stat.TotalConns()), ConnsInUse: int(stat.AcquiredConns()),
		Acquired: stat.AcquireCount(), AcquiredAfterWait: stat.EmptyAcquireCount(), AcquireWait: stat.EmptyAcquireWaitTime(),
	}
}

// withConn runs do on a connection of the pool. The errors of do are translated already; they get the ledger's name
// and what was being done.
func (l *Ledger) withConn(ctx context.Context, doing string, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := l.onConn(ctx, do); err != nil {
		return l.failed(doing, err)
	}
	return nil
}

// onConn is withConn for a context that has a deadline, and leaves errors as they are.
func (l *Ledger) onConn(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	conn, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return do(ctx, conn.Conn())
}

func (l *Ledger) failed(doing string, err error) error {
	return fmt.Errorf("ledger %s: %s: %w", l.name, doing, err)
}

// bounded gives a context without a deadline one.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, TimeoutCall)
}

func (l *Ledger) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	acquireCtx, cancel := context.WithTimeout(ctx, l.timeoutAcquire)
	defer cancel()
	conn, err := l.pool.Acquire(acquireCtx)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, ctx.Err()
	case acquireCtx.Err() != nil:
		return nil, fmt.Errorf("%w: no connection in time: %w", ledger.ErrUnavailable, withoutConnString(err))
	default:
		// Whatever keeps a connection from being made hits every operation alike.
		return nil, fmt.Errorf("%w: %w", ledger.ErrUnavailable, withoutConnString(err))
	}
}
