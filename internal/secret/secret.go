// Package secret keeps passwords, tokens and keys out of what is printed, logged or marshalled by accident. It does not
// keep them out of memory, or from code that asks for them.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Text is a text that must not be seen. Whatever formats, logs or marshals it gets a placeholder; only Reveal has the text
// itself.
type Text string

const shown = "[secret]"

// Reveal is the text itself. Don't print it.
func (s Text) Reveal() string { return string(s) }

// Format writes the placeholder, whatever the verb.
func (Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, shown) }

// LogValue is the placeholder.
func (Text) LogValue() slog.Value { return slog.StringValue(shown) }

// MarshalText is the placeholder.
func (Text) MarshalText() ([]byte, error) { return []byte(shown), nil }
