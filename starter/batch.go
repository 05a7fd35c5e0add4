package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"payonce/ledger"
	"payonce/starter/batch"
	"payonce/starter/diagnosis"
	"payonce/starter/transfers"
	"payonce/workflows"
)

// timeoutBatch is long: a batch takes as long as its rows do.
const timeoutBatch = time.Hour

func (a *app) batchCommand() *cobra.Command {
	return group("batch", "Submit files of transfers, and tell what became of their rows",
		a.batchSubmitCommand(),
		a.batchStatusCommand(),
		a.batchReportCommand(),
	)
}

// batchFlags is the command line of batch submit.
type batchFlags struct {
	count                 int
	countGiven            bool
	totals                []string
	asset                 string
	maxTransfer, maxBatch []string
	skipBad, dryRun, wait bool
	chunkRows             int
	timeout               time.Duration
}

func (a *app) batchSubmitCommand() *cobra.Command {
	var flags batchFlags
	cmd := &cobra.Command{
		Use:   "submit FILE --count N --total AMOUNT",
		Short: "Carry out the transfers of a file, each once",
		Long: `Carry out the transfers of a file, each once.

FILE is CSV with the header id,from,to,amount,asset,memo, or JSON Lines with the same fields; - is standard input. Each row is a
transfer, and its ID is the payment's: a row that was paid before, singly or in another file, is a repeat and says so. The same
rows, in any order, are the same batch: running the command again finds it, and goes on where it stopped.

Nothing is sent unless every row is good, and --count and --total are what the sender of the file says. See docs/batches.md.`,
		Example: `  starter batch submit payroll.csv --dry-run
  starter batch submit payroll.csv --count 1200 --total 3481200.50
  starter batch submit mixed.csv --count 3 --total "20.00 USD" --total "15.50 EUR"`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveDefault // files
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			flags.countGiven = cmd.Flags().Changed("count")
			return a.batchSubmit(cmd.Context(), args[0], &flags)
		}),
	}
	f := cmd.Flags()
	f.IntVar(&flags.count, "count", 0, "how many rows there are, as the file's sender says (required)")
	f.StringArrayVar(&flags.totals, "total", nil, `the sum of the amounts, as the file's sender says; with several assets once for each: "20.00 USD" (required)`)
	f.StringVar(&flags.asset, "asset", "", "the asset of amounts on this command line that name none")
	f.StringArrayVar(&flags.maxTransfer, "max-transfer", nil, `the most that one row may move: "5000.00 USD"; once for each asset`)
	f.StringArrayVar(&flags.maxBatch, "max-batch", nil, `the most that all rows may move: "500000.00 USD"; once for each asset`)
	f.BoolVar(&flags.skipBad, "skip-bad", false, "send the good rows and only tell the others; --count and --total are of the good ones")
	f.BoolVar(&flags.dryRun, "dry-run", false, "check everything and send nothing")
	f.BoolVar(&flags.wait, "wait", true, "wait for the end of all rows")
	f.IntVar(&flags.chunkRows, "chunk-rows", batch.ChunkRows, "how many rows share a workflow, at most")
	timeoutFlag(cmd, &flags.timeout, timeoutBatch)
	return cmd
}

// check refuses a command line that is wrong whatever is in the file.
func (f *batchFlags) check() (options batch.Options, err error) {
	switch {
	case !f.dryRun && (!f.countGiven || len(f.totals) == 0):
		return options, usagef("count and total: --count and --total are required, so that a file that was cut, or sent twice in one, is not paid: take them from whoever made the file, or see what is in it with --dry-run")
	case f.countGiven && f.count < 1:
		return options, usagef("count: %d is not above zero", f.count)
	case f.chunkRows < 1 || f.chunkRows > workflows.GroupMax:
		return options, usagef("chunk-rows: %d is not from 1 to %d", f.chunkRows, workflows.GroupMax)
	}
	if options.MaxTransfer, err = f.amounts("max-transfer", f.maxTransfer, f.asset); err != nil {
		return options, err
	}
	if _, err = f.amounts("max-batch", f.maxBatch, f.asset); err != nil {
		return options, err
	}
	options.ChunkRows = f.chunkRows
	return options, nil
}

