package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"payonce/starter/batch"
	"payonce/starter/transfers"
	"payonce/workflows"
)

// Where a batch stands.
const (
	batchChecked = "checked"  // its file is good, and was not to be sent
	batchNotSent = "not sent" // its file is not good, or not what it was said to be
	batchRunning = "running"
	batchStopped = "stopped" // its workflow was closed without an end, by somebody
	batchEnded   = "ended"
)

// batchView is a batch as it is printed.
type batchView struct {
	Batch   string                  `json:"batch,omitempty"`
	State   string                  `json:"state"`
	Reasons []string                `json:"reasons,omitempty"` // why it is not sent
	Rows    int                     `json:"rows"`
	Totals  []workflows.AssetAmount `json:"totals"`
	// Attached: it had been submitted before. Only submit knows.
	Attached *bool                  `json:"attached,omitempty"`
	Counts   *workflows.BatchCounts `json:"counts,omitempty"`
	// Going are rows that were tried and have not ended, some of them if there are many.
	Going []goingView `json:"going,omitempty"`
	Alike int         `json:"alike,omitempty"`
	// File is what was seen in the file. Only submit knows.
	File *batchFileView `json:"file,omitempty"`
}

// goingView is a row that has not ended.
type goingView struct {
	ID     string          `json:"id"`
	State  workflows.State `json:"state"`
	Detail string          `json:"detail,omitempty"`
}

// batchFileView is what was seen in a file.
type batchFileView struct {
	Name      string         `json:"name"`
	BadRows   int            `json:"bad_rows"`
	Bad       []batch.BadRow `json:"bad"`
	Repeats   int            `json:"repeats"`
	Repeated  []batch.Lines  `json:"repeated"`
	AlikeRows int            `json:"alike_rows"`
	Alike     []batch.Lines  `json:"alike"`
}

func fileView(name string, file *batch.File) batchView {
	return batchView{
		Batch: file.ID, Rows: file.Rows, Totals: append([]workflows.AssetAmount{}, file.Totals...), Alike: file.AlikeRows,
		File: &batchFileView{
			Name: name, BadRows: file.BadRows, Bad: append([]batch.BadRow{}, file.Bad...),
			Repeats: file.Repeats, Repeated: append([]batch.Lines{}, file.Repeated...),
			AlikeRows: file.AlikeRows, Alike: append([]batch.Lines{}, file.Alike...),
		},
	}
}

// stand takes over where the batch stands.
func (v *batchView) stand(status *transfers.BatchStatus) {
	v.State = batchRunning
	if status.Closed != 0 {
		v.State = batchStopped
	}
	if status.Result != nil {
		v.State, v.Totals, v.Alike = batchEnded, status.Result.Totals, status.Result.Alike
		v.Rows = status.Result.Counts.Rows
	} else if status.Batch.Rows > 0 {
		v.Rows, v.Totals, v.Alike = status.Batch.Rows, status.Batch.Totals, status.Batch.Alike
	}
	counts := status.Counts()
	v.Counts = &counts
	for i := range status.Going {
		going := &status.Going[i]
		view := goingView{ID: going.Request.ID, State: going.State, Detail: going.Detail}
		v.Going = append(v.Going, view)
	}
}

// reportBatch prints where a batch stands. Its error is the exit code.
func (a *app) reportBatch(view *batchView, code exitCode) error {
	if err := a.print(view, view.text); err != nil {
		return err
	}
	if code != exitDone {
		return &exitError{code: code}
	}
	return nil
}

func (v *batchView) text(w io.Writer) error {
	line := fmt.Sprintf("batch %s: %s", v.Batch, v.State)
	if v.Batch == "" {
		line = v.State
	}
	line += fmt.Sprintf(": %d rows", v.Rows)
	for _, total := range v.Totals {
		line += fmt.Sprintf(", %s %s", total.Amount, total.Asset)
	}
	if v.Attached != nil && *v.Attached {
		line += " (submitted before)"
	}
	if _, err := fmt.Fprintln(w, oneLine(line)); err != nil {
		return err
	}
	var rows [][]string
	add := func(name string, n int, more string) {
		if n > 0 {
			rows = append(rows, []string{name, strconv.Itoa(n), more})
		}
	}
	if c := v.Counts; c != nil {
		add("completed", c.Completed, amountsText(c.Arrived))
		add("rejected", c.Rejected, "nothing moved")
		add("failed", c.Failed, "nothing moved")
		add("compensated", c.Compensated, "the money is back")
		add("cancelled", c.Cancelled, "the money is where it was")
		add("discarded", c.Discarded, "settled outside")
		add("conflicts", c.Conflicts, "the ID is another payment's; nothing moved")
		add("invalid", c.Invalid, "nothing moved")
		add("running", c.Running, "")
		add("not tried yet", v.Rows-c.Rows, "")
		add("repeats", c.Repeats, "of these: a ledger had recorded them before")
	}
	add("look alike", v.Alike, "of these: the same payment under another ID, paid too")
	if v.File != nil {
		add("bad rows", v.File.BadRows, "beside these, not sent")
		add("repeated rows", v.File.Repeats, "beside these: the same row again in the file")
	}
	if err := (table{rows: rows, right: []int{1}, indent: "  "}).write(w); err != nil {
		return err
	}
	for _, going := range v.Going {
		text := fmt.Sprintf("  %s: %s", going.ID, going.State)
		if going.Detail != "" {
			text += ": " + going.Detail
		}
		if _, err := fmt.Fprintln(w, oneLine(text)); err != nil {
			return err
		}
	}
	return nil
}

