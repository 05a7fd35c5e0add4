package devstack

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func newStack(t testing.TB, c Config) *Stack {
	t.Helper()
	if c.Log == nil {
		c.Log = testLog(t)
	}
	s, err := Start(within(t), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// settings reads what Env gives.
func settings(t testing.TB, s *Stack) map[string]string {
	t.Helper()
	m := make(map[string]string)
	for _, entry := range s.Env() {
		name, value, ok := strings.Cut(entry, "=")
		require.True(t, ok)
		m[name] = value
	}
	return m
}

// ledgerURLs reads LEDGERS.
func ledgerURLs(t testing.TB, list string) map[string]string {
	t.Helper()
	m := make(map[string]string)
	for entry := range strings.SplitSeq(list, ",") {
		name, url, ok := strings.Cut(entry, "=")
		require.True(t, ok)
		m[name] = url
	}
	return m
}

func TestStack(t *testing.T) {
	t.Parallel()
	s := newStack(t, Config{Ledgers: []string{"us", "eu-west"}, SearchAttributes: map[string]string{"Colour": "Keyword"}})
	env := settings(t, s)
	require.Equal(t, s.Temporal.Address, env["TEMPORAL_ADDRESS"])
	require.Equal(t, "default", env["TEMPORAL_NAMESPACE"])
	sleeper(t, s.Temporal, "one")

	for setting, role := range map[string]string{"LEDGERS": WorkerRole, "MIGRATE_LEDGERS": postgresSuperuser} {
		urls := ledgerURLs(t, env[setting])
		require.Len(t, urls, 2)
		for _, ledger := range s.Ledgers {
			conn := connect(t, urls[ledger])
			require.Equal(t, Database(ledger), query[string](t, conn, "select current_database()"))
			require.Equal(t, role, query[string](t, conn, "select current_user"))
		}
	}
	_, err := connect(t, ledgerURLs(t, env["LEDGERS"])["us"]).Exec(within(t), "create table mine (x int)")
	require.Equal(t, "42501", state(err), "the worker's role makes no tables")

	pids := []int{s.Postgres.PID(), s.Temporal.PID()}
	require.NoError(t, s.Close())
	for _, pid := range pids {
		require.True(t, gone(pid))
	}
	require.NoError(t, s.Close(), "closing again does nothing")
}

func TestStackKeepsAGivenFolder(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	dir := filepath.Join(publicDir(t), "stack")
	c := Config{Dir: dir, SearchAttributes: map[string]string{"Colour": "Keyword"}}
	s := newStack(t, c)
	require.Equal(t, []string{LedgerDefault}, s.Ledgers)
	execute(t, connect(t, ledgerURLs(t, s.LedgersOwnerURL())[LedgerDefault]), "create table kept as select 42 as number")
	sleeper(t, s.Temporal, "survivor")
	password := s.workerPassword

	_, err := Start(ctx, c)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, s.Close())

	s = newStack(t, c)
	require.Equal(t, password, s.workerPassword)
	connect(t, ledgerURLs(t, s.LedgersURL())[LedgerDefault])
	require.Equal(t, 42, query[int](t, connect(t, ledgerURLs(t, s.LedgersOwnerURL())[LedgerDefault]), "select number from kept"))
	requireSleeper(t, s.Temporal, "survivor")
}

func TestStackOnExternalServers(t *testing.T) {
	own := newStack(t, Config{})
	t.Setenv("DATABASE_URL", own.Postgres.URL("postgres"))
	t.Setenv("TEMPORAL_ADDRESS", own.Temporal.Address)

	stacks := make([]*Stack, 3)
	var wg sync.WaitGroup
	for i := range stacks {
		wg.Go(func() {
			var err error
			stacks[i], err = Start(within(t), Config{Ledgers: []string{"us", "eu"}})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	for _, s := range stacks {
		require.NotNil(t, s)
		require.True(t, s.Postgres.External())
		require.True(t, s.Temporal.External())
	}
	require.NoError(t, stacks[0].Close())
	for _, s := range stacks {
		// No stack has locked out another's workers.
		connect(t, ledgerURLs(t, s.LedgersURL())["eu"])
	}
}

func TestStackRefusesLedgerNames(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{""}, {"a b"}, {"a,b"}, {"a=b"}, {"ä"}, {"us", "us"}, {strings.Repeat("x", 56)}} {
		_, err := Start(within(t), Config{Ledgers: names})
		require.ErrorContains(t, err, "ledger name", names)
	}
}

func TestStackFailsWhole(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	_, err := Start(within(t), Config{Dir: dir, SearchAttributes: map[string]string{"Colour": "Paint"}})
	require.ErrorContains(t, err, "Paint")
	// Both halves gave the folder back.
	newStack(t, Config{Dir: dir})
}
