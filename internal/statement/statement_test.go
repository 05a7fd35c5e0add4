package statement_test

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"payonce/internal/statement"
	"payonce/ledger"
)

var (
	september = time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	october   = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
)

func asset(s string) ledger.Asset {
	a, err := ledger.ParseAsset(s)
	if err != nil {
		panic(err)
	}
	return a
}

// book is a statement with its entries.
type book struct {
	statement.Statement

	entries []ledger.Entry
}

// newBook has an account with an opening balance, in smallest units, and entries of the given amounts.
func newBook(format statement.Format, assetName string, opening int64, amounts ...int64) *book {
	b := &book{Statement: statement.Statement{Ledger: "us", Format: format, Period: ledger.Period{
		PeriodQuery: ledger.PeriodQuery{Account: "alice", Asset: asset(assetName), From: september, To: october},
		Opening:     ledger.AmountFromUnits(opening), VersionBefore: 7, Entries: int64(len(amounts)),
	}}}
	balance := opening
	for i, amount := range amounts {
		balance += amount
		b.entries = append(b.entries, ledger.Entry{
			Version: int64(8 + i), Amount: ledger.AmountFromUnits(amount), Balance: ledger.AmountFromUnits(balance), Leg: 1,
			Key: ledger.Key(fmt.Sprintf("transfer/rent-%d/post", i)), Kind: ledger.KindPost, Other: "world",
			At: september.Add(time.Duration(i+1) * time.Second),
		})
	}
	b.Period.Closing = ledger.AmountFromUnits(balance)
	return b
}

// all are the entries in pages of three.
func (b *book) all() iter.Seq2[*ledger.Entry, error] {
	return statement.Pages(&b.Period, 3, func(after int64, limit int) ([]ledger.Entry, error) {
		page := slices.DeleteFunc(slices.Clone(b.entries), func(e ledger.Entry) bool { return e.Version <= after })
		return page[:min(limit, len(page))], nil
	})
}

func (b *book) write(t testing.TB, path string) (statement.File, []byte) {
	t.Helper()
	file, err := statement.Write(path, &b.Statement, b.all())
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.EqualValues(t, len(text), file.Bytes)
	return file, text
}

const readable = `account,asset,line,time,entry,amount,balance,kind,other_account,key,memo
us/alice,USD/2,opening,2026-09-01T00:00:00.000000Z,,,1.00,,,,
us/alice,USD/2,entry,2026-09-01T00:00:01.000000Z,8,20.00,21.00,post,us/world,transfer/rent-0/post,"rent, ""September""
and deposit"
us/alice,USD/2,entry,2026-09-01T00:00:02.000000Z,9,-21.00,0.00,withdraw,eu/bob,transfer/rent-1/withdraw,
us/alice,USD/2,closing,2026-10-01T00:00:00.000000Z,,,0.00,,,,
`

func TestCSV(t *testing.T) {
	t.Parallel()
	b := newBook(statement.FormatCSV, "USD", 100, 2000, -2100)
	b.entries[0].Memo = "rent, \"September\"\nand deposit"
	b.entries[1].Kind, b.entries[1].Counterparty, b.entries[1].Other, b.entries[1].Key = ledger.KindWithdraw, "eu/bob", "transit:eu", "transfer/rent-1/withdraw"
	file, text := b.write(t, filepath.Join(t.TempDir(), "statement.csv"))
	require.Equal(t, strings.ReplaceAll(readable, "\n", "\r\n"), string(text))
	require.Len(t, file.SHA256, 64)

	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 5)
	require.Equal(t, b.entries[0].Memo, lines[2][10])
}

// xmllint holds a message against the schema that the registration authority of ISO 20022 publishes. It must be there: a
// test that is skipped proves nothing.
func xmllint(t testing.TB, path string) error {
	t.Helper()
	program, err := exec.LookPath("xmllint")
	require.NoError(t, err, "install libxml2-utils, which has xmllint")
	out, err := exec.CommandContext(t.Context(), program, "--nonet", "--noout", "--schema", "testdata/camt.053.001.08.xsd", path).CombinedOutput()
	if err != nil {
		return errors.New(string(out))
	}
	return nil
}

