package storm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"payonce/internal/railsim/sim"
	"payonce/tests/chaos/checker"
)

const (
	railName   = "bank"
	railToken  = "chaos-rail-token"                    // no secret: it opens nothing but the simulator
	railSecret = "chaos-rail-secret-chaos-rail-secret" //nolint:gosec // likewise
	// The rail keeps keys longer than workers are told that it does, as docs/rails.md asks.
	railKeysKept, railKeysTold = 12 * time.Second, 8 * time.Second
	timeoutHint                = 8 * time.Second
)

// rail is the simulated payment rail of a world, and the service that takes its callbacks, as users have one.
type rail struct {
	sim     *sim.Simulator
	address string // of the contract
	hinted  string // the URL where it tells unasked
	servers []*http.Server

	mu    sync.Mutex
	round *round // whose payouts are under way; nil between rounds
}

func newRail() (*rail, error) {
	r := &rail{}
	callbacks, err := r.serve(http.HandlerFunc(r.takeCallback))
	if err != nil {
		return nil, err
	}
	r.hinted = "http://" + callbacks + "/callbacks"
	r.sim = sim.New(sim.Config{Token: railToken, HMACSecret: railSecret, KeysKept: railKeysKept, CallbackURL: r.hinted})
	r.address, err = r.serve(r.sim)
	if err != nil {
		r.close()
	}
	return r, err
}

func (r *rail) serve(handler http.Handler) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	r.servers = append(r.servers, server)
	go func() { _ = server.Serve(listener) }() // until close
	return listener.Addr().String(), nil
}

func (r *rail) close() {
	for _, server := range r.servers {
		_ = server.Close()
	}
	r.sim.Close()
}

// begin makes the payouts of a round those that callbacks are about; nil ends that.
func (r *rail) begin(of *round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round = of
}

// takeCallback passes a callback on as a hint. What was not passed on is sent again.
func (r *rail) takeCallback(w http.ResponseWriter, request *http.Request) {
	var callback struct {
		Reference string `json:"reference"`
	}
	r.mu.Lock()
	of := r.round
	r.mu.Unlock()
	if err := json.NewDecoder(io.LimitReader(request.Body, 1<<20)).Decode(&callback); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if of == nil || !strings.HasPrefix(callback.Reference, of.prefix+"-") {
		return // of a round that is over
	}
	ctx, cancel := context.WithTimeout(request.Context(), timeoutHint)
	defer cancel()
	k := of.world.clients[int(of.hints.Add(1))%len(of.world.clients)]
	if err := k.transfers.HintPayout(ctx, callback.Reference); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// env is what a worker needs to reach the rail through a link.
func (r *rail) env(through *link) []string {
	prefix := "RAIL_" + strings.ToUpper(railName) + "_"
	return []string{
		"RAILS=" + railName + "=http://" + through.address + "/v1", prefix + "TOKEN=" + railToken, prefix + "HMAC_SECRET=" + railSecret,
		prefix + "KEYS_KEPT=" + railKeysTold.String(),
	}
}

// railBooks are what the rail's own books have.
type railBooks struct {
	Payouts   []checker.RailPayout `json:"payouts"`
	Requests  []sim.Request        `json:"requests"`
	Callbacks []sim.Delivery       `json:"callbacks"`
}

// books are the rail's books of a round, read as anybody would who has only its address.
func (r *rail) books(ctx context.Context, prefix string) (books railBooks, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+"/sim/books", http.NoBody)
	if err != nil {
		return books, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return books, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&books); err != nil {
		return books, fmt.Errorf("the rail's books: %w", err)
	}
	others := func(reference string) bool { return !strings.HasPrefix(reference, prefix+"-") }
	books.Payouts = slices.DeleteFunc(books.Payouts, func(p checker.RailPayout) bool { return others(p.Reference) })
	books.Requests = slices.DeleteFunc(books.Requests, func(q sim.Request) bool { return others(q.Reference) })
	books.Callbacks = slices.DeleteFunc(books.Callbacks, func(d sim.Delivery) bool { return others(d.Reference) })
	return books, nil
}

var errRailBusy = errors.New("the rail has not decided everything, or not told it")

// awaitRail waits until the rail has decided all payouts of the round, what is to bounce has, and all callbacks
// are taken, or given up: a payout does not need them.
func (r *round) awaitRail(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return retry(ctx, func() (bool, error) {
		books, err := r.world.rail.books(ctx, r.prefix)
		if err != nil {
			return false, err
		}
		for i := range books.Payouts {
			p := &books.Payouts[i]
			if p.Status == "pending" || p.Status == "settled" && r.bounces(p.Reference) {
				return false, fmt.Errorf("%w: the payout %s is %s", errRailBusy, p.Reference, p.Status)
			}
		}
		for i := range books.Callbacks {
			if c := &books.Callbacks[i]; c.Pending > 0 {
				return false, fmt.Errorf("%w: callback %+v", errRailBusy, *c)
			}
		}
		return true, nil
	})
}

// railPayouts are the rail's own books of the round. It counts what the rail has done wrong.
func (r *round) railPayouts(ctx context.Context) ([]checker.RailPayout, error) {
	books, err := r.world.rail.books(ctx, r.prefix)
	for i := range books.Requests {
		if fault := books.Requests[i].Fault; fault != "" && fault != "answer" {
			r.record.struck(FaultRail)
		}
	}
	return books.Payouts, err
}