// amounts reads amounts such as "20.00 USD", one for each asset; asset is that of an amount which names none.
func (f *batchFlags) amounts(flag string, texts []string, asset string) (map[ledger.Asset]ledger.Amount, error) {
	amounts := make(map[ledger.Asset]ledger.Amount)
	for _, text := range texts {
		number, code, named := strings.Cut(text, " ")
		if !named {
			code = asset
		}
		if code == "" {
			return nil, usagef(`%s: name the asset of %q: --%s "%s USD", or --asset USD`, flag, text, flag, text)
		}
		of, err := ledger.ParseAsset(code)
		if err != nil {
			return nil, usagef("%s: %w", flag, err)
		}
		amount, err := ledger.ParseAmount(number, of)
		if err != nil {
			return nil, usagef("%s: %w", flag, err)
		}
		if _, twice := amounts[of]; twice {
			return nil, usagef("%s: %s is there twice", flag, of)
		}
		amounts[of] = amount
	}
	return amounts, nil
}

func (a *app) batchSubmit(ctx context.Context, name string, flags *batchFlags) error {
	options, err := flags.check()
	if err != nil {
		return err
	}
	file, err := a.readBatch(ctx, name, options)
	if err != nil {
		return err
	}
	defer file.Close()
	view := fileView(name, file)
	why, err := flags.refuse(file)
	if err != nil {
		return err
	}
	a.noteFile(name, file)
	if len(why) > 0 {
		view.State, view.Reasons = batchNotSent, why
		for _, reason := range why {
			a.note("%s: %s", name, reason)
		}
		return a.reportBatch(&view, exitUsage)
	}
	if flags.dryRun {
		view.State = batchChecked
		return a.reportBatch(&view, exitDone)
	}
	return a.withTemporal(ctx, flags.timeout, func(ctx context.Context, c client.Client) error {
		return a.batchSubmitOn(ctx, c, file, &view, flags)
	})
}

// readBatch reads a file, or standard input.
func (a *app) readBatch(ctx context.Context, name string, options batch.Options) (*batch.File, error) {
	in := a.stdin
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return nil, usagef("%w", err)
		}
		defer opened.Close()
		in = opened
	}
	file, err := batch.Read(ctx, in, options)
	var format *batch.FormatError
	var path *os.PathError
	if errors.As(err, &format) || (errors.As(err, &path) && path.Path == name) {
		return nil, usagef("%s: %w", name, err)
	}
	return file, err
}

// refuse says why nothing of a file is sent. The error is one of the command line.
func (f *batchFlags) refuse(file *batch.File) (why []string, err error) {
	if file.BadRows > 0 && !f.skipBad {
		why = append(why, fmt.Sprintf("%d bad rows: nothing is sent; correct them, or leave them out with --skip-bad", file.BadRows))
	}
	if file.Rows == 0 {
		return append(why, "there is no good row in it"), nil
	}
	if chunks := file.Batch().Chunks; chunks > workflows.BatchChunksMax {
		why = append(why, fmt.Sprintf("it makes %d chunks of rows, and a batch has %d at most: divide it", chunks, workflows.BatchChunksMax))
	}
	if f.countGiven && f.count != file.Rows {
		why = append(why, fmt.Sprintf("--count says %d, and there are %d good rows%s", f.count, file.Rows, besides(file)))
	}
	asset := f.asset
	if asset == "" && len(file.Totals) == 1 {
		asset = file.Totals[0].Asset
	}
	totals, err := f.amounts("total", f.totals, asset)
	if err != nil {
		return nil, err
	}
	if len(f.totals) > 0 {
		why = append(why, differences(file, totals)...)
	}
	most, err := f.amounts("max-batch", f.maxBatch, f.asset)
	if err != nil {
		return nil, err
	}
	for _, total := range file.Totals {
		of, err := ledger.ParseAsset(total.Asset)
		if err != nil {
			return nil, err
		}
		if limit, ok := most[of]; ok && file.Total(of).Cmp(limit) > 0 {
			why = append(why, fmt.Sprintf("the total of %s %s is more than --max-batch allows, which is %s", total.Amount, total.Asset, limit.Format(of)))
		}
	}
	return why, nil
}