func TestCamtIsValid(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long-name.", 12)
	for name, change := range map[string]func() *book{
		"dollars":  func() *book { return newBook(statement.FormatCamt053, "USD", 100, 2000, -2100) },
		"yen":      func() *book { return newBook(statement.FormatCamt053, "JPY", 0, 80, -1) },
		"dinars":   func() *book { return newBook(statement.FormatCamt053, "KWD", -1, 1234) },
		"nothing":  func() *book { return newBook(statement.FormatCamt053, "USD", 5) },
		"negative": func() *book { return newBook(statement.FormatCamt053, "USD", -100, -2000) },
		"the most": func() *book { return newBook(statement.FormatCamt053, "USD/5", 0, 999_999_999_999_999_999) },
		"hours": func() *book {
			b := newBook(statement.FormatCamt053, "USD", 0, 1)
			b.Period.From, b.Period.To = september.Add(time.Microsecond), september.Add(time.Hour+123_456*time.Microsecond)
			return b
		},
		"names and texts": func() *book {
			b := newBook(statement.FormatCamt053, "USD", 0, 1, -2, 3, 4)
			b.Period.Account = "user:a@b+c-d_" + long
			b.entries[0].Key = ledger.Key("transfer/" + strings.Repeat("ü", 100) + "/post")
			b.entries[0].Memo = strings.Repeat("<&>\"'\n\t€🏦 ", 60) + "\uffff\ufffe"
			b.entries[1].Counterparty, b.entries[1].Kind, b.entries[1].Key = "eu/"+long, ledger.KindRefund, `transfer/ÜĀ "42" 🏦/refund`
			b.entries[2].Key, b.entries[2].Other = "no step", "transit:eu"
			b.entries[3].Memo = strings.Repeat("x", 140)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "statement.xml")
			change().write(t, path)
			require.NoError(t, xmllint(t, path))
		})
	}
}

// The schema refuses what is no such message: the check above can fail.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "statement.xml")
	_, text := newBook(statement.FormatCamt053, "USD", 100, 2000).write(t, path)
	for old, broken := range map[string]string{
		"<Cd>OPBD</Cd>":               "<Cd>OPENING</Cd>",
		">20.00</Amt>":                ">-20.00</Amt>",
		`Ccy="USD"`:                   `Ccy="POINTS"`,
		"<CreDtTm>":                   "<Made>",
		"camt.053.001.08":             "camt.053.001.02",
		"<NtryRef>8":                  "<NtryRef>" + strings.Repeat("8", 36),
		"<CdtDbtInd>CRDT</CdtDbtInd>": "",
	} {
		require.Contains(t, string(text), old)
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), old, broken, 1)), 0o600))
		require.Error(t, xmllint(t, path), broken)
	}
}

// camt is what a program reads of a message.
type camt struct {
	XMLName xml.Name `xml:"urn:iso:std:iso:20022:tech:xsd:camt.053.001.08 Document"`
	MsgID   string   `xml:"BkToCstmrStmt>GrpHdr>MsgId"`
	Made    string   `xml:"BkToCstmrStmt>GrpHdr>CreDtTm"`
	From    string   `xml:"BkToCstmrStmt>Stmt>FrToDt>FrDtTm"`
	To      string   `xml:"BkToCstmrStmt>Stmt>FrToDt>ToDtTm"`
	Account string   `xml:"BkToCstmrStmt>Stmt>Acct>Id>Othr>Id"`
	Number  int      `xml:"BkToCstmrStmt>Stmt>TxsSummry>TtlNtries>NbOfNtries"`
	Bal     []struct {
		Code string `xml:"Tp>CdOrPrtry>Cd"`
		camtMoney
		Day string `xml:"Dt>Dt"`
	} `xml:"BkToCstmrStmt>Stmt>Bal"`
	Entries []struct {
		Ref string `xml:"NtryRef"`
		camtMoney
		Reversal    bool     `xml:"RvslInd"`
		Status      string   `xml:"Sts>Cd"`
		Booked      string   `xml:"BookgDt>Dt"`
		Valued      string   `xml:"ValDt>Dt"`
		At          string   `xml:"NtryDtls>TxDtls>RltdDts>TxDtTm"`
		ServicerRef string   `xml:"AcctSvcrRef"`
		Kind        string   `xml:"BkTxCd>Prtry>Cd"`
		EndToEnd    string   `xml:"NtryDtls>TxDtls>Refs>EndToEndId"`
		Debtor      string   `xml:"NtryDtls>TxDtls>RltdPties>Dbtr>Pty>Nm"`
		Creditor    string   `xml:"NtryDtls>TxDtls>RltdPties>Cdtr>Pty>Nm"`
		Memo        []string `xml:"NtryDtls>TxDtls>RmtInf>Ustrd"`
		Key         string   `xml:"AddtlNtryInf"`
	} `xml:"BkToCstmrStmt>Stmt>Ntry"`
}

