package statement

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"payonce/ledger"
)

// camtNamespace is of the version of the message that is written.
const camtNamespace = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"

// The bounds of the message's texts, in characters, and of its amounts.
const (
	camtRefMax         = 35
	camtAccountMax     = 34
	camtAccountNameMax = 70
	camtTextMax        = 140

	camtScaleMax  = 5
	camtDigitsMax = 18
)

// checkCamtAsset says whether the message's amounts can say what an asset holds.
func checkCamtAsset(asset ledger.Asset) error {
	code := asset.Code()
	letters := len(code) == 3
	for i := range len(code) {
		letters = letters && 'A' <= code[i] && code[i] <= 'Z'
	}
	switch {
	case !letters:
		return camtInvalid("%s: a currency of camt.053 has a code of three letters", asset)
	case asset.Scale() > camtScaleMax:
		return camtInvalid("%s: an amount of camt.053 has at most %d decimal digits", asset, camtScaleMax)
	}
	return nil
}

func camtInvalid(format string, args ...any) error {
	return &ledger.InvalidError{Field: "format", Reason: fmt.Sprintf(format, args...) + "; the format " + string(FormatCSV) + " takes it"}
}

// camtForm writes the message. What is optional in it and has no meaning here is left out; every element that is written is
// in the order of the schema.
type camtForm struct {
	statement *Statement
	w         io.Writer
	out       *xml.Encoder
}

func newCamt(w io.Writer, s *Statement) *camtForm {
	out := xml.NewEncoder(w)
	out.Indent("", " ")
	return &camtForm{statement: s, w: w, out: out}
}

var (
	camtDocument  = xml.StartElement{Name: xml.Name{Local: "Document"}, Attr: []xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: camtNamespace}}}
	camtMessage   = camtElement("BkToCstmrStmt")
	camtStatement = camtElement("Stmt")
)

func camtElement(name string) xml.StartElement { return xml.StartElement{Name: xml.Name{Local: name}} }

func (c *camtForm) begin() error {
	s, period := c.statement, &c.statement.Period
	if err := checkCamtAsset(period.Asset); err != nil {
		return err
	}
	opening, err := c.balance("OPBD", period.Opening, period.From)
	if err != nil {
		return err
	}
	// The last moment of the period, whose day a reader takes for that of the closing balance.
	last := period.To.Add(-time.Microsecond)
	closing, err := c.balance("CLBD", period.Closing, last)
	if err != nil {
		return err
	}
	moved, ok := period.Closing.Sub(period.Opening)
	if !ok {
		return camtInvalid("what moved between the two balances has too many digits")
	}
	net, err := c.amount(moved)
	if err != nil {
		return err
	}

	if _, err := io.WriteString(c.w, xml.Header); err != nil {
		return err
	}
	if err := c.open(camtDocument, camtMessage); err != nil {
		return err
	}
	// The message and the statement in it are one and the same here. Made again, they have the same ID and time.
	id, made := s.id(), camtTime(period.To)
	if err := c.write("GrpHdr", camtGroupHeader{ID: id, Made: made}); err != nil {
		return err
	}
	if err := c.open(camtStatement); err != nil {
		return err
	}
	return c.writeAll([]camtPart{
		{"Id", id},
		{"CreDtTm", made},
		{"FrToDt", camtFromTo{From: camtTime(period.From), To: camtTime(last)}},
		{"Acct", camtAccount{
			ID: camtRef(s.account(), camtAccountMax), Currency: period.Asset.Code(), Name: clipText(s.account(), camtAccountNameMax),
		}},
		{"Bal", opening},
		{"Bal", closing},
		{"TxsSummry", camtSummary{Entries: period.Entries, Net: net.Value, Direction: direction(moved)}},
	})
}

