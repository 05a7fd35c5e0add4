package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	columnsMax = 100
	indent     = "     "
	// textColumn is where the text of an event begins: indent, "123.45 s", blanks, who.
	textColumn = len(indent) + 8 + 2 + whoWidth + 2
	whoWidth   = 11
)

// Timeline writes what happens, while it happens, for a person. It is for one scenario at a time, and the calls for
// events must not overlap.
type Timeline struct {
	w      io.Writer
	colour bool
}

// NewTimeline returns a timeline on w, with colours if w is a terminal that shows them.
func NewTimeline(w io.Writer, colour bool) *Timeline { return &Timeline{w: w, colour: colour} }

// The colours, by what they mean.
const (
	plain  = ""
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (t *Timeline) paint(colour, text string) string {
	if !t.colour || colour == plain || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func colourOf(what What) string {
	switch what {
	case WhatFault:
		return red
	case WhatRepeat:
		return yellow
	case WhatServer, WhatSetting:
		return faint
	case WhatBooks:
		return cyan
	case WhatClient:
		return bold
	case WhatStep:
		return plain
	default:
		return plain
	}
}

// head says what is about to be shown.
func (t *Timeline) head() {
	t.line("")
	t.line(t.paint(bold, "A has "+funds+", B has "+zero+", and A sends "+amount+". Then something breaks."))
	t.line("A is on the ledger us and B on the ledger eu, in two databases. The workers are real processes.")
}

// begin starts a scenario.
func (t *Timeline) begin(number, of int, s *scenario) {
	t.line("")
	t.line(t.paint(bold, fmt.Sprintf("%d/%d  %s: %s", number, of, s.name, s.title)))
	for _, line := range wrap(s.stake, columnsMax-len(indent)) {
		t.line(indent + t.paint(faint, line))
	}
	t.line("")
}

// event writes one line, or more if it is long.
func (t *Timeline) event(e *Event) {
	stamp := fmt.Sprintf("%3d.%02d s", e.AtMS/1000, e.AtMS%1000/10)
	head := indent + t.paint(faint, fmt.Sprintf("%8s", stamp)) + "  " + pad(e.Who, whoWidth) + "  "
	for _, line := range wrap(e.Text, columnsMax-textColumn) {
		t.line(head + t.paint(colourOf(e.What), line))
		head = strings.Repeat(" ", textColumn)
	}
}

// end says how a scenario ended.
func (t *Timeline) end(s *scenario, r *ScenarioReport) {
	t.line("")
	balances := fmt.Sprintf("A %s   B %s   ", orNothing(r.Balances["A"]), orNothing(r.Balances["B"]))
	if r.OK {
		t.line(indent + t.paint(bold, balances) + t.paint(green, "✓ "+s.moral))
		return
	}
	t.line(indent + t.paint(bold, balances) + t.paint(red, fmt.Sprintf("✗ must be: A %s   B %s", s.want.a, s.want.b)))
	for _, problem := range r.Problems {
		for i, line := range wrap(problem, columnsMax-len(indent)-2) {
			mark := "✗ "
			if i > 0 {
				mark = "  "
			}
			t.line(indent + t.paint(red, mark+line))
		}
	}
}

func (t *Timeline) beginVerify() {
	t.line("")
	t.line(t.paint(bold, "And the books: worker verify"))
}

// finish writes what verify said, and how all went.
func (t *Timeline) finish(r *Report) {
	for line := range strings.Lines(r.Verify.text) {
		t.line(indent + strings.TrimRight(line, "\n"))
	}
	if r.Verify.OK {
		t.line(indent + t.paint(green, "✓ exit code 0"))
	} else {
		t.line(indent + t.paint(red, fmt.Sprintf("✗ exit code %d", r.Verify.ExitCode)))
	}
	right := 0
	for i := range r.Scenarios {
		if r.Scenarios[i].OK {
			right++
		}
	}
	t.line("")
	mark, colour := "✓", green
	if !r.OK {
		mark, colour = "✗", red
	}
	t.line(t.paint(colour, fmt.Sprintf("%s %d of %d scenarios ended as they must, in %d s.", mark, right, len(r.Scenarios), (r.ElapsedMS+500)/1000)))
}

func (t *Timeline) line(text string) { fmt.Fprintln(t.w, strings.TrimRight(text, " ")) }

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
}

// wrap breaks a text at blanks. A word that is longer than the width stays whole.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.SplitAfter(clean(text), " ") {
		if line != "" && utf8.RuneCountInString(strings.TrimRight(line+word, " ")) > width {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
		line += word
	}
	return append(lines, strings.TrimRight(line, " "))
}

// clean leaves out what would disturb a terminal: an error's text may hold anything.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f:
			return -1
		default:
			return r
		}
	}, s)
}
