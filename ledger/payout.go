package ledger

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

const (
	railPrefix    = "rail:"
	settledPrefix = "settled:"
)

// The bounds of a payee.
const (
	PayeeFieldsMax     = 20
	PayeeNameBytesMax  = 50
	PayeeValueBytesMax = 200
)

// RailAccount names the account where money is reserved for payouts to a rail, until the rail's word about them is definite.
// There is one for each asset; a ledger opens it when it is first needed, with floor 0.
func RailAccount(rail string) string { return railPrefix + rail }

// SettledAccount names the account of what a rail has paid. It is opened as the rail's account is, and what is paid adds up in
// it, as it does at the rail.
func SettledAccount(rail string) string { return settledPrefix + rail }

// IsRail says whether name is that of an account of money reserved for a rail. Only the steps of a payout may use those.
func IsRail(name string) bool { return strings.HasPrefix(name, railPrefix) }

// IsSettled says whether name is that of an account of what a rail has paid. Only the steps of a payout may use those.
func IsSettled(name string) bool { return strings.HasPrefix(name, settledPrefix) }

// IsOwn says whether name is an account of the ledger's own: the ledger opens it, once for each asset, nobody sets it, and no
// post moves its money.
func IsOwn(name string) bool { return IsTransit(name) || IsRail(name) || IsSettled(name) }

// railOf is the rail of a rail's account, or "".
func railOf(name string) string {
	for _, prefix := range []string{railPrefix, settledPrefix} {
		if rail, ok := strings.CutPrefix(name, prefix); ok {
			return rail
		}
	}
	return ""
}

// CheckRailName says whether name can name a rail; the rule is that of ledgers. The error is an *InvalidError for field.
func CheckRailName(field, name string) error {
	if !isNameOfLedger(name) {
		return invalid(field, "%q does not name a rail: use lower-case letters, digits and -, a letter first, at most %d",
			clip(name), ledgerNameBytesMax)
	}
	return nil
}

// CheckPayee says whether a payee can be kept. What its rail makes of it the ledger does not know. The error is an
// *InvalidError.
func CheckPayee(payee map[string]string) error {
	if len(payee) == 0 || len(payee) > PayeeFieldsMax {
		return invalid("payee", "it has %d fields; it needs 1 to %d, in the rail's own terms", len(payee), PayeeFieldsMax)
	}
	names := make([]string, 0, len(payee))
	//workflowcheck:ignore the order is lost in the sorting
	for name := range payee {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := CheckID("payee", name, PayeeNameBytesMax); err != nil {
			return err
		}
		if err := CheckID("payee "+name, payee[name], PayeeValueBytesMax); err != nil {
			return err
		}
	}
	return nil
}

// PayoutCounterparty is the counterparty of a payout's operations: the rail and the payee, `bank/{"iban":"…"}`. Two payees are
// the same exactly when their texts are.
//
//workflowcheck:ignore encoding/json sorts the fields
func PayoutCounterparty(rail string, payee map[string]string) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(payee); err != nil {
		panic(err) // texts can always be encoded
	}
	return rail + "/" + strings.TrimSuffix(text.String(), "\n")
}

// ParsePayoutCounterparty reads what PayoutCounterparty has written, and nothing else. The error is an *InvalidError.
//
//workflowcheck:ignore encoding/json sorts the fields
func ParsePayoutCounterparty(s string) (rail string, payee map[string]string, err error) {
	rail, text, _ := strings.Cut(s, "/")
	if err := CheckRailName("counterparty", rail); err != nil {
		return "", nil, err
	}
	if json.Unmarshal([]byte(text), &payee) != nil || PayoutCounterparty(rail, payee) != s {
		return "", nil, invalid("counterparty", "%q is not a rail and a payee", clip(s))
	}
	return rail, payee, CheckPayee(payee)
}

// IsPayout says whether operations of the kind are steps of a payout, and not of a transfer.
func (k Kind) IsPayout() bool {
	switch k {
	case KindReserve, KindSettle, KindReturn, KindBounce:
		return true
	case KindPost, KindWithdraw, KindDeposit, KindRefund:
		return false
	default:
		return false
	}
}
