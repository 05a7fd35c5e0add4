package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// benchParts are what the bench can measure by itself.
var benchParts = []string{"ledger", "temporal", "batch"}

type benchFlags struct {
	out   string
	quick bool
	runs  int
}

func (a *app) benchCommand() *cobra.Command {
	var flags benchFlags
	cmd := &cobra.Command{
		Use:   "bench [" + strings.Join(benchParts, "|") + "]...",
		Short: "Measure throughput and latency, on servers of its own on this machine",
		Long: `Measure throughput and latency, on servers of its own on this machine, which should do nothing else meanwhile. Without a part,
all are measured, which takes a quarter of an hour. What was found is printed, and written as results.json and report.html.

docs/performance.md tells what the figures mean.`,
		Example: `  starter bench
  starter bench ledger --quick
  starter bench batch --out /tmp/bench --output json`,
		Args:      cobra.OnlyValidArgs,
		ValidArgs: benchParts,
		RunE:      a.command(func(cmd *cobra.Command, parts []string) error { return a.bench(cmd.Context(), parts, &flags) }),
	}
	f := cmd.Flags()
	f.StringVar(&flags.out, "out", "bench", "the folder for results.json and report.html")
	f.BoolVar(&flags.quick, "quick", false, "without what takes minutes: the ledger of ten million entries")
	f.IntVar(&flags.runs, "runs", 3, "how often each is measured; the median counts")
	return cmd
}

// bench has the program of that name measure, which may use the ledgers and the workers as this one may not.
func (a *app) bench(ctx context.Context, parts []string, flags *benchFlags) error {
	program, err := findBeside("bench")
	if err != nil {
		return err
	}
	args := []string{"--bin=" + filepath.Dir(program), "--out=" + flags.out, "--quick=" + strconv.FormatBool(flags.quick), "--runs=" + strconv.Itoa(flags.runs)}
	if len(parts) > 0 {
		args = append(args, "--only="+strings.Join(parts, ","))
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = a.stdout, a.stderr
	if a.output == outputJSON {
		cmd.Stdout = a.stderr
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		if _, told := errors.AsType[*exec.ExitError](err); told && ctx.Err() == nil {
			return &exitError{code: exitInternal} // it has said why
		}
		return unlessInterrupted(ctx, err)
	}
	if a.output != outputJSON {
		return nil
	}
	results, err := os.Open(filepath.Join(flags.out, "results.json"))
	if err != nil {
		return err
	}
	defer results.Close()
	_, err = io.Copy(a.stdout, results)
	return err
}
