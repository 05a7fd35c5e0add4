package ledger_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"payonce/internal/ledgermodel"
	"payonce/ledger"
)

// post is a valid operation that moves amount of USD.
func post(t testing.TB, key, from, to, amount string) ledger.Operation {
	t.Helper()
	usd := mustAsset(t, "USD")
	return ledger.Operation{
		Key: ledger.Key(key), Kind: ledger.KindPost,
		Legs: []ledger.Leg{{From: from, To: to, Asset: usd, Amount: mustAmount(t, amount, usd)}},
	}
}

func withdraw(t testing.TB, key, from, amount string) ledger.Operation {
	t.Helper()
	o := post(t, key, from, "transit:eu", amount)
	o.Kind, o.Counterparty = ledger.KindWithdraw, "eu/bob"
	return o
}

func refund(t testing.TB, key, to, amount, reverses string) ledger.Operation {
	t.Helper()
	o := post(t, key, "transit:eu", to, amount)
	o.Kind, o.Counterparty, o.Reverses = ledger.KindRefund, "eu/bob", ledger.Key(reverses)
	return o
}

func TestOperationValidate(t *testing.T) {
	t.Parallel()
	deposit := func(change func(*ledger.Operation)) ledger.Operation {
		o := post(t, "transfer/t1/deposit", "transit:us", "bob", "10")
		o.Kind, o.Counterparty = ledger.KindDeposit, "us/alice"
		change(&o)
		return o
	}
	posted := func(change func(*ledger.Operation)) ledger.Operation {
		o := post(t, "transfer/t1/post", "alice", "bob", "10")
		change(&o)
		return o
	}
	none := func(*ledger.Operation) {}
	for _, valid := range []ledger.Operation{
		posted(none), deposit(none), withdraw(t, "k", "alice", "1"), refund(t, "k", "alice", "1", "w"),
		posted(func(o *ledger.Operation) { o.Key = ledger.Key(strings.Repeat("k", ledger.KeyBytesMax)) }),
		posted(func(o *ledger.Operation) { o.Key = "Überweisung 東京 №1" }),
		posted(func(o *ledger.Operation) { o.Memo = "line\nline\ttab" }),
		posted(func(o *ledger.Operation) { o.Metadata = map[string]string{"order": "7\n"} }),
		posted(func(o *ledger.Operation) {
			for len(o.Legs) < ledger.LegsMax {
				o.Legs = append(o.Legs, o.Legs[0])
			}
		}),
	} {
		require.NoError(t, valid.Validate())
	}
	for name, test := range map[string]struct {
		field     string
		operation ledger.Operation
	}{
		"case 3: no key":                  {"key", posted(func(o *ledger.Operation) { o.Key = "" })},
		"key too long":                    {"key", posted(func(o *ledger.Operation) { o.Key = ledger.Key(strings.Repeat("k", ledger.KeyBytesMax+1)) })},
		"key with a blank in front":       {"key", posted(func(o *ledger.Operation) { o.Key = " k" })},
		"key with a blank behind":         {"key", posted(func(o *ledger.Operation) { o.Key = "k " })},
		"key with a line break":           {"key", posted(func(o *ledger.Operation) { o.Key = "k\n" })},
		"key with NUL":                    {"key", posted(func(o *ledger.Operation) { o.Key = "k\x00" })},
		"key that is not UTF-8":           {"key", posted(func(o *ledger.Operation) { o.Key = "k\xff" })},
		"key with an invisible character": {"key", posted(func(o *ledger.Operation) { o.Key = "k\u200b" })},
		"no kind":                         {"kind", posted(func(o *ledger.Operation) { o.Kind = "" })},
		"unknown kind":                    {"kind", posted(func(o *ledger.Operation) { o.Kind = "transfer" })},
		"no legs":                         {"legs", posted(func(o *ledger.Operation) { o.Legs = nil })},
		"too many legs":                   {"legs", posted(func(o *ledger.Operation) { o.Legs = make([]ledger.Leg, ledger.LegsMax+1) })},
		"case 50: negative amount":        {"amount", posted(func(o *ledger.Operation) { o.Legs[0].Amount = ledger.AmountFromUnits(-1) })},
		"zero amount":                     {"amount", posted(func(o *ledger.Operation) { o.Legs[0].Amount = ledger.Amount{} })},
		"case 55: no asset":               {"asset", posted(func(o *ledger.Operation) { o.Legs[0].Asset = ledger.Asset{} })},
		"to itself":                       {"to", posted(func(o *ledger.Operation) { o.Legs[0].To = "alice" })},
		"no source":                       {"from", posted(func(o *ledger.Operation) { o.Legs[0].From = "" })},
		"account on another ledger":       {"to", posted(func(o *ledger.Operation) { o.Legs[0].To = "eu/bob" })},
		"post into transit":               {"from", posted(func(o *ledger.Operation) { o.Legs[0].To = "transit:eu" })},
		"post out of transit":             {"from", posted(func(o *ledger.Operation) { o.Legs[0].From = "transit:eu" })},
		"post with a counterparty":        {"counterparty", posted(func(o *ledger.Operation) { o.Counterparty = "eu/bob" })},
		"post that reverses":              {"reverses", posted(func(o *ledger.Operation) { o.Reverses = "k" })},
		"deposit from an account":         {"from", deposit(func(o *ledger.Operation) { o.Legs[0].From = "alice" })},
		"deposit into transit":            {"from", deposit(func(o *ledger.Operation) { o.Legs[0].To = "transit:eu" })},
		"deposit that reverses":           {"reverses", deposit(func(o *ledger.Operation) { o.Reverses = "k" })},
		"deposit from nobody":             {"counterparty", deposit(func(o *ledger.Operation) { o.Counterparty = "" })},
		"deposit from the default ledger": {"counterparty", deposit(func(o *ledger.Operation) { o.Counterparty = "alice" })},
		"deposit from a third ledger":     {"counterparty", deposit(func(o *ledger.Operation) { o.Counterparty = "jp/alice" })},
		"refund of nothing":               {"reverses", refund(t, "k", "alice", "1", "")},
		"memo too long":                   {"memo", posted(func(o *ledger.Operation) { o.Memo = strings.Repeat("m", ledger.MemoBytesMax+1) })},
		"memo with NUL":                   {"memo", posted(func(o *ledger.Operation) { o.Memo = "\x00" })},
		"metadata value too long": {"metadata k", posted(func(o *ledger.Operation) {
			o.Metadata = map[string]string{"k": strings.Repeat("v", ledger.MetadataValueBytesMax+1)}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireInvalid(t, test.field, test.operation.Validate())
		})
	}
}

func TestKeyClaim(t *testing.T) {
	t.Parallel()
	for key, want := range map[ledger.Key]ledger.Key{
		"transfer/t/post":             "transfer/t/post",
		"transfer/t/withdraw":         "transfer/t/post",
		"transfer/t/deposit":          "transfer/t/deposit",
		"transfer/t/withdraw/x":       "transfer/t/withdraw/x",
		"transfer/withdraw/withdraw":  "transfer/withdraw/post",
		"payout/p/return":             "payout/p/settle",
		"payout/p/settle":             "payout/p/settle",
		"payout/p/bounce":             "payout/p/bounce",
		"withdraw":                    "withdraw",
		"/withdraw":                   "/post",
		"transfer/東京/withdraw":        "transfer/東京/post",
		"transfer/t/refund":           "transfer/t/refund",
		"transfer/t/Withdraw":         "transfer/t/Withdraw",
		"transfer/t/resolve-withdraw": "transfer/t/resolve-withdraw",
		"transfer/t/withdraw\u00a0":   "transfer/t/withdraw\u00a0",
	} {
		require.Equal(t, want, key.Claim(), key)
	}
}

func TestSealValidate(t *testing.T) {
	t.Parallel()
	seal := ledger.Seal{Operation: post(t, "k", "alice", "bob", "1"), Code: ledger.CodeAttemptsExhausted}
	require.NoError(t, seal.Validate())
	seal.Code = ledger.CodeInsufficientFunds
	requireInvalid(t, "code", seal.Validate())
	seal.Code, seal.Operation.Key = ledger.CodeCancelled, ""
	requireInvalid(t, "key", seal.Validate())
}

// The encoding must not change: hashes are compared for as long as a ledger lives.
func TestRequestHashIsForEver(t *testing.T) {
	t.Parallel()
	o := refund(t, "transfer/t1/refund", "alice", "10", "transfer/t1/withdraw")
	o.Legs = append(o.Legs, post(t, "", "transit:eu", "carol", "0.01").Legs...)
	hash := o.RequestHash()
	require.Equal(t, "732a17600cb40f0c55086ba8e4b427b38f9100745cd8c8981c0868a67df3b5bf", hex.EncodeToString(hash[:]))
}

func TestRequestHash(t *testing.T) {
	t.Parallel()
	base := func() ledger.Operation { return refund(t, "k", "alice", "10", "w") }
	original := base()
	hash := original.RequestHash()

	for name, change := range map[string]func(*ledger.Operation){
		"key":      func(o *ledger.Operation) { o.Key = "other" },
		"memo":     func(o *ledger.Operation) { o.Memo = "other" },
		"metadata": func(o *ledger.Operation) { o.Metadata = map[string]string{"a": "b"} },
	} {
		o := base()
		change(&o)
		require.Equal(t, hash, o.RequestHash(), "%s is not part of what the money does", name)
	}
	seen := map[ledger.RequestHash]string{hash: "the original"}
	for name, change := range map[string]func(*ledger.Operation){
		"kind":         func(o *ledger.Operation) { o.Kind = ledger.KindDeposit },
		"reverses":     func(o *ledger.Operation) { o.Reverses = "w2" },
		"counterparty": func(o *ledger.Operation) { o.Counterparty = "eu/carol" },
		"from":         func(o *ledger.Operation) { o.Legs[0].From = "transit:us" },
		"to":           func(o *ledger.Operation) { o.Legs[0].To = "bob" },
		"amount":       func(o *ledger.Operation) { o.Legs[0].Amount = ledger.AmountFromUnits(1001) },
		"asset":        func(o *ledger.Operation) { o.Legs[0].Asset = mustAsset(t, "EUR") },
		"scale":        func(o *ledger.Operation) { o.Legs[0].Asset = mustAsset(t, "USD/3") },
		"one leg more": func(o *ledger.Operation) { o.Legs = append(o.Legs, o.Legs[0]) },
		"run together": func(o *ledger.Operation) { o.Reverses, o.Counterparty = "we", "u/bob" },
	} {
		o := base()
		change(&o)
		require.NotContains(t, seen, o.RequestHash(), name)
		seen[o.RequestHash()] = name
	}
}

func TestRequestHashTellsOperationsApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		world := ledgermodel.DrawWorld(t, "")
		seen := make(map[ledger.RequestHash]string)
		for _, o := range world.DrawOperations(t) {
			text := string(o.Kind) + "|" + string(o.Reverses) + "|" + o.Counterparty
			for i := range o.Legs {
				text += "|" + o.Legs[i].String()
			}
			if other, ok := seen[o.RequestHash()]; ok {
				require.Equal(t, other, text)
			}
			seen[o.RequestHash()] = text
		}
	})
}

