package serve

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a text that must not be seen. Whatever formats, logs or marshals it gets a placeholder; only Reveal has the
// text itself.
type Secret string

const secretShown = "[secret]"

// Reveal is the text itself. Don't print it.
func (s Secret) Reveal() string { return string(s) }

// Format writes the placeholder, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, secretShown) }

// LogValue is the placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue(secretShown) }

// MarshalText is the placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(secretShown), nil }
