package httprail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"payonce/activities"
	"payonce/ledger"
)

// referenceBytesMax bounds a reference as a transfer's ID is bounded.
const referenceBytesMax = 200

// submission is the body of a submit. A payment has one encoding, byte for byte, however often it is sent: fields in this
// order, the payee's sorted by name.
type submission struct {
	Reference string            `json:"reference"`
	Amount    string            `json:"amount"`
	Asset     string            `json:"asset"`
	Payee     map[string]string `json:"payee"`
	Memo      string            `json:"memo,omitempty"`
}

// encode is the body of a submit. The error says what of the payment the contract has no place for.
func encode(payment activities.RailPayment) ([]byte, error) {
	if err := checkPayment(payment); err != nil {
		return nil, err
	}
	body := submission{
		Reference: payment.Reference, Amount: payment.Amount, Asset: payment.Asset, Payee: payment.Payee, Memo: payment.Memo,
	}
	if body.Payee == nil {
		body.Payee = map[string]string{}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// checkPayment keeps out what would arrive as something else: an amount with another number of digits than its asset has,
// text that is not UTF-8, a reference that a path can't carry.
func checkPayment(payment activities.RailPayment) error {
	if err := ledger.CheckID("key", payment.Key, ledger.KeyBytesMax); err != nil {
		return err
	}
	if err := checkReference(payment.Reference); err != nil {
		return err
	}
	asset, err := ledger.ParseAsset(payment.Asset)
	if err != nil {
		return err
	}
	if asset.String() != payment.Asset {
		return fmt.Errorf("asset: %s must have its scale, as in %s", payment.Asset, asset)
	}
	amount, err := ledger.ParseAmount(payment.Amount, asset)
	if err != nil {
		return err
	}
	if amount.Sign() == 0 || amount.Format(asset) != payment.Amount {
		return fmt.Errorf("amount: %q must be above zero, with all digits of %s and no others", payment.Amount, asset)
	}
	for name, value := range payment.Payee {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return errors.New("payee: it is not valid UTF-8")
		}
	}
	if !utf8.ValidString(payment.Memo) {
		return errors.New("memo: it is not valid UTF-8")
	}
	return nil
}

// checkReference keeps out what servers on the way would make another path of: empty segments, "." and "..".
func checkReference(reference string) error {
	if err := ledger.CheckID("reference", reference, referenceBytesMax); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(reference, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("reference: %q can't be in a path: nothing, . or .. is between two slashes or at an end", reference)
		}
	}
	return nil
}

// keyHeader is a key as the value of Idempotency-Key: a string of RFC 9651, in quotes. Those have printable ASCII only, and
// a client may name a payment in any script, so other bytes, and ", \ and %, are written as %XX. So each key has one value
// and each value one key, and there is never anything to escape within the quotes.
func keyHeader(key string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(key) {
		c := key[i]
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '%' {
			b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// at is the address of a payout, or of one of its parts. A slash in the reference is escaped, as everything is that has a
// meaning in a path.
func (r *Rail) at(reference, part string) *url.URL {
	u := *r.base
	u.Path += "/payouts/" + reference + part
	u.RawPath = r.base.EscapedPath() + "/payouts/" + url.PathEscape(reference) + part
	return &u
}
