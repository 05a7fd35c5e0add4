package checker

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

// soundPayouts is evidence of payouts with every end, beside transfers, and nothing wrong.
func soundPayouts() *writing {
	w := sound()
	l := w.ledger("us")
	for i, name := range []string{"rail:bank", "settled:bank"} {
		l.Accounts = append(l.Accounts, Account{ID: int64(11 + i), Name: name, Asset: "USD/2", Balance: new(big.Int), Floor: new(big.Int), Status: "open"})
	}
	payout := func(id, told, reserve, code, status string, sent, returned int, kinds ...string) {
		called := w.clock
		step := func(kind, state, code, from, to string) {
			w.record("us", Operation{Key: "payout/" + id + "/" + kind, Kind: kind, State: state, Code: code}, from, to, 300)
		}
		step(kindReserve, reserve, code, "alice", "rail:bank")
		for _, kind := range kinds {
			switch kind {
			case kindSettle:
				step(kind, stateApplied, "", "rail:bank", "settled:bank")
			case kindReturn:
				step(kind, stateApplied, "", "rail:bank", "alice")
			case kindBounce:
				step(kind, stateApplied, "", "settled:bank", "alice")
			}
		}
		if status != "" {
			w.e.Rail = append(w.e.Rail, RailPayout{
				Key: "payout/" + id + "/submit", Reference: id, Amount: "3.00", Asset: "USD/2", Status: status, Sent: sent, Returned: returned,
			})
		}
		w.clock++
		w.e.PayoutCalls = append(w.e.PayoutCalls, PayoutCall{
			Client: "client", Request: PayoutRequest{ID: id, From: "us/alice", Rail: "bank", Amount: "3.00", Asset: "USD/2"},
			Called: at(called), Returned: at(w.clock), Told: told,
		})
		w.e.Runs = append(w.e.Runs, Run{WorkflowID: "payout/" + id, RunID: "run-" + id, Type: "Payout", Status: "Completed", Started: at(called)})
	}
	payout("paid", EndSettled, stateApplied, "", "settled", 1, 0, kindSettle)
	payout("bounced", EndSettled, stateApplied, "", "returned", 1, 1, kindSettle, kindBounce)
	payout("refused", EndReturned, stateApplied, "", "rejected", 0, 0, kindReturn)
	payout("stopped", EndCancelled, stateApplied, "", "cancelled", 0, 0, kindReturn)
	payout("unsent", EndCancelled, stateApplied, "", "", 0, 0, kindReturn)
	payout("poor", EndRejected, stateRefused, "account_closed", "", 0, 0)
	payout("gone", EndFailed, stateSealed, codeAttemptsExhausted, "", 0, 0)
	w.e.Before = w.copyBooks()
	return w
}

func (w *writing) railPayout(id string) *RailPayout {
	for i := range w.e.Rail {
		if w.e.Rail[i].Reference == id {
			return &w.e.Rail[i]
		}
	}
	panic("no payout " + id)
}

func (w *writing) payoutCall(id string) *PayoutCall {
	for i := range w.e.PayoutCalls {
		if w.e.PayoutCalls[i].Request.ID == id {
			return &w.e.PayoutCalls[i]
		}
	}
	panic("no call of " + id)
}

func TestSoundPayouts(t *testing.T) {
	t.Parallel()
	require.Empty(t, Check(soundPayouts().e))
}

