package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payonce/activities"
	"payonce/internal/devstack"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/starter/transfers"
	"payonce/workflows"
)

// devFlags is the command line of dev.
type devFlags struct {
	ledgers  []string
	envFile  string
	dir      string
	headless bool
}

func (a *app) devCommand() *cobra.Command {
	var flags devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run PostgreSQL, Temporal and a worker on this machine, until Ctrl-C",
		Long: `Run PostgreSQL, with a database for each ledger, Temporal with its web UI, and a worker on this machine, in the foreground.
Ctrl-C takes everything down.

When everything is ready, the settings are printed or, with --env-file, written to a file for the shell: ". FILE". The
file holds the passwords of the databases, and is removed at the end.

If DATABASE_URL or TEMPORAL_ADDRESS is set, the server it names is used instead of one of our own.`,
		Example: `  starter dev --ledgers us,eu --env-file dev.env`,
		Args:    cobra.NoArgs,
		RunE: a.command(func(cmd *cobra.Command, _ []string) error {
			if err := checkLedgers(flags.ledgers); err != nil {
				return err
			}
			return a.dev(cmd.Context(), flags)
		}),
	}
	cmd.Flags().StringSliceVar(&flags.ledgers, "ledgers", []string{ledger.DefaultLedger}, "the ledgers' names")
	cmd.Flags().StringVar(&flags.envFile, "env-file", "", "write the settings to this file when everything is ready, as export NAME='value'")
	cmd.Flags().StringVar(&flags.dir, "dir", "", "keep the servers' data in this folder (default: keep nothing)")
	cmd.Flags().BoolVar(&flags.headless, "headless", false, "do without Temporal's web UI")
	for _, err := range []error{cmd.MarkFlagFilename("env-file"), cmd.MarkFlagDirname("dir")} {
		if err != nil {
			panic(err) // the flag does not exist
		}
	}
	return cmd
}

func checkLedgers(names []string) error {
	if len(names) == 0 {
		return usagef("ledgers: name at least one")
	}
	seen := make(map[string]bool)
	for _, name := range names {
		if err := ledger.CheckLedgerName("ledgers", name); err != nil {
			return err
		}
		if seen[name] {
			return usagef("ledgers: %q is there twice", name)
		}
		seen[name] = true
	}
	return nil
}

// dev runs the stack until the context ends, which is the orderly end, or the worker does, which is not.
func (a *app) dev(ctx context.Context, flags devFlags) (err error) {
	program, err := findWorker()
	if err != nil {
		return err
	}
	if flags.envFile != "" {
		if err := clearEnvFile(flags.envFile); err != nil {
			return err
		}
	}
	log := &prefixWriter{w: a.stderr, prefix: "dev: "}
	stack, err := devstack.Start(ctx, devstack.Config{
		Ledgers: flags.ledgers, Dir: flags.dir, Log: log, UI: !flags.headless, SearchAttributes: transfers.SearchAttributes(),
	})
	if err != nil {
		return unlessDone(ctx, err)
	}
	defer func() { err = errors.Join(err, stack.Close()) }()

	env := stackEnviron(os.Environ(), stack.Env(), stack.Temporal.External())
	output := &prefixWriter{w: a.stderr, prefix: "worker: "}
	if err := migrate(ctx, program, env, output); err != nil || ctx.Err() != nil {
		return unlessDone(ctx, err)
	}
	worker, err := startChild(childConfig{program: program, args: []string{"run", "--stop-timeout", timeoutWorkerStop.String()}, env: env, output: output})
	if err != nil {
		return err
	}
	defer func() {
		log.say("stopping")
		worker.stop()
	}()
	if err := awaitWorker(ctx, worker, env, flags.ledgers); err != nil {
		return unlessDone(ctx, err)
	}
	if flags.envFile != "" {
		file, err := writeEnvFile(flags.envFile, stack.Env())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.remove()) }()
	}
	if err := a.printReady(stack, flags); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-worker.ended:
		return fmt.Errorf("the worker ended by itself: %s", worker.state)
	}
}

