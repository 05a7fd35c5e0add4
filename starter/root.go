package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// app is one run of the program.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	args           []string

	output    output
	address   string
	namespace string

	// began: the command's own work has begun, so that an error is not one of its command line.
	began bool
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "starter",
		Short: "Money transfers that happen once, however many times they run",
		Long: `starter starts money transfers, tells where they stand, and opens and reads accounts.

It speaks to Temporal, where TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and Temporal's other variables and profiles say, and
needs no database password. Running the same command again is always safe.`,
		Version: version,

		DisableFlagsInUseLine: true,
		SilenceUsage:          true,
		SilenceErrors:         true,
		// Not by the default, which is help and success: a script that lost its arguments should notice.
		Args: cobra.ArbitraryArgs,
		RunE: needsCommand,
	}
	// First of all: completion takes its output as it is now.
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)

	flags := root.PersistentFlags()
	flags.Var(&a.output, "output", "text, or json: one document on stdout, everything else on stderr")
	flags.StringVar(&a.address, "address", "", "Temporal's host:port (default TEMPORAL_ADDRESS, its profile, or localhost:7233)")
	flags.StringVar(&a.namespace, "namespace", "", "Temporal's namespace (default TEMPORAL_NAMESPACE, its profile, or default)")
	completeWith(root, "output", string(outputText), string(outputJSON))

	root.AddCommand(
		a.transferCommand(),
		a.statusCommand(),
		a.payoutCommand(),
		a.batchCommand(),
		a.accountCommand(),
		a.deadLetterCommand(),
		a.devCommand(),
		a.demoCommand(),
		a.benchCommand(),
		exitCodesTopic(),
	)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		switch command.Name() {
		case "help":
			command.Run, command.RunE = nil, helpOf
		case "completion":
			command.Args, command.RunE = cobra.ArbitraryArgs, needsCommand
		}
	}
	return root
}

// command makes f the work of a command. Only errors of f are not about the command line.
func (a *app) command(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		return f(cmd, args)
	}
}

// group is a command that only has commands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: needsCommand, DisableFlagsInUseLine: true}
	g.AddCommand(commands...)
	return g
}

func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s needs a command", cmd.CommandPath())
	}
	cmd.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
	if suggestions := cmd.SuggestionsFor(args[0]); len(suggestions) > 0 {
		text += fmt.Sprintf("; is it %s?", suggestions[0])
	}
	return errors.New(text)
}

// helpOf is the help command. The default one takes an unknown topic for a success.
func helpOf(cmd *cobra.Command, args []string) error {
	topic, rest, err := cmd.Root().Find(args)
	if topic == nil || err != nil || len(rest) > 0 {
		return fmt.Errorf("there is no help about %q", args)
	}
	topic.InitDefaultHelpFlag()
	return topic.Help()
}

// completeWith has the shell complete a flag's value with fixed words.
func completeWith(cmd *cobra.Command, flag string, words ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist
	}
}
