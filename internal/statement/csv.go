package statement

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"payonce/ledger"
)

// The kinds of lines in a CSV statement. The opening and the closing line have a balance and no amount, so that the sum of
// the amounts is what lies between the two.
const (
	lineOpening = "opening"
	lineEntry   = "entry"
	lineClosing = "closing"
)

// csvForm is a table with a header, a line a record, in the order of the entries. Each line says which account it is of, so
// that statements can be put one under the other.
type csvForm struct {
	statement *Statement
	out       *csv.Writer
}

func newCSV(w io.Writer, s *Statement) *csvForm {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	return &csvForm{statement: s, out: out}
}

func (c *csvForm) begin() error {
	err := c.out.Write([]string{"account", "asset", "line", "time", "entry", "amount", "balance", "kind", "other_account", "key", "memo"})
	if err != nil {
		return err
	}
	return c.bound(lineOpening, c.statement.Period.From, c.statement.Period.Opening)
}

func (c *csvForm) entry(e *ledger.Entry) error {
	asset := c.statement.Period.Asset
	return c.out.Write([]string{
		c.statement.account(), asset.String(), lineEntry, csvTime(e.At), strconv.FormatInt(e.Version, 10),
		e.Amount.Format(asset), e.Balance.Format(asset), string(e.Kind), c.statement.other(e), string(e.Key), e.Memo,
	})
}

func (c *csvForm) end() error {
	if err := c.bound(lineClosing, c.statement.Period.To, c.statement.Period.Closing); err != nil {
		return err
	}
	c.out.Flush()
	return c.out.Error()
}

// bound writes the line of a balance at one end of the period.
func (c *csvForm) bound(line string, at time.Time, balance ledger.Amount) error {
	asset := c.statement.Period.Asset
	return c.out.Write([]string{c.statement.account(), asset.String(), line, csvTime(at), "", "", balance.Format(asset), "", "", "", ""})
}

func csvTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000Z") }
