package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"payonce/internal/ledgermodel"
	"payonce/ledger"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newBook returns a book with accounts in USD, alice with 100 and bob with nothing.
func newBook(t testing.TB) (*ledger.Book, map[string]*ledger.Account) {
	t.Helper()
	usd := mustAsset(t, "USD")
	book := ledger.NewBook(noon, 1)
	accounts := make(map[string]*ledger.Account)
	for i, name := range []string{"alice", "bob", "transit:eu"} {
		a := ledger.NewAccount(name, usd)
		a.ID = int64(i + 1)
		accounts[name] = &a
		book.AddAccount(&a)
	}
	accounts["alice"].Balance = mustAmount(t, "100", usd)
	accounts["transit:eu"].Floor = nil
	return book, accounts
}

func decide(book *ledger.Book, o ledger.Operation) ledger.Result {
	return book.Decide(&o, o.RequestHash())
}

func TestDecideApplies(t *testing.T) {
	t.Parallel()
	book, accounts := newBook(t)
	o := post(t, "k", "alice", "bob", "30")
	o.Memo = "rent"
	got := decide(book, o)
	require.NoError(t, got.Err)
	require.Equal(t, ledger.Outcome{Key: "k", State: ledger.OutcomeApplied, At: noon}, got.Outcome)
	require.Equal(t, "7000", accounts["alice"].Balance.String())
	require.Equal(t, "3000", accounts["bob"].Balance.String())

	entries := book.Entries()
	require.Len(t, entries, 2)
	require.Equal(t, ledger.Entry{
		AccountID: 1, Version: 1, Leg: 1, Amount: mustAmount(t, "-30", mustAsset(t, "USD")), Balance: accounts["alice"].Balance,
		Key: "k", Kind: ledger.KindPost, Other: "bob", Memo: "rent", At: noon,
	}, entries[0])
	require.Equal(t, "alice", entries[1].Other)
	require.Len(t, book.Touched(), 2)
	require.Len(t, book.Decided(), 1)
}

func TestDecideRefuses(t *testing.T) {
	t.Parallel()
	usd := mustAsset(t, "USD")
	limit := func(s string) *ledger.Amount { a := mustAmount(t, s, usd); return &a }
	for name, test := range map[string]struct {
		code      ledger.Code
		change    func(accounts map[string]*ledger.Account)
		operation ledger.Operation
	}{
		"insufficient funds":     {code: ledger.CodeInsufficientFunds, operation: post(t, "k", "alice", "bob", "100.01")},
		"floor":                  {ledger.CodeInsufficientFunds, func(a map[string]*ledger.Account) { a["alice"].Floor = limit("50") }, post(t, "k", "alice", "bob", "50.01")},
		"ceiling":                {ledger.CodeCeilingExceeded, func(a map[string]*ledger.Account) { a["bob"].Ceiling = limit("5") }, post(t, "k", "alice", "bob", "5.01")},
		"unknown source":         {code: ledger.CodeAccountUnknown, operation: post(t, "k", "nobody", "bob", "1")},
		"unknown payee":          {code: ledger.CodeAccountUnknown, operation: post(t, "k", "alice", "nobody", "1")},
		"frozen source":          {ledger.CodeAccountFrozen, func(a map[string]*ledger.Account) { a["alice"].Status = ledger.AccountFrozen }, post(t, "k", "alice", "bob", "1")},
		"frozen payee":           {ledger.CodeAccountFrozen, func(a map[string]*ledger.Account) { a["bob"].Status = ledger.AccountFrozen }, post(t, "k", "alice", "bob", "1")},
		"closed payee":           {ledger.CodeAccountClosed, func(a map[string]*ledger.Account) { a["bob"].Status = ledger.AccountClosed }, post(t, "k", "alice", "bob", "1")},
		"reversal of nothing":    {code: ledger.CodeReversalUnknown, operation: refund(t, "k", "alice", "1", "w")},
		"balance of 39 digits":   {ledger.CodeBalanceOverflow, func(a map[string]*ledger.Account) { a["bob"].Balance, _ = ledger.ParseUnits(nines38) }, post(t, "k", "alice", "bob", "0.01")},
		"balance of −39 digits":  {ledger.CodeBalanceOverflow, overdrawn, post(t, "k", "alice", "bob", "0.01")},
		"case 55: another asset": {ledger.CodeAssetMismatch, func(a map[string]*ledger.Account) { a["bob"].Asset = mustAsset(t, "EUR") }, post(t, "k", "alice", "bob", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book, accounts := newBook(t)
			if test.change != nil {
				test.change(accounts)
			}
			state := func() []ledger.Account { return []ledger.Account{*accounts["alice"], *accounts["bob"]} }
			before := state()
			got := decide(book, test.operation)
			require.NoError(t, got.Err)
			require.Equal(t, ledger.OutcomeRefused, got.Outcome.State)
			require.Equal(t, test.code, got.Outcome.Code)
			require.NotEmpty(t, got.Outcome.Detail)
			require.Empty(t, book.Entries())
			require.Empty(t, book.Touched())
			require.Equal(t, before, state())
			require.Len(t, book.Decided(), 1, "a refusal is recorded")

			// case 2: midaz#709: a refused transfer uses its key up.
			accounts["alice"].Balance = mustAmount(t, "1000000", usd)
			again := decide(book, test.operation)
			got.Outcome.Repeat = true
			require.Equal(t, got, again)
			require.Len(t, book.Decided(), 1)
		})
	}
}

