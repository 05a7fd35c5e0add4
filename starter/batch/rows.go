package batch

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// rowBytesMax bounds a row, so that a quote that is missing does not make one of the whole file.
const rowBytesMax = 1 << 20

// rows reads the rows of a file.
type rows interface {
	// next returns the next row, io.EOF after the last, or a *badRowError, after which it can be called again unless that is the
	// end. Any other error is one of reading.
	next() (*row, error)
}

// badRowError is a row that can't be read.
type badRowError struct {
	BadRow

	end bool // nothing can be read after it
}

func (e *badRowError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

const asCSV = `save it as "CSV UTF-8 (comma delimited)"`

// known are files that people take for batch files, by how they begin.
var known = []struct{ begin, what string }{
	{"PK\x03\x04", "it is a spreadsheet or an archive, not a text: " + asCSV},
	{"\xd0\xcf\x11\xe0", "it is a spreadsheet of an old Excel, not a text: " + asCSV},
	{"\x1f\x8b", "it is compressed (gzip): unpack it, or pipe it in: gunzip -c FILE | starter batch submit -"},
	{"%PDF", "it is a PDF, not a text"},
	{"\xff\xfe", "it is UTF-16, which spreadsheets call Unicode text: " + asCSV},
	{"\xfe\xff", "it is UTF-16, which spreadsheets call Unicode text: " + asCSV},
}

const byteOrderMark = "\xef\xbb\xbf"

// open finds out what a file is: JSON Lines begin with an object, and everything else is CSV.
func open(file io.Reader) (rows, error) {
	in := bufio.NewReaderSize(file, 64<<10)
	begin, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, k := range known {
		if bytes.HasPrefix(begin, []byte(k.begin)) {
			return nil, &FormatError{Reason: k.what}
		}
	}
	if bytes.IndexByte(begin, 0) >= 0 {
		return nil, &FormatError{Reason: "it has NUL bytes: it is UTF-16 without a mark, or no text at all: " + asCSV}
	}
	// Spreadsheets mark UTF-8 so. It is no part of the first column's name.
	if bytes.HasPrefix(begin, []byte(byteOrderMark)) {
		begin = begin[len(byteOrderMark):]
		if _, err := in.Discard(len(byteOrderMark)); err != nil {
			return nil, err
		}
	}
	text := bytes.TrimLeft(begin, " \t\r\n")
	switch {
	case len(text) == 0:
		return nil, &FormatError{Reason: "it is empty"}
	case text[0] == '{':
		return newJSONRows(in), nil
	case text[0] == '[':
		return nil, &FormatError{Reason: "it is a JSON array: write one object a line, without the brackets and the commas between (JSON Lines)"}
	case bytes.IndexByte(text, '\r') >= 0 && bytes.IndexByte(begin, '\n') < 0 && len(text) > bytes.IndexByte(text, '\r')+1:
		return nil, &FormatError{Reason: "its lines end with CR alone, as on old Macs: " + asCSV}
	case text[0] == '<':
		return nil, &FormatError{Reason: "it is XML or HTML: batch files are CSV or JSON Lines"}
	default:
		return newCSVRows(in)
	}
}

// csvRows reads CSV as RFC 4180 has it, with a header.
type csvRows struct {
	in     *bounded
	csv    *csv.Reader
	order  []int // the place of each field in a row
	fields int
	line   int // where the last row that could be read began
}

// bounded is a reader of which only so much may be read for a row.
type bounded struct {
	in   io.Reader
	left int
}

var errTooLong = errors.New("too long")

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func newCSVRows(in *bufio.Reader) (*csvRows, error) {
	r := &csvRows{in: &bounded{in: in, left: rowBytesMax}}
	r.csv = csv.NewReader(r.in)
	r.csv.FieldsPerRecord = -1
	r.csv.ReuseRecord = true
	header, err := r.csv.Read()
	var parse *csv.ParseError
	if errors.As(err, &parse) || errors.Is(err, errTooLong) {
		return nil, &FormatError{Reason: "its first line is not a line of CSV that names the columns: " + err.Error()}
	}
	if err != nil {
		return nil, err
	}
	if reason := r.readHeader(header); reason != "" {
		return nil, &FormatError{Reason: reason}
	}
	return r, nil
}

const headerWanted = `the first line must be: id,from,to,amount,asset,memo`

// readHeader learns where the columns are, or says what is wrong.
func (r *csvRows) readHeader(header []string) (reason string) {
	line := strings.Join(header, ",")
	switch {
	case strings.HasPrefix(line, "sep="):
		return "its first line tells Excel the separator: take it out; " + headerWanted
	case !utf8.ValidString(line):
		return "it is not UTF-8: " + asCSV
	case len(header) == 1 && strings.ContainsRune(line, ';'):
		return "its columns are separated by semicolons, as spreadsheets write where the comma is a decimal comma: separate them by commas, and write amounts with a point: 10.50"
	case len(header) == 1 && strings.ContainsAny(line, "\t|"):
		return "its columns are separated by tabs or bars: separate them by commas"
	}
	r.fields, r.line = len(header), 1
	for i, name := range header {
		at := slices.Index(columns, name)
		if at < 0 {
			return fmt.Sprintf("column %d is %q, which is not one of %s%s", i+1, name, strings.Join(columns, ", "), headerHint(header, name))
		}
		if slices.Contains(r.order, at) {
			return fmt.Sprintf("the column %q is there twice", name)
		}
		r.order = append(r.order, at)
	}
	for at, name := range columns[:columnsRequired] {
		if !slices.Contains(r.order, at) {
			return fmt.Sprintf("there is no column %q: %s", name, headerWanted)
		}
	}
	return ""
}

func headerHint(header []string, name string) string {
	if tidy := strings.ToLower(strings.TrimSpace(name)); slices.Contains(columns, tidy) {
		return ": write it " + tidy
	}
	for _, name := range header {
		if slices.Contains(columns, name) {
			return ": take it out"
		}
	}
	return ": " + headerWanted
}

func (r *csvRows) next() (*row, error) {
	r.in.left = rowBytesMax
	record, err := r.csv.Read()
	var parse *csv.ParseError
	switch {
	case errors.Is(err, errTooLong):
		return nil, &badRowError{BadRow{r.line + 1, "in or after this line there are more than 1 MB without an end of the row: is a closing quote missing?"}, true}
	case errors.As(err, &parse):
		r.line = parse.StartLine
		return nil, &badRowError{BadRow{r.line, csvReason(parse)}, false}
	case err != nil:
		return nil, err
	}
	r.line, _ = r.csv.FieldPos(0)
	if len(record) != r.fields {
		return nil, &badRowError{BadRow{r.line, fmt.Sprintf("it has %d fields, and the header has %d: a value with a comma must be in quotes", len(record), r.fields)}, false}
	}
	got := &row{line: r.line}
	for i, at := range r.order {
		got.values[at] = record[i]
	}
	return got, nil
}

func csvReason(err *csv.ParseError) string {
	switch {
	case errors.Is(err.Err, csv.ErrBareQuote):
		return fmt.Sprintf("there is a quote inside a value, in column %d of line %d: put the value in quotes, and double the quotes in it", err.Column, err.Line)
	case errors.Is(err.Err, csv.ErrQuote) && err.Line > err.StartLine:
		return fmt.Sprintf("a value in quotes begins here and does not end well before line %d: is a closing quote missing?", err.Line)
	case errors.Is(err.Err, csv.ErrQuote):
		return fmt.Sprintf("a value in quotes does not end well, at column %d: double the quotes in it, and close it", err.Column)
	default:
		return err.Err.Error()
	}
}

// jsonRows reads JSON Lines: one object a line.
type jsonRows struct {
	lines *bufio.Scanner
	line  int
}

func newJSONRows(in *bufio.Reader) *jsonRows {
	r := &jsonRows{lines: bufio.NewScanner(in)}
	r.lines.Buffer(make([]byte, 64<<10), rowBytesMax)
	return r
}

func (r *jsonRows) next() (*row, error) {
	for r.lines.Scan() {
		r.line++
		if len(bytes.TrimSpace(r.lines.Bytes())) == 0 {
			continue
		}
		got, reason := readObject(r.lines.Bytes())
		if reason != "" {
			return nil, &badRowError{BadRow{r.line, reason}, false}
		}
		got.line = r.line
		return got, nil
	}
	err := r.lines.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, &badRowError{BadRow{r.line + 1, "it has more than 1 MB: JSON Lines have one object a line"}, true}
	case err != nil:
		return nil, err
	default:
		return nil, io.EOF
	}
}

