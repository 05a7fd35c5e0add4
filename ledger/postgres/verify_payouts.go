package postgres

import (
	"fmt"
	"strings"

	"payonce/ledger"
)

// A payout is on one ledger, so its snapshot has it whole, and nothing needs a second look.

// judgePayout says what is wrong with a payout, or what of it is reserved.
func (t *transferAudit) judgePayout() {
	reserves, settles := t.of(ledger.KindReserve), t.of(ledger.KindSettle)
	returns, bounces := t.of(ledger.KindReturn), t.of(ledger.KindBounce)
	if len(reserves) != 1 || len(settles) > 1 || len(returns) > 1 || len(bounces) > 1 || len(t.movements) != len(reserves)+len(settles)+len(returns)+len(bounces) {
		t.foundPayout("its steps don't make a payout: %s", t.kinds())
		return
	}
	reserve := reserves[0]
	left := reserve.total()
	for _, gone := range append(settles, returns...) {
		left = left.less(gone.total())
	}
	switch {
	case len(settles) == 1 && !left.equal(totals{}):
		t.foundPayout("%s was reserved, and %s settled", reserve.total(), settles[0].total())
	case len(settles) == 1 && len(returns) == 1:
		t.foundPayout("it was settled by %q and given back by %q", settles[0].key, returns[0].key)
	case len(bounces) == 1 && len(settles) == 0:
		t.foundPayout("%q gives back what was never settled", bounces[0].key)
	case len(settles) == 1 && !settles[0].takes(reserve.legs[0].To):
		t.foundPayout("it was reserved in %s, and settled from %s", reserve.legs[0].To, settles[0].legs[0].From)
	}
	for asset, amount := range left {
		if amount.Sign() > 0 {
			t.reserved(Reserved{
				Payout: t.id, Key: reserve.key, From: reserve.account(),
				Account: ledger.AccountRef{Ledger: reserve.ledger, Name: reserve.legs[0].To}, Asset: asset, Amount: amount, Since: reserve.at,
			})
		}
	}
}

func (t *transferAudit) foundPayout(format string, args ...any) {
	t.verification.found(Finding{
		Ledger: t.movements[0].ledger, Check: CheckPayout, Subject: t.id, Detail: fmt.Sprintf(format, args...),
	})
}

func (t *transferAudit) kinds() string {
	texts := make([]string, len(t.movements))
	for i := range t.movements {
		texts[i] = fmt.Sprintf("%s %q", t.movements[i].kind, t.movements[i].key)
	}
	return strings.Join(texts, ", ")
}
