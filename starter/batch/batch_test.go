package batch_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
	"payonce/starter/batch"
	"payonce/workflows"
)

func readFile(t *testing.T, name string, options batch.Options) (*batch.File, error) {
	t.Helper()
	in, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer in.Close()
	return batch.Read(t.Context(), in, options)
}

// read reads a text that is a batch file.
func read(t testing.TB, text string, options batch.Options) *batch.File {
	t.Helper()
	file, err := batch.Read(t.Context(), strings.NewReader(text), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return file
}

// allRows are the rows of all chunks.
func allRows(t testing.TB, file *batch.File) []workflows.TransferInput {
	t.Helper()
	var all []workflows.TransferInput
	for n := range file.Batch().Chunks {
		chunk, err := file.Chunk(n)
		require.NoError(t, err)
		require.NotEmpty(t, chunk)
		all = append(all, chunk...)
	}
	return all
}

// The same rows are the same batch, whatever program has written them: case 57, a payment file that ran twice.
func TestSameRowsAreTheSameBatch(t *testing.T) {
	t.Parallel()
	ids := make(map[string]bool)
	for _, name := range []string{"good.csv", "good-excel-utf8.csv", "good-reordered.csv", "good.jsonl"} {
		file, err := readFile(t, name, batch.Options{})
		require.NoError(t, err, name)
		require.Empty(t, file.Bad, name)
		require.Equal(t, 3, file.Rows)
		require.Equal(t, []workflows.AssetAmount{{Asset: "USD/2", Amount: "4330.50"}}, file.Totals)
		require.ElementsMatch(t, []workflows.TransferInput{
			{ID: "salary-1", From: "us/payroll", To: "us/alice", Amount: "1250.00", Asset: "USD/2", Memo: "March"},
			{ID: "salary-2", From: "us/payroll", To: "us/bob", Amount: "980.50", Asset: "USD/2", Memo: "March, part-time"},
			{ID: "salary-3", From: "us/payroll", To: "us/carol", Amount: "2100.00", Asset: "USD/2"},
		}, allRows(t, file), name)
		ids[file.ID] = true
		require.NoError(t, file.Close())
	}
	require.Len(t, ids, 1)
}

const header = "id,from,to,amount,asset,memo\n"

// Whatever changes a payment makes another batch.
func TestOtherRowsAreAnotherBatch(t *testing.T) {
	t.Parallel()
	ids := make(map[string]string)
	for _, rows := range []string{
		"a,x,y,1,USD,m\nb,x,y,1,USD,m\n", "a,x,y,1,USD,m\n", "a,x,y,1,USD,m\nc,x,y,1,USD,m\n", "a,x,y,1,USD,m\nb,x,y,2,USD,m\n",
		"a,x,y,1,USD,m\nb,x,y,1,EUR,m\n", "a,x,y,1,USD,m\nb,x,z,1,USD,m\n", "a,x,y,1,USD,m\nb,eu/x,eu/y,1,USD,m\n", "a,x,y,1,USD,m\nb,x,y,1,USD,n\n",
		"a,x,y,1,USD,m\nb,x,y,1,USD,\n", "a,xy,y,1,USD,m\nb,x,y,1,USD,m\n",
	} {
		file := read(t, header+rows, batch.Options{})
		require.Zero(t, file.BadRows, "%v", file.Bad)
		require.Empty(t, ids[file.ID], rows)
		ids[file.ID] = rows
	}
	same := read(t, header+"b,main/x,y,1.00,USD/2,m\na,x,y,1,USD,m\na,x,y,1.0,USD,m\n", batch.Options{})
	require.NotEmpty(t, ids[same.ID], "order, spelling and rows that are there again don't count")
}

// Files that are no batch files: what is wrong, and what to do.
func TestFormats(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"array.json":             "JSON array: write one object a line",
		"bank-columns.csv":       `column 7 is "IBAN"`,
		"compressed.csv.gz":      "gunzip",
		"empty.csv":              "it is empty",
		"excel-semicolons.csv":   "separated by semicolons",
		"excel-sep.csv":          "tells Excel the separator: take it out",
		"excel-unicode-text.txt": "it is UTF-16",
		"header-capitals.csv":    `column 1 is "ID", which is not one of id, from, to, amount, asset, memo: write it id`,
		"missing-column.csv":     `there is no column "asset"`,
		"no-header.csv":          "the first line must be: id,from,to,amount,asset,memo",
		"old-mac.csv":            "CR alone",
		"old-workbook.xls":       `save it as "CSV UTF-8`,
		"pain001.xml":            "it is XML",
		"tabs.tsv":               "separated by tabs",
		"utf16-no-mark.csv":      "NUL bytes",
		"workbook.xlsx":          `a spreadsheet or an archive, not a text: save it as "CSV UTF-8`,
	} {
		_, err := readFile(t, name, batch.Options{})
		var format *batch.FormatError
		require.ErrorAs(t, err, &format, name)
		require.ErrorContains(t, err, want, name)
	}
}