// besides says what is in a file beside its good rows.
func besides(file *batch.File) string {
	var parts []string
	if file.BadRows > 0 {
		parts = append(parts, fmt.Sprintf("%d bad ones", file.BadRows))
	}
	if file.Repeats > 0 {
		parts = append(parts, fmt.Sprintf("%d that are there again and count once", file.Repeats))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", beside " + strings.Join(parts, " and ")
}

// differences compares the totals that were said with those that are.
func differences(file *batch.File, said map[ledger.Asset]ledger.Amount) (why []string) {
	for _, total := range file.Totals {
		of, err := ledger.ParseAsset(total.Asset)
		if err != nil {
			panic(err) // the file has it from there
		}
		amount, ok := said[of]
		switch {
		case !ok:
			why = append(why, fmt.Sprintf("--total says nothing of %s, and the good rows have %s", total.Asset, total.Amount))
		case amount.Cmp(file.Total(of)) != 0:
			why = append(why, fmt.Sprintf("--total says %s %s, and the good rows have %s%s", amount.Format(of), of, total.Amount, besides(file)))
		}
		delete(said, of)
	}
	for of, amount := range said {
		why = append(why, fmt.Sprintf("--total says %s %s, and no good row has that asset", amount.Format(of), of))
	}
	return why
}

// noteFile tells a person what is wrong, or strange, with single rows.
func (a *app) noteFile(name string, file *batch.File) {
	for _, bad := range file.Bad {
		a.note("%s: line %d: %s", name, bad.Line, bad.Reason)
	}
	if more := file.BadRows - len(file.Bad); more > 0 {
		a.note("%s: and %d more bad rows", name, more)
	}
	notes := func(lines []batch.Lines, all int, what string) {
		for _, l := range lines {
			a.note("%s: line %d %s line %d", name, l.Line, what, l.First)
		}
		if more := all - len(lines); more > 0 {
			a.note("%s: and %d more such lines", name, more)
		}
	}
	notes(file.Repeated, file.Repeats, "is paid once, since it has the ID and the content of")
	notes(file.Alike, file.AlikeRows, "is paid too, and looks, but for its ID, like")
}

func (a *app) batchSubmitOn(ctx context.Context, c client.Client, file *batch.File, view *batchView, flags *batchFlags) error {
	bar := a.startBatchProgress(file.Rows)
	stop := a.narrate(ctx, func(ctx context.Context) string {
		return strings.Join(diagnosis.Workflow(ctx, c, workflows.BatchWorkflowID(file.ID), ""), "; ")
	})
	status, err := transfers.New(c, transfers.Options{}).SubmitBatch(ctx, file, transfers.BatchOptions{
		NoWait:   !flags.wait,
		Attached: func(attached bool) { view.Attached = &attached },
		Tried:    bar.set,
	})
	stop()
	bar.finish()
	return a.reportSubmitted(view, &status, err, flags.wait)
}

// reportSubmitted tells where a batch stands that was submitted.
func (a *app) reportSubmitted(view *batchView, status *transfers.BatchStatus, err error, wait bool) error {
	var pending *transfers.BatchPendingError
	if err != nil && !errors.As(err, &pending) {
		return err
	}
	view.stand(status)
	code := exitOfCounts(view)
	if pending != nil {
		a.note("%s", pending)
		code = max(code, exitPending)
	} else if !wait && status.Result == nil {
		code = exitDone // Accepted is what was asked for.
	}
	return a.reportBatch(view, code)
}

func (a *app) batchStatusCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status BATCH",
		Short: "Tell where a batch stands",
		Long:  "Tell where a batch stands, without waiting for its end. The exit code is that of submitting it.",
		Args:  cobra.ExactArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			return a.batchStatus(cmd.Context(), args[0], timeout)
		}),
	}
	timeoutFlag(cmd, &timeout, timeoutTransfer)
	return cmd
}

