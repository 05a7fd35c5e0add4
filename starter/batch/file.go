package batch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"payonce/ledger"
	"payonce/workflows"
)

// The bounds of a chunk. Bigger chunks cost Temporal less for each row, up to what a payload may have.
const (
	ChunkRows  = workflows.GroupMax
	ChunkBytes = 400_000
)

// badShownMax bounds the bad rows that are kept to be shown.
const badShownMax = 1_000

// Options say how a file is read.
type Options struct {
	// MaxTransfer is the most that a row may move, by asset. An asset that is not named has no bound.
	MaxTransfer map[ledger.Asset]ledger.Amount
	// ChunkRows is how many rows make a chunk at most; 0: the constant of that name.
	ChunkRows int
}

// BadRow is a row that is not sent.
type BadRow struct {
	Line   int    `json:"line"` // in the file, from 1, where the row begins
	Reason string `json:"reason"`
}

// Lines are rows of a file that belong together, by their lines.
type Lines struct {
	First int `json:"first"`
	Line  int `json:"line"`
}

// File is the rows of a batch file that has been read. Close it.
type File struct {
	// ID is the batch's: it follows from the good rows. "" if there are none.
	ID     string
	Rows   int // good ones, each ID once
	Totals []workflows.AssetAmount

	Bad       []BadRow // in the order of lines; the first of them, if there are very many
	BadRows   int      // how many there are
	Repeated  []Lines  // rows that are there more than once, with one ID and one content; each is sent once. The first of them
	Repeats   int      // how many there are
	Alike     []Lines  // rows that look like another one under another ID. The first of them
	AlikeRows int      // how many there are

	spool *os.File
	// nameless: the spool has lost its name, so that nothing is left of it, whatever ends this process. Windows refuses that.
	nameless   bool
	kept       []place
	chunkRows  int
	chunkBytes int
	chunks     []span
	amounts    map[ledger.Asset]ledger.Amount
}

// place is where a row is in the spool.
type place struct {
	offset int64
	size   uint32
	route  uint32 // index of routes
}

// entry is what is known of a row in memory until all have been read.
type entry struct {
	place

	row  [sha256.Size]byte // of the whole content
	id   [16]byte          // of the ID
	look uint64            // of all but the ID
	line uint32
}

// span is a chunk: entries from and up to.
type span struct{ from, to int }

// reading is a file that is being read.
type reading struct {
	*File

	options Options
	entries []entry
	out     *bufio.Writer
	offset  int64
	hasher  hasher
	routes  []route
	found   map[route]uint32
}

// Read reads a batch file to its end. What is wrong with single rows is in the File; the error is about the file as a whole: it
// can't be read, or is no batch file, which is a *FormatError.
func Read(ctx context.Context, in io.Reader, options Options) (*File, error) {
	spool, err := os.CreateTemp("", "payonce-batch-*")
	if err != nil {
		return nil, err
	}
	f := &File{spool: spool, nameless: os.Remove(spool.Name()) == nil, amounts: make(map[ledger.Asset]ledger.Amount), chunkRows: options.ChunkRows}
	if f.chunkRows <= 0 || f.chunkRows > workflows.GroupMax {
		f.chunkRows = ChunkRows
	}
	r := reading{File: f, options: options, out: bufio.NewWriterSize(spool, 256<<10), found: make(map[route]uint32)}
	r.hasher.hash = sha256.New()
	err = r.readAll(ctx, in)
	if err == nil {
		err = r.out.Flush()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := r.settle(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// FormatError says that a file is no batch file, and what to do.
type FormatError struct{ Reason string }

func (e *FormatError) Error() string { return e.Reason }

// Close removes what was kept of the file.
func (f *File) Close() error {
	err := f.spool.Close()
	if f.nameless {
		return err
	}
	return errors.Join(err, os.Remove(f.spool.Name()))
}

func (r *reading) readAll(ctx context.Context, in io.Reader) error {
	rows, err := open(in)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if n%1_000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		got, err := rows.next()
		var bad *badRowError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad):
			r.bad(bad.Line, bad.Reason)
			if bad.end {
				return nil
			}
		case err != nil:
			return err
		default:
			if err := r.add(got); err != nil {
				return err
			}
		}
	}
}

func (f *File) bad(line int, reason string) {
	f.BadRows++
	if len(f.Bad) < badShownMax {
		f.Bad = append(f.Bad, BadRow{Line: line, Reason: reason})
	}
}

// add checks a row and keeps it if it is good.
func (r *reading) add(got *row) error {
	in, parsed, reason := got.check()
	if most, ok := r.options.MaxTransfer[parsed.Asset]; reason == "" && ok && parsed.Amount.Cmp(most) > 0 {
		reason = fmt.Sprintf("amount: %s %s is more than one transfer may move here, which is %s", in.Amount, in.Asset, most.Format(parsed.Asset))
	}
	if reason == "" && len(r.entries) == math.MaxUint32 {
		reason = "there are too many rows in this file"
	}
	if reason != "" {
		r.bad(got.line, reason)
		return nil
	}
	sum, ok := r.amounts[parsed.Asset].Add(parsed.Amount)
	if !ok {
		r.bad(got.line, fmt.Sprintf("amount: with it, the total of %s has more digits than an amount can have", in.Asset))
		return nil
	}
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if _, err := r.out.Write(text); err != nil {
		return fmt.Errorf("keep the rows in %s: %w", r.spool.Name(), err)
	}
	id := r.hasher.sum(in.ID)
	look := r.hasher.sum(in.From, in.To, in.Amount, in.Asset, in.Memo)
	e := entry{
		row:   r.hasher.sum(in.ID, in.From, in.To, in.Amount, in.Asset, in.Memo),
		look:  binary.BigEndian.Uint64(look[:8]),
		place: place{offset: r.offset, size: uint32(len(text)), route: r.routeOf(&parsed)}, //nolint:gosec // bounded by rowBytesMax
		line:  uint32(got.line),                                                            //nolint:gosec // bounded by what a file can have
	}
	copy(e.id[:], id[:])
	r.amounts[parsed.Asset] = sum
	r.offset += int64(len(text))
	r.entries = append(r.entries, e)
	return nil
}

func (r *reading) routeOf(parsed *workflows.ParsedTransfer) uint32 {
	of := routeOf(parsed)
	n, ok := r.found[of]
	if !ok {
		n = uint32(len(r.routes)) //nolint:gosec // far fewer
		r.found[of] = n
		r.routes = append(r.routes, of)
	}
	return n
}
