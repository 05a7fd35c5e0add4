package storm

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// timeoutListen bounds how long a link waits for its port, which somebody else may have taken while it was cut.
const timeoutListen = 20 * time.Second

// link is the network between one process and one server.
type link struct {
	network        *network
	name, upstream string
	address        string // where the process finds the server

	proxy *toxiproxy.Proxy // by whoever holds fault
	// fault is held by the fault that strikes the link: one at a time.
	fault sync.Mutex
}

// network makes links.
type network struct{ server *toxiproxy.ApiServer }

func newNetwork() *network {
	return &network{toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())}
}

// link makes a link to a server.
func (n *network) link(name, upstream string) (*link, error) {
	l := &link{network: n, name: name, upstream: upstream, address: "127.0.0.1:0"}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	l.address = l.proxy.Listen
	return l, nil
}

func (l *link) close() {
	l.fault.Lock()
	defer l.fault.Unlock()
	l.proxy.Stop()
}

// cut ends all connections and refuses new ones for a while.
func (l *link) cut(ctx context.Context, d time.Duration) error {
	l.proxy.Stop()
	_ = pause(ctx, d)
	return l.open()
}

// open listens, with a proxy that has no toxics. A proxy is used once: toxiproxy takes a toxic out of a connection that
// carries data only when that data has gone through it.
func (l *link) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeoutListen)
	defer cancel()
	return retry(ctx, func() (bool, error) {
		l.proxy = toxiproxy.NewProxy(l.network.server, l.name, l.address, l.upstream)
		err := l.proxy.Start()
		return err == nil, err
	})
}

// direction is that of data on a link.
type direction string

const (
	toServer   direction = "upstream"
	fromServer direction = "downstream"
)

// swallow lets nothing through in one direction for a while, without a word: what is sent is lost. Then it ends all
// connections, since both ends would wait for ever.
func (l *link) swallow(ctx context.Context, where direction, d time.Duration) error {
	if err := l.toxic(fmt.Sprintf(`{"type": "timeout", "stream": %q, "attributes": {"timeout": 0}}`, where)); err != nil {
		return err
	}
	_ = pause(ctx, d)
	return l.heal()
}

// slow delays what comes back by a time, more or less, for a while.
func (l *link) slow(ctx context.Context, delay, d time.Duration) error {
	text := fmt.Sprintf(`{"type": "latency", "stream": %q, "attributes": {"latency": %d, "jitter": %d}}`,
		fromServer, delay.Milliseconds(), delay.Milliseconds()/2)
	if err := l.toxic(text); err != nil {
		return err
	}
	_ = pause(ctx, d)
	return l.heal()
}

func (l *link) toxic(text string) error {
	_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(text))
	return err
}

// heal takes all toxics away, and ends the connections that had them.
func (l *link) heal() error {
	l.proxy.Stop()
	return l.open()
}
