package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"payonce/activities"
	"payonce/internal/pgtest"
	"payonce/ledger"
	"payonce/ledger/postgres"
)

var _ activities.Ledger = (*postgres.Ledger)(nil)

func TestMain(m *testing.M) {
	pgtest.Main(m, func() error { return goleak.Find() })
}

var (
	usd = mustAsset("USD")
	jpy = mustAsset("JPY")
)

func mustAsset(s string) ledger.Asset {
	asset, err := ledger.ParseAsset(s)
	if err != nil {
		panic(err)
	}
	return asset
}

func amount(s string) ledger.Amount {
	a, err := ledger.ParseSignedAmount(s, usd)
	if err != nil {
		panic(err)
	}
	return a
}

// books is a ledger in a database of the test's own.
type books struct {
	*postgres.Ledger
	pgtest.Database
}

// openBooks returns the ledger "us", opened as a worker opens it.
func openBooks(t testing.TB) *books {
	t.Helper()
	return openBooksNamed(t, "us")
}

func openBooksNamed(t testing.TB, name string) *books {
	t.Helper()
	db := pgtest.NewDatabase(t)
	return &books{Ledger: openLedger(t, name, patient(t, db.WorkerURL)), Database: db}
}

// patient is a database's URL whose sessions wait longer than a busy machine needs for anything, where a worker's would give
// up after some seconds.
func patient(t testing.TB, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	query := u.Query()
	query.Set("connect_timeout", "60")
	for _, name := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		query.Set(name, "120000")
	}
	u.RawQuery = query.Encode()
	return u.String()
}

