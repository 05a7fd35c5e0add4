package ledger

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// AmountDigitsMax is the largest number of decimal digits that an amount or a balance has, in smallest units. It is
// the precision of the database's numeric(38,0).
const AmountDigitsMax = 38

// amountLimit is the first magnitude that an amount can't have: 10^AmountDigitsMax.
var amountLimit = func() *apd.BigInt {
	limit := apd.NewBigInt(10)
	return limit.Exp(limit, apd.NewBigInt(AmountDigitsMax), nil)
}()

// Amount is an exact signed number of an asset's smallest units, at most AmountDigitsMax digits. The zero Amount is
// 0. Amounts are values: no method changes one. Compare them with Cmp, not with ==.
type Amount struct {
	units apd.BigInt
}

// AmountFromUnits returns n smallest units.
func AmountFromUnits(n int64) Amount {
	var a Amount
	a.units.SetInt64(n)
	return a
}

// AmountFromBig returns n smallest units; n is copied. ok is false when n has more than AmountDigitsMax digits.
func AmountFromBig(n *big.Int) (a Amount, ok bool) {
	a.units.SetMathBigInt(n)
	return a, a.inRange()
}

// ParseAmount reads a plain decimal number of major units, such as "10" or "10.00" for USD/2: digits, and optionally
// a point with digits on both sides. A sign, an exponent, grouping, blanks, or more decimal digits than the asset has
// are refused, never rounded or trimmed; so is a number of more than AmountDigitsMax digits in smallest units. Zero is
// read: whether it is allowed depends on the use. The error is an *InvalidError.
func ParseAmount(s string, asset Asset) (Amount, error) {
	whole, fraction, point := strings.Cut(s, ".")
	if !allDigits(whole) || (point && !allDigits(fraction)) {
		return Amount{}, invalid("amount", "%q is not a plain decimal number such as 10 or 10.50", clip(s))
	}
	if len(fraction) > asset.Scale() {
		return Amount{}, invalid("amount", "%q has %d decimal digits; %s has %d", clip(s), len(fraction), asset, asset.Scale())
	}
	digits := strings.TrimLeft(whole+fraction+strings.Repeat("0", asset.Scale()-len(fraction)), "0")
	if len(digits) > AmountDigitsMax {
		return Amount{}, invalid("amount", "%q has more than %d digits in the smallest unit of %s", clip(s), AmountDigitsMax, asset)
	}
	if digits == "" {
		return Amount{}, nil
	}
	var a Amount
	if _, ok := a.units.SetString(digits, 10); !ok {
		panic("ledger: a string of digits was not a number: " + digits)
	}
	return a, nil
}

// ParseSignedAmount is ParseAmount that also reads one leading minus sign, for floors and ceilings ("-100.00").
func ParseSignedAmount(s string, asset Asset) (Amount, error) {
	unsigned, negative := strings.CutPrefix(s, "-")
	a, err := ParseAmount(unsigned, asset)
	if err != nil {
		return Amount{}, err
	}
	if negative {
		return a.Neg(), nil
	}
	return a, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || '9' < s[i] {
			return false
		}
	}
	return s != ""
}

// Format is the amount in major units with all of the asset's decimal digits: "10.00" for 1000 of USD/2. ParseAmount
// reads it back, or ParseSignedAmount when it is negative.
func (a Amount) Format(asset Asset) string {
	digits := a.units.String()
	digits, negative := strings.CutPrefix(digits, "-")
	if scale := asset.Scale(); scale > 0 {
		if missing := scale + 1 - len(digits); missing > 0 {
			digits = strings.Repeat("0", missing) + digits
		}
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	if negative {
		return "-" + digits
	}
	return digits
}

// String is the number of smallest units in decimal.
func (a Amount) String() string {
	if a.units.IsInt64() {
		return strconv.FormatInt(a.units.Int64(), 10)
	}
	return a.units.String()
}

// ParseUnits reads what String writes: a whole number of smallest units, with a minus sign when it is below zero. ok is
// false for anything else and for more than AmountDigitsMax digits.
func ParseUnits(s string) (a Amount, ok bool) {
	digits, negative := strings.CutPrefix(s, "-")
	oneSpelling := digits != "" && (digits[0] != '0' || s == "0")
	if !oneSpelling || !allDigits(digits) || len(digits) > AmountDigitsMax {
		return Amount{}, false
	}
	if len(digits) <= int64DigitsSafe {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return Amount{}, false
		}
		a.units.SetInt64(n)
		return a, true
	}
	if _, ok := a.units.SetString(digits, 10); !ok {
		return Amount{}, false
	}
	if negative {
		a.units.Neg(&a.units)
	}
	return a, true
}

// int64DigitsSafe is a number of digits that an int64 always holds.
const int64DigitsSafe = 18

// Big returns a copy of the number of smallest units.
func (a Amount) Big() *big.Int { return new(big.Int).Set(a.units.MathBigInt()) }

// Sign is -1, 0 or 1.
func (a Amount) Sign() int { return a.units.Sign() }

// Cmp is -1, 0 or 1 as a is less than, equal to or greater than b.
func (a Amount) Cmp(b Amount) int { return a.units.Cmp(&b.units) }

// Neg is -a.
func (a Amount) Neg() Amount {
	var r Amount
	if a.Sign() == 0 {
		return r // apd would make a zero of it that is less than zero
	}
	r.units.Neg(&a.units)
	return r
}

// Add is a+b. ok is false, and the sum not to be used, when it has more than AmountDigitsMax digits.
func (a Amount) Add(b Amount) (sum Amount, ok bool) {
	sum.units.Add(&a.units, &b.units)
	return sum, sum.inRange()
}

// Sub is a-b. ok is false, and the difference not to be used, when it has more than AmountDigitsMax digits.
func (a Amount) Sub(b Amount) (difference Amount, ok bool) {
	difference.units.Sub(&a.units, &b.units)
	return difference, difference.inRange()
}

func (a Amount) inRange() bool { return a.units.CmpAbs(amountLimit) < 0 }