// readObject reads a row that is a JSON object. encoding/json by itself would let pass a field that is misspelt, or there twice.
func readObject(line []byte) (got *row, reason string) {
	if !utf8.Valid(line) {
		return nil, "it is not UTF-8: save the file as UTF-8"
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, "it is not a JSON object: JSON Lines have one object a line, without commas between the lines"
	}
	got = &row{}
	var seen [6]bool
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, notJSON(err)
		}
		name, _ := token.(string)
		at := slices.Index(columns, name)
		switch {
		case at < 0:
			return nil, fmt.Sprintf("there is no field %q: the fields are %s", name, strings.Join(columns, ", "))
		case seen[at]:
			return nil, fmt.Sprintf("the field %q is there twice", name)
		}
		seen[at] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, notJSON(err)
		}
		if value[0] != '"' {
			return nil, name + ": it must be a string in quotes, also an amount, so that no program rounds it"
		}
		if err := json.Unmarshal(value, &got.values[at]); err != nil {
			return nil, notJSON(err)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, notJSON(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, "there is something after the object: JSON Lines have one object a line"
	}
	for at, name := range columns[:columnsRequired] {
		if !seen[at] {
			return nil, fmt.Sprintf("there is no field %q", name)
		}
	}
	return got, ""
}

func notJSON(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it is not a whole JSON object: JSON Lines have one object a line"
	}
	return "it is not JSON: " + err.Error()
}