// Bad rows are told by the lines that a text editor shows, each with its reason and what to do; the others are good.
func TestBadRows(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"bad-rows.csv": {
			"3: Write a point: 10.50", "4: separators of thousands: 1250.00", "5: decimal point: 1250.00", "6: leave it out: 1250",
			"7: leave out the separators of thousands", "8: belongs into the column asset", "9: belongs into the column asset",
			"10: swap from and to", "11: swap from and to", "12: JPY/0 has 0", "13: above zero", "14: a spreadsheet has shortened",
			"15: a spreadsheet has shortened", "16: take them out", "17: it has 7 fields, and the header has 6", "18: double the quotes",
			"19: also the account to pay from", "20: an asset is required", "21: id: it is required", "24: \"ten\" is not",
			"25: it has no values", "26: a line of totals", "27: a line of totals",
		},
		"bad-rows.jsonl": {
			"2: it must be a string in quotes", "3: \"ammount\"", "4: \"From\"", "5: \"amount\" is there twice", "6: there is no field \"amount\"",
			"7: it must be a string in quotes", "8: something after the object", "9: something after the object", "10: not a whole JSON object",
			"11: not a JSON object",
		},
		"excel-windows-1252.csv": {"2: memo: it is not UTF-8"},
		"unclosed-quote.csv":     {"3: is a closing quote missing?"},
		"ids.csv":                {"3: line 6", "6: line 3", "9: line 10", "10: line 9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := readFile(t, name, batch.Options{})
			require.NoError(t, err)
			defer file.Close()
			require.Len(t, file.Bad, len(want), "%v", file.Bad)
			require.Equal(t, len(want), file.BadRows)
			for i, bad := range file.Bad {
				line, reason, _ := strings.Cut(want[i], ": ")
				require.Equal(t, line, fmt.Sprint(bad.Line), "%+v", bad)
				require.Contains(t, bad.Reason, reason)
			}
			require.Len(t, allRows(t, file), file.Rows)
		})
	}
}

// An ID that is there again with the same content is one payment; rows that look alike under other IDs are as many (case 63).
func TestIDs(t *testing.T) {
	t.Parallel()
	file, err := readFile(t, "ids.csv", batch.Options{})
	require.NoError(t, err)
	defer file.Close()
	require.Equal(t, 4, file.Rows)
	require.Equal(t, []workflows.AssetAmount{{Asset: "USD/2", Amount: "40.00"}}, file.Totals)
	require.Equal(t, []batch.Lines{{First: 2, Line: 4}}, file.Repeated)
	require.Equal(t, []batch.Lines{{First: 5, Line: 7}}, file.Alike)
	var ids []string
	for _, in := range allRows(t, file) {
		ids = append(ids, in.ID)
	}
	require.ElementsMatch(t, []string{"same", "alike-1", "alike-2", "alike-3"}, ids)
}

// What has no good row has no batch, and no totals.
func TestNoGoodRow(t *testing.T) {
	t.Parallel()
	file := read(t, header+"a,x,y,1,USD,\na,x,y,2,USD,\n", batch.Options{})
	require.Empty(t, file.ID)
	require.Zero(t, file.Rows)
	require.Empty(t, file.Totals)
	require.Equal(t, 2, file.BadRows)
}

// Case 56 (Citi, 2025): a cap for each transfer.
func TestMaxTransfer(t *testing.T) {
	t.Parallel()
	usd, err := ledger.ParseAsset("USD")
	require.NoError(t, err)
	file := read(t, header+"a,x,y,10,USD,\nb,x,y,10.01,USD,\nc,x,y,5000,JPY,\n", batch.Options{
		MaxTransfer: map[ledger.Asset]ledger.Amount{usd: ledger.AmountFromUnits(1000)},
	})
	require.Equal(t, 2, file.Rows)
	require.Len(t, file.Bad, 1)
	require.Equal(t, 3, file.Bad[0].Line)
	require.Contains(t, file.Bad[0].Reason, "which is 10.00")
}

// A total that no amount can hold is told by the row that is too much.
func TestTotalTooLarge(t *testing.T) {
	t.Parallel()
	most := strings.Repeat("9", ledger.AmountDigitsMax)
	file := read(t, header+"a,x,y,"+most+",P/0,\nb,x,y,1,P/0,\n", batch.Options{})
	require.Equal(t, 1, file.Rows)
	require.Contains(t, file.Bad[0].Reason, "more digits")
}

