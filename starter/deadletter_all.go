package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"golang.org/x/term"

	"payonce/activities"
	"payonce/ledger"
	"payonce/workflows"
)

// deadLettersAll is the part of the command line that is about many dead letters.
type deadLettersAll struct {
	filter deadLetterFilter
	all    bool
	rate   float64
	dryRun bool
}

func (f *deadLettersAll) register(cmd *cobra.Command) {
	f.filter.register(cmd)
	f.filter.state = string(ledger.DeadLetterOpen)
	cmd.Flags().BoolVar(&f.all, "all", false, "every open dead letter of the ledger that fits the filters")
	cmd.Flags().Float64Var(&f.rate, "rate", 10, "with --all: how many a second at most")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "with --all: only tell what would be done")
}

// checkUnused refuses what only --all gives a meaning.
func (f *deadLettersAll) checkUnused(cmd *cobra.Command) error {
	for _, name := range append([]string{"rate", "dry-run"}, deadLetterFilters...) {
		if cmd.Flags().Changed(name) {
			return usagef("%s: --%s is about --all", name, name)
		}
	}
	return nil
}

// deadLetterDecideAll decides about each dead letter that was there and fitted when it began. What is set aside meanwhile, also
// again, is for another time.
func (a *app) deadLetterDecideAll(cmd *cobra.Command, args []string, words decisionWords, f *deadLettersAll, timeout time.Duration) error {
	if len(args) > 0 {
		return usagef("%q: name one dead letter, or --all", args[0])
	}
	if cmd.Flags().Changed("version") {
		return usagef("version: --version is about one dead letter")
	}
	if !(f.rate > 0 && f.rate <= 1000) {
		return usagef("rate: %v is not above 0 and at most 1000", f.rate)
	}
	in, err := f.filter.input(nil)
	if err != nil {
		return err
	}
	if timeout <= 0 {
		return usagef("--timeout: %s is not above zero", timeout)
	}
	ctx := cmd.Context()
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var letters []activities.DeadLetterView
	_, err = a.eachDeadLetter(ctx, c, in, 0, func(page []activities.DeadLetterView) error {
		for i := range page {
			page[i].Error, page[i].Resolution = "", "" // there may be very many
		}
		letters = append(letters, page...)
		return nil
	})
	if err != nil {
		return err
	}
	sweep := sweep{app: a, client: c, words: words, timeout: timeout, counts: make(map[decisionOutcome]int)}
	if f.dryRun {
		return sweep.tell(letters)
	}
	return sweep.run(ctx, letters, time.Duration(float64(time.Second)/f.rate))
}

// sweep decides about many dead letters.
type sweep struct {
	app     *app
	client  client.Client
	words   decisionWords
	timeout time.Duration
	counts  map[decisionOutcome]int
}

// tell prints what would be done.
func (s *sweep) tell(letters []activities.DeadLetterView) error {
	for i := range letters {
		view := s.words.view(&letters[i])
		view.Outcome = decisionWould
		n := deadLetterName(letters[i].Key)
		switch {
		case letters[i].Parked:
			view.Detail = fmt.Sprintf("the step %s gets fresh attempts", letters[i].Step)
		case n.what == ofPayout:
			view.Outcome, view.Detail = decisionRefused, "the payout has ended: to pay again is a new ID"
		default:
			view.NewTransfer = workflows.RetryTransferID(letters[i].Transfer)
			view.Detail = fmt.Sprintf("made anew as %q", view.NewTransfer)
		}
		if err := s.print(&view); err != nil {
			return err
		}
	}
	s.app.note("dry run: %d dead letters fit; nothing was changed", len(letters))
	return nil
}

func (s *sweep) print(view *decisionView) error {
	s.counts[view.Outcome]++
	if s.app.output == outputJSON {
		return s.app.printLine(view)
	}
	return view.text(s.app.stdout)
}

// run decides, one letter each interval at most.
func (s *sweep) run(ctx context.Context, letters []activities.DeadLetterView, interval time.Duration) error {
	progress := s.app.startProgress(len(letters))
	defer progress.stop()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for i := range letters {
		if i > 0 {
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			progress.stop()
			s.app.note("interrupted: %s, %d not begun; the same command goes on", s.summary(), len(letters)-i)
			return &exitError{code: exitPending}
		}
		progress.hide()
		if err := s.decide(ctx, &letters[i]); err != nil {
			return err
		}
		progress.step()
	}
	progress.stop()
	s.app.note("%d dead letters: %s", len(letters), s.summary())
	switch {
	case s.counts[decisionFailed] > 0:
		return &exitError{code: exitInternal}
	case s.counts[decisionPending] > 0:
		return &exitError{code: exitPending}
	case s.counts[decisionRefused] > 0:
		return &exitError{code: exitRejected}
	default:
		return nil
	}
}

// decide decides about one letter. Whatever comes of it is printed, and the others go on.
func (s *sweep) decide(ctx context.Context, letter *activities.DeadLetterView) error {
	itemCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	view, err := decideAbout(itemCtx, s.client, letter, s.words)
	switch {
	case err == nil:
	case isRefused(err):
		view.Outcome, view.Detail = decisionRefused, errorText(err)
	case exitOf(err) == exitPending:
		view.Outcome, view.Detail = decisionPending, errorText(err)
	default:
		view.Outcome, view.Detail = decisionFailed, errorText(err)
	}
	return s.print(&view)
}

func (s *sweep) summary() string {
	parts := []string{fmt.Sprintf("%d decisions taken", s.counts[decisionTaken])}
	for _, outcome := range []decisionOutcome{decisionRefused, decisionPending, decisionFailed} {
		if n := s.counts[outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	return strings.Join(parts, ", ")
}

// progress says how far a long command is: a bar on a terminal, a line now and then on anything else.
type progress struct {
	app  *app
	bar  *progressbar.ProgressBar // nil: there is no terminal
	all  int
	done int
	said time.Time
}

// intervalProgress is how often a line is written where there is no terminal.
const intervalProgress = 5 * time.Second

func (a *app) startProgress(all int) *progress {
	p := &progress{app: a, all: all, said: time.Now()}
	if file, ok := a.stderr.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.bar = progressbar.NewOptions(all, progressbar.OptionSetWriter(a.stderr), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	return p
}

// hide takes the bar away before something is written.
func (p *progress) hide() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *progress) step() {
	p.done++
	if p.bar != nil {
		_ = p.bar.Add(1)
		return
	}
	if time.Since(p.said) >= intervalProgress {
		p.app.note("%d of %d", p.done, p.all)
		p.said = time.Now()
	}
}

// stop takes the bar away for good. It may be called twice.
func (p *progress) stop() {
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
	}
}
