package health

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/tests/harness"
	"payonce/workflows"
)

const (
	// A block is transfers that are sent at once. Blocks with poison and blocks without take turns, since the machine is not
	// equally fast all the time.
	blockSize   = 500
	poisonEvery = 50 // 2 %
	// After pairsMin pairs of blocks 2,000 transfers have met poison. More are made while the figures don't show that it costs
	// nothing: a busy machine scatters them, and a cost that is there stays.
	pairsMin = 4
	pairsMax = 10
	// throughputMin is the least that the healthy transfers of a block with poison may reach of what those of the block without
	// it do: the median of all pairs. On a machine that does something else beside, blocks differ by more than that, so what is
	// required there, throughputMinShared, only tells that poison does not jam the others. `make health` requires the first.
	throughputMin       = 0.95
	throughputMinShared = 0.6

	// goroutinesMore and heapMore are how much more of them a worker may have after all poison than before it.
	goroutinesMore = 20
	heapMore       = 8 << 20
)

// The kinds of poison: an attempt that panics at once, one that waits for an account which somebody holds until its time-out is
// past, and one whose error is a megabyte of text.
const (
	panics = "panic"
	slow   = "slow"
	huge   = "huge"
)

// hugeSQL makes the database refuse the deposits of one kind of transfers, as a trigger of somebody's own may, with a text that nobody
// wants to read, and with them the database transaction that they share with others. They can be given up all the same.
const hugeSQL = `
create function refuse_at_length() returns trigger language plpgsql as $$
begin
	raise exception '%', repeat('no ', 350000);
end $$;
create trigger refuse_at_length before insert on operations
	for each row when (new.memo = 'huge' and new.state = 'applied') execute function refuse_at_length()`

// envQuiet says that the machine does nothing else.
const envQuiet = "PAYONCE_QUIET_MACHINE"

func options(o *workflows.Options) {
	o.Fast.AttemptsMax = 1
	// More than a healthy one uses up: with hundreds at once it may take seconds on a slow machine.
	o.Forward.AttemptsMax = 5
	o.Fast.TimeoutStartToClose, o.Forward.TimeoutStartToClose = 2*time.Second, 3*time.Second
}

// TestPoisonAmongMany has 2 % of 2,000 transfers be poison, and holds that the others are as fast as without it, and that their
// worker is then as it was before.
func TestPoisonAmongMany(t *testing.T) { //nolint:paralleltest // it measures
	w := harness.New(t, harness.Config{})
	w.Exec(t, "eu", hugeSQL)
	worker := w.StartFaultWorker(t, harness.FaultConfig{
		Options: options, Sticky: true, Env: []string{"PAYONCE_LISTEN=127.0.0.1:0", "PAYONCE_POOL_SIZE=10"},
		Faults: []string{"deposit/before=panic:always;transfer=" + panics}, // the transfers whose IDs begin so
	})
	b := &bank{w: w, held: w.Account(t, "eu", "")}
	defer w.LockAccount(t, b.held).Release()
	for i := range b.payers {
		b.payers[i] = "us/payer-" + strconv.Itoa(i)
		w.Open(t, activities.AccountOpenInput{Account: b.payers[i], Asset: "USD", Floor: activities.LimitNone})
		b.near[i], b.far[i] = w.Account(t, "us", ""), w.Account(t, "eu", "")
	}
	b.block(t, false) // what is done once is done
	goroutines, heap := settled(t, worker, b, nil)

	least := throughputMinShared
	if os.Getenv(envQuiet) != "" {
		least = throughputMin
	}
	var ratios []float64
	for pair := 0; pair < pairsMin || pair < pairsMax && median(ratios) < least; pair++ {
		throughput := make(map[bool]float64, 2)
		for _, poison := range []bool{pair%2 == 0, pair%2 != 0} {
			throughput[poison] = b.block(t, poison)
		}
		ratios = append(ratios, throughput[true]/throughput[false])
		t.Logf("%.0f healthy transfers/s with poison, %.0f without", throughput[true], throughput[false])
	}
	t.Logf("with poison the healthy reach %.0f %% of the throughput without it (the median of %d pairs)", 100*median(ratios), len(ratios))
	assert.GreaterOrEqual(t, median(ratios), least)

	goroutinesAfter, heapAfter := settled(t, worker, b, func(goroutinesNow, heapNow float64) bool {
		return goroutinesNow <= goroutines+goroutinesMore && heapNow <= heap+heapMore
	})
	t.Logf("goroutines: %.0f before, %.0f after; heap: %.1f MiB before, %.1f MiB after", goroutines, goroutinesAfter, heap/(1<<20), heapAfter/(1<<20))

	var letters int
	require.NoError(t, w.DB(t, "us").QueryRow(t.Context(), `select count(*) from dead_letters where state = 'open' and ended = 'compensated'`).Scan(&letters))
	assert.Equal(t, b.poison, letters, "each poison has its dead letter")
}

