package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"payonce/internal/serve"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run workflows and the activities of the ledgers",
		Long: "Run workflows and the activities of the ledgers, until SIGINT or SIGTERM: then finish what is held, within a\n" +
			"limit. A second signal ends it at once.\n\n" +
			"A ledger that can't be reached stops its own task queue alone, which is served again when the ledger is back.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env := settings(cmd)
			log, err := serve.NewLog(env, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			s, err := serve.ReadSettings(env)
			if err != nil {
				return err
			}
			err = runUntilSignal(cmd.Context(), cmd.ErrOrStderr(), log, func(ctx context.Context) error {
				return serve.Run(ctx, serve.Config{Settings: s, Log: log, Version: version})
			})
			if _, forPrograms := log.Handler().(*slog.JSONHandler); forPrograms && err != nil && !errors.Is(err, errReported) {
				log.Error("the worker has failed", "error", err)
				return errReported
			}
			return err
		},
	}
	addSettings(cmd)
	return cmd
}

// runUntilSignal ends the context of do at the first signal, and does not wait for do any more at the second.
func runUntilSignal(ctx context.Context, stderr io.Writer, log *slog.Logger, do func(context.Context) error) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	for told := false; ; told = true {
		select {
		case err := <-done:
			return err
		case s := <-signals:
			if told {
				_, _ = fmt.Fprintf(stderr, "worker: %s again: ending at once; what was under way is done by another worker\n", s)
				return errReported
			}
			log.Info("told to stop", "signal", s.String())
			cancel()
		}
	}
}
