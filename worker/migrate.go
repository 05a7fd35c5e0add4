package main

import (
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"payonce/internal/serve"
	"payonce/ledger/postgres"
)

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the tables of the ledgers up to date",
		Long: "Bring the tables of the ledgers up to date, and give the worker's role its rights on them, as the role that owns\n" +
			"them. It is safe to run again, and from several machines at once. One ledger that fails does not keep the\n" +
			"others from being migrated.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env := settings(cmd)
			log, err := serve.NewLog(env, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			s, err := serve.ReadMigrateSettings(env)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			var failed []error
			for _, l := range s.Ledgers {
				err := postgres.Migrate(ctx, l.URL.Reveal(), postgres.MigrateOptions{
					WorkerRole: s.WorkerRole, Log: log.With("ledger", l.Name),
				})
				switch {
				case err != nil:
					failed = append(failed, fmt.Errorf("ledger %s: %w", l.Name, err))
				case s.WorkerRole == "":
					_, _ = fmt.Fprintf(cmd.OutOrStdout(), "ledger %s is up to date\n", l.Name)
				default:
					_, _ = fmt.Fprintf(cmd.OutOrStdout(), "ledger %s is up to date; role %s has its rights\n", l.Name, s.WorkerRole)
				}
			}
			return errors.Join(failed...)
		},
	}
	addSettings(cmd)
	return cmd
}
