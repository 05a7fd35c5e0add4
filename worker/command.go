package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.temporal.io/sdk/contrib/envconfig"

	"payonce/internal/serve"
)

// The exit codes.
const (
	exitOK    = 0
	exitError = 1 // something failed, or the books are wrong
	exitUsage = 2 // wrong arguments or settings
)

// errReported is an error that has been told already, so that only the exit code is left of it.
var errReported = errors.New("reported")

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	began := false
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }

	command, err := root.ExecuteContextC(ctx)
	var setting *serve.SettingError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitError
	case errors.As(err, &setting):
		_, _ = fmt.Fprintf(stderr, "worker: wrong settings:\n%s\nSettings are explained by: worker %s --help\n", indent(err), command.Name())
		return exitUsage
	case !began:
		_, _ = fmt.Fprintf(stderr, "worker: %s\nUsage is explained by: %s --help\n", err, command.CommandPath())
		return exitUsage
	default:
		_, _ = fmt.Fprintf(stderr, "worker: %s\n", err)
		return exitError
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "worker",
		Short: "Run payonce's workflows and ledgers, migrate the ledgers, verify their books",
		Long: "Run payonce's workflows and ledgers, migrate the ledgers, verify their books.\n\n" +
			"Exit codes: 0 done; 1 failed, or the books are wrong; 2 wrong arguments or settings.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(newRun(), newMigrate(), newVerify(), newVersion())
	return root
}

// noCommand is for arguments that are no command's name.
func noCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("there is no command %q", args[0])
	}
	return nil
}

// addSettings adds the flags of the variables that a command reads, and explains all of them in its help.
func addSettings(cmd *cobra.Command) {
	cmd.Long += "\n\n" + settingsHelp(cmd.Name())
	for _, v := range serve.Variables() {
		if v.Flag != "" && reads(cmd.Name(), v) {
			cmd.Flags().String(v.Flag, "", plain(v.Meaning)+" ["+v.Name+"]")
		}
	}
}

// settings is the environment, with the flags that were given in place of their variables.
func settings(cmd *cobra.Command) envconfig.EnvLookup {
	given := make(map[string]string)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, v := range serve.Variables() {
			if v.Flag == f.Name {
				given[v.Name] = f.Value.String()
			}
		}
	})
	return serve.Overlay(envconfig.EnvLookupOS, given)
}
