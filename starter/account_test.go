package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/activities"
)

func TestAccounts(t *testing.T) {
	newWorld(t)
	t.Run("open", func(t *testing.T) {
		document := object(t, exitDone, "account", "open", "us/alice", "--asset", "USD", "--metadata", "owner=Alice")
		require.Equal(t, "us/alice", document["account"])
		require.Equal(t, "USD/2", document["asset"])
		require.Equal(t, "0.00", document["balance"])
		require.Equal(t, "0.00", document["floor"])
		require.Contains(t, document, "ceiling")
		require.Nil(t, document["ceiling"])
		require.Equal(t, "open", document["status"])
		require.Equal(t, map[string]any{"owner": "Alice"}, document["metadata"])
	})
	t.Run("open again", func(t *testing.T) {
		succeeds(t, "account", "open", "us/alice", "--asset", "USD/2", "--floor", "0", "--ceiling", "none", "--metadata", "owner=Alice")
		got := starter(t, "account", "open", "us/alice", "--asset", "EUR")
		require.Equal(t, exitRejected, got.code, got.stderr)
	})
	t.Run("cases 44 and 46: scales", func(t *testing.T) {
		require.Equal(t, "-80", object(t, exitDone, "account", "open", "us/yen", "--asset", "JPY", "--floor", "-80")["floor"])
		require.Equal(t, "1.234", object(t, exitDone, "account", "open", "us/dinar", "--asset", "KWD", "--ceiling", "1.234")["ceiling"])
	})
	t.Run("set", func(t *testing.T) {
		document := object(t, exitDone, "account", "set", "us/alice", "--floor", "-100.00", "--ceiling", "1000", "--status", "frozen")
		require.Equal(t, []any{"-100.00", "1000.00", "frozen"}, []any{document["floor"], document["ceiling"], document["status"]})
		require.Equal(t, map[string]any{"owner": "Alice"}, document["metadata"])
		document = object(t, exitDone, "account", "set", "us/alice", "--floor", "none", "--ceiling", "none", "--status", "open", "--metadata", "vip=yes")
		require.Equal(t, []any{nil, nil, "open"}, []any{document["floor"], document["ceiling"], document["status"]})
		require.Equal(t, map[string]any{"vip": "yes"}, document["metadata"])

		got := starter(t, "account", "set", "us/alice", "--floor", "0.001")
		require.Equal(t, exitUsage, got.code, "only the ledger knows the account's asset")
		require.Contains(t, got.stderr, "has 3 decimal digits; USD/2 has 2")
	})
	t.Run("unknown", func(t *testing.T) {
		for _, args := range [][]string{{"show", "us/nobody"}, {"set", "us/nobody", "--status", "frozen"}, {"statement", "us/nobody"}} {
			got := starter(t, append([]string{"account"}, args...)...)
			require.Equal(t, exitUsage, got.code)
			require.Contains(t, got.stderr, "no such account")
			require.NotContains(t, got.stderr, "type:", "Temporal's frame is of no use to a person")
		}
	})
	t.Run("list", func(t *testing.T) {
		for _, args := range [][]string{{"account", "list", "us"}, {"account", "list", "--ledger", "us"}} {
			accounts, ok := object(t, exitDone, args...)["accounts"].([]any)
			require.True(t, ok)
			require.Len(t, accounts, 3)
		}
		require.Equal(t, []any{}, object(t, exitDone, "account", "list", "eu")["accounts"])
		require.Equal(t, strings.Join([]string{
			"ACCOUNT   ASSET  BALANCE  FLOOR  CEILING  STATUS",
			"us/alice  USD/2     0.00   none     none  open",
			"us/yen    JPY/0        0    -80     none  open",
			"us/dinar  KWD/3    0.000  0.000    1.234  open",
			"",
		}, "\n"), succeeds(t, "account", "list", "us"))
	})
	t.Run("show as text", func(t *testing.T) {
		require.Regexp(t, `^account   us/alice
asset     USD/2
balance   0\.00
floor     none
ceiling   none
status    open
entries   0
opened    .*Z
metadata  vip=yes
$`, succeeds(t, "account", "show", "us/alice"))
	})
}

