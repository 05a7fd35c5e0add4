package transfers_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"payonce/internal/devstack"
	"payonce/ledger"
	"payonce/starter/internal/standin"
	"payonce/starter/transfers"
	"payonce/workflows"
)

// server is the Temporal server of the tests that run one after the other: transfers have one task queue, and each test
// brings its own worker. Tests that run in parallel bring their own server as well.
var server *devstack.Temporal

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	// The tests bring their own servers.
	for _, name := range []string{"DATABASE_URL", "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"} {
		os.Unsetenv(name)
	}
	var err error
	server, err = devstack.StartTemporal(context.Background(), devstack.TemporalConfig{SearchAttributes: transfers.SearchAttributes()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// within returns a context for one test: longer than anything takes on a busy machine.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, s *devstack.Temporal, connection client.ConnectionOptions) client.Client {
	t.Helper()
	// The SDK gives a request up after 10 s, which one to a busy server may take.
	connection.GetSystemInfoTimeout = time.Minute
	c, err := client.DialContext(within(t), client.Options{
		RPCTimeout: time.Minute, HostPort: s.Address, Namespace: s.Namespace, ConnectionOptions: connection,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// world is a worker with two ledgers: us, where alice has 20.00, and eu, where bob has nothing.
type world struct {
	server   *devstack.Temporal
	temporal client.Client
	client   *transfers.Client
	us, eu   *standin.Books
}

func newWorld(t *testing.T, s *devstack.Temporal) *world {
	t.Helper()
	w := &world{server: s, temporal: dial(t, s, client.ConnectionOptions{}), us: standin.NewBooks(), eu: standin.NewBooks()}
	w.client = transfers.New(w.temporal, transfers.Options{})
	w.fund(t)
	stop, err := standin.Worker(w.temporal, standin.Options(), map[string]*standin.Books{"us": w.us, "eu": w.eu})
	require.NoError(t, err)
	t.Cleanup(stop)
	return w
}

// ownServer starts a server for one test.
func ownServer(t *testing.T, config devstack.TemporalConfig) *devstack.Temporal {
	t.Helper()
	s, err := devstack.StartTemporal(within(t), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

func (w *world) fund(t *testing.T) {
	t.Helper()
	usd, err := ledger.ParseAsset("USD")
	require.NoError(t, err)
	world := ledger.NewAccount("world", usd)
	world.Floor = nil
	for _, account := range []struct {
		books   *standin.Books
		account ledger.Account
	}{
		{w.us, world}, {w.us, ledger.NewAccount("alice", usd)}, {w.us, ledger.NewAccount("carol", usd)}, {w.eu, ledger.NewAccount("bob", usd)},
	} {
		_, err := account.books.AccountOpen(t.Context(), account.account)
		require.NoError(t, err)
	}
	outcome, err := w.us.Post(t.Context(), ledger.Operation{
		Key: "fund", Kind: ledger.KindPost, Legs: []ledger.Leg{{From: "world", To: "alice", Asset: usd, Amount: ledger.AmountFromUnits(2000)}},
	})
	require.NoError(t, err)
	require.Equal(t, ledger.OutcomeApplied, outcome.State)
}

// requireBalances checks what alice and bob have.
func (w *world) requireBalances(t *testing.T, alice, bob string) {
	t.Helper()
	a, err := w.us.Account(t.Context(), "alice", ledger.Asset{})
	require.NoError(t, err)
	b, err := w.eu.Account(t.Context(), "bob", ledger.Asset{})
	require.NoError(t, err)
	require.Equal(t, []string{alice, bob}, []string{a.Balance.Format(a.Asset), b.Balance.Format(b.Asset)})
}

// payBob is a transfer of 10.00 from alice to bob with a new ID.
func payBob(t *testing.T) workflows.TransferInput {
	t.Helper()
	return workflows.TransferInput{ID: t.Name() + " " + rand.Text(), From: "us/alice", To: "eu/bob", Amount: "10.00", Asset: "USD"}
}
