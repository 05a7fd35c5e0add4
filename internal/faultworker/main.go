// Faultworker is the worker binary with faults, for the demo and for tests: the same workflows, activities and ledgers,
// and between the activities and a ledger something that kills, freezes or blocks the process, or loses an answer, at the
// point and the number of times that its flags say.
//
// The promise: nothing of the worker itself is changed to make that possible, so that what survives here survives there.
// What is different stands in this folder: time-outs that flags set, what [plan] does around a ledger's writes, and what
// [polls] does to the requests for work.
//
// Each fault is announced on standard output, as one JSON line, before it strikes; package fault has the words. The log
// goes to standard error. Settings are those of the worker, from the environment.
//
// Never run it on a ledger that holds real money.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "faultworker: %v\n", err)
		os.Exit(1)
	}
}

// run is the program. It ends when ctx does, after the worker has finished what it holds.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	c, err := readConfig(args, stderr)
	if c == nil {
		return err // nil after --help
	}
	if c.untilInputEnds {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	return c.serve(ctx, stdout)
}
