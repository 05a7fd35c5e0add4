package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"go.temporal.io/sdk/client"

	"payonce/starter/transfers"
)

// ledgersAll are the ledgers that a round may have, in this order.
var ledgersAll = []string{"us", "eu", "ap"}

const (
	clientsCount = 3
	poolSize     = 5
)

// Config is a world to make.
type Config struct {
	Servers *Servers
	// Namespace is made for the world; "" is the servers' own one.
	Namespace string
	// Worker and Starter are the paths of the programs. Without Starter, no clients are processes.
	Worker, Starter string
	// WrongClock is the path of the worker that package wrongclock builds; "" leaves wrong clocks out.
	WrongClock string
	// Plant is the fault that is planted in the workers' books; "" when Worker is not the program for that.
	Plant string
	// Workers is how many workers there are.
	Workers int
	// Trace gets a line for each call that a client makes and each fault that is over; nil: nowhere.
	Trace io.Writer
}

// World is where rounds take place: servers, workers and clients, and the network between them. It has one round at a time.
type World struct {
	config    Config
	servers   *Servers
	namespace string
	network   *network
	rail      *rail
	slots     []*slot
	clients   []*clerk
	rounds    int
}

// clerk is a client of Temporal with a network of its own.
type clerk struct {
	name      string
	link      *link
	temporal  client.Client
	transfers *transfers.Client
}

// NewWorld makes a world. Nothing is left behind after an error.
func NewWorld(ctx context.Context, c Config) (_ *World, err error) {
	w := &World{config: c, servers: c.Servers, namespace: c.Namespace, network: newNetwork()}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if w.namespace == "" {
		w.namespace = "chaos"
	}
	if err := w.servers.makeNamespace(ctx, w.namespace); err != nil {
		return nil, err
	}
	if w.rail, err = newRail(); err != nil {
		return nil, err
	}
	for i := range c.Workers {
		s, err := w.newSlot(i)
		if err != nil {
			return nil, err
		}
		w.slots = append(w.slots, s)
	}
	for i := range clientsCount {
		k := &clerk{name: fmt.Sprintf("client-%d", i+1)}
		if k.link, err = w.network.link(k.name, w.servers.temporal.Address); err != nil {
			return nil, err
		}
		w.clients = append(w.clients, k)
		if k.temporal, err = dial(ctx, k.link.address, w.namespace); err != nil {
			return nil, err
		}
		k.transfers = transfers.New(k.temporal, transfers.Options{})
	}
	return w, nil
}

// Close takes the world down, and leaves its servers. Safe to call twice.
func (w *World) Close() {
	for _, s := range w.slots {
		s.close()
	}
	for _, k := range w.clients {
		if k.temporal != nil {
			k.temporal.Close()
		}
		k.link.close()
	}
	if w.rail != nil {
		w.rail.close()
	}
	w.slots, w.clients, w.rail = nil, nil, nil
}

// database is the name of a ledger's database in a round.
func (w *World) database(round int, ledger string) string {
	return strings.ReplaceAll(fmt.Sprintf("%s_%d_%s", w.namespace, round, ledger), "-", "_")
}

// through is a database's URL for the workers, through a link.
func (w *World) through(l *link, database string) (string, error) {
	u, err := url.Parse(w.servers.postgres.URLAs(workerRole, w.servers.password, database))
	if err != nil {
		return "", errors.New("a database's URL can't be read")
	}
	u.Host = l.address
	return u.String(), nil
}

// basicEnv is what any program needs, and nothing that steers one of ours.
func basicEnv() []string {
	env := []string{"TEMPORAL_CONFIG_FILE=" + os.DevNull}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "XDG_CACHE_HOME", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