func TestClip(t *testing.T) {
	t.Parallel()
	require.Equal(t, "as it is\n", ledger.ClipNote("as it is\n"))
	require.Equal(t, "a�b�c", ledger.ClipNote("a\x00b\xffc"))
	long := ledger.ClipNote(strings.Repeat("ä", 10_000))
	require.LessOrEqual(t, len(long), ledger.MemoBytesMax)
	require.True(t, strings.HasSuffix(long, "ä…"))
	require.Len(t, ledger.ClipError(strings.Repeat("e", ledger.ErrorBytesMax), ledger.ErrorBytesMax), ledger.ErrorBytesMax, "whole")
	cut := ledger.ClipError("begin "+strings.Repeat("ä", 10_000)+" end", 1_000)
	require.LessOrEqual(t, len(cut), 1_000)
	require.Greater(t, len(cut), 900)
	require.Regexp(t, `^begin ä+ … \(19\d\d\d bytes left out\) … ä+ end$`, cut)
	require.Equal(t, "ä", ledger.ClipError("ääää", 3))
	require.Empty(t, ledger.ClipError("ääää", -1))

	var causes []ledger.ErrorCause
	for range 100 {
		causes = append(causes, ledger.ErrorCause{Type: "*errors.errorString", Text: strings.Repeat("e", 3_000)})
	}
	bytes := 0
	for _, cause := range ledger.ClipCauses(causes) {
		bytes += len(cause.Type) + len(cause.Text)
	}
	require.LessOrEqual(t, bytes, ledger.CausesBytesMax)
	require.Greater(t, bytes, ledger.CausesBytesMax-4_000)
	require.Len(t, ledger.ClipCauses(causes[:5]), 5)
}
