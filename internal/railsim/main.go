// Railsim is a payment rail that fails on purpose, for development, the demo and tests: package sim says what it promises,
// docs/rails.md how to use it. Real money never goes through it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.LookupEnv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "railsim: %v\n", err)
		os.Exit(1)
	}
}
