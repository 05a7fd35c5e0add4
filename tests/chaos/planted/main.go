// Planted is a fault worker whose books, or whose dealings with a payment rail, have one thing wrong, which PAYONCE_PLANT names:
// what the checker must find is planted here, to prove that it does. In everything else it is as careful as the real one.
//
// The faults are those that are made in earnest: a key that is recorded before or after the effect, one that names an
// attempt, an outcome that is guessed. Some need what the worker's role may not do, and use the owner's.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/activities"
	"payonce/internal/faultworker/host"
	"payonce/tests/chaos/storm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "planted: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	name := os.Getenv(storm.EnvPlant)
	inBooks, ok := plants[name]
	atRail, okRail := railPlants[name]
	if !ok && !okRail {
		return fmt.Errorf("%s: there is no plant %q", storm.EnvPlant, name)
	}
	owners, err := openOwners(ctx, os.Getenv(storm.EnvPlantLedgers))
	if err != nil {
		return err
	}
	program := host.Program{
		Version: "planted",
		WrapLedger: func(name string, sound activities.Ledger) activities.Ledger {
			return &books{Ledger: sound, plant: inBooks, owner: owners[name], cached: make(map[string]string)}
		},
		WrapRail: func(_ string, sound activities.Rail) activities.Rail { return &rail{Rail: sound, plant: atRail} },
	}
	return program.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// openOwners prepares connections to the ledgers' databases as their owner, behind their walls: without triggers.
func openOwners(ctx context.Context, ledgers string) (map[string]*pgxpool.Pool, error) {
	owners := make(map[string]*pgxpool.Pool)
	for entry := range strings.SplitSeq(ledgers, ",") {
		name, url, _ := strings.Cut(entry, "=")
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return nil, errors.New(storm.EnvPlantLedgers + " can't be read")
		}
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `set session_replication_role = replica`)
			return err
		}
		if owners[name], err = pgxpool.NewWithConfig(ctx, config); err != nil {
			return nil, err
		}
	}
	return owners, nil
}