func (c *camtForm) entry(e *ledger.Entry) error {
	amount, err := c.amount(e.Amount)
	if err != nil {
		return err
	}
	key := string(e.Key)
	// Readers want the day here; the moment has a place of its own.
	day := camtDate{Date: e.At.UTC().Format(time.DateOnly)}
	other := camtParty{Name: clipText(c.statement.other(e), camtTextMax)}
	otherAccount := camtOtherAccount{ID: camtRef(c.statement.other(e), camtAccountMax)}
	details := camtDetails{
		Ref: camtRef(key, camtRefMax), EndToEnd: endToEnd(key), Amount: amount, Direction: direction(e.Amount), At: camtTime(e.At),
	}
	if e.Memo != "" {
		details.Memo = &camtMemo{Pieces: pieces(e.Memo, camtTextMax)}
	}
	if e.Amount.Sign() < 0 {
		details.Parties = camtParties{Creditor: &other, CreditorAccount: &otherAccount}
	} else {
		details.Parties = camtParties{Debtor: &other, DebtorAccount: &otherAccount}
	}
	return c.write("Ntry", camtEntry{
		Ref: strconv.FormatInt(e.Version, 10), Amount: amount, Direction: direction(e.Amount), Reversal: e.Kind.Reverses(),
		Status: "BOOK", Booked: day, Valued: day, ServicerRef: details.Ref,
		Code: camtCode{Code: string(e.Kind), Issuer: "payonce"}, Details: details, Info: key,
	})
}

func (c *camtForm) end() error {
	err := c.write("AddtlStmtInf", c.statement.account()+" in "+c.statement.Period.Asset.String()+", payonce")
	if err != nil {
		return err
	}
	for _, element := range []xml.StartElement{camtStatement, camtMessage, camtDocument} {
		if err := c.out.EncodeToken(element.End()); err != nil {
			return err
		}
	}
	if err := c.out.Close(); err != nil {
		return err
	}
	_, err = io.WriteString(c.w, "\n")
	return err
}

func (c *camtForm) open(elements ...xml.StartElement) error {
	for _, element := range elements {
		if err := c.out.EncodeToken(element); err != nil {
			return err
		}
	}
	return nil
}

// camtPart is an element with its content.
type camtPart struct {
	name    string
	content any
}

func (c *camtForm) writeAll(parts []camtPart) error {
	for _, part := range parts {
		if err := c.write(part.name, part.content); err != nil {
			return err
		}
	}
	return nil
}

func (c *camtForm) write(name string, content any) error {
	return c.out.EncodeElement(content, camtElement(name))
}

// amount is an amount without its sign.
func (c *camtForm) amount(a ledger.Amount) (camtAmount, error) {
	if a.Sign() < 0 {
		a = a.Neg()
	}
	if digits := a.String(); len(digits) > camtDigitsMax {
		return camtAmount{}, camtInvalid("the amount %s: one of camt.053 has at most %d digits", a.Format(c.statement.Period.Asset), camtDigitsMax)
	}
	return camtAmount{Currency: c.statement.Period.Asset.Code(), Value: a.Format(c.statement.Period.Asset)}, nil
}

func (c *camtForm) balance(code string, a ledger.Amount, at time.Time) (camtBalance, error) {
	amount, err := c.amount(a)
	b := camtBalance{Code: code, Amount: amount, Direction: direction(a)}
	if c.wholeDays() {
		b.At.Date = at.UTC().Format(time.DateOnly)
	} else {
		b.At.Time = camtTime(at)
	}
	return b, err
}

// wholeDays says whether the period begins and ends at midnight, in UTC.
func (c *camtForm) wholeDays() bool {
	return isMidnight(c.statement.Period.From) && isMidnight(c.statement.Period.To)
}

func isMidnight(at time.Time) bool {
	year, month, day := at.UTC().Date()
	return at.Equal(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

func direction(a ledger.Amount) string {
	if a.Sign() < 0 {
		return "DBIT"
	}
	return "CRDT"
}

func camtTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.999999Z") }

// id is a statement's own, in camtRefMax characters: it follows from the account, the asset and the period.
func (s *Statement) id() string {
	return hash(strings.Join([]string{"payonce statement 1", s.account(), s.Period.Asset.String(), camtTime(s.Period.From), camtTime(s.Period.To)}, "\n"))
}

// hash is an ID for what is too long to be one.
func hash(s string) string {
	const bytes = 16
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:bytes])
}

// camtRef is a name that fits into a number of characters: itself, or its hash.
func camtRef(s string, charactersMax int) string {
	if utf8.RuneCountInString(s) <= charactersMax {
		return s
	}
	return hash(s)
}

