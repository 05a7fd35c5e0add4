package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"payonce/internal/devstack"
	"payonce/starter/demo"
	"payonce/starter/transfers"
)

func (a *app) demoCommand() *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what happens when things break, on servers of its own on this machine",
		Long: `Show what happens when things break: A has 20, B has 0, A sends 10, and a worker is killed or frozen, a reply lost, a
request repeated. It starts PostgreSQL and Temporal on this machine, runs each scenario on real worker processes, has the
books verified, and takes everything down.

Exit codes: 0 everything ended as it must; 1 something did not.

If DATABASE_URL or TEMPORAL_ADDRESS is set, the server it names is used instead of one of our own. Never let that be one
with real money: the demo's workers take whatever work they find there, and break.`,
		Example: `  starter demo
  starter demo --scenario reply-lost --scenario late-attempt
  starter demo --output json`,
		Args: cobra.NoArgs,
		RunE: a.command(func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), names) }),
	}
	cmd.Flags().StringSliceVar(&names, "scenario", nil, "play only this one; may be given several times: "+strings.Join(demo.Names(), ", "))
	completeWith(cmd, "scenario", demo.Names()...)
	return cmd
}

// demo runs the demo on a stack of its own. An interrupt ends it early, with everything taken down.
func (a *app) demo(ctx context.Context, names []string) (err error) {
	if err := demo.CheckNames(names); err != nil {
		return usagef("scenario: %w", err)
	}
	worker, err := findWorker()
	if err != nil {
		return err
	}
	faultWorker, err := findBeside("faultworker")
	if err != nil {
		return err
	}
	railSim, err := findBeside("railsim")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log := &prefixWriter{w: a.stderr, prefix: "demo: "}
	log.say("preparing PostgreSQL and Temporal")
	stack, err := devstack.Start(ctx, devstack.Config{
		Ledgers: []string{demo.LedgerSource, demo.LedgerDestination}, Log: log, SearchAttributes: transfers.SearchAttributes(),
	})
	if err != nil {
		return unlessInterrupted(ctx, errors.Join(err, stack.Close()))
	}
	defer func() { err = errors.Join(err, stack.Close()) }()

	env := append(stackEnviron(os.Environ(), stack.Env(), stack.Temporal.External()), "PAYONCE_LISTEN=", "PAYONCE_LOG_LEVEL=warn")
	if err := migrate(ctx, worker, env, log); err != nil {
		return unlessInterrupted(ctx, err)
	}
	if err := stack.Postgres.CreateDatabase(ctx, demo.NaiveDatabase, ""); err != nil {
		return unlessInterrupted(ctx, err)
	}
	options, err := optionsFrom(env)
	if err != nil {
		return err
	}
	c, err := dial(ctx, options)
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	defer c.Close()

	timeline := demo.NewTimeline(a.demoTimeline())
	report, err := demo.Run(ctx, demo.Config{
		Temporal: c, FaultWorker: faultWorker, Worker: worker, Starter: self, RailSim: railSim, Env: env, Scenarios: names,
		NaiveDatabaseURL: stack.Postgres.URL(demo.NaiveDatabase), Timeline: timeline, Log: a.stderr,
	})
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	if err := a.print(report, func(io.Writer) error { return nil }); err != nil {
		return err
	}
	if !report.OK {
		return &exitError{code: exitInternal}
	}
	return nil
}

// demoTimeline is where the timeline goes, and whether in colour. Beside a JSON document it is not the result.
func (a *app) demoTimeline() (io.Writer, bool) {
	w := a.stdout
	if a.output == outputJSON {
		w = a.stderr
	}
	file, ok := w.(*os.File)
	return w, ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// findBeside finds a program beside this one, where make build puts it, and nowhere else.
func findBeside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	program, err := exec.LookPath(filepath.Join(filepath.Dir(self), name))
	if err != nil {
		return "", fmt.Errorf("there is no program %q beside this one: build it with make build", name)
	}
	return program, nil
}

// unlessInterrupted is err, but says so if the context has ended, since everything fails then.
func unlessInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &exitError{code: exitInternal, err: errors.New("interrupted; everything is taken down")}
	}
	return err
}