type camtMoney struct {
	Amount struct {
		Currency string `xml:"Ccy,attr"`
		Value    string `xml:",chardata"`
	} `xml:"Amt"`
	Direction string `xml:"CdtDbtInd"`
}

func (m *camtMoney) String() string {
	return m.Direction + " " + m.Amount.Value + " " + m.Amount.Currency
}

func readCamt(t testing.TB, text []byte) camt {
	t.Helper()
	var c camt
	require.NoError(t, xml.Unmarshal(text, &c))
	return c
}

func TestCamtSaysWhatTheBooksSay(t *testing.T) {
	t.Parallel()
	b := newBook(statement.FormatCamt053, "USD", -100, 2000, -2100)
	b.entries[0].Memo = strings.Repeat("m", 150)
	b.entries[1].Kind, b.entries[1].Counterparty = ledger.KindRefund, "eu/bob"
	path := filepath.Join(t.TempDir(), "statement.xml")
	_, text := b.write(t, path)
	c := readCamt(t, text)
	require.Len(t, c.MsgID, 32)
	require.Equal(t, []string{"2026-10-01T00:00:00Z", "2026-09-01T00:00:00Z", "2026-09-30T23:59:59.999999Z", "us/alice"}, []string{c.Made, c.From, c.To, c.Account})
	require.Equal(t, 2, c.Number)
	require.Len(t, c.Bal, 2)
	require.Equal(t, []string{"OPBD", "DBIT 1.00 USD", "2026-09-01"}, []string{c.Bal[0].Code, c.Bal[0].String(), c.Bal[0].Day})
	require.Equal(t, []string{"CLBD", "DBIT 2.00 USD", "2026-09-30"}, []string{c.Bal[1].Code, c.Bal[1].String(), c.Bal[1].Day})
	require.Len(t, c.Entries, 2)
	in, out := &c.Entries[0], &c.Entries[1]
	require.Equal(t, []string{"8", "CRDT 20.00 USD", "BOOK", "transfer/rent-0/post", "post", "rent-0", "us/world", "", "transfer/rent-0/post"},
		[]string{in.Ref, in.String(), in.Status, in.ServicerRef, in.Kind, in.EndToEnd, in.Debtor, in.Creditor, in.Key})
	require.Equal(t, []string{strings.Repeat("m", 140), strings.Repeat("m", 10)}, in.Memo)
	require.Equal(t, []string{"2026-09-01", "2026-09-01", "2026-09-01T00:00:01Z"}, []string{in.Booked, in.Valued, in.At})
	require.False(t, in.Reversal)
	require.Equal(t, []string{"9", "DBIT 21.00 USD", "eu/bob"}, []string{out.Ref, out.String(), out.Creditor})
	require.True(t, out.Reversal)
	require.Empty(t, out.Memo)

	// Every part of what a statement is of makes another ID.
	ids := map[string]bool{c.MsgID: true}
	for _, change := range []func(*book){
		func(b *book) { b.Ledger = "eu" },
		func(b *book) { b.Period.Account = "bob" },
		func(b *book) { b.Period.Asset = asset("EUR") },
		func(b *book) { b.Period.From = b.Period.From.Add(time.Microsecond) },
		func(b *book) { b.Period.To = b.Period.To.Add(time.Microsecond) },
	} {
		other := newBook(statement.FormatCamt053, "USD", -100, 2000, -2100)
		change(other)
		_, text := other.write(t, path)
		ids[readCamt(t, text).MsgID] = true
	}
	require.Len(t, ids, 6)
}