func (a *app) batchStatus(ctx context.Context, id string, timeout time.Duration) error {
	if err := ledger.CheckID("batch", id, workflows.BatchIDBytesMax); err != nil {
		return err
	}
	return a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		status, err := transfers.New(c, transfers.Options{}).BatchStatus(ctx, id)
		if err != nil {
			return err
		}
		view := batchView{Batch: id}
		view.stand(&status)
		if view.State == batchStopped {
			a.note("its workflow was closed without an end; the rows that were sent go on: submit the same file again, and it goes on too")
		}
		return a.reportBatch(&view, exitOfCounts(&view))
	})
}

func (a *app) batchReportCommand() *cobra.Command {
	var timeout time.Duration
	form := reportOutput{form: outputCSV, app: a}
	cmd := &cobra.Command{
		Use:   "report BATCH",
		Short: "Tell what became of each row of a batch",
		Long: `Tell what became of each row of a batch, and why, in no particular order. The exit code is 0 if each row could be told, whatever
became of it.

It is read from Temporal. Rows of chunks that were not sent, or that Temporal has forgotten, can't be listed: submitting the same
file again tells each row's end again.`,
		Args: cobra.ExactArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			return a.batchReport(cmd.Context(), args[0], form.form, timeout)
		}),
	}
	// In place of the one that all commands have.
	cmd.Flags().Var(&form, "output", "csv, or json: one document")
	timeoutFlag(cmd, &timeout, 10*time.Minute)
	completeWith(cmd, "output", string(outputCSV), string(outputJSON))
	return cmd
}

const outputCSV output = "csv"

// reportOutput is the form of a report. Errors are told as those of other commands.
type reportOutput struct {
	form output
	app  *app
}

// String and Set and Type make it a flag.
func (o *reportOutput) String() string { return string(o.form) }

func (o *reportOutput) Set(s string) error {
	if s != string(outputCSV) && s != string(outputJSON) {
		return errors.New("choose csv or json")
	}
	o.form, o.app.output = output(s), outputText
	if o.form == outputJSON {
		o.app.output = outputJSON
	}
	return nil
}

func (o *reportOutput) Type() string { return "csv|json" }

func (a *app) batchReport(ctx context.Context, id string, form output, timeout time.Duration) error {
	if err := ledger.CheckID("batch", id, workflows.BatchIDBytesMax); err != nil {
		return err
	}
	return a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		payments := transfers.New(c, transfers.Options{})
		status, err := payments.BatchStatus(ctx, id)
		if err != nil {
			return err
		}
		var report batchReport = &csvReport{}
		if form == outputJSON {
			report = &jsonReport{batch: id}
		}
		report.begin(a.stdout)
		missing := 0
		err = payments.BatchReport(ctx, &status, id, report.row, func(int) error { missing++; return nil })
		if err == nil {
			err = report.end(missing)
		}
		if err == nil && missing > 0 {
			a.note("%d chunks of rows are not listed: they were not sent, or Temporal has forgotten them; submit the same file again, and each row's end is told again", missing)
			err = &exitError{code: exitPending}
		}
		return err
	})
}

// exitOfCounts is the exit code for where a batch stands: that of the row that is worst for whoever would pay again.
func exitOfCounts(v *batchView) exitCode {
	c := v.Counts
	switch {
	case c == nil:
		return exitPending
	case c.Conflicts > 0:
		return exitDifferent
	case v.State != batchEnded || c.Discarded > 0:
		return exitPending
	case c.Failed+c.Compensated+c.Cancelled > 0:
		return exitFailed
	case c.Rejected > 0:
		return exitRejected
	case c.Invalid > 0:
		return exitUsage
	default:
		return exitDone
	}
}