// accounts spread the transfers, so that none is a hot one.
const accounts = 50

// bank sends blocks of transfers.
type bank struct {
	w                 *harness.World
	payers, near, far [accounts]string
	held              string
	blocks, poison    int // so far
}

// block sends a block, waits for all ends, and returns how many healthy transfers were done in a second.
func (b *bank) block(t *testing.T, poison bool) (throughput float64) {
	t.Helper()
	return b.send(t, blockSize, poison)
}

func (b *bank) send(t *testing.T, size int, poison bool) (throughput float64) {
	t.Helper()
	b.blocks++
	healthy := fmt.Sprintf("healthy/%d/", b.blocks)
	requests := make([]workflows.TransferInput, size)
	poisoned := 0
	for i := range requests {
		in := workflows.TransferInput{
			ID: healthy + strconv.Itoa(i), From: b.payers[i%accounts], To: b.near[(i+1)%accounts], Amount: "1", Asset: "USD",
		}
		if i%2 == 0 {
			in.To = b.far[i%accounts]
		}
		if poison && i%poisonEvery == 0 {
			in.Memo = []string{panics, slow, huge}[poisoned%3]
			in.ID = fmt.Sprintf("%s/%d/%d", in.Memo, b.blocks, i)
			if in.Memo == slow {
				in.To = b.held
			}
			poisoned++
		}
		requests[i] = in
	}
	b.poison += poisoned

	began := time.Now()
	b.start(t, requests)
	b.await(t, size-poisoned, `select count(*) from operations where starts_with(key, $1) and kind in ('post', 'deposit') and state = 'applied'`,
		"transfer/"+healthy)
	took := time.Since(began)
	// The next block begins when nothing is left of this one.
	b.await(t, b.poison, `select count(*) from dead_letters where $1 <> '' and state = 'open' and ended = 'compensated'`, healthy)
	return float64(size-poisoned) / took.Seconds()
}

func (b *bank) start(t *testing.T, requests []workflows.TransferInput) {
	t.Helper()
	const clients = 16
	ctx := harness.Within(t, 5*time.Minute)
	var starting sync.WaitGroup
	for c := range clients {
		starting.Go(func() {
			for i := c; i < len(requests); i += clients {
				in := &requests[i]
				_, err := b.w.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
					ID: workflows.TransferWorkflowID(in.ID), TaskQueue: workflows.TaskQueue,
				}, workflows.TransferWorkflow, in)
				if !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	starting.Wait()
	require.False(t, t.Failed())
}

// await waits until a count over both ledgers is as wanted.
func (b *bank) await(t *testing.T, want int, sql, arg string) {
	t.Helper()
	harness.EventuallyWithin(t, 5*time.Minute, fmt.Sprintf("%d: %s", want, sql), func() bool {
		sum := 0
		for _, ledger := range b.w.Ledgers {
			var n int
			require.NoError(t, b.w.DB(t, ledger).QueryRow(t.Context(), sql, arg).Scan(&n))
			sum += n
		}
		require.LessOrEqual(t, sum, want)
		return sum == want
	})
}

// settled reads how many goroutines a worker has, and the heap that was alive at its last garbage collection, when they are as
// they should be, or if that is nil, after a while. Small blocks of transfers meanwhile cause collections.
func settled(t *testing.T, worker *harness.FaultWorker, b *bank, as func(goroutines, heap float64) bool) (goroutines, heap float64) {
	t.Helper()
	rounds := 0
	harness.Eventually(t, "the worker is as it was", func() bool {
		b.send(t, 50, false)
		rounds++
		// By default the next collection is due when the heap is twice what the last one left.
		goroutines, heap = metric(t, worker, "go_goroutines"), metric(t, worker, "go_memstats_next_gc_bytes")/2
		if as == nil {
			return rounds == 5
		}
		return as(goroutines, heap)
	})
	return goroutines, heap
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// metric reads a value of a worker's metrics.
func metric(t *testing.T, worker *harness.FaultWorker, name string) float64 {
	t.Helper()
	for line := range strings.Lines(worker.Metrics(t)) {
		if text, found := strings.CutPrefix(line, name+" "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64) //nolint:forbidigo // not money
			require.NoError(t, err)
			return value
		}
	}
	require.Fail(t, "not measured", name)
	return 0
}