// endToEnd is the client's own ID of the transfer that a step's key is of, if there is room for it: the key without what
// stands before and behind.
func endToEnd(key string) string {
	end := strings.LastIndexByte(key, '/')
	if end < 0 {
		return ""
	}
	id, ok := strings.CutPrefix(key[:end], "transfer/")
	if !ok {
		id, ok = strings.CutPrefix(key[:end], "payout/") // which is also what its rail calls it
	}
	if !ok || utf8.RuneCountInString(id) > camtRefMax {
		return ""
	}
	return id
}

// clipText is the beginning of a text.
func clipText(s string, charactersMax int) string {
	if all := pieces(s, charactersMax); len(all) > 0 {
		return all[0]
	}
	return s
}

// pieces cuts a text into pieces of a number of characters.
func pieces(s string, characters int) []string {
	var all []string
	for s != "" {
		end, n := len(s), 0
		for i := range s {
			if n == characters {
				end = i
				break
			}
			n++
		}
		all = append(all, s[:end])
		s = s[end:]
	}
	return all
}

// The parts of the message, each in the order of the schema.
type (
	camtGroupHeader struct {
		ID   string `xml:"MsgId"`
		Made string `xml:"CreDtTm"`
	}
	camtFromTo struct {
		From string `xml:"FrDtTm"`
		To   string `xml:"ToDtTm"`
	}
	camtAccount struct {
		ID       string `xml:"Id>Othr>Id"`
		Currency string `xml:"Ccy"`
		Name     string `xml:"Nm"`
	}
	camtAmount struct {
		Currency string `xml:"Ccy,attr"`
		Value    string `xml:",chardata"`
	}
	camtBalance struct {
		Code      string     `xml:"Tp>CdOrPrtry>Cd"`
		Amount    camtAmount `xml:"Amt"`
		Direction string     `xml:"CdtDbtInd"`
		At        camtDate   `xml:"Dt"`
	}
	// camtDate is a date or a time.
	camtDate struct {
		Date string `xml:"Dt,omitempty"`
		Time string `xml:"DtTm,omitempty"`
	}
	camtSummary struct {
		Entries   int64  `xml:"TtlNtries>NbOfNtries"`
		Net       string `xml:"TtlNtries>TtlNetNtry>Amt"`
		Direction string `xml:"TtlNtries>TtlNetNtry>CdtDbtInd"`
	}
	camtEntry struct {
		Ref         string      `xml:"NtryRef"`
		Amount      camtAmount  `xml:"Amt"`
		Direction   string      `xml:"CdtDbtInd"`
		Reversal    bool        `xml:"RvslInd,omitempty"`
		Status      string      `xml:"Sts>Cd"`
		Booked      camtDate    `xml:"BookgDt"`
		Valued      camtDate    `xml:"ValDt"`
		ServicerRef string      `xml:"AcctSvcrRef"`
		Code        camtCode    `xml:"BkTxCd>Prtry"`
		Details     camtDetails `xml:"NtryDtls>TxDtls"`
		Info        string      `xml:"AddtlNtryInf"`
	}
	camtCode struct {
		Code   string `xml:"Cd"`
		Issuer string `xml:"Issr"`
	}
	camtDetails struct {
		Ref       string      `xml:"Refs>AcctSvcrRef"`
		EndToEnd  string      `xml:"Refs>EndToEndId,omitempty"`
		Amount    camtAmount  `xml:"Amt"`
		Direction string      `xml:"CdtDbtInd"`
		Parties   camtParties `xml:"RltdPties"`
		Memo      *camtMemo   `xml:"RmtInf"`
		At        string      `xml:"RltdDts>TxDtTm"`
	}
	camtMemo struct {
		Pieces []string `xml:"Ustrd"`
	}
	camtParties struct {
		Debtor          *camtParty        `xml:"Dbtr>Pty"`
		DebtorAccount   *camtOtherAccount `xml:"DbtrAcct"`
		Creditor        *camtParty        `xml:"Cdtr>Pty"`
		CreditorAccount *camtOtherAccount `xml:"CdtrAcct"`
	}
	camtParty struct {
		Name string `xml:"Nm"`
	}
	camtOtherAccount struct {
		ID string `xml:"Id>Othr>Id"`
	}
)
