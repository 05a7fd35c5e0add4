package ledger

import (
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

// ErrorBytesMax bounds what is kept of an error's text.
const ErrorBytesMax = 16_000

// ClipNote makes any text fit to be kept as a note beside an operation: at most MemoBytesMax bytes, with U+FFFD for what a
// note can't hold. It is for error texts, which are evidence and never refused.
func ClipNote(s string) string { return clipText(s, MemoBytesMax) }

// ClipError is ClipNote for an error with the whole chain of its causes: at most ErrorBytesMax bytes.
func ClipError(s string) string { return clipText(s, ErrorBytesMax) }

func clipText(s string, bytesMax int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	if len(s) <= bytesMax {
		return s
	}
	const ellipsis = "…"
	cut := bytesMax - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}