func TestStatement(t *testing.T) {
	newFundedWorld(t)
	empty := object(t, exitDone, "account", "statement", "eu/bob")
	require.Equal(t, []any{"0.00", []any{}, "0.00", false}, []any{empty["opening_balance"], empty["entries"], empty["closing_balance"], empty["more"]})

	before := time.Now()
	id := newID(t)
	for i := range 3 {
		succeeds(t, "transfer", "--id", fmt.Sprintf("%s %d", id, i), "--from", "us/alice", "--to", "eu/bob", "--amount", fmt.Sprintf("%d.00", i+1), "--asset", "USD", "--memo", "rent")
	}
	statement := func(args ...string) statementView {
		got := starter(t, append([]string{"account", "statement", "us/alice", "--output", "json"}, args...)...)
		require.Equal(t, exitDone, got.code, got.stderr)
		var view statementView
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &view))
		return view
	}
	amounts := func(entries []activities.EntryView) []string {
		var list []string
		for _, e := range entries {
			list = append(list, e.Amount)
		}
		return list
	}

	all := statement()
	require.Equal(t, []string{"20.00", "-1.00", "-2.00", "-3.00"}, amounts(all.Entries))
	require.Equal(t, []string{"0.00", "14.00"}, []string{all.OpeningBalance, all.ClosingBalance})
	require.Equal(t, "eu/bob", all.Entries[1].Other)

	limited := statement("--limit", "2")
	require.Equal(t, []string{"20.00", "-1.00"}, amounts(limited.Entries))
	require.True(t, limited.More)
	require.Equal(t, "19.00", limited.ClosingBalance)
	require.False(t, statement("--limit", "4").More)

	later := statement("--from", before.Format(time.RFC3339Nano))
	require.Equal(t, []string{"-1.00", "-2.00", "-3.00"}, amounts(later.Entries))
	require.Equal(t, []string{"20.00", "14.00"}, []string{later.OpeningBalance, later.ClosingBalance})

	future := statement("--from", time.Now().Add(24*time.Hour).UTC().Format(time.DateOnly))
	require.Empty(t, future.Entries)
	require.Equal(t, []string{"14.00", "14.00"}, []string{future.OpeningBalance, future.ClosingBalance})
	require.Empty(t, statement("--to", "2020-01-01").Entries)

	require.Equal(t, "20.00", object(t, exitDone, "account", "show", "us/alice", "--at", before.Format(time.RFC3339Nano))["balance"])

	text := succeeds(t, "account", "statement", "us/alice", "--limit", "2")
	require.Contains(t, text, "us/alice, USD/2\n")
	require.Regexp(t, `(?m)^opening balance +0\.00$`, text)
	require.Regexp(t, `(?m)Z +-1\.00 +19\.00  withdraw  eu/bob +transfer/TestStatement-\w+ 0/withdraw +rent$`, text)
	require.Regexp(t, `(?m)^balance so far +19\.00$`, text)

	require.Equal(t, exitRejected, starter(t, "account", "set", "us/alice", "--status", "closed").code, "it holds money")
}