func amountsText(amounts []workflows.AssetAmount) string {
	var parts []string
	for _, amount := range amounts {
		parts = append(parts, amount.Amount+" "+amount.Asset)
	}
	return strings.Join(parts, ", ")
}

// batchReport writes the rows of a batch.
type batchReport interface {
	begin(w io.Writer)
	row(row transfers.BatchRow) error
	end(missing int) error
}

// csvReport writes CSV.
type csvReport struct{ out *csv.Writer }

func (r *csvReport) begin(w io.Writer) {
	r.out = csv.NewWriter(w)
	// The writer keeps its first error for the end.
	_ = r.out.Write([]string{"id", "from", "to", "amount", "asset", "memo", "state", "code", "detail", "repeat", "at"})
}

func (r *csvReport) row(row transfers.BatchRow) error {
	view := reportRow(&row)
	at := ""
	if view.At != nil {
		at = view.At.UTC().Format(time.RFC3339Nano)
	}
	return r.out.Write([]string{
		view.ID, view.From, view.To, view.Amount, view.Asset, view.Memo,
		view.State, view.Code, view.Detail, strconv.FormatBool(view.Repeat), at,
	})
}

func (r *csvReport) end(int) error {
	r.out.Flush()
	return r.out.Error()
}

// jsonReport writes one document, a row a line, without ever having it all in memory.
type jsonReport struct {
	batch string
	rows  int
	out   *bufio.Writer
}

func (r *jsonReport) begin(w io.Writer) {
	r.out = bufio.NewWriter(w)
	// The writer keeps its first error for the end.
	_, _ = fmt.Fprintf(r.out, "{\n  \"batch\": %q,\n  \"rows\": [", r.batch)
}

func (r *jsonReport) row(row transfers.BatchRow) error {
	separator := ",\n    "
	if r.rows == 0 {
		separator = "\n    "
	}
	r.rows++
	text, err := json.Marshal(reportRow(&row))
	if err != nil {
		return err
	}
	_, _ = r.out.WriteString(separator)
	_, err = r.out.Write(text)
	return err
}

func (r *jsonReport) end(missing int) error {
	_, _ = fmt.Fprintf(r.out, "\n  ],\n  \"chunks_missing\": %d\n}\n", missing)
	return r.out.Flush()
}

// rowView is a row of a report.
type rowView struct {
	ID     string     `json:"id"`
	From   string     `json:"from"`
	To     string     `json:"to"`
	Amount string     `json:"amount"`
	Asset  string     `json:"asset"`
	Memo   string     `json:"memo,omitempty"`
	State  string     `json:"state"`
	Code   string     `json:"code,omitempty"`
	Detail string     `json:"detail,omitempty"`
	Repeat bool       `json:"repeat"`
	At     *time.Time `json:"at,omitempty"`
}

// The states of rows that have no end of a transfer.
const (
	rowConflict = "conflict"
	rowInvalid  = "invalid"
)

func reportRow(row *transfers.BatchRow) rowView {
	in, end := &row.Request, &row.End
	view := rowView{
		ID: in.ID, From: in.From, To: in.To, Amount: in.Amount, Asset: in.Asset, Memo: in.Memo,
		State: string(end.State), Code: string(end.Code), Detail: end.Detail, Repeat: end.Repeat,
	}
	switch end.Error {
	case "":
	case workflows.ErrorKeyConflict:
		view.State = rowConflict
		if view.Detail == "" {
			view.Detail = "the ID was used before, for a different request; nothing was moved now"
		}
	default:
		view.State = rowInvalid
	}
	if !end.At.IsZero() {
		view.At = &end.At
	}
	return view
}

// batchProgress shows how many rows have been tried: a bar on a terminal, and elsewhere a line now and then.
type batchProgress struct {
	app   *app
	all   int
	begun time.Time
	said  time.Time
	bar   *progressbar.ProgressBar
}

func (a *app) startBatchProgress(all int) *batchProgress {
	p := &batchProgress{app: a, all: all, begun: time.Now(), said: time.Now()}
	if file, ok := a.stderr.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.bar = progressbar.NewOptions(all, progressbar.OptionSetWriter(a.stderr), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"), progressbar.OptionSetPredictTime(true),
			progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	return p
}

// set tells how many rows have been tried. Calls come one after the other.
func (p *batchProgress) set(rows int) {
	if p.bar != nil {
		_ = p.bar.Set(rows)
		return
	}
	if now := time.Now(); now.Sub(p.said) >= intervalProgress {
		p.said = now
		rate := float64(rows) / now.Sub(p.begun).Seconds()
		left := time.Duration(float64(p.all-rows) / max(rate, 1e-9) * float64(time.Second))
		p.app.note("%d of %d rows, %.0f a second, %s left", rows, p.all, rate, left.Round(time.Second))
	}
}

func (p *batchProgress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
