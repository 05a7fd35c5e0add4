// Faultworker is the worker binary with faults, for the demo and for tests: package host says what it promises.
//
// Never run it on a ledger that holds real money.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"payonce/internal/faultworker/host"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := host.Program{Version: version}.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "faultworker: %v\n", err)
		os.Exit(1)
	}
}
