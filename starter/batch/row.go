package batch

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"regexp"
	"strings"
	"unicode/utf8"

	"payonce/workflows"
)

// columns are those of a file. All but the last are required.
var columns = []string{"id", "from", "to", "amount", "asset", "memo"}

const columnsRequired = 5

// row is a line of a file: a value for each of columns.
type row struct {
	line   int // where it begins, from 1
	values [6]string
}

func (r *row) input() workflows.TransferInput {
	return workflows.TransferInput{ID: r.values[0], From: r.values[1], To: r.values[2], Amount: r.values[3], Asset: r.values[4], Memo: r.values[5]}
}

// check says what is wrong with a row, and how to put it right; or returns the transfer that it asks for, spelt out.
func (r *row) check() (in workflows.TransferInput, parsed workflows.ParsedTransfer, reason string) {
	for i, value := range r.values {
		if !utf8.ValidString(value) {
			return in, parsed, columns[i] + ": it is not UTF-8: save the file as UTF-8"
		}
		if strings.ContainsRune(value, utf8.RuneError) {
			return in, parsed, columns[i] + ": it contains U+FFFD, which programs write for what they could not read: go back to the file that this one was made from"
		}
	}
	if reason := r.leftOver(); reason != "" {
		return in, parsed, reason
	}
	if spreadsheetNumber.MatchString(r.values[0]) {
		return in, parsed, fmt.Sprintf("id: %q is a number that a spreadsheet has shortened, so that IDs are lost: format the column as text, and fill it again", r.values[0])
	}
	in = r.input()
	parsed, err := workflows.ParseTransfer(in)
	if err != nil {
		return in, parsed, err.Error() + r.hint()
	}
	in.From, in.To = parsed.From.String(), parsed.To.String()
	in.Amount, in.Asset = parsed.Amount.Format(parsed.Asset), parsed.Asset.String()
	return in, parsed, ""
}

// spreadsheetNumber is how spreadsheets write a long number: "1.23457E+11".
var spreadsheetNumber = regexp.MustCompile(`^[0-9]([.,][0-9]+)?E\+[0-9]+$`)

var totalWords = regexp.MustCompile(`(?i)^(sub-?|grand )?(total|totals|sum|summe|gesamt|somme|suma|totale|totaal)\b`)

// leftOver says whether a row is one that spreadsheets leave below the rows.
func (r *row) leftOver() string {
	empty := true
	for _, value := range r.values {
		if strings.TrimSpace(value) != "" {
			empty = false
		}
		if totalWords.MatchString(strings.TrimSpace(value)) && (r.values[1] == "" || r.values[2] == "") {
			return "it looks like a line of totals: take it out of the file, and give its amount with --total"
		}
	}
	switch {
	case empty:
		return "it has no values: spreadsheets write such lines for rows that were cleared; delete the rows themselves"
	case r.values[0] == "" && r.values[1] == "" && r.values[2] == "" && r.values[3] != "":
		return "it has an amount and nothing else, like a line of totals: take it out of the file, and give its amount with --total"
	default:
		return ""
	}
}

var (
	decimalComma  = regexp.MustCompile(`^-?[0-9]+,[0-9]{1,2}$`)
	groupedPoint  = regexp.MustCompile(`^-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$`)
	groupedComma  = regexp.MustCompile(`^-?[0-9]{1,3}(\.[0-9]{3})+,[0-9]+$`)
	groupedDots   = regexp.MustCompile(`^-?[0-9]{1,3}(\.[0-9]{3})+$`)
	groupedOther  = regexp.MustCompile(`^-?[0-9]{1,3}([ '’\x{a0}\x{202f}][0-9]{3})+([.,][0-9]+)?$`)
	withCurrency  = regexp.MustCompile(`^(\p{Sc}|[A-Z]{3}) ?[0-9.,]+$|^[0-9.,]+ ?(\p{Sc}|[A-Z]{3})$`)
	accountingNeg = regexp.MustCompile(`^\(.*\)$|^-|-$`)
)

// hint says what to do about a value that people often have.
func (r *row) hint() string {
	amount := r.values[3]
	switch {
	case decimalComma.MatchString(amount):
		return "; is the comma a decimal comma? Write a point: " + strings.ReplaceAll(amount, ",", ".")
	case groupedPoint.MatchString(amount):
		return "; leave out the separators of thousands: " + strings.ReplaceAll(amount, ",", "")
	case groupedComma.MatchString(amount):
		return "; leave out the separators of thousands, and write a decimal point: " + strings.ReplaceAll(strings.ReplaceAll(amount, ".", ""), ",", ".")
	case groupedDots.MatchString(amount):
		return "; if the point separates thousands, leave it out: " + strings.ReplaceAll(amount, ".", "")
	case groupedOther.MatchString(amount):
		return "; leave out the separators of thousands, and write a decimal point"
	case withCurrency.MatchString(amount):
		return "; the currency belongs into the column asset"
	case spreadsheetNumber.MatchString(amount):
		return "; a spreadsheet has shortened it: format the column as a number with all its digits"
	case accountingNeg.MatchString(amount):
		return "; money is moved from one account to another and never the other way: swap from and to"
	}
	for _, value := range r.values[:5] {
		if strings.TrimSpace(value) != value {
			return "; there are blanks before or after a value: take them out"
		}
	}
	return ""
}

// hasher hashes rows.
type hasher struct {
	hash hash.Hash
	text []byte
}

// sum is the hash of some texts, each with its length before it.
func (h *hasher) sum(texts ...string) [sha256.Size]byte {
	h.text = h.text[:0]
	for _, text := range texts {
		h.text = binary.BigEndian.AppendUint32(h.text, uint32(len(text))) //nolint:gosec // rows are far shorter
		h.text = append(h.text, text...)
	}
	h.hash.Reset()
	h.hash.Write(h.text)
	var sum [sha256.Size]byte
	h.hash.Sum(sum[:0])
	return sum
}

// route is where the money of a row goes, by ledgers. Rows of one route are chunks of their own, so that those within a ledger
// are posted together.
type route struct{ from, to string }

func routeOf(parsed *workflows.ParsedTransfer) route {
	return route{from: parsed.From.Ledger, to: parsed.To.Ledger}
}

func (r route) compare(other route) int {
	if c := strings.Compare(r.from, other.from); c != 0 {
		return c
	}
	return strings.Compare(r.to, other.to)
}
