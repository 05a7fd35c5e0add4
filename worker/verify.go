package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"payonce/internal/reconcile"
	"payonce/internal/serve"
	"payonce/ledger/postgres"
)

// errWrong is told by the report.
var errWrong = fmt.Errorf("something is wrong: %w", errReported)

// verifyFlags is the command line of verify.
type verifyFlags struct {
	output   string
	listMax  int
	temporal bool
	repair   bool
}

func (f *verifyFlags) check(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q: all ledgers of the settings are checked", args[0])
	case f.output != outputText && f.output != outputJSON:
		return fmt.Errorf("--output %s: there are text and json", f.output)
	case f.listMax < 0:
		return errors.New("--list-max must be 0 or more")
	case f.repair && !f.temporal:
		return errors.New("--repair needs --temporal: only Temporal knows which transfers nobody moves on")
	}
	return nil
}

func newVerify() *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the books of the ledgers, and that Temporal's workflows agree with them",
		Long: "Check the books of the ledgers: that no money was made or lost, that no entry is missing or invented, that each\n" +
			"operation left what its outcome says, and that what one ledger has sent another is there or on its way. It\n" +
			"changes nothing, reads each ledger as it was at one moment, and can run beside workers.\n\n" +
			"With --temporal also that each transfer's and payout's workflow which has ended says what the books have, and that\n" +
			"money in transit, or reserved, has a workflow which moves it on. Where it has none, because somebody terminated it,\n" +
			"the command that finishes it is told, and --repair starts it: the same transfer with the same ID, which goes on\n" +
			"from where it stopped. A transfer whose workflow Temporal has forgotten after its retention is only counted.\n\n" +
			"Exit codes: 0 all is right; 1 something is wrong (also if it is being repaired now), or could not be checked;\n" +
			"2 wrong arguments or settings.",
		Args: func(_ *cobra.Command, args []string) error { return flags.check(args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := serve.ReadVerifySettings(settings(cmd), flags.temporal)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			var r reporter = &textReport{out: cmd.OutOrStdout()}
			if flags.output == outputJSON {
				r = &jsonReport{out: cmd.OutOrStdout(), viewer: reconcile.Viewer{ListMax: flags.listMax}}
			}
			progress := startProgress(cmd.ErrOrStderr(), s.Ledgers)
			defer progress.stop()
			return verify(ctx, s, flags, r, progress)
		},
	}
	cmd.Flags().StringVar(&flags.output, "output", outputText, "text or json")
	cmd.Flags().IntVar(&flags.listMax, "list-max", 1000, "with --output json: how many of each list are listed; all are counted")
	cmd.Flags().BoolVar(&flags.temporal, "temporal", false, "hold the books against Temporal's workflows too")
	cmd.Flags().BoolVar(&flags.repair, "repair", false, "with --temporal: start every transfer again whose money is in transit, and every payout whose money is reserved, that nobody moves on")
	addSettings(cmd)
	return cmd
}

const (
	outputText = "text"
	outputJSON = "json"
)

// reporter shows what a verification finds.
type reporter interface {
	report() reconcile.Report
	endBooks(s postgres.Summary) error
	end(s reconcile.Summary) error
}

func verify(ctx context.Context, s serve.VerifySettings, flags verifyFlags, r reporter, p *progress) error {
	ledgers := make([]*postgres.Ledger, 0, len(s.Ledgers))
	for _, setting := range s.Ledgers {
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
	if !flags.temporal {
		summary, err := postgres.Verify(ctx, ledgers, besides(p, r.report()).Books)
		p.stop()
		if err != nil {
			return fmt.Errorf("the books could not be checked to the end: %w", err)
		}
		return conclude(r.endBooks(summary), summary.Findings == 0)
	}
	temporal, err := serve.Dial(ctx, s.Temporal)
	if err != nil {
		return err
	}
	defer temporal.Close()
	summary, err := reconcile.Run(ctx, reconcile.Config{
		Ledgers: ledgers, Temporal: temporal, Namespace: s.Temporal.Namespace, Repair: flags.repair,
	}, besides(p, r.report()))
	p.stop()
	if err != nil {
		return fmt.Errorf("the books and the workflows could not be checked to the end: %w", err)
	}
	return conclude(r.end(summary), summary.OK())
}

// conclude is the command's error after a report has been written.
func conclude(written error, ok bool) error {
	if written == nil && !ok {
		return errWrong
	}
	return written
}

// besides reports beside the line that shows the progress.
func besides(p *progress, r reconcile.Report) reconcile.Report {
	return reconcile.Report{
		Books:       postgres.Report{Finding: hiding(p, r.Books.Finding), InTransit: hiding(p, r.Books.InTransit), Reserved: hiding(p, r.Books.Reserved)},
		Finding:     hiding(p, r.Finding),
		Unaccounted: hiding(p, r.Unaccounted),
	}
}

func hiding[T any](p *progress, report func(T)) func(T) {
	return func(what T) {
		p.hide()
		report(what)
	}
}
