package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"

	"payonce/internal/railsim/sim"
)

// The settings that are secret, so from the environment.
const (
	envToken      = "RAILSIM_TOKEN"       //nolint:gosec // a variable's name
	envHMACSecret = "RAILSIM_HMAC_SECRET" //nolint:gosec // a variable's name
)

const stopTimeout = 5 * time.Second

type options struct {
	listen         string
	plans          string
	untilInputEnds bool
	rail           sim.Config
}

// run is the program. It ends when ctx does: payouts that are pending stay so, and all that was in memory is gone.
func run(
	ctx context.Context, args []string, lookup func(string) (string, bool), stdin io.Reader, stdout, stderr io.Writer,
) error {
	o, err := readOptions(args, lookup, stderr)
	if o == nil {
		return err // nil after --help
	}
	rail := sim.New(o.rail)
	defer rail.Close()
	if err := addPlans(rail, o.plans); err != nil {
		return err
	}
	if o.untilInputEnds {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	return serve(ctx, rail, o.listen, stdout)
}

func readOptions(args []string, lookup func(string) (string, bool), stderr io.Writer) (*options, error) {
	var o options
	flags := pflag.NewFlagSet("railsim", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8480", "where to answer the contract (/v1) and the control calls (/sim); port 0 is a free one")
	flags.StringVar(&o.plans, "plans", "", "a file with rules, as for POST /sim/plans")
	flags.StringVar(&o.rail.CallbackURL, "callback-url", "", "where changes are told, unless a plan says otherwise")
	flags.DurationVar(&o.rail.KeysKept, "keys-kept", 0, "how long keys are remembered, unless a plan says otherwise; 0 for ever")
	flags.BoolVar(&o.untilInputEnds, "until-input-ends", false, "stop when standard input ends")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			_, _ = fmt.Fprintf(stderr, "Secrets from the environment: %s, the bearer token that requests must have; %s, what requests and "+
				"callbacks are signed with.\n", envToken, envHMACSecret)
			return nil, nil
		}
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.rail.Token, _ = lookup(envToken)
	o.rail.HMACSecret, _ = lookup(envHMACSecret)
	o.rail.Log = slog.New(slog.NewTextHandler(stderr, nil))
	return &o, nil
}

func addPlans(rail *sim.Simulator, file string) error {
	if file == "" {
		return nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	rules, err := sim.ParseRules(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, rule := range rules {
		if err := rail.Plan(rule); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// serve answers until ctx ends, and says on standard output, as one JSON line, where.
func serve(ctx context.Context, rail *sim.Simulator, address string, stdout io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: rail, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	base := "http://" + listener.Addr().String()
	_ = json.NewEncoder(stdout).Encode(map[string]string{"event": "ready", "url": base + "/v1", "control": base + "/sim"})

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	rail.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
