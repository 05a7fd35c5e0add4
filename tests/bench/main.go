// Bench measures payonce on this machine: the ledger against what PostgreSQL can do at most and against the usual way, and
// transfers through Temporal against the shape of Temporal's own template, and batch files. PostgreSQL, Temporal, workers and clients share the
// machine, so figures are ratios within a run, or come with their conditions.
//
// It prints what it finds, and writes results.json and report.html into a folder.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	work := func() error { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) }
	if len(os.Args) == 2 && os.Args[1] == templateWorker {
		work = func() error { return runTemplateWorker(ctx) }
	}
	if err := work(); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	world   *world
	results results

	quick  bool
	match  *regexp.Regexp
	runs   int           // of each measurement
	while  time.Duration // of each run
	stderr io.Writer
	stdout io.Writer
}

// parts are what can be measured by itself, in the order of a whole run.
var parts = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"ledger", (*bench).ledger},
	{"temporal", (*bench).temporal},
	{"batch", (*bench).batch},
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	b := &bench{stdout: stdout, stderr: stderr}
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	var names []string
	for _, part := range parts {
		names = append(names, part.name)
	}
	only := flags.StringSlice("only", names, "the parts to measure")
	out := flags.String("out", "bench", "the folder for results.json and report.html")
	bin := flags.String("bin", "bin", "the folder of the programs")
	match := flags.String("match", "", "of the part temporal, measure only what this regular expression matches: \"grouped, 256\"")
	flags.BoolVar(&b.quick, "quick", false, "without what takes minutes: the ledger of ten million entries")
	flags.IntVar(&b.runs, "runs", 3, "how often each is measured")
	flags.DurationVar(&b.while, "while", 4*time.Second, "how long each run is")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, name := range *only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("there is no part %q: the parts are %s", name, strings.Join(names, ", "))
		}
	}
	if b.match, err = regexp.Compile(*match); err != nil {
		return err
	}
	if b.runs < 1 || b.while <= 0 {
		return errors.New("--runs and --while must be above zero")
	}
	if b.world, err = newWorld(ctx, *bin, stderr); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.world.close()) }()
	if err := b.describeMachine(ctx); err != nil {
		return err
	}
	for _, part := range parts {
		if !slices.Contains(*only, part.name) {
			continue
		}
		if err := part.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return b.write(*out)
}

// say tells a person how far it is.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.stdout, format+"\n", args...) }

func (b *bench) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(b.results, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	report, err := os.Create(filepath.Join(dir, "report.html"))
	if err != nil {
		return err
	}
	err = errors.Join(writeReport(report, &b.results), report.Close())
	b.say("written to %s and %s", filepath.Join(dir, "results.json"), filepath.Join(dir, "report.html"))
	return err
}
