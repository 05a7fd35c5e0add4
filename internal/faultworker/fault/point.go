package fault

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of write that a fault is about, or of a read that somebody writes down.
type Kind string

// The kinds. KindResolve is the resolving of a step, under that step's key; the naive ones are those of the transfer
// without a key. KindEntries is the reading of a page of an account's entries, under the account's name within its ledger.
const (
	KindPost          Kind = "post"
	KindWithdraw      Kind = "withdraw"
	KindDeposit       Kind = "deposit"
	KindRefund        Kind = "refund"
	KindReserve       Kind = "reserve"
	KindSettle        Kind = "settle"
	KindReturn        Kind = "return"
	KindBounce        Kind = "bounce"
	KindResolve       Kind = "resolve"
	KindNaiveWithdraw Kind = "naive-withdraw"
	KindNaiveDeposit  Kind = "naive-deposit"
	KindEntries       Kind = "entries"
)

func kinds() []Kind {
	return []Kind{
		KindPost, KindWithdraw, KindDeposit, KindRefund, KindReserve, KindSettle, KindReturn, KindBounce, KindResolve,
		KindNaiveWithdraw, KindNaiveDeposit, KindEntries,
	}
}

// Moment is when a fault strikes: before the ledger is asked to write, or after it has answered, so after COMMIT.
type Moment string

// The moments.
const (
	Before Moment = "before"
	After  Moment = "after"
)

// Point is where a fault strikes. It is written "withdraw/after".
type Point struct {
	Kind   Kind   `json:"-"` // a point is a text in JSON
	Moment Moment `json:"-"`
}

// ParsePoint reads what String writes.
func ParsePoint(s string) (Point, error) {
	kind, moment, _ := strings.Cut(s, "/")
	p := Point{Kind: Kind(kind), Moment: Moment(moment)}
	if !slices.Contains(kinds(), p.Kind) || (p.Moment != Before && p.Moment != After) {
		return Point{}, fmt.Errorf("%q is not a point: it is one of %s, then /before or /after", s, list(kinds()))
	}
	return p, nil
}

// String is "withdraw/after".
func (p Point) String() string { return string(p.Kind) + "/" + string(p.Moment) }

// MarshalText makes a point a text in JSON; the zero point is an empty one.
func (p Point) MarshalText() ([]byte, error) {
	if p == (Point{}) {
		return nil, nil
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (p *Point) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*p = Point{}
		return nil
	}
	*p, err = ParsePoint(string(text))
	return err
}

func list[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, ", ")
}