// unlessDone is err, but nil if the context has ended: then what failed did so because it was told to stop.
func unlessDone(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// awaitWorker returns when the worker answers for each ledger.
func awaitWorker(ctx context.Context, worker *child, env []string, ledgers []string) error {
	const timeoutReady = time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, timeoutReady, fmt.Errorf("the worker is not ready after %s", timeoutReady))
	defer cancel()
	go func() {
		select {
		case <-worker.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := askEachLedger(ctx, env, ledgers)
	select {
	case <-worker.ended:
		return fmt.Errorf("the worker ended before it was ready: %s", worker.state)
	default:
		return err
	}
}

func askEachLedger(ctx context.Context, env []string, ledgers []string) error {
	options, err := optionsFrom(env)
	if err != nil {
		return err
	}
	c, err := dial(ctx, options)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, name := range ledgers {
		_, err := asking.Run[activities.AccountList](ctx, c, asking.Question{
			Workflow: workflows.AccountListWorkflow, Name: "account-list/" + name,
			Input: activities.AccountListInput{Ledger: name, Limit: 1},
		})
		if err != nil {
			return fmt.Errorf("wait for the worker to answer for the ledger %s: %w", name, err)
		}
	}
	return nil
}

// readyView is what dev prints when everything is ready.
type readyView struct {
	Ledgers []string `json:"ledgers"`
	// Settings are NAME: value. They hold passwords, of databases that are gone when dev ends.
	Settings map[string]string `json:"settings"`
	EnvFile  string            `json:"env_file,omitempty"`
	UIURL    string            `json:"ui_url,omitempty"`
}

func (a *app) printReady(stack *devstack.Stack, flags devFlags) error {
	view := readyView{Ledgers: flags.ledgers, Settings: make(map[string]string), EnvFile: flags.envFile, UIURL: stack.Temporal.UIURL}
	for _, setting := range stack.Env() {
		name, value, _ := strings.Cut(setting, "=")
		view.Settings[name] = value
	}
	return a.print(view, func(w io.Writer) error {
		var text strings.Builder
		text.WriteString("payonce is ready; Ctrl-C takes everything down.\n")
		if view.UIURL != "" {
			fmt.Fprintf(&text, "\nTemporal's web UI: %s\n", view.UIURL)
		}
		text.WriteString("\nIn another terminal:\n\n")
		if flags.envFile != "" {
			fmt.Fprintf(&text, "  . %s\n", shellQuoteIfNeeded(sourcePath(flags.envFile)))
		} else {
			for _, line := range exportLines(stack.Env()) {
				fmt.Fprintf(&text, "  %s\n", line)
			}
		}
		text.WriteString("\nA first transfer:\n\n")
		for _, line := range firstTransfer(programName(), flags.ledgers) {
			fmt.Fprintf(&text, "  %s\n", line)
		}
		_, err := io.WriteString(w, text.String())
		return err
	})
}

// sourcePath is a path as the shell's . command takes it: without a slash it would look on PATH.
func sourcePath(path string) string {
	if strings.ContainsRune(path, filepath.Separator) {
		return path
	}
	return "." + string(filepath.Separator) + path
}

// programName is how to call this program from the folder that it was called in.
func programName() string {
	program, err := os.Executable()
	if err != nil {
		return "starter"
	}
	here, err := os.Getwd()
	if err != nil {
		return program
	}
	relative, err := filepath.Rel(here, program)
	if err != nil || strings.HasPrefix(relative, "..") {
		return program
	}
	return sourcePath(relative)
}

// firstTransfer is what a newcomer copies: money comes from the world to alice, who pays bob.
func firstTransfer(program string, ledgers []string) []string {
	first, last := ledgers[0], ledgers[len(ledgers)-1]
	program = shellQuoteIfNeeded(program)
	return []string{
		fmt.Sprintf("%s account open %s/world --asset USD --floor none", program, first),
		fmt.Sprintf("%s account open %s/alice --asset USD", program, first),
		fmt.Sprintf("%s account open %s/bob --asset USD", program, last),
		fmt.Sprintf("%s transfer --id first-1 --from %s/world --to %s/alice --amount 20.00 --asset USD", program, first, first),
		fmt.Sprintf("%s transfer --id first-2 --from %s/alice --to %s/bob --amount 10.00 --asset USD", program, first, last),
		fmt.Sprintf("%s account show %s/bob", program, last),
	}
}
