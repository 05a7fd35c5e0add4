package batch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"payonce/ledger"
	"payonce/workflows"
)

// linesShownMax bounds the rows that are kept to be shown.
const linesShownMax = 100

// idHexDigits is how long a batch's ID is: 160 bits, beyond what anybody can make two files meet in.
const idHexDigits = 40

// settle finds what only shows when all rows are known: which of them are one, what the batch is, and its chunks.
func (r *reading) settle() error {
	if err := r.settleIDs(); err != nil {
		return err
	}
	r.findAlike()
	slices.SortFunc(r.entries, func(a, b entry) int {
		if a.route != b.route {
			return r.routes[a.route].compare(r.routes[b.route])
		}
		return bytes.Compare(a.row[:], b.row[:])
	})
	r.Rows = len(r.entries)
	r.identify()
	// From now on only the places are needed, which are a fifth of it.
	r.kept = make([]place, len(r.entries))
	for i := range r.entries {
		r.kept[i] = r.entries[i].place
	}
	r.entries = nil
	r.Divide(r.chunkRows, ChunkBytes)
	for asset, sum := range r.amounts {
		r.Totals = append(r.Totals, workflows.AssetAmount{Asset: asset.String(), Amount: sum.Format(asset)})
	}
	slices.SortFunc(r.Totals, func(a, b workflows.AssetAmount) int { return cmp.Compare(a.Asset, b.Asset) })
	slices.SortStableFunc(r.Bad, func(a, b BadRow) int { return cmp.Compare(a.Line, b.Line) })
	return nil
}

// settleIDs keeps one row of each ID. More with the same content are one payment; with another content nobody can tell which is
// meant, so that none is good.
func (r *reading) settleIDs() error {
	slices.SortFunc(r.entries, func(a, b entry) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.line, b.line))
	})
	kept := r.entries[:0]
	for from := 0; from < len(r.entries); {
		to := from + 1
		same := true
		for ; to < len(r.entries) && r.entries[to].id == r.entries[from].id; to++ {
			same = same && r.entries[to].row == r.entries[from].row
		}
		first := r.entries[from]
		for _, e := range r.entries[from+1 : to] {
			if same {
				r.Repeats++
				r.Repeated = note(r.Repeated, first.line, e.line)
			} else {
				r.bad(int(e.line), fmt.Sprintf("id: it is that of line %d, with another content: one of them is wrong, and neither is good until that is settled", first.line))
			}
			if err := r.drop(&e); err != nil {
				return err
			}
		}
		if same {
			kept = append(kept, first)
		} else {
			r.bad(int(first.line), fmt.Sprintf("id: it is there again, with another content, in line %d: one of them is wrong, and neither is good until that is settled", r.entries[from+1].line))
			if err := r.drop(&first); err != nil {
				return err
			}
		}
		from = to
	}
	r.entries = kept
	slices.SortFunc(r.Repeated, func(a, b Lines) int { return cmp.Compare(a.Line, b.Line) })
	return nil
}

// drop takes the amount of a row that is not sent out of the totals.
func (r *reading) drop(e *entry) error {
	if err := r.out.Flush(); err != nil {
		return err
	}
	in, err := r.read(&e.place)
	if err != nil {
		return err
	}
	parsed, err := workflows.ParseTransfer(in)
	if err != nil {
		return err
	}
	// What was added can be taken away.
	r.amounts[parsed.Asset], _ = r.amounts[parsed.Asset].Sub(parsed.Amount)
	if r.amounts[parsed.Asset].Sign() == 0 {
		delete(r.amounts, parsed.Asset)
	}
	return nil
}

// findAlike finds rows that look like another one. It leaves the entries in another order.
func (r *reading) findAlike() {
	slices.SortFunc(r.entries, func(a, b entry) int { return cmp.Or(cmp.Compare(a.look, b.look), cmp.Compare(a.line, b.line)) })
	for i := 1; i < len(r.entries); i++ {
		first := i - 1
		for ; i < len(r.entries) && r.entries[i].look == r.entries[first].look; i++ {
			r.AlikeRows++
			r.Alike = note(r.Alike, r.entries[first].line, r.entries[i].line)
		}
	}
	slices.SortFunc(r.Alike, func(a, b Lines) int { return cmp.Compare(a.Line, b.Line) })
}

func note(lines []Lines, first, line uint32) []Lines {
	if len(lines) == linesShownMax {
		return lines
	}
	return append(lines, Lines{First: int(first), Line: int(line)})
}

// identify makes the batch's ID.
func (r *reading) identify() {
	if len(r.entries) == 0 {
		return
	}
	whole := sha256.New()
	for i := range r.entries {
		whole.Write(r.entries[i].row[:])
	}
	r.ID = hex.EncodeToString(whole.Sum(nil))[:idHexDigits]
}

// Divide divides the rows into chunks: of one route each, of rows at most, and, unless one row alone has more, of bytes at most.
// Read has divided them already; a batch that was begun otherwise goes on as it was begun.
func (f *File) Divide(rows, bytes int) {
	f.chunkRows, f.chunkBytes = rows, bytes
	f.chunks = nil
	size := 0
	for i := range f.kept {
		e := &f.kept[i]
		last := len(f.chunks) - 1
		if last < 0 || i-f.chunks[last].from == rows || size+int(e.size) > bytes || e.route != f.kept[i-1].route {
			f.chunks = append(f.chunks, span{from: i, to: i})
			last++
			size = 0
		}
		f.chunks[last].to = i + 1
		size += int(e.size) + 1
	}
}

// Batch is the batch that the good rows are.
func (f *File) Batch() workflows.BatchInput {
	return workflows.BatchInput{
		ID: f.ID, Rows: f.Rows, Totals: f.Totals, Alike: f.AlikeRows,
		Chunks: len(f.chunks), ChunkRows: f.chunkRows, ChunkBytes: f.chunkBytes,
	}
}

// Chunk reads the rows of a chunk. It may be called by several goroutines at once.
func (f *File) Chunk(n int) ([]workflows.TransferInput, error) {
	chunk := f.kept[f.chunks[n].from:f.chunks[n].to]
	transfers := make([]workflows.TransferInput, len(chunk))
	for i := range chunk {
		var err error
		if transfers[i], err = f.read(&chunk[i]); err != nil {
			return nil, err
		}
	}
	return transfers, nil
}

// ChunkSize is the number of rows of a chunk.
func (f *File) ChunkSize(n int) int { return f.chunks[n].to - f.chunks[n].from }

// Total is the sum of an asset.
func (f *File) Total(asset ledger.Asset) ledger.Amount { return f.amounts[asset] }

func (f *File) read(e *place) (in workflows.TransferInput, err error) {
	text := make([]byte, e.size)
	if _, err := f.spool.ReadAt(text, e.offset); err != nil {
		return in, fmt.Errorf("read the rows kept in %s: %w", f.spool.Name(), err)
	}
	return in, json.Unmarshal(text, &in)
}