// Chunks have rows of one route each, so that those within a ledger are posted together; they follow from the rows alone, and
// have all of them once.
func TestChunks(t *testing.T) {
	t.Parallel()
	var rows []string
	for i := range 500 {
		route := [][2]string{{"us/a", "us/b"}, {"eu/a", "eu/b"}, {"us/a", "eu/b"}}[i%3]
		rows = append(rows, fmt.Sprintf("row-%d,%s,%s,1,USD,%s\n", i, route[0], route[1], strings.Repeat("m", i%900)))
	}
	file := read(t, header+strings.Join(rows, ""), batch.Options{ChunkRows: 40})
	rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	shuffled := read(t, header+strings.Join(rows, ""), batch.Options{ChunkRows: 40})
	require.Equal(t, file.Batch(), shuffled.Batch())
	seen := make(map[string]bool)
	for n := range file.Batch().Chunks {
		chunk, err := file.Chunk(n)
		require.NoError(t, err)
		require.LessOrEqual(t, len(chunk), 40)
		for _, in := range chunk {
			require.Equal(t, [2]string{chunk[0].From, chunk[0].To}, [2]string{in.From, in.To})
			require.False(t, seen[in.ID])
			seen[in.ID] = true
		}
		again, err := shuffled.Chunk(n)
		require.NoError(t, err)
		require.Equal(t, chunk, again)
	}
	require.Len(t, seen, 500)

	file.Divide(1_000, 20_000)
	require.Greater(t, file.Batch().Chunks, 8)
	for n := range file.Batch().Chunks {
		chunk, err := file.Chunk(n)
		require.NoError(t, err)
		size := 0
		for _, in := range chunk {
			size += len(in.Memo)
		}
		require.Less(t, size, 20_000)
	}
	require.Len(t, allRows(t, file), 500)
}

// endless never ends, and counts what is read of it.
type endless struct {
	begin io.Reader
	fill  byte
	read  int
}

func (e *endless) Read(p []byte) (int, error) {
	n, err := e.begin.Read(p)
	if err != nil {
		n = len(p)
		copy(p, bytes.Repeat([]byte{e.fill}, n))
	}
	e.read += n
	return n, nil
}

// A quote that is never closed, or a line that never ends, does not make a row of the whole file.
func TestRowsAreBounded(t *testing.T) {
	t.Parallel()
	for _, begin := range []string{header + "a,x,y,1,USD,\n\"b,x", "{\"id\":\"a\",\"from\":\"x\",\"to\":\"y\",\"amount\":\"1\",\"asset\":\"USD\"}\n{\"id\":\""} {
		in := &endless{begin: strings.NewReader(begin), fill: 'x'}
		file, err := batch.Read(t.Context(), in, batch.Options{})
		require.NoError(t, err)
		defer file.Close()
		require.Equal(t, 1, file.Rows)
		require.Len(t, file.Bad, 1)
		require.Equal(t, strings.Count(begin, "\n")+1, file.Bad[0].Line, "%+v", file.Bad)
		require.Less(t, in.read, 4<<20)
	}
}

// What a File was read from may change: what is sent is what was checked. Nothing is left behind.
func TestFileIsKept(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	path := filepath.Join(t.TempDir(), "rows.csv")
	require.NoError(t, os.WriteFile(path, []byte(header+"a,x,y,1,USD,\n"), 0o600))
	in, err := os.Open(path)
	require.NoError(t, err)
	defer in.Close()
	file, err := batch.Read(t.Context(), in, batch.Options{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(header+"a,x,y,9,USD,\n"), 0o600))
	require.Equal(t, "1.00", allRows(t, file)[0].Amount)
	require.NoError(t, file.Close())
	_, err = batch.Read(t.Context(), strings.NewReader("<xml/>"), batch.Options{})
	require.Error(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Whatever is in a file, reading it ends, and what it takes for good is what a workflow takes for good, as often as it counts.
func FuzzRead(f *testing.F) {
	names, err := filepath.Glob(filepath.Join("testdata", "*.*"))
	require.NoError(f, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := batch.Read(t.Context(), bytes.NewReader(text), batch.Options{ChunkRows: 3})
		if err != nil {
			var format *batch.FormatError
			require.ErrorAs(t, err, &format)
			require.NotEmpty(t, format.Reason)
			return
		}
		defer file.Close()
		rows := allRows(t, file)
		require.Len(t, rows, file.Rows)
		require.Equal(t, file.Rows == 0, file.ID == "")
		seen := make(map[string]bool)
		for _, in := range rows {
			_, err := workflows.ParseTransfer(in)
			require.NoError(t, err)
			require.False(t, seen[in.ID])
			seen[in.ID] = true
		}
		for _, bad := range file.Bad {
			require.Positive(t, bad.Line)
			require.LessOrEqual(t, bad.Line, bytes.Count(text, []byte("\n"))+1)
			require.NotEmpty(t, bad.Reason)
		}
	})
}
