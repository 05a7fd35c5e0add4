package demo

import (
	"bytes"
	"sync"
)

// tailBytesMax bounds what is kept of a log.
const tailBytesMax = 8 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	if excess := len(t.text) - tailBytesMax; excess > 0 {
		t.text = t.text[excess:]
		// Whole lines.
		if end := bytes.IndexByte(t.text, '\n'); end >= 0 {
			t.text = t.text[end+1:]
		}
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimRight(t.text, "\n"))
}
