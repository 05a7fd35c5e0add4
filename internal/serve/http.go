package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// listen answers /metrics, /healthz, /readyz and the callbacks of rails, if an address is set. The function that it returns stops that.
func (s *server) listen(ctx context.Context, m *metrics) (closeHTTP func(), err error) {
	if s.config.Listen == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Listen)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvListen, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.handler)
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("POST /rails/{name}/callbacks", s.callback)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("metrics, health and callbacks are not answered any more", "error", err)
		}
	}()
	s.log.Info("answering /metrics, /healthz and /readyz", "address", listener.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close()
		}
		<-done
	}, nil
}

// healthz says that the process is alive: it is right to restart one that does not answer, and only such a one.
func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, "ok")
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready   bool              `json:"ready"`
	State   string            `json:"state"` // starting, serving, stopping
	Ledgers []ledgerReadiness `json:"ledgers"`
}

type ledgerReadiness struct {
	Ledger string    `json:"ledger"`
	Open   bool      `json:"open"`
	Since  time.Time `json:"since"`
	Error  string    `json:"error,omitempty"`
}

// readyz says whether the worker does its work: it polls, and at least one ledger can be reached. One ledger of several
// that is down does not make it unready, since it goes on serving the others.
func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	answer := readiness{State: s.state.String()}
	for _, l := range s.ledgers {
		status := l.gate.status()
		one := ledgerReadiness{Ledger: l.name, Open: status.open, Since: status.since.UTC()}
		if status.cause != nil {
			one.Error = status.cause.Error()
		}
		answer.Ready = answer.Ready || status.open
		answer.Ledgers = append(answer.Ledgers, one)
	}
	answer.Ready = answer.Ready && s.state.serving()
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer)
}
