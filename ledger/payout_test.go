package ledger_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

// payoutStep is a valid operation of a payout through the rail "bank".
func payoutStep(t testing.TB, kind ledger.Kind, change func(*ledger.Operation)) ledger.Operation {
	t.Helper()
	ways := map[ledger.Kind][2]string{
		ledger.KindReserve: {"alice", "rail:bank"}, ledger.KindSettle: {"rail:bank", "settled:bank"},
		ledger.KindReturn: {"rail:bank", "alice"}, ledger.KindBounce: {"settled:bank", "alice"},
	}
	o := post(t, "payout/p/"+string(kind), ways[kind][0], ways[kind][1], "10")
	o.Kind, o.Counterparty = kind, ledger.PayoutCounterparty("bank", map[string]string{"iban": "DE89"})
	if kind == ledger.KindReturn || kind == ledger.KindBounce {
		o.Reverses = "payout/p/reserve"
	}
	change(&o)
	return o
}

func TestPayoutOperationValidate(t *testing.T) {
	t.Parallel()
	for _, kind := range []ledger.Kind{ledger.KindReserve, ledger.KindSettle, ledger.KindReturn, ledger.KindBounce} {
		o := payoutStep(t, kind, func(*ledger.Operation) {})
		require.NoError(t, o.Validate(), kind)
		require.True(t, kind.IsPayout())
		for name, change := range map[string]func(*ledger.Operation){
			"the other way":   func(o *ledger.Operation) { o.Legs[0].From, o.Legs[0].To = o.Legs[0].To, o.Legs[0].From },
			"no payee":        func(o *ledger.Operation) { o.Counterparty = "bank" },
			"an account":      func(o *ledger.Operation) { o.Counterparty = "bank/bob" },
			"nobody":          func(o *ledger.Operation) { o.Counterparty = "" },
			"another rail's":  func(o *ledger.Operation) { o.Counterparty = strings.Replace(o.Counterparty, "bank", "card", 1) },
			"another account": func(o *ledger.Operation) { o.Legs[0].From, o.Legs[0].To = "bob", "carol" },
			"in transit":      func(o *ledger.Operation) { o.Legs[0].From = "transit:eu" },
		} {
			changed := payoutStep(t, kind, change)
			require.Error(t, changed.Validate(), "%s %s", kind, name)
		}
	}
	// Nobody else may touch a rail's accounts.
	for _, own := range []string{"rail:bank", "settled:bank"} {
		from, to := post(t, "k", own, "bob", "1"), post(t, "k", "bob", own, "1")
		requireInvalid(t, "from", from.Validate())
		requireInvalid(t, "from", to.Validate())
		account := ledger.NewAccount(own, mustAsset(t, "USD"))
		requireInvalid(t, "account", account.Validate())
		requireInvalid(t, "account", (&ledger.AccountChange{}).Validate(own))
	}
}

// A payee has one text, and no other payee has it.
func TestPayoutCounterparty(t *testing.T) {
	t.Parallel()
	payee := map[string]string{"name": `Ann <"&"> Co`, "iban": "DE89"}
	text := ledger.PayoutCounterparty("bank", payee)
	require.Equal(t, `bank/{"iban":"DE89","name":"Ann <\"&\"> Co"}`, text)
	rail, got, err := ledger.ParsePayoutCounterparty(text)
	require.NoError(t, err)
	require.Equal(t, []any{"bank", payee}, []any{rail, got})
	for _, other := range []string{
		"", "bank", "bank/", "bank/{}", "bank/null", `bank/{"name":"A","iban":"D"}`, `bank/{"iban": "D"}`, `bank/{"iban":1}`, `Bank/{"iban":"D"}`, text + " ",
	} {
		_, _, err := ledger.ParsePayoutCounterparty(other)
		require.Error(t, err, other)
	}
}
