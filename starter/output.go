package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/temporal"
)

// output is the form of a command's result.
type output string

// The forms.
const (
	outputText output = "text"
	outputJSON output = "json"
)

// String and Set and Type make it a flag.
func (o *output) String() string { return string(*o) }

func (o *output) Set(s string) error {
	if s != string(outputText) && s != string(outputJSON) {
		return errors.New("choose text or json")
	}
	*o = output(s)
	return nil
}

func (o *output) Type() string { return "text|json" }

// print writes a command's result: document as JSON, or what text writes.
func (a *app) print(document any, text func(w io.Writer) error) error {
	if a.output != outputJSON {
		return text(a.stdout)
	}
	encoder := json.NewEncoder(a.stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// printLine writes one of a command's results as a line of JSON.
func (a *app) printLine(document any) error {
	encoder := json.NewEncoder(a.stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// note tells a person something that is not the result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "starter: %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// failure is an error as a JSON document.
type failure struct {
	Error    string   `json:"error"`
	ExitCode exitCode `json:"exit_code"`
}

// finish reports a command's error, if it has one, and returns the exit code.
func (a *app) finish(command *cobra.Command, err error) exitCode {
	if err == nil {
		return exitDone
	}
	code := exitOf(err)
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return code
	}
	text := errorText(err)
	if !a.began {
		code = exitUsage
		text += fmt.Sprintf(" (see %s --help)", command.CommandPath())
	}
	a.note("%s", text)
	if a.output == outputJSON || (!a.began && wantsJSON(a.args)) {
		a.output = outputJSON
		if err := a.print(failure{Error: text, ExitCode: code}, nil); err != nil {
			a.note("%v", err)
		}
	}
	return code
}

// wantsJSON looks for --output json in a command line that could not be read.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		if arg == "--output=json" || (arg == "--output" && slices.Contains(args[i+1:min(i+2, len(args))], "json")) {
			return true
		}
	}
	return false
}

// errorText is what a person needs of an error: of a worker's, its own words without Temporal's frame around them.
func errorText(err error) string {
	var execution *temporal.WorkflowExecutionError
	var application *temporal.ApplicationError
	if errors.As(err, &application) && (errors.As(err, &execution) || err == error(application)) { //nolint:errorlint // the frame is what matters
		return application.Message()
	}
	return err.Error()
}

// oneLine makes any text safe to show in one line of a terminal.
func oneLine(s string) string {
	s = strings.TrimRight(s, "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		default:
			return r
		}
	}, s)
}

// timeText is a moment for a person: UTC, to the millisecond.
func timeText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

// table is aligned text.
type table struct {
	head   []string
	rows   [][]string
	right  []int // columns of numbers
	indent string
}

func (t table) write(w io.Writer) error {
	lines := t.rows
	if t.head != nil {
		lines = append([][]string{t.head}, t.rows...)
	}
	var widths []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(oneLine(cell)))
		}
	}
	for _, line := range lines {
		var text strings.Builder
		text.WriteString(t.indent)
		for i, cell := range line {
			if i > 0 {
				text.WriteString("  ")
			}
			cell = oneLine(cell)
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(t.right, i) {
				cell, padding = padding+cell, ""
			}
			text.WriteString(cell + padding)
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(text.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
