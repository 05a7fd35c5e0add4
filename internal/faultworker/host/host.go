package host

import (
	"bufio"
	"context"
	"io"
	"sync"

	"payonce/activities"
)

// Program is a fault worker.
type Program struct {
	Version string
	// WrapLedger puts something between the faults and a ledger; nil for nothing.
	WrapLedger func(name string, books activities.Ledger) activities.Ledger
	// WrapRail puts something between the activities and a rail; nil for nothing.
	WrapRail func(name string, rail activities.Rail) activities.Rail
}

// Run is the program. It ends when ctx does, after the worker has finished what it holds.
func (p Program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	c, err := readConfig(args, stderr)
	if c == nil {
		return err // nil after --help
	}
	c.program = p
	var letGo <-chan struct{}
	if c.untilInputEnds {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		letGo = listen(stdin, cancel)
	}
	return c.serve(ctx, stdout, letGo)
}

// listen reads what the process is told: the first line closes letGo, and the end of input calls ended.
func listen(stdin io.Reader, ended func()) (letGo <-chan struct{}) {
	line := make(chan struct{})
	release := sync.OnceFunc(func() { close(line) })
	go func() {
		defer ended()
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			release()
		}
	}()
	return line
}