func overdrawn(accounts map[string]*ledger.Account) {
	accounts["alice"].Floor = nil
	most, _ := ledger.ParseUnits(nines38)
	accounts["alice"].Balance = most.Neg()
}

func TestDecideAllLegsOrNone(t *testing.T) {
	t.Parallel()
	book, accounts := newBook(t)
	o := post(t, "k", "alice", "bob", "60")
	o.Legs = append(o.Legs, post(t, "", "bob", "alice", "10").Legs[0], post(t, "", "alice", "bob", "60").Legs[0])
	got := decide(book, o)
	require.Equal(t, ledger.CodeInsufficientFunds, got.Outcome.Code, "the third leg lacks 10")
	require.Equal(t, "10000", accounts["alice"].Balance.String())
	require.Zero(t, accounts["alice"].Version)
	require.True(t, accounts["alice"].EntryAt.IsZero())
	require.Zero(t, accounts["bob"].Version)

	o.Key = "k2"
	o.Legs[2].Amount = ledger.AmountFromUnits(5_000)
	got = decide(book, o)
	require.Equal(t, ledger.OutcomeApplied, got.Outcome.State)
	require.Equal(t, int64(3), accounts["alice"].Version)
	require.Equal(t, "0", accounts["alice"].Balance.String())
	var legs []int
	for _, e := range book.Entries() {
		legs = append(legs, e.Leg)
	}
	require.Equal(t, []int{1, 1, 2, 2, 3, 3}, legs)
}

func TestDecideKnownKey(t *testing.T) {
	t.Parallel()
	book, accounts := newBook(t)
	o := post(t, "k", "alice", "bob", "1")
	recorded := ledger.Outcome{Key: "k", State: ledger.OutcomeSealed, Code: ledger.CodeCancelled, Detail: "given up", At: noon.Add(-time.Hour)}
	book.AddRecord(o.RequestHash(), recorded)
	got := decide(book, o)
	recorded.Repeat = true
	require.Equal(t, ledger.Result{Outcome: recorded}, got)

	// case 12: stripe-ruby#503.
	other := post(t, "k", "alice", "bob", "2")
	require.ErrorIs(t, decide(book, other).Err, ledger.ErrKeyConflict)
	require.Empty(t, book.Decided())
	require.Equal(t, "10000", accounts["alice"].Balance.String())
}

func TestDecideSameKeyTwice(t *testing.T) {
	t.Parallel()
	book, accounts := newBook(t)
	first := decide(book, post(t, "k", "alice", "bob", "1"))
	second := decide(book, post(t, "k", "alice", "bob", "1"))
	require.False(t, first.Outcome.Repeat)
	first.Outcome.Repeat = true
	require.Equal(t, first, second)
	require.ErrorIs(t, decide(book, post(t, "k", "alice", "bob", "2")).Err, ledger.ErrKeyConflict)
	require.Equal(t, "9900", accounts["alice"].Balance.String())
}