// What the message can't say is an error that names the format that can, and leaves what was there.
func TestCamtRefuses(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*book{
		"points":               newBook(statement.FormatCamt053, "POINTS/0", 0, 1),
		"ether":                newBook(statement.FormatCamt053, "ETH/18", 0, 1),
		"19 digits":            newBook(statement.FormatCamt053, "USD", 0, 1_000_000_000_000_000_000),
		"19 digits, and fewer": newBook(statement.FormatCamt053, "USD", 0, 1_000_000_000_000_000_000, -1_000_000_000_000_000_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "statement.xml")
			require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
			_, err := statement.Write(path, &b.Statement, b.all())
			var invalid *ledger.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Contains(t, invalid.Reason, "the format csv takes it")
			b.Format = statement.FormatCSV
			requireOnly(t, path, "old")
			b.write(t, path)
		})
	}
}

// requireOnly requires that a file is alone in its folder, and what is in it.
func requireOnly(t testing.TB, path, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(text))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// For any entries: the opening balance and all amounts are the closing balance, as both formats say it; and the same again is
// the same bytes.
func TestStatementsAddUp(t *testing.T) {
	t.Parallel()
	render := func(rt *rapid.T, b *book) []byte {
		var out bytes.Buffer
		require.NoError(rt, statement.Render(&out, &b.Statement, b.all()))
		return out.Bytes()
	}
	rapid.Check(t, func(rt *rapid.T) {
		assetName := rapid.SampledFrom([]string{"USD", "JPY", "KWD", "EUR/5"}).Draw(rt, "asset")
		amounts := rapid.SliceOfN(rapid.Int64Range(-1_000_000, 1_000_000).Filter(func(n int64) bool { return n != 0 }), 0, 10).Draw(rt, "amounts")
		opening := rapid.Int64Range(-1_000_000, 1_000_000).Draw(rt, "opening")
		unit := asset(assetName)
		parse := func(s string) ledger.Amount {
			a, err := ledger.ParseSignedAmount(s, unit)
			require.NoError(rt, err)
			return a
		}
		add := func(a, b ledger.Amount) ledger.Amount {
			sum, ok := a.Add(b)
			require.True(rt, ok)
			return sum
		}

		text := render(rt, newBook(statement.FormatCSV, assetName, opening, amounts...))
		lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		require.NoError(rt, err)
		balance := parse(lines[1][6])
		for _, line := range lines[2 : len(lines)-1] {
			balance = add(balance, parse(line[5]))
			require.Equal(rt, balance.Format(unit), line[6])
		}
		require.Equal(rt, balance.Format(unit), lines[len(lines)-1][6])

		text = render(rt, newBook(statement.FormatCamt053, assetName, opening, amounts...))
		c := readCamt(t, text)
		signed := func(m *camtMoney) ledger.Amount {
			if m.Direction == "DBIT" {
				return parse(m.Amount.Value).Neg()
			}
			return parse(m.Amount.Value)
		}
		balance = signed(&c.Bal[0].camtMoney)
		for i := range c.Entries {
			balance = add(balance, signed(&c.Entries[i].camtMoney))
		}
		require.Equal(rt, balance.Format(unit), signed(&c.Bal[1].camtMoney).Format(unit))
		require.Len(rt, c.Entries, c.Number)

		require.Equal(rt, text, render(rt, newBook(statement.FormatCamt053, assetName, opening, amounts...)))
	})
}