// Each row breaks one thing about payouts, and the rule that is there for it must say so.
func TestCheckFindsPayouts(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		breaks func(w *writing)
		rule   Rule
		says   string
	}{
		"paid twice": {func(w *writing) { w.railPayout("paid").Sent = 2 }, RuleOnce, "payout/paid: the rail took it 1 times, and paid 2 times"},
		"taken twice": {func(w *writing) {
			again := *w.railPayout("paid")
			again.Key, again.Sent = "payout/paid/2/submit", 0
			w.e.Rail = append(w.e.Rail, again)
		}, RuleOnce, `payout/paid: the rail was asked under the key "payout/paid/2/submit"`},
		"another amount at the rail": {func(w *writing) { w.railPayout("paid").Amount = "30.0" }, RuleOnce, "payout/paid: the rail was asked for 30.0 USD/2"},
		"another asset at the rail":  {func(w *writing) { w.railPayout("paid").Asset = "EUR/2" }, RuleOnce, "payout/paid: the rail was asked for 3.00 EUR/2"},
		"nobody's payout at the rail": {func(w *writing) {
			w.e.Rail = append(w.e.Rail, RailPayout{Reference: "other", Amount: "1.00", Asset: "USD/2"})
		}, RuleOnce, `the rail has a payout "other" that nobody has asked for`},
		"nobody's operation":                   {func(w *writing) { w.ledger("us").operation("payout/poor/reserve").Key = "payout/other/reserve" }, RuleOnce, "payout/other/reserve on ledger us belongs to no transfer"},
		"paid without a reserve":               {func(w *writing) { w.ledger("us").operation("payout/paid/reserve").State = stateRefused }, RuleOnce, "payout/paid: nothing was reserved for it"},
		"asked without a reserve":              {func(w *writing) { w.railPayout("refused").Reference = "gone" }, RuleOnce, "payout/gone: the rail was asked, and nothing was reserved"},
		"settled and given back":               {func(w *writing) { w.ledger("us").operation("payout/bounced/bounce").Kind = kindReturn }, RuleOnce, "payout/bounced: it was both settled and given back"},
		"come back and never settled":          {func(w *writing) { w.ledger("us").operation("payout/bounced/settle").State = stateRefused }, RuleOnce, "payout/bounced: it came back and was never settled"},
		"a step applies twice":                 {func(w *writing) { w.ledger("us").operation("payout/bounced/bounce").Kind = kindSettle }, RuleOnce, "payout/bounced: settle has applied 2 times"},
		"given back and paid":                  {func(w *writing) { w.railPayout("refused").Status = railPaid }, RuleTruth, `payout/refused: at the rail it is "settled", and the ledgers hold us reserve applied, us return applied`},
		"settled and rejected":                 {func(w *writing) { w.railPayout("paid").Status = railRejected }, RuleTruth, `payout/paid: at the rail it is "rejected"`},
		"settled, and the bounce not taken in": {func(w *writing) { w.railPayout("paid").Status = railBounced }, RuleTruth, `payout/paid: at the rail it is "returned"`},
		"bounced, and paid at the rail":        {func(w *writing) { w.railPayout("bounced").Status = railPaid }, RuleTruth, `payout/bounced: at the rail it is "settled"`},
		"refused, and at the rail":             {func(w *writing) { w.railPayout("refused").Reference = "poor" }, RuleTruth, `payout/poor: at the rail it is "rejected"`},
		"told settled and given back":          {func(w *writing) { w.payoutCall("refused").Told = EndSettled }, RuleTruth, "payout/refused: client was told settled"},
		"told returned and settled":            {func(w *writing) { w.payoutCall("paid").Told = EndReturned }, RuleTruth, "payout/paid: client was told returned"},
		"told rejected and settled":            {func(w *writing) { w.payoutCall("paid").Told = EndRejected }, RuleTruth, "payout/paid: client was told rejected"},
		"told no end that there is":            {func(w *writing) { w.payoutCall("paid").Told = "maybe" }, RuleTruth, "payout/paid: client was told maybe"},
		"never told":                           {func(w *writing) { w.payoutCall("paid").Told = "" }, RuleLiveness, "payout/paid: client asked and was never told an end"},
		"still reserved": {func(w *writing) {
			w.ledger("us").operation("payout/paid/settle").State = stateSealed
		}, RuleConservation, "payout/paid: its money is reserved, and has come to nobody"},
		"reserved for nothing":        {func(w *writing) { w.ledger("us").account("rail:bank").Balance = big.NewInt(1) }, RuleConservation, "us/rail:bank: 1 USD/2 are reserved"},
		"settled more than was paid":  {func(w *writing) { w.railPayout("paid").Sent = 0 }, RuleConservation, "the rail has paid -300 of USD/2 more"},
		"a letter nobody can decide":  {func(w *writing) { w.payoutLetter(true) }, RuleLiveness, "payout/paid: its dead letter of submit waits for a decision"},
		"a letter without a cause":    {func(w *writing) { w.payoutLetter(false) }, RuleLiveness, "payout/paid: submit was set aside without a cause"},
		"open for ever":               {func(w *writing) { w.e.Runs[len(w.e.Runs)-1].Status = "Running" }, RuleLiveness, "Payout payout/gone is open"},
		"an account in no order":      {func(w *writing) { w.payoutCall("paid").Called = at(900) }, RuleOrder, "us/alice: its"},
		"an amount that is no number": {func(w *writing) { w.railPayout("paid").Amount = "much" }, RuleConservation, "can't be read"},
		"entries that say otherwise":  {func(w *writing) { w.ledger("us").operation("payout/paid/settle").Legs[0].Amount = big.NewInt(1) }, RuleBooks, "payout/paid: payout/paid/settle on us moved 1 USD/2"},
		"a repeat recorded an outcome": {func(w *writing) {
			w.e.Before[0].Operations = w.e.Before[0].Operations[:len(w.e.Before[0].Operations)-1]
		}, RuleOnce, "payout/gone: a repeat recorded payout/gone/reserve"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := soundPayouts()
			row.breaks(w)
			w.mustFind(t, row.rule, row.says)
		})
	}
}

func (w *writing) payoutLetter(parked bool) {
	l := w.ledger("us")
	l.DeadLetters = append(l.DeadLetters, DeadLetter{
		Key: "payout/paid/submit", Transfer: "payout/paid", Step: "submit", State: "open", Parked: parked, Place: "transit", Error: "it failed",
	})
}