// A transfer begins with its post or its withdraw. An ID that is used again for another request gets only one of them.
func TestDecidePostAndWithdrawOfOneTransfer(t *testing.T) {
	t.Parallel()
	for _, keys := range [][2]string{{"transfer/t/post", "transfer/t/withdraw"}, {"transfer/t/withdraw", "transfer/t/post"}} {
		book, accounts := newBook(t)
		one := map[string]ledger.Operation{"transfer/t/post": post(t, "transfer/t/post", "alice", "bob", "1"), "transfer/t/withdraw": withdraw(t, "transfer/t/withdraw", "alice", "1")}
		require.Equal(t, ledger.OutcomeApplied, decide(book, one[keys[0]]).Outcome.State)
		require.ErrorIs(t, decide(book, one[keys[1]]).Err, ledger.ErrKeyConflict)
		require.True(t, decide(book, one[keys[0]]).Outcome.Repeat)
		same := one[keys[0]]
		same.Key = ledger.Key(keys[1])
		require.ErrorIs(t, decide(book, same).Err, ledger.ErrKeyConflict, "another key is no repeat, whatever its content")
		require.Equal(t, "9900", accounts["alice"].Balance.String())
	}
}

func TestDecideReversal(t *testing.T) {
	t.Parallel()

	t.Run("in parts, and not more than the whole", func(t *testing.T) {
		t.Parallel()
		book, accounts := newBook(t)
		require.NoError(t, decide(book, withdraw(t, "w", "alice", "100")).Err)
		require.Equal(t, ledger.OutcomeApplied, decide(book, refund(t, "r1", "alice", "60", "w")).Outcome.State)
		// case 34: hyperswitch#13182.
		require.Equal(t, ledger.CodeReversalExceeds, decide(book, refund(t, "r2", "alice", "60", "w")).Outcome.Code)
		require.Equal(t, ledger.OutcomeApplied, decide(book, refund(t, "r3", "alice", "40", "w")).Outcome.State)
		require.Equal(t, ledger.CodeReversalExceeds, decide(book, refund(t, "r4", "alice", "0.01", "w")).Outcome.Code)
		require.Equal(t, "10000", accounts["alice"].Balance.String())
		require.Equal(t, "0", accounts["transit:eu"].Balance.String())
	})
	t.Run("of what is recorded", func(t *testing.T) {
		t.Parallel()
		book, accounts := newBook(t)
		accounts["transit:eu"].Balance = ledger.AmountFromUnits(10_000)
		w := withdraw(t, "w", "alice", "100")
		book.AddReversible("w", w.Legs)
		r := refund(t, "r1", "alice", "60", "w")
		require.NoError(t, book.AddReversal("w", r.Legs))
		require.Equal(t, ledger.CodeReversalExceeds, decide(book, refund(t, "r2", "alice", "60", "w")).Outcome.Code)
		require.Error(t, book.AddReversal("w", r.Legs), "the records exceed each other")
		require.Error(t, book.AddReversal("unknown", r.Legs))
	})
	t.Run("to another account", func(t *testing.T) {
		t.Parallel()
		book, _ := newBook(t)
		require.NoError(t, decide(book, withdraw(t, "w", "alice", "100")).Err)
		require.Equal(t, ledger.CodeReversalExceeds, decide(book, refund(t, "r", "bob", "1", "w")).Outcome.Code)
	})
	t.Run("refused whole leaves all to reverse", func(t *testing.T) {
		t.Parallel()
		book, _ := newBook(t)
		w := withdraw(t, "w", "alice", "50")
		w.Legs = append(w.Legs, w.Legs[0])
		require.NoError(t, decide(book, w).Err)
		r := refund(t, "r1", "alice", "50", "w")
		r.Legs = append(r.Legs, refund(t, "", "alice", "50.01", "w").Legs[0])
		require.Equal(t, ledger.CodeReversalExceeds, decide(book, r).Outcome.Code)
		r.Key, r.Legs[1].Amount = "r2", ledger.AmountFromUnits(5_000)
		require.Equal(t, ledger.OutcomeApplied, decide(book, r).Outcome.State)
	})
	for _, status := range []ledger.AccountStatus{ledger.AccountFrozen, ledger.AccountClosed} {
		t.Run("an account that is "+string(status)+" takes its money back", func(t *testing.T) {
			t.Parallel()
			book, accounts := newBook(t)
			require.NoError(t, decide(book, withdraw(t, "w", "alice", "100")).Err)
			accounts["alice"].Status = status
			require.Equal(t, ledger.OutcomeApplied, decide(book, refund(t, "r", "alice", "100", "w")).Outcome.State)
		})
	}
	t.Run("above the ceiling it waits and is not refused", func(t *testing.T) {
		t.Parallel()
		book, accounts := newBook(t)
		require.NoError(t, decide(book, withdraw(t, "w", "alice", "100")).Err)
		ceiling := ledger.AmountFromUnits(9_999)
		accounts["alice"].Ceiling = &ceiling
		require.ErrorIs(t, decide(book, refund(t, "r", "alice", "100", "w")).Err, ledger.ErrReversalBlocked)
		require.Len(t, book.Decided(), 1, "nothing is recorded")
		accounts["alice"].Ceiling = nil
		require.Equal(t, ledger.OutcomeApplied, decide(book, refund(t, "r", "alice", "100", "w")).Outcome.State)
	})
}