func TestStatementFile(t *testing.T) {
	newFundedWorld(t)
	began := time.Now().Add(-time.Minute).UTC().Truncate(time.Second).Format(time.RFC3339)
	id := newID(t)
	pay := func(n int) {
		succeeds(t, "transfer", "--id", fmt.Sprintf("%s %d", id, n), "--from", "us/alice", "--to", "eu/bob", "--amount", "1.00", "--asset", "USD", "--memo", "rent")
	}
	pay(1)
	end := time.Now().UTC().Truncate(time.Microsecond).Add(time.Microsecond).Format(time.RFC3339Nano)
	dir := t.TempDir()
	write := func(out string, args ...string) []string {
		return append([]string{"account", "statement", "us/alice", "--from", began, "--to", end, "--out", out}, args...)
	}
	got := starter(t, write(dir)...)
	require.Equal(t, exitUsage, got.code, "nothing came after it yet, and less than a minute has passed")
	require.Contains(t, got.stderr, "the period is not over")
	pay(2)

	document := object(t, exitDone, write(dir)...)
	path, _ := document["path"].(string)
	require.Equal(t, filepath.Join(dir, "us", "alice"), filepath.Dir(path))
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	digest := sha256.Sum256(first)
	require.Equal(t, map[string]any{
		"account": "us/alice", "asset": "USD/2", "from": began, "to": end, "opening_balance": "0.00", "closing_balance": "19.00",
		"version_before": 0.0, "entries": 2.0, "format": "csv", "path": path, "bytes": float64(len(first)), "sha256": hex.EncodeToString(digest[:]),
	}, document)
	require.Contains(t, string(first), "-1.00,19.00,withdraw,eu/bob,transfer/"+id+" 1/withdraw,rent\r\n")

	pay(3)
	require.Equal(t, document, object(t, exitDone, write(dir)...))
	exact := filepath.Join(t.TempDir(), "new", "september.csv")
	require.Contains(t, succeeds(t, write(exact)...), "closing  19.00\n")
	for _, again := range []string{path, exact} {
		text, err := os.ReadFile(again)
		require.NoError(t, err)
		require.Equal(t, first, text)
	}

	require.Equal(t, exitDone, starter(t, write(dir+"/", "--format", "camt053")...).code)
	parts, err := filepath.Glob(filepath.Join(dir, "us", "alice", "*"))
	require.NoError(t, err)
	require.Len(t, parts, 2)

	require.Equal(t, exitUsage, starter(t, write(os.DevNull)...).code)
	unknown := write(dir)
	unknown[2] = "us/nobody"
	require.Equal(t, exitUsage, starter(t, unknown...).code)
}

func TestNoWorkerAnswers(t *testing.T) {
	const nobody = "no worker polls the task queue payonce: is a worker running?"
	told := func(got finished) bool {
		return strings.Contains(got.stdout, nobody) && strings.Contains(got.stderr, "waiting: "+nobody)
	}
	got := until(t, told, "account", "show", "us/alice", "--timeout", "4s", "--output", "json")
	require.Equal(t, exitPending, got.code)
	require.Contains(t, got.stderr, "starter: waiting: no worker polls the task queue payonce: is a worker running?\n")
	var document failure
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &document))
	require.Equal(t, "account-show/us/alice: no answer: no worker polls the task queue payonce: is a worker running?", document.Error)

	got = until(t, func(got finished) bool { return strings.Contains(got.stdout, nobody) }, "status", "nothing", "--timeout", "3s", "--output", "json")
	require.Equal(t, exitPending, got.code)
	var status map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &status))
	require.Equal(t, []any{"nothing", "unknown"}, []any{status["id"], status["state"]})
	require.Equal(t, []any{"no worker polls the task queue payonce: is a worker running?"}, status["notes"])

	got = until(t, func(got finished) bool { return strings.Contains(got.stderr, nobody) }, "payout", "check", "rent", "--timeout", "4s")
	require.Equal(t, exitPending, got.code)
	require.Contains(t, got.stderr, "payout-hint/rent: no answer: "+nobody)

	newWorld(t)
	const moon = "no worker polls the task queue payonce-moon: does a worker hold the ledger moon?"
	got = until(t, func(got finished) bool { return strings.Contains(got.stderr, moon) }, "account", "list", "moon", "--timeout", "3s")
	require.Equal(t, exitPending, got.code)
	require.Contains(t, got.stderr, moon)
}
