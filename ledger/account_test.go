package ledger_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

func TestParseAccountRef(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"alice":                          "main/alice",
		"eu/alice":                       "eu/alice",
		"eu-west-1/A_1.b":                "eu-west-1/A_1.b",
		"transit:eu":                     "main/transit:eu",
		"eu/a:b@c+d-e":                   "eu/a:b@c+d-e",
		"eu/" + strings.Repeat("a", 128): "eu/" + strings.Repeat("a", 128),
	} {
		got, err := ledger.ParseAccountRef("from", in)
		require.NoError(t, err, in)
		require.Equal(t, want, got.String())
		again, err := ledger.ParseAccountRef("from", got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for _, in := range []string{
		"", "/", "eu/", "/alice", "a/b/c", "EU/alice", "1eu/alice", "-eu/alice", "eu/.alice", "eu/:a", "al ice", "älice", "alice\n",
		"eu/" + strings.Repeat("a", 129), strings.Repeat("a", 33) + "/alice",
	} {
		_, err := ledger.ParseAccountRef("from", in)
		requireInvalid(t, "from", err)
	}
}

func TestTransitAccount(t *testing.T) {
	t.Parallel()
	name := ledger.TransitAccount("eu")
	require.Equal(t, "transit:eu", name)
	require.NoError(t, ledger.CheckAccountName("account", name))
	require.True(t, ledger.IsTransit(name))
	require.Equal(t, "eu", ledger.TransitLedger(name))
	require.False(t, ledger.IsTransit("transit"))
	require.Empty(t, ledger.TransitLedger("alice"))
}

func TestAccountValidate(t *testing.T) {
	t.Parallel()
	usd := mustAsset(t, "USD")
	limit := func(s string) *ledger.Amount { a := mustAmount(t, s, usd); return &a }
	account := func(change func(*ledger.Account)) *ledger.Account {
		a := ledger.NewAccount("alice", usd)
		change(&a)
		return &a
	}
	valid := account(func(*ledger.Account) {})
	require.NoError(t, valid.Validate())
	require.Equal(t, "0", valid.Floor.String(), "no overdraft by default")
	require.Nil(t, valid.Ceiling)
	require.NoError(t, account(func(a *ledger.Account) { a.Floor, a.Ceiling = limit("-5"), limit("0") }).Validate())
	require.NoError(t, account(func(a *ledger.Account) { a.Floor = nil }).Validate())

	for name, test := range map[string]struct {
		field  string
		change func(*ledger.Account)
	}{
		"no name":               {"account", func(a *ledger.Account) { a.Name = "" }},
		"transit":               {"account", func(a *ledger.Account) { a.Name = "transit:eu" }},
		"no asset":              {"asset", func(a *ledger.Account) { a.Asset = ledger.Asset{} }}, // case 55: blnk#60
		"floor above zero":      {"floor", func(a *ledger.Account) { a.Floor = limit("1") }},
		"ceiling below zero":    {"ceiling", func(a *ledger.Account) { a.Floor, a.Ceiling = nil, limit("-1") }},
		"not open":              {"status", func(a *ledger.Account) { a.Status = ledger.AccountFrozen }},
		"metadata with a NUL":   {"metadata key", func(a *ledger.Account) { a.Metadata = map[string]string{"a\x00": ""} }},
		"metadata without name": {"metadata key", func(a *ledger.Account) { a.Metadata = map[string]string{"": ""} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireInvalid(t, test.field, account(test.change).Validate())
		})
	}
}

func TestAccountChange(t *testing.T) {
	t.Parallel()
	usd := mustAsset(t, "USD")
	limit := func(s string) *ledger.Limit { return &ledger.Limit{Amount: mustAmount(t, s, usd)} }
	status := func(s ledger.AccountStatus) *ledger.AccountStatus { return &s }
	account := func() ledger.Account {
		a := ledger.NewAccount("alice", usd)
		a.Balance = mustAmount(t, "10", usd)
		a.Metadata = map[string]string{"tier": "gold"}
		return a
	}

	a := account()
	change := ledger.AccountChange{Floor: &ledger.Limit{None: true}, Ceiling: limit("10"), Status: status(ledger.AccountFrozen)}
	require.NoError(t, change.Apply(&a))
	require.Nil(t, a.Floor)
	require.Equal(t, "10.00", a.Ceiling.Format(usd))
	require.Equal(t, ledger.AccountFrozen, a.Status)
	require.Equal(t, map[string]string{"tier": "gold"}, a.Metadata, "nil leaves it")
	require.NoError(t, (&ledger.AccountChange{Metadata: map[string]string{}}).Apply(&a))
	require.Empty(t, a.Metadata, "empty replaces it")

	for name, change := range map[string]ledger.AccountChange{
		"floor above the balance":   {Floor: limit("10.01")},
		"ceiling below the balance": {Ceiling: limit("9.99")},
		"closed with money":         {Status: status(ledger.AccountClosed)},
		"floor above the ceiling":   {Floor: limit("11"), Ceiling: limit("10")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := account(), account()
			err := change.Apply(&after)
			require.ErrorIs(t, err, ledger.ErrAccountConflict)
			require.Equal(t, before, after, "nothing is applied in part")
		})
	}

	t.Run("a closed account that took money back can be opened again", func(t *testing.T) {
		t.Parallel()
		a := account()
		a.Status = ledger.AccountClosed
		require.NoError(t, (&ledger.AccountChange{Floor: limit("0")}).Apply(&a), "it stays closed")
		require.NoError(t, (&ledger.AccountChange{Status: status(ledger.AccountOpen)}).Apply(&a))
	})

	requireInvalid(t, "account", (&ledger.AccountChange{}).Validate("transit:eu"))
	requireInvalid(t, "account", (&ledger.AccountChange{}).Validate("al ice"))
	requireInvalid(t, "status", (&ledger.AccountChange{Status: status("gone")}).Validate("alice"))
	require.NoError(t, (&ledger.AccountChange{Status: status(ledger.AccountClosed)}).Validate("alice"))
}

func TestParseAccountStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []ledger.AccountStatus{ledger.AccountOpen, ledger.AccountFrozen, ledger.AccountClosed} {
		got, err := ledger.ParseAccountStatus(string(status))
		require.NoError(t, err)
		require.Equal(t, status, got)
	}
	for _, in := range []string{"", "Open", "deleted"} {
		_, err := ledger.ParseAccountStatus(in)
		requireInvalid(t, "status", err)
	}
}

func TestDeadLetterValidate(t *testing.T) {
	t.Parallel()
	valid := ledger.DeadLetter{
		Key: "transfer/t1/deposit", Transfer: "t1", Step: "deposit", State: ledger.DeadLetterOpen, Place: ledger.PlaceTransit,
		Account: "us/alice", Asset: mustAsset(t, "USD"), Error: "anything \x00 at all \xff",
	}
	require.NoError(t, valid.Validate())
	for field, change := range map[string]func(*ledger.DeadLetter){
		"key":         func(d *ledger.DeadLetter) { d.Key = "" },
		"state":       func(d *ledger.DeadLetter) { d.State = "parked" },
		"place":       func(d *ledger.DeadLetter) { d.Place = "" },
		"asset":       func(d *ledger.DeadLetter) { d.Asset = ledger.Asset{} },
		"amount":      func(d *ledger.DeadLetter) { d.Amount = ledger.AmountFromUnits(-1) },
		"attempts":    func(d *ledger.DeadLetter) { d.Attempts = -1 },
		"dead letter": func(d *ledger.DeadLetter) { d.Choices = []string{"retry\x00"} },
	} {
		d := valid
		change(&d)
		requireInvalid(t, field, d.Validate())
	}
}

func FuzzParseAccountRef(f *testing.F) {
	for _, seed := range []string{"alice", "eu/alice", "transit:eu", "eu/a:b@c+d-e", "/", "eu/", "a/b/c", "EU/a", "älice", "a\x00", "main/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := ledger.ParseAccountRef("from", s)
		if err != nil {
			var invalid *ledger.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, "from", invalid.Field)
			require.Less(t, len(err.Error()), 512, "a long input is not repeated")
			return
		}
		// Written in full it is the same account, and nothing was trimmed or cut.
		again, err := ledger.ParseAccountRef("from", ref.String())
		require.NoError(t, err)
		require.Equal(t, ref, again)
		require.True(t, s == ref.String() || ledger.DefaultLedger+"/"+s == ref.String(), "%q is %q", s, ref)
		require.NoError(t, ledger.CheckLedgerName("ledger", ref.Ledger))
		require.NoError(t, ledger.CheckAccountName("account", ref.Name))
		require.Equal(t, ledger.IsTransit(ref.Name), strings.HasPrefix(ref.Name, "transit:"))
	})
}