func TestBookTimeNeverFalls(t *testing.T) {
	t.Parallel()
	book, accounts := newBook(t)
	late := ledger.NewAccount("late", mustAsset(t, "USD"))
	late.Floor, late.ID, late.Version, late.EntryAt = nil, 9, 4, noon.Add(time.Minute)
	book.AddAccount(&late)
	got := decide(book, post(t, "k", "late", "alice", "1"))
	require.Equal(t, noon.Add(time.Minute), got.Outcome.At, "the clock went back; the book does not")
	require.Equal(t, got.Outcome.At, accounts["alice"].EntryAt)
	require.Equal(t, int64(5), late.Version)
}

// A book and a naive model that shares nothing with it give the same answers and balances, for any operations in any
// order with any repetition; and no money is made or lost.
func TestBookAgreesWithModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		world := ledgermodel.DrawWorld(t, "")
		statuses := world.DrawStatuses(t)
		model, book := ledgermodel.New(), ledger.NewBook(noon, 1)
		accounts := make(map[string]*ledger.Account)
		add := func(a ledger.Account, name string) {
			a.ID = int64(len(accounts) + 1)
			accounts[name] = &a
			book.AddAccount(&a)
		}
		for i, a := range world.Accounts {
			model.Open(a)
			model.SetStatus(a.Name, statuses[i])
			a.Status = statuses[i]
			add(a, a.Name)
		}
		first := make(map[ledger.Key]ledger.Outcome)
		for _, o := range world.DrawOperations(t) {
			require.NoError(t, o.Validate())
			for _, leg := range o.Legs {
				for _, name := range []string{leg.From, leg.To} {
					if key := name + " " + leg.Asset.String(); ledger.IsTransit(name) && accounts[key] == nil {
						a := ledger.NewAccount(name, leg.Asset)
						a.Floor = nil
						add(a, key)
					}
				}
			}
			got, want := decide(book, o), model.Post(o)
			require.Equal(t, want, answerOf(got), "%+v", o)
			if got.Err != nil {
				continue
			}
			if original, ok := first[o.Key]; ok {
				original.Repeat = true
				require.Equal(t, original, got.Outcome, "a repeat is the original")
			}
			first[o.Key] = got.Outcome
			for asset, sum := range model.Sums() {
				require.Zero(t, sum.Sign(), asset)
			}
		}
		sums := make(map[string]ledger.Amount)
		entries := make(map[int64]int64)
		for _, e := range book.Entries() {
			entries[e.AccountID]++
			require.Equal(t, entries[e.AccountID], e.Version, "versions are gapless")
		}
		for _, name := range model.Names() {
			a := accounts[name]
			units, versions := model.Balance(a.Name, a.Asset)
			require.Equal(t, units, a.Balance.String(), name)
			require.Equal(t, versions, a.Version, name)
			if a.Floor != nil {
				require.GreaterOrEqual(t, a.Balance.Cmp(*a.Floor), 0)
			}
			if a.Ceiling != nil {
				require.LessOrEqual(t, a.Balance.Cmp(*a.Ceiling), 0)
			}
			sums[a.Asset.String()], _ = sums[a.Asset.String()].Add(a.Balance)
		}
		for asset, sum := range sums {
			require.Zero(t, sum.Sign(), "%s is conserved", asset)
		}
	})
}

// answerOf is a result as the model says it.
func answerOf(r ledger.Result) ledgermodel.Answer {
	a := ledgermodel.Answer{State: r.Outcome.State, Code: r.Outcome.Code, Repeat: r.Outcome.Repeat}
	for _, err := range []error{ledger.ErrKeyConflict, ledger.ErrReversalBlocked} {
		if errors.Is(r.Err, err) {
			a.Err = err
		}
	}
	return a
}
