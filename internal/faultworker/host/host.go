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
		var ended <-chan struct{}
		letGo, ended = listen(stdin)
		go func() {
			<-ended
			cancel()
		}()
	}
	return c.serve(ctx, stdout, letGo)
}

// listen reads what the process is told: the first line closes letGo, the end of input ended.
func listen(stdin io.Reader) (letGo, ended <-chan struct{}) {
	line, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	go func() {
		defer close(end)
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			once.Do(func() { close(line) })
		}
	}()
	return line, end
}
