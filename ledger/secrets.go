package ledger

import (
	"regexp"
	"strings"
)

// hidden takes the place of a secret.
const hidden = "***"

// secrets are the forms in which errors have been seen to carry a secret. What only looks like one is hidden too: a lost
// word of an error costs less than a leaked password.
var secrets = []struct {
	signs       []string // in lower case; without one of them the form is not there
	form        *regexp.Regexp
	replacement string
}{
	// postgres://user:password@host
	{[]string{"://"}, regexp.MustCompile(`(://[^\s/:@"']*):[^\s,"']*@`), "${1}:" + hidden + "@"},
	// password=…, PGPASSWORD='…', api_key="…", token=…
	{
		[]string{"pass", "pwd", "secret", "token", "api", "access"},
		regexp.MustCompile(`(?i)((?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key)\s*=\s*)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,;&'"]+)`),
		"${1}" + hidden,
	},
	// "password": "…", password: …
	{
		[]string{"pass", "secret"},
		regexp.MustCompile(`(?i)((?:password|passwd|passphrase|secret)["']?\s*:\s*)(?:'[^']*'|"(?:[^"\\]|\\.)*"|[^\s,;&'"]+)`),
		"${1}" + hidden,
	},
	{
		[]string{"token", "api", "access"},
		regexp.MustCompile(`(?i)((?:token|api[_-]?key|access[_-]?key)"\s*:\s*)"(?:[^"\\]|\\.)*"`),
		`${1}"` + hidden + `"`,
	},
	// Authorization: Basic …, Bearer …
	{[]string{"authorization"}, regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?)(?:[a-z]+\s+)?[^\s,"']+`), "${1}" + hidden},
	{[]string{"bearer"}, regexp.MustCompile(`(?i)\b(bearer)\s+[a-z0-9._~+/=-]{8,}`), "${1} " + hidden},
	// A JSON web token, wherever it stands.
	{[]string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`), hidden},
}

// HideSecrets replaces what looks like a password, a key or a token in an error's text. It knows the common forms, and no
// others: an error should not have a secret in it to begin with.
func HideSecrets(s string) string {
	lower := strings.ToLower(s)
	for i := range secrets {
		for _, sign := range secrets[i].signs {
			if strings.Contains(lower, sign) {
				s = secrets[i].form.ReplaceAllString(s, secrets[i].replacement)
				break
			}
		}
	}
	return s
}

// KeepError makes an error's text fit to be kept: HideSecrets and ClipError in one, with no more work for a text of
// megabytes than for what is kept of it.
func KeepError(s string, bytesMax int) string {
	// A secret that is cut in two at the edge of what is looked at is no longer seen as one, so the edges are dropped.
	const edge, edges = 2_000, 10_000
	half := max(bytesMax, 0)/2 - clipNoteBytesMax
	if half < edge || len(s) <= bytesMax+2*edges {
		if len(s) > bytesMax+2*edges {
			s = s[:bytesMax+2*edges]
		}
		return ClipError(HideSecrets(s), bytesMax)
	}
	head := printable(HideSecrets(s[:half+edges]))
	head = head[:boundaryBefore(head, min(half, len(head)-edge))]
	tail := printable(HideSecrets(s[len(s)-half-edges:]))
	tail = tail[boundaryBefore(tail, max(len(tail)-half, edge)):]
	if len(tail) > half {
		tail = tail[boundaryAfter(tail, len(tail)-half):]
	}
	return clipNote(head, len(s)-len(head)-len(tail), tail)
}
