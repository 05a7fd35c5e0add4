// Command starter is payonce's command line: it starts transfers, tells where they stand, and opens and reads accounts.
// It speaks to Temporal only and holds no database password: what it wants of a ledger, a worker does.
//
// The promise: running the same command again is safe, and its exit code tells how things stand; "starter help
// exit-codes" lists them. What it does not promise: that a transfer stops when its starter does. It goes on by itself;
// the same command, or "starter status", finds it again.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		// The first signal asks for an orderly end; the second one, handled by nobody, ends at once.
		<-ctx.Done()
		stop()
	}()
	os.Exit(int(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)))
}

// run runs one command line. Settings come from the environment and from args.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) exitCode {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, args: args, output: outputText}
	root := a.rootCommand()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	return a.finish(command, err)
}
