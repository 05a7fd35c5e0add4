package faults

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/tests/harness"
	"payonce/workflows"
)

// load is clients that send transfers, each from 1.00 of one payer to one of two payees, on both kinds of way.
type load struct {
	w         *harness.World
	payer     string
	near, far string
	transfers []workflows.TransferInput
	clients   sync.WaitGroup

	mu       sync.Mutex
	told     map[string]workflows.TransferResult // what clients were told, by the transfers' IDs
	failures []string
}

// newLoad opens accounts for a number of transfers. A worker must be running.
func newLoad(t *testing.T, w *harness.World, transfers int) *load {
	t.Helper()
	l := &load{
		w: w, payer: w.Account(t, "us", fmt.Sprint(transfers)), near: w.Account(t, "us", ""), far: w.Account(t, "eu", ""),
		told: make(map[string]workflows.TransferResult),
	}
	for i := range transfers {
		in := workflows.TransferInput{ID: fmt.Sprintf("coffee-%d", i), From: l.payer, To: l.near, Amount: "1", Asset: "USD"}
		if i%2 == 0 {
			in.To = l.far
		}
		l.transfers = append(l.transfers, in)
	}
	return l
}

// send has clients send all transfers, each a share, one after the other.
func (l *load) send(t *testing.T, clients int) {
	t.Helper()
	ctx := harness.Within(t, 3*patience)
	for client := range clients {
		l.clients.Go(func() {
			for i := client; i < len(l.transfers); i += clients {
				result, err := l.w.Transfers.Transfer(ctx, l.transfers[i])
				l.mu.Lock()
				if err != nil {
					l.failures = append(l.failures, fmt.Sprintf("%s: %v", l.transfers[i].ID, err))
				} else {
					l.told[l.transfers[i].ID] = result
				}
				l.mu.Unlock()
			}
		})
	}
}

// awaitTold waits until clients were told the ends of a number of transfers.
func (l *load) awaitTold(t *testing.T, atLeast int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("the ends of %d transfers are told", atLeast), func() bool { return len(l.toldSoFar()) >= atLeast })
}

func (l *load) toldSoFar() map[string]workflows.TransferResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.told)
}

// stands holds that what was told is so: each transfer's operations are in the ledgers.
func (l *load) stands(t *testing.T, told map[string]workflows.TransferResult) {
	t.Helper()
	for _, in := range l.transfers {
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
	require.Len(t, told, len(l.transfers))
	l.stands(t, told)
	n := len(l.transfers)
	require.Equal(t, []string{"0.00", fmt.Sprintf("%d.00", n/2), fmt.Sprintf("%d.00", n-n/2)}, l.w.Balances(t, l.payer, l.near, l.far))
	require.Len(t, movements(t, l.w, l.payer), n+1)
	require.Len(t, movements(t, l.w, l.near), n/2)
	require.Len(t, movements(t, l.w, l.far), n-n/2)
}
