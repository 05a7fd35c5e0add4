package host

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"payonce/internal/faultworker/fault"
)

// announcer writes announcements, each whole and at once: what is announced may be the end of the process.
type announcer struct {
	mu  sync.Mutex
	out io.Writer
}

func newAnnouncer(out io.Writer) *announcer { return &announcer{out: out} }

// write announces an event. When it returns, the line is with whoever reads it, or with the kernel.
func (a *announcer) write(e fault.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.At, e.PID = time.Now().UTC(), os.Getpid()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = a.out.Write(append(line, '\n'))
	}
	if err != nil {
		// A fault that nobody can hear of would prove nothing.
		panic(err)
	}
}
