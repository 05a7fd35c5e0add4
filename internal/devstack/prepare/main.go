// Prepare makes sure that Temporal's binary is on this machine, and builds it if there is no other way. `make test` runs
// it first, so that no test waits minutes for a build.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"payonce/internal/devstack"
)

func main() {
	if err := run(context.Background(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := devstack.TemporalBinary(ctx, stderr)
	if err != nil {
		return err
	}
	fmt.Fprintln(stderr, "Temporal is", path)
	return nil
}
