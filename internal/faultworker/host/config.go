package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/pflag"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc"

	"payonce/activities"
	"payonce/internal/faultworker/fault"
	"payonce/internal/faultworker/naive"
	"payonce/internal/faultworker/process"
	"payonce/internal/serve"
)

// config is a fault worker to run.
type config struct {
	program        Program
	settings       serve.Settings
	log            *slog.Logger
	faults         []fault.Fault
	sticky         bool
	untilInputEnds bool
	naiveURL       string
}

// readConfig reads the flags and the environment. The config is nil, and so is the error, when help was asked for.
func readConfig(args []string, stderr io.Writer) (*config, error) {
	c := &config{naiveURL: os.Getenv(process.EnvNaiveDatabaseURL)}
	var err error
	if c.log, err = serve.NewLog(envconfig.EnvLookupOS, stderr); err != nil {
		return nil, err
	}
	if c.settings, err = serve.ReadSettings(envconfig.EnvLookupOS); err != nil {
		return nil, err
	}
	flags := pflag.NewFlagSet("faultworker", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	texts := flags.StringArray(process.FlagFault, nil, "POINT=ACTION[:TIMES|:always][;transfer=ID][;…], or JSON; repeatable")
	flags.BoolVar(&c.sticky, process.FlagSticky, true, "keep workflows in memory; without it, another worker takes over without a delay")
	flags.BoolVar(&c.untilInputEnds, process.FlagUntilInputEnds, false, "stop when standard input ends; a line on it lets go what faults hold")
	process.OptionFlags(flags, &c.settings.Workflows)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, nil
		}
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for _, text := range *texts {
		f, err := fault.Parse(text)
		if err != nil {
			return nil, err
		}
		c.faults = append(c.faults, f)
	}
	return c, nil
}

// serve runs the worker with its faults; what they hold goes on when letGo is closed.
func (c *config) serve(ctx context.Context, stdout io.Writer, letGo <-chan struct{}) error {
	announce := newAnnouncer(stdout)
	polls := newPolls(c.queues(), c.sticky, func() { announce.write(fault.Event{Event: fault.EventReady}) })
	plan := newPlan(c.faults, announce, polls, letGo)

	temporal := &c.settings.Temporal
	temporal.ConnectionOptions.DialOptions = append(temporal.ConnectionOptions.DialOptions,
		grpc.WithChainUnaryInterceptor(polls.intercept))
	var register func(worker.Registry)
	if c.naiveURL != "" {
		store, err := openNaiveStore(ctx, c.naiveURL, plan)
		if err != nil {
			return err
		}
		defer store.close()
		register = func(registry worker.Registry) { naive.Register(registry, store) }
	}
	return serve.Run(ctx, serve.Config{
		Settings: c.settings, Log: c.log, Version: c.program.Version, Register: register, WrapRail: c.program.WrapRail,
		WrapLedger: func(name string, books activities.Ledger) activities.Ledger {
			if c.program.WrapLedger != nil {
				books = c.program.WrapLedger(name, books)
			}
			return &faultyLedger{Ledger: books, plan: plan}
		},
	})
}
