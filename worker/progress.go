package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"payonce/internal/serve"
)

// progress is one line on a terminal that says that something is still going on. On anything else it is nothing.
type progress struct {
	out     io.Writer // nil: nothing
	ledgers int
	begun   time.Time
	done    chan struct{}
	ended   chan struct{}

	mu    sync.Mutex
	shown bool
}

// clearLine is the control sequence that empties the cursor's line.
const clearLine = "\r\x1b[K"

// startProgress begins to show the line after a second, if out is a terminal.
func startProgress(out io.Writer, ledgers []serve.LedgerSetting) *progress {
	if file, ok := out.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		out = nil
	}
	return newProgress(out, len(ledgers))
}

func newProgress(out io.Writer, ledgers int) *progress {
	p := &progress{out: out, ledgers: ledgers, begun: time.Now(), done: make(chan struct{}), ended: make(chan struct{})}
	go p.run()
	return p
}

func (p *progress) run() {
	defer close(p.ended)
	if p.out == nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-tick.C:
			p.mu.Lock()
			p.shown = true
			_, _ = fmt.Fprintf(p.out, "%schecking %d ledgers: %s", clearLine, p.ledgers, time.Since(p.begun).Round(time.Second))
			p.mu.Unlock()
		}
	}
}

// hide takes the line away before something else is written to the terminal. It comes back by itself.
func (p *progress) hide() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		p.shown = false
		_, _ = io.WriteString(p.out, clearLine)
	}
}

// stop takes the line away for good. It may be called twice.
func (p *progress) stop() {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	<-p.ended
	p.hide()
}
