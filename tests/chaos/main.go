// Chaos moves money while everything around it fails, and audits what is left: see package storm for what it does and
// package checker for what it looks at.
//
//	make chaos ROUNDS=100 SEED=1
//
// Each round has a seed of its own: that of the run, plus the number of the rounds before it. It prints one line per round
// on standard error, and one JSON document on standard output at the end. A violation ends the run: its story is told with
// the seed of its round, and the exit code is 1.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"payonce/internal/faultworker/wrongclock"
	"payonce/tests/chaos/checker"
	"payonce/tests/chaos/storm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "chaos: %v\n", err)
		os.Exit(1)
	}
}

var (
	errViolations  = errors.New("promises were broken")
	errNeverStruck = errors.New("faults that never struck")
)

// roundsAllFaults is within how many rounds each fault must have struck.
const roundsAllFaults = 50

// seedMax bounds a seed that nobody has chosen, so that it is short, and exact in any JSON reader.
const seedMax = 1_000_000

type flags struct {
	rounds    int
	seed      uint64
	transfers int
	bin       string
	verbose   bool
}

func readFlags(args []string, stderr io.Writer) (*flags, error) {
	var f flags
	set := flag.NewFlagSet("chaos", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.IntVar(&f.rounds, "rounds", 10, "how many rounds")
	set.Uint64Var(&f.seed, "seed", 0, "what everything random comes from; 0: a new one")
	set.IntVar(&f.transfers, "transfers", 0, "of the storm of a round; 0: as usual")
	set.StringVar(&f.bin, "bin", "bin", "the folder of the programs")
	set.BoolVar(&f.verbose, "v", false, "trace what the servers do, what clients are told, and the faults")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 || f.rounds < 1 {
		return nil, errors.New("usage: chaos [--rounds N] [--seed N]")
	}
	if f.seed == 0 {
		var random [8]byte
		_, _ = rand.Read(random[:])
		f.seed = 1 + binary.LittleEndian.Uint64(random[:])%seedMax
	}
	return &f, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f, err := readFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "seed %d\n", f.seed)
	dir, err := os.MkdirTemp("", "payonce-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	config := storm.ServersConfig{Dir: dir}
	if f.verbose {
		config.Log = stderr
	}
	servers, err := storm.StartServers(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	bin, err := filepath.Abs(f.bin)
	if err != nil {
		return err
	}
	fmt.Fprintln(stderr, "building a worker with a wrong clock; the first time takes a minute")
	wrong, err := wrongclock.Build(ctx, dir)
	if err != nil {
		return err
	}
	worldConfig := storm.Config{
		Servers: servers, Worker: filepath.Join(bin, "faultworker"), WrongClock: wrong, Starter: filepath.Join(bin, "starter"), Workers: 3,
	}
	if f.verbose {
		worldConfig.Trace = stderr
	}
	world, err := storm.NewWorld(ctx, worldConfig)
	if err != nil {
		return err
	}
	defer world.Close()

	t := storm.NewTally(f.seed)
	err = rounds(ctx, world, f, t, stderr)
	return errors.Join(err, json.NewEncoder(stdout).Encode(t))
}

// rounds runs the rounds until one has a violation.
func rounds(ctx context.Context, world *storm.World, f *flags, t *storm.Tally, stderr io.Writer) error {
	for i := range f.rounds {
		config := storm.DefaultRound(f.seed + uint64(i))
		if f.transfers > 0 {
			config.Transfers = f.transfers
		}
		begun := time.Now()
		outcome, err := world.Round(ctx, config)
		if err != nil {
			return fmt.Errorf("round %d, seed %d: %w", i+1, config.Seed, err)
		}
		violations := checker.Check(&outcome.Evidence)
		t.Add(outcome, len(violations))
		fmt.Fprintf(stderr, "round %d, seed %d: %s, %d violations, %.1fs\n", i+1, config.Seed, outcome, len(violations), time.Since(begun).Seconds())
		if len(violations) > 0 {
			tell(stderr, config.Seed, outcome, violations)
			return fmt.Errorf("%w: make chaos ROUNDS=1 SEED=%d", errViolations, config.Seed)
		}
	}
	if missing := t.Missing(); len(missing) > 0 && f.rounds >= roundsAllFaults {
		return fmt.Errorf("%w in %d rounds: %s", errNeverStruck, f.rounds, strings.Join(missing, ", "))
	}
	return nil
}

// violationsTold bounds how many violations are listed.
const violationsTold = 20

func tell(w io.Writer, seed uint64, outcome *storm.Outcome, violations []checker.Violation) {
	fmt.Fprintf(w, "\n%d violations, seed %d:\n", len(violations), seed)
	for i, v := range violations {
		if i == violationsTold {
			fmt.Fprintf(w, "  and %d more\n", len(violations)-i)
			break
		}
		fmt.Fprintf(w, "  %s\n", v)
	}
	_, story := checker.Smallest(&outcome.Evidence, violations)
	fmt.Fprintf(w, "\nThe smallest story:\n%s\n", story)
}
