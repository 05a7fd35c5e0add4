package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"payonce/internal/serve"
	"payonce/ledger/postgres"
)

// errWrongBooks is told by the report.
var errWrongBooks = fmt.Errorf("the books are wrong: %w", errReported)

func newVerify() *cobra.Command {
	var output string
	var listMax int
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the books of the ledgers",
		Long: "Check the books of the ledgers: that no money was made or lost, that no entry is missing or invented, that each\n" +
			"operation left what its outcome says, and that what one ledger has sent another is there or on its way. It\n" +
			"changes nothing, reads each ledger as it was at one moment, and can run beside workers.\n\n" +
			"Exit codes: 0 the books are right; 1 they are wrong, or could not be checked; 2 wrong arguments or settings.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unexpected argument %q: all ledgers of the settings are checked", args[0])
			}
			if output != outputText && output != outputJSON {
				return fmt.Errorf("--output %s: there are text and json", output)
			}
			if listMax < 0 {
				return errors.New("--list-max must be 0 or more")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ledgers, err := serve.ReadLedgers(settings(cmd))
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			var r reporter = &textReport{out: cmd.OutOrStdout()}
			if output == outputJSON {
				r = &jsonReport{out: cmd.OutOrStdout(), listMax: listMax}
			}
			progress := startProgress(cmd.ErrOrStderr(), ledgers)
			defer progress.stop()
			return verify(ctx, ledgers, r, progress)
		},
	}
	cmd.Flags().StringVar(&output, "output", outputText, "text or json")
	cmd.Flags().IntVar(&listMax, "list-max", 1000, "with --output json: how many findings, and how many transfers in transit, are listed; all are counted")
	addSettings(cmd)
	return cmd
}

const (
	outputText = "text"
	outputJSON = "json"
)

// reporter shows what a verification finds.
type reporter interface {
	finding(f postgres.Finding)
	inTransit(t postgres.InTransit)
	end(summary postgres.Summary) error
}

func verify(ctx context.Context, settings []serve.LedgerSetting, r reporter, p *progress) error {
	ledgers := make([]*postgres.Ledger, 0, len(settings))
	for _, setting := range settings {
		l, err := postgres.Open(ctx, postgres.Config{Name: setting.Name, URL: setting.URL.Reveal(), ConnsMax: 2})
		if err != nil {
			return err
		}
		defer l.Close()
		if err := l.CheckSchema(ctx); err != nil {
			return err
		}
		ledgers = append(ledgers, l)
	}
	summary, err := postgres.Verify(ctx, ledgers, postgres.Report{
		Finding: func(f postgres.Finding) {
			p.hide()
			r.finding(f)
		},
		InTransit: func(t postgres.InTransit) {
			p.hide()
			r.inTransit(t)
		},
	})
	p.stop()
	if err != nil {
		return fmt.Errorf("the books could not be checked to the end: %w", err)
	}
	if err := r.end(summary); err != nil {
		return err
	}
	if summary.Findings > 0 {
		return errWrongBooks
	}
	return nil
}