func openLedger(t testing.TB, name, url string) *postgres.Ledger {
	t.Helper()
	l, err := postgres.Open(t.Context(), postgres.Config{Name: name, URL: url, ConnsMax: 16, TimeoutAcquire: time.Minute})
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

// through opens the same books once more, through a proxy.
func (b *books) through(t testing.TB) (*postgres.Ledger, *pgtest.Proxy) {
	t.Helper()
	proxy := pgtest.NewProxy(t, patient(t, b.WorkerURL))
	return openLedger(t, b.Name(), proxy.URL), proxy
}

// Name is the ledger's name and not the database's.
func (b *books) Name() string { return b.Ledger.Name() }

// open opens an account with the defaults, changed.
func (b *books) open(t testing.TB, name string, changes ...func(*ledger.Account)) {
	t.Helper()
	a := ledger.NewAccount(name, usd)
	for _, change := range changes {
		change(&a)
	}
	_, err := b.AccountOpen(t.Context(), a)
	require.NoError(t, err)
}

func unlimited(a *ledger.Account) { a.Floor = nil }

func in(asset ledger.Asset) func(*ledger.Account) {
	return func(a *ledger.Account) { a.Asset = asset }
}

// fund opens an account that has an amount, which comes from the account "world".
func (b *books) fund(t testing.TB, name, has string) {
	t.Helper()
	b.open(t, "world", unlimited)
	b.open(t, name)
	if has != "0" {
		b.apply(t, post("fund/"+name, "world", name, has))
	}
}

// apply posts an operation that must apply.
func (b *books) apply(t testing.TB, o ledger.Operation) ledger.Outcome {
	t.Helper()
	outcome, err := b.Post(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, ledger.OutcomeApplied, outcome.State, outcome.Detail)
	return outcome
}

// refuse posts an operation that must be refused.
func (b *books) refuse(t testing.TB, o ledger.Operation, code ledger.Code) ledger.Outcome {
	t.Helper()
	outcome, err := b.Post(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, ledger.OutcomeRefused, outcome.State)
	require.Equal(t, code, outcome.Code)
	return outcome
}

// has requires an account's balance.
func (b *books) has(t testing.TB, name, want string) {
	t.Helper()
	account, err := b.Account(t.Context(), name, ledger.Asset{})
	require.NoError(t, err)
	require.Equal(t, want, account.Balance.Format(account.Asset), name)
}

// sound requires that Verify finds nothing wrong.
func sound(t testing.TB, all ...*books) postgres.Summary {
	t.Helper()
	var ledgers []*postgres.Ledger
	for _, b := range all {
		ledgers = append(ledgers, b.Ledger)
	}
	summary, err := postgres.Verify(t.Context(), ledgers, postgres.Report{
		Finding: func(f postgres.Finding) { assert.Fail(t, "the books are wrong", f.String()) },
	})
	require.NoError(t, err)
	require.Zero(t, summary.Findings)
	return summary
}

// owner is a connection as the owner of the tables, who is a superuser.
func (b *books) owner(t testing.TB) *pgx.Conn {
	t.Helper()
	return connect(t, b.OwnerURL)
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func queryInt(t testing.TB, conn *pgx.Conn, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

// waitFor waits until a condition of the database holds.
func waitFor(t testing.TB, conn *pgx.Conn, condition string, args ...any) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); <-tick.C {
		var holds bool
		// In a database transaction, what the server says of its sessions is what it said the first time.
		exec(t, conn, "select pg_stat_clear_snapshot()")
		require.NoError(t, conn.QueryRow(t.Context(), "select "+condition, args...).Scan(&holds))
		if holds {
			return
		}
	}
	require.Fail(t, "waited in vain", condition)
}

// blocked is a condition: so many sessions of this database wait for a lock.
func blocked(sessions int) string {
	return fmt.Sprintf(`(select count(*) = %d from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`, sessions)
}

func post(key, from, to, howMuch string) ledger.Operation {
	return ledger.Operation{
		Key: ledger.Key(key), Kind: ledger.KindPost, Legs: []ledger.Leg{{From: from, To: to, Asset: usd, Amount: amount(howMuch)}},
	}
}

func withdraw(key, from, to, howMuch string) ledger.Operation {
	ref, err := ledger.ParseAccountRef("to", to)
	if err != nil {
		panic(err)
	}
	o := post(key, from, ledger.TransitAccount(ref.Ledger), howMuch)
	o.Kind, o.Counterparty = ledger.KindWithdraw, to
	return o
}

func deposit(key, from, to, howMuch string) ledger.Operation {
	ref, err := ledger.ParseAccountRef("from", from)
	if err != nil {
		panic(err)
	}
	o := post(key, ledger.TransitAccount(ref.Ledger), to, howMuch)
	o.Kind, o.Counterparty = ledger.KindDeposit, from
	return o
}

// refund gives back a withdraw, or as much of it.
func refund(key string, of ledger.Operation, howMuch string) ledger.Operation {
	leg := of.Legs[0]
	return ledger.Operation{
		Key: ledger.Key(key), Kind: ledger.KindRefund, Reverses: of.Key, Counterparty: of.Counterparty,
		Legs: []ledger.Leg{{From: leg.To, To: leg.From, Asset: leg.Asset, Amount: amount(howMuch)}},
	}
}

func seal(o ledger.Operation) ledger.Seal {
	return ledger.Seal{Operation: o, Code: ledger.CodeAttemptsExhausted, Detail: "attempts ran out"}
}

// atOnce runs do n times, all starting together, and waits for all.
func atOnce(n int, do func(i int)) {
	start := make(chan struct{})
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	running.Wait()
}

func repeated(o ledger.Outcome) ledger.Outcome {
	o.Repeat = true
	return o
}

// expiringContext is a context whose deadline passes when a test says so.
type expiringContext struct {
	context.Context
	expired chan struct{}
}

func newExpiringContext(ctx context.Context) (_ context.Context, expire func()) {
	c := &expiringContext{Context: ctx, expired: make(chan struct{})}
	return c, sync.OnceFunc(func() { close(c.expired) })
}

func (c *expiringContext) Done() <-chan struct{} { return c.expired }

func (c *expiringContext) Err() error {
	select {
	case <-c.expired:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// deadlineContext is a context that has a deadline, and does not end at it.
type deadlineContext struct {
	context.Context
	deadline time.Time
}

func (c deadlineContext) Deadline() (deadline time.Time, ok bool) { return c.deadline, true }
