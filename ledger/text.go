package ledger

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clip shortens a text for an error message, so that a megabyte of bad input does not become a megabyte of error.
func clip(s string) string {
	const bytesMax = 64
	if len(s) <= bytesMax {
		return s
	}
	cut := bytesMax
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// CheckID says whether id can name an operation for good: 1 to bytesMax bytes of printable UTF-8, no control or
// invisible characters, no leading or trailing blanks. IDs are compared byte for byte, so an ID that a person can't
// tell from another is refused here, never trimmed or cut. field names the input in the error, an *InvalidError.
func CheckID(field, id string, bytesMax int) error {
	switch {
	case id == "":
		return invalid(field, "it is required; choose it once, and keep it for every retry")
	case len(id) > bytesMax:
		return invalid(field, "it has %d bytes; at most %d are allowed", len(id), bytesMax)
	case !utf8.ValidString(id):
		return invalid(field, "it is not valid UTF-8")
	case strings.HasPrefix(id, " ") || strings.HasSuffix(id, " "):
		return invalid(field, "it begins or ends with a blank")
	}
	for _, r := range id {
		if !unicode.IsPrint(r) {
			return invalid(field, "it contains %U, which is not printable", r)
		}
	}
	return nil
}

// checkText allows what a person writes about an operation: any printable text, line breaks and tabs. It keeps out
// what PostgreSQL's text can't hold (NUL, broken UTF-8) and other control characters.
func checkText(field, s string, bytesMax int) error {
	if len(s) > bytesMax {
		return invalid(field, "it has %d bytes; at most %d are allowed", len(s), bytesMax)
	}
	if !utf8.ValidString(s) {
		return invalid(field, "it is not valid UTF-8")
	}
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return invalid(field, "it contains the control character %U", r)
		}
	}
	return nil
}

// The bounds of what is kept of an error: of its text, and of the texts of its causes together. Escaped as JSON, at worst
// six bytes for one, both together fit into one Temporal payload.
const (
	ErrorBytesMax  = 200_000
	CausesBytesMax = 40_000
	CausesMax      = 50
)

// ClipNote makes any text fit to be kept as a note beside an operation: at most MemoBytesMax bytes, with U+FFFD for what a
// note can't hold. It is for error texts, which are evidence and never refused.
func ClipNote(s string) string {
	s = printable(s)
	if len(s) <= MemoBytesMax {
		return s
	}
	const ellipsis = "…"
	return s[:boundaryBefore(s, MemoBytesMax-len(ellipsis))] + ellipsis
}

// ClipError makes an error's text fit to be kept: at most bytesMax bytes, with U+FFFD for what a text can't hold. What does
// not fit is left out of the middle, since an error ends with its cause, and the text says how much that was.
func ClipError(s string, bytesMax int) string {
	s = printable(s)
	if len(s) <= bytesMax {
		return s
	}
	if bytesMax <= clipNoteBytesMax {
		return s[:boundaryBefore(s, max(bytesMax, 0))]
	}
	half := (bytesMax - clipNoteBytesMax) / 2
	head, tail := boundaryBefore(s, half), boundaryAfter(s, len(s)-half)
	return clipNote(s[:head], tail-head, s[tail:])
}

// clipNoteBytesMax is the most that clipNote adds.
const clipNoteBytesMax = len(" … (9223372036854775807 bytes left out) … ")

func clipNote(head string, leftOut int, tail string) string {
	return fmt.Sprintf("%s … (%d bytes left out) … %s", head, leftOut, tail)
}

// ClipCauses makes a chain of errors fit to be kept: at most CausesMax of them, CausesBytesMax bytes together.
func ClipCauses(causes []ErrorCause) []ErrorCause {
	var clipped []ErrorCause
	left := CausesBytesMax
	for _, cause := range causes[:min(len(causes), CausesMax)] {
		cause.Type = ClipError(cause.Type, MemoBytesMax)
		left -= len(cause.Type)
		cause.Text = ClipError(cause.Text, left)
		left -= len(cause.Text)
		if left < 0 {
			break
		}
		clipped = append(clipped, cause)
	}
	return clipped
}

// printable is s with U+FFFD for what a text can't hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// boundaryBefore is the start of the rune that at is in.
func boundaryBefore(s string, at int) int {
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return at
}

// boundaryAfter is the start of the first rune at or after at.
func boundaryAfter(s string, at int) int {
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return at
}