// A statement of any length needs little memory. It is not parallel: others need memory too.
func TestLongStatements(t *testing.T) { //nolint:paralleltest // see above
	const entries, heapMax = 50_000, 4 << 20
	for _, format := range []statement.Format{statement.FormatCSV, statement.FormatCamt053} {
		b := newBook(format, "USD", 0)
		b.Period.Entries, b.Period.Closing = entries, ledger.AmountFromUnits(entries)
		var heap runtime.MemStats
		runtime.ReadMemStats(&heap)
		before, most := heap.HeapAlloc, uint64(0)
		pages := 0
		read := func(after int64, limit int) ([]ledger.Entry, error) {
			if pages++; pages%10 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&heap)
				most = max(most, heap.HeapAlloc)
			}
			page := make([]ledger.Entry, limit)
			for i := range page {
				n := after + int64(i) + 1
				page[i] = ledger.Entry{
					Version: n, Amount: ledger.AmountFromUnits(1), Balance: ledger.AmountFromUnits(n - b.Period.VersionBefore), Kind: ledger.KindPost,
					Key: ledger.Key(fmt.Sprintf("transfer/%d/post", n)), Other: "world", At: september,
				}
			}
			return page, nil
		}
		var written counter
		require.NoError(t, statement.Render(&written, &b.Statement, statement.Pages(&b.Period, 1_000, read)))
		require.Greater(t, int(written), 5_000_000)
		require.Less(t, most, before+heapMax, "%s: %d bytes were written", format, written)
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// Entries that don't lead from the opening to the closing balance are an error, and the file stays what it was.
func TestMismatchIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(b *book){
		"another closing balance": func(b *book) { b.Period.Closing = ledger.AmountFromUnits(1) },
		"another opening balance": func(b *book) { b.Period.Opening = ledger.AmountFromUnits(1) },
		"an entry that is wrong":  func(b *book) { b.entries[4].Amount = ledger.AmountFromUnits(9) },
		"a balance that is wrong": func(b *book) { b.entries[4].Balance = ledger.AmountFromUnits(9) },
		"an entry that is gone":   func(b *book) { b.entries = slices.Delete(b.entries, 4, 5) },
		"the last entry is gone":  func(b *book) { b.entries = b.entries[:len(b.entries)-1] },
		"an entry of another day": func(b *book) { b.entries[4].At = october },
		"an entry from before":    func(b *book) { b.entries[0].At = september.Add(-1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, format := range []statement.Format{statement.FormatCSV, statement.FormatCamt053} {
				b := newBook(format, "USD", 0, 1, 2, 3, 4, 5, 6)
				plant(b)
				path := filepath.Join(t.TempDir(), "statement")
				require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
				_, err := statement.Write(path, &b.Statement, b.all())
				require.ErrorIs(t, err, statement.ErrMismatch)
				requireOnly(t, path, "old")
			}
		})
	}
}

func TestReadFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	b := newBook(statement.FormatCSV, "USD", 0, 1, 2, 3, 4)
	path := filepath.Join(t.TempDir(), "statement.csv")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	broken := errors.New("the ledger is on fire")
	_, err := statement.Write(path, &b.Statement, statement.Pages(&b.Period, 3, func(after int64, _ int) ([]ledger.Entry, error) {
		if after > b.Period.VersionBefore {
			return nil, broken
		}
		return b.entries[:3], nil
	}))
	require.ErrorIs(t, err, broken)
	requireOnly(t, path, "old")
}

func TestPath(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	path := func(change func(*book)) string {
		b := newBook(statement.FormatCSV, "USD", 0)
		change(b)
		p := statement.Path("/dir", &b.Statement)
		require.False(t, seen[p], p)
		seen[p] = true
		return p
	}
	require.Equal(t, "/dir/us/alice/2026-09-01_2026-10-01_USD-2.csv", path(func(*book) {}))
	require.Equal(t, "/dir/us/alice/2026-09-01_2026-10-01_USD-2.camt053.xml", path(func(b *book) { b.Format = statement.FormatCamt053 }))
	require.Equal(t, "/dir/us/transit%3Aeu/2026-09-01_2026-10-01_JPY-0.csv", path(func(b *book) { b.Period.Account, b.Period.Asset = "transit:eu", asset("JPY") }))
	require.Equal(t, "/dir/us/a@b+c-d.e_/20260901T000000.000001Z_2026-10-01_USD-2.csv", path(func(b *book) {
		b.Period.Account, b.Period.From = "a@b+c-d.e_", september.Add(time.Microsecond)
	}))
	path(func(b *book) { b.Ledger = "eu" })
	path(func(b *book) { b.Period.To = october.Add(time.Second) })
	path(func(b *book) { b.Period.Asset = asset("USD/3") })
}

