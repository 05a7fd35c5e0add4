package ledger

import "regexp"

// hidden takes the place of a secret.
const hidden = "***"

// secrets are the forms in which errors have been seen to carry a secret. What only looks like one is hidden too: a lost
// word of an error costs less than a leaked password.
var secrets = []struct {
	form        *regexp.Regexp
	replacement string
}{
	// postgres://user:password@host
	{regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://[^\s/:@"']*):[^\s,"']*@`), "${1}:" + hidden + "@"},
	// password=…, PGPASSWORD='…', api_key="…", token=…
	{
		regexp.MustCompile(`(?i)([a-z_-]*(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key))(\s*=\s*)('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,;&'"]+)`),
		"${1}${2}" + hidden,
	},
	// "password": "…", password: …
	{
		regexp.MustCompile(`(?i)([a-z_-]*(?:password|passwd|passphrase|secret)["']?)(\s*:\s*)('[^']*'|"(?:[^"\\]|\\.)*"|[^\s,;&'"]+)`),
		"${1}${2}" + hidden,
	},
	{regexp.MustCompile(`(?i)("[a-z_-]*(?:token|api[_-]?key|access[_-]?key)")(\s*:\s*)"(?:[^"\\]|\\.)*"`), `${1}${2}"` + hidden + `"`},
	// Authorization: Basic …, Bearer …
	{regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?)(?:[a-z]+\s+)?[^\s,"']+`), "${1}" + hidden},
	{regexp.MustCompile(`(?i)\b(bearer)\s+[a-z0-9._~+/=-]{8,}`), "${1} " + hidden},
	// A JSON web token, wherever it stands.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`), hidden},
}

// HideSecrets replaces what looks like a password, a key or a token in an error's text. It knows the common forms, and no
// others: an error should not have a secret in it to begin with.
func HideSecrets(s string) string {
	for i := range secrets {
		s = secrets[i].form.ReplaceAllString(s, secrets[i].replacement)
	}
	return s
}
