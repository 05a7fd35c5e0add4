package faults

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/tests/harness"
	"payonce/workflows"
)

// load is clients that send transfers until they are told that it is enough, each from 1.00 of one payer to one of two
// payees, on both kinds of way.
type load struct {
	w         *harness.World
	payer     string
	near, far string
	clients   sync.WaitGroup

	mu       sync.Mutex
	enough   bool
	sent     []workflows.TransferInput
	told     map[string]workflows.TransferResult // what clients were told, by the transfers' IDs
	failures []string
}

// transfersMax is more than clients send before anybody tells them that it is enough.
const transfersMax = 10_000

// newLoad opens accounts. A worker must be running.
func newLoad(t *testing.T, w *harness.World) *load {
	t.Helper()
	return &load{
		w: w, payer: w.Account(t, "us", fmt.Sprint(transfersMax)), near: w.Account(t, "us", ""), far: w.Account(t, "eu", ""),
		told: make(map[string]workflows.TransferResult),
	}
}

// send has clients send transfers, each of them one after the other.
func (l *load) send(t *testing.T, clients int) {
	t.Helper()
	ctx := harness.Within(t, 3*patience)
	for range clients {
		l.clients.Go(func() {
			for {
				in, more := l.next()
				if !more {
					return
				}
				result, err := l.w.Transfers.Transfer(ctx, in)
				l.mu.Lock()
				if err != nil {
					l.failures = append(l.failures, fmt.Sprintf("%s: %v", in.ID, err))
				} else {
					l.told[in.ID] = result
				}
				l.mu.Unlock()
			}
		})
	}
}

// next is a transfer to send, unless it is enough.
func (l *load) next() (in workflows.TransferInput, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.enough || len(l.sent) == transfersMax || len(l.failures) > 0 {
		return in, false
	}
	in = workflows.TransferInput{ID: fmt.Sprintf("coffee-%d", len(l.sent)), From: l.payer, To: l.near, Amount: "1", Asset: "USD"}
	if len(l.sent)%2 == 0 {
		in.To = l.far
	}
	l.sent = append(l.sent, in)
	return in, true
}

// awaitTold waits until clients were told the ends of a number of transfers.
func (l *load) awaitTold(t *testing.T, atLeast int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("the ends of %d transfers are told", atLeast), func() bool { return len(l.toldSoFar()) >= atLeast })
}

// underWay holds that transfers are under way, and lets no more be sent than those.
func (l *load) underWay(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Greater(t, len(l.sent), len(l.told), "it is under load")
	l.enough = true
}

func (l *load) toldSoFar() map[string]workflows.TransferResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.told)
}

// stands holds that what was told is so: each transfer's operations are in the ledgers.
func (l *load) stands(t *testing.T, told map[string]workflows.TransferResult) {
	t.Helper()
	l.mu.Lock()
	sent := slices.Clone(l.sent)
	l.mu.Unlock()
	for _, in := range sent {
		result, ok := told[in.ID]
		if !ok {
			continue
		}
		require.Equal(t, workflows.StateCompleted, result.State, "%+v", result)
		steps := posted
		if in.To == l.far {
			steps = arrived
		}
		require.Equal(t, steps, l.w.Steps(t, in.ID), "%s was told that it is completed", in.ID)
	}
}

// ends waits until all clients were told, and holds that each transfer was made once.
func (l *load) ends(t *testing.T) {
	t.Helper()
	l.clients.Wait()
	require.Empty(t, l.failures)
	told := l.toldSoFar()
	n := len(l.sent)
	require.Len(t, told, n)
	l.stands(t, told)
	require.Equal(t, []string{fmt.Sprintf("%d.00", transfersMax-n), fmt.Sprintf("%d.00", n/2), fmt.Sprintf("%d.00", n-n/2)}, l.w.Balances(t, l.payer, l.near, l.far))
	require.Len(t, movements(t, l.w, l.payer), n+1)
	require.Len(t, movements(t, l.w, l.near), n/2)
	require.Len(t, movements(t, l.w, l.far), n-n/2)
}