// A path that is no place for a file is an error of the input, and is left.
func TestTargets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBook(statement.FormatCSV, "USD", 0, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("old"), 0o600))
	require.NoError(t, os.Symlink("file", filepath.Join(dir, "link")))
	for _, path := range []string{dir, filepath.Join(dir, "link"), filepath.Join(dir, "file", "statement.csv"), os.DevNull} {
		_, err := statement.Write(path, &b.Statement, b.all())
		require.Error(t, err, path)
	}
	text, err := os.ReadFile(filepath.Join(dir, "file"))
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	// Folders that are missing are made.
	b.write(t, filepath.Join(dir, "a", "b", "c.csv"))
}

// Several writers at once, of two periods' statements that are at one path: a reader always finds one of the two, whole.
func TestWritersAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "statement.csv")
	one, other := newBook(statement.FormatCSV, "USD", 0, 1, 2, 3), newBook(statement.FormatCSV, "USD", 0, 4)
	_, first := one.write(t, path)
	_, second := other.write(t, filepath.Join(t.TempDir(), "other.csv"))
	done := make(chan struct{})
	var writing, reading sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 4 {
		b := []*book{one, other}[i%2]
		writing.Go(func() {
			for range 20 {
				if _, err := statement.Write(path, &b.Statement, b.all()); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	reading.Go(func() {
		for {
			text, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(text, first) && !bytes.Equal(text, second) {
				errs <- fmt.Errorf("a part of a file: %q, %w", text, err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	writing.Wait()
	close(done)
	reading.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	_, err := os.ReadFile(path)
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// twoBooks have files of different lengths, larger than any buffer.
func twoBooks() [2]*book {
	amounts := make([]int64, 2_000)
	for i := range amounts {
		amounts[i] = int64(i + 1)
	}
	return [2]*book{newBook(statement.FormatCSV, "USD", 0, amounts...), newBook(statement.FormatCSV, "USD", 7, amounts[:1_500]...)}
}

// A writer that is killed at any moment leaves one whole file or the other. What it leaves beside it is removed by a later
// writer, when it is old enough to be nobody's any more.
func TestWriterIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "statement.csv")
	books := twoBooks()
	_, first := books[0].write(t, path)
	_, second := books[1].write(t, path)
	program, err := os.Executable()
	require.NoError(t, err)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	const wanted, roundsMax = 3, 100
	parts := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, ".statement.csv*"))
		require.NoError(t, err)
		return found
	}
	round := 0
	for len(parts()) < wanted { // each writer that is killed while it writes leaves its part behind
		round++
		require.LessOrEqual(t, round, roundsMax, "%d writers were killed while they wrote", len(parts()))
		left := len(parts())
		writer := exec.CommandContext(t.Context(), program)
		writer.Env = append(os.Environ(), envWriter+"="+path)
		require.NoError(t, writer.Start())
		require.Eventually(t, func() bool { return len(parts()) > left }, time.Minute, 100*time.Microsecond, "it writes")
		timer := time.NewTimer(time.Duration(random.Int64N(int64(time.Millisecond))))
		<-timer.C
		require.NoError(t, writer.Process.Kill())
		require.ErrorContains(t, writer.Wait(), "killed")

		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, first) || bytes.Equal(text, second), "%d bytes that are neither file", len(text))
	}
	t.Logf("%d of %d were killed while they wrote", len(parts()), round)

	// A young one may be somebody's; another file's are none of its business.
	old := time.Now().Add(-statement.LitterAgeMax - time.Minute)
	litter := parts()
	for _, name := range append(litter, filepath.Join(dir, ".statement.csv.backup"), filepath.Join(dir, ".other.csv123")) {
		if !slices.Contains(litter, name) {
			require.NoError(t, os.WriteFile(name, nil, 0o600))
		}
		require.NoError(t, os.Chtimes(name, old, old))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".statement.csv42"), nil, 0o600))
	books[0].write(t, path)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Equal(t, []string{".other.csv123", ".statement.csv.backup", ".statement.csv42", "statement.csv"}, names)
}
