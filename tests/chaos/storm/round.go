package storm

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"payonce/activities"
	"payonce/internal/railsim/sim"
	"payonce/tests/chaos/checker"
	"payonce/workflows"
)

// RoundConfig is a round.
type RoundConfig struct {
	Seed uint64
	// Transfers is how many transfers the storm has.
	Transfers int
	// Batches is how many batches are submitted beside them, and Payouts how many payouts are made.
	Batches, Payouts int
	// RailPlan changes what the rail does to each payout; nil leaves what was drawn.
	RailPlan func(*sim.Plan)
	// Ledgers is how many ledgers there are; 0: two or three, by the seed.
	Ledgers int
	Mix     Mix
	Strikes Strikes
	// Points are the faults that workers do to themselves; nil: none.
	Points Points
	// Options change the workflows' options; nil: as drawn.
	Options func(*workflows.Options)
	// Shifts is how often accounts are opened, frozen and given other limits.
	Shifts int
	// Witnesses is how many transfers are sent when calm has come, to which nothing is done, beside half as many that are
	// poison.
	Witnesses int
	// Repeats is how many transfers are sent once more when everything has settled.
	Repeats int
	// Linger is how long the storm goes on after the last transfer was sent, at most: it ends with the last transfer, but not
	// before LingerLeast.
	Linger, LingerLeast time.Duration
	// Settle bounds how long everything may take to settle once calm has come, and Prompt how long one transfer may take
	// to which nothing is done.
	Settle, Prompt time.Duration
}

// DefaultRound is a round with everything.
func DefaultRound(seed uint64) RoundConfig {
	return RoundConfig{
		Seed: seed, Transfers: 200, Batches: 4, Payouts: 20, Mix: FullMix(), Strikes: AllStrikes(12), Points: AllPoints, Shifts: 14, Witnesses: 6, Repeats: 25,
		Linger: 500 * time.Millisecond, Settle: 90 * time.Second, Prompt: 20 * time.Second,
	}
}

// Outcome is what is left of a round.
type Outcome struct {
	Evidence checker.Evidence
	// Faults is how often each fault has struck.
	Faults map[string]int
	// Transfers is how many transfers and payouts were asked for, Payouts how many of them were payouts, and Ends how the transfers
	// ended.
	Transfers, Payouts int
	Ends               map[string]int
	// Stormed, Settled and Gathered are how long the parts of the round took.
	Stormed, Settled, Gathered time.Duration
}

// The phases of a round.
const (
	phaseStorm int32 = iota
	phaseCalm
	phaseOver
)

const (
	// errandsAtOnce is how many transfers are under way at once.
	errandsAtOnce = 24
	timeoutForget = 10 * time.Second
	// timeoutPrepare bounds what comes before the storm, and what comes after the calm.
	timeoutPrepare = 2 * time.Minute
)

// round is a round that runs.
type round struct {
	world      *World
	config     RoundConfig
	options    workflows.Options
	ledgers    []string
	databases  map[string]string
	prefix     string // of the transfers' IDs
	namespaced client.Client
	record     *record
	started    time.Time

	remittances []*remittance // set before the storm
	hints       atomic.Int64  // of the rail, that were passed on

	phase      atomic.Int32
	sent       atomic.Int64 // transfers of the storm
	servers    sync.Mutex   // one of them is killed and started again
	background sync.WaitGroup

	mu       sync.Mutex
	shifting map[string]bool
	failure  error // of the harness itself
	abort    context.CancelCauseFunc
}

// Round runs a round and returns what is left of it. An error is the harness's own: it says nothing about the product.
func (w *World) Round(ctx context.Context, c RoundConfig) (_ *Outcome, err error) {
	w.rounds++
	random := stream(c.Seed, "round")
	ledgers := ledgersAll[:2+random.IntN(len(ledgersAll)-1)]
	if c.Ledgers > 0 {
		ledgers = ledgersAll[:c.Ledgers]
	}
	r := &round{
		world: w, config: c, options: optionsOf(stream(c.Seed, "options")), ledgers: ledgers, databases: make(map[string]string),
		prefix: fmt.Sprintf("r%d", w.rounds), record: newRecord(w.config.Trace), shifting: make(map[string]bool), started: time.Now(),
	}
	if c.Options != nil {
		c.Options(&r.options)
	}
	if r.namespaced, err = dial(ctx, w.servers.temporal.Address, w.namespace); err != nil {
		return nil, err
	}
	defer r.namespaced.Close()
	for _, ledger := range ledgers {
		r.databases[ledger] = w.database(w.rounds, ledger)
		if err := w.servers.postgres.CreateDatabase(ctx, r.databases[ledger], template); err != nil {
			return nil, err
		}
		if err := r.openAccounts(ctx, ledger); err != nil {
			return nil, err
		}
	}
	runCtx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	r.abort = abort
	var workers errgroup.Group
	for _, s := range w.slots {
		workers.Go(func() error { return r.keep(s) })
	}
	w.rail.begin(r)
	outcome, err := r.run(runCtx)
	w.rail.begin(nil)
	r.phase.Store(phaseOver)
	for _, s := range w.slots {
		s.kill()
	}
	err = errors.Join(err, workers.Wait())
	r.background.Wait()
	for _, ledger := range ledgers {
		err = errors.Join(err, w.servers.postgres.DropDatabase(context.WithoutCancel(ctx), r.databases[ledger]))
	}
	return outcome, errors.Join(err, r.failure)
}

// fail notes an error of the harness itself, which ends the round badly: nobody waits any more for a server that does not come
// back.
func (r *round) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = errors.Join(r.failure, err)
	r.abort(err)
}

func (r *round) run(ctx context.Context) (*Outcome, error) {
	prepareCtx, cancel := context.WithTimeout(ctx, timeoutPrepare)
	defer cancel()
	if err := r.awaitWorkers(prepareCtx, 1); err != nil {
		return nil, err
	}
	draw := &drawing{random: stream(r.config.Seed, "transfers"), ledgers: r.ledgers, prefix: r.prefix, mix: r.config.Mix}
	outcome := &Outcome{}

	begun := time.Now()
	errandsCtx, cancelErrands := context.WithCancel(ctx)
	errands := newErrands(errandsAtOnce)
	payouts := newErrands(max(r.config.Payouts, 1)) // they take as long as their rail does, and hold up nobody
	// recall takes back what is still under way, also when the round is given up: it uses the world's clients.
	recall := func() {
		cancelErrands()
		errands.wait(context.WithoutCancel(ctx), timeoutPrepare)
		payouts.wait(context.WithoutCancel(ctx), timeoutPrepare)
	}
	defer recall()
	nursed, dismiss := context.WithCancel(ctx)
	var nursing sync.WaitGroup
	nursing.Go(func() { r.nurse(nursed) })
	defer nursing.Wait()
	defer dismiss()
	storm := draw.storm(r.config.Transfers)
	bundles := draw.bundles(r.config.Batches, storm)
	r.remittances = draw.remittances(r.config.Payouts, len(storm))
	for _, m := range r.remittances {
		if r.config.RailPlan != nil {
			r.config.RailPlan(&m.plan)
		}
	}
	for _, e := range draw.funding(storm, bundles, r.remittances) {
		errands.send(func() { r.carryOut(errandsCtx, e) })
	}
	errands.wait(ctx, r.config.Settle)
	var attack sync.WaitGroup
	attack.Go(func() { r.attack(ctx) })
	attack.Go(func() { r.shift(errandsCtx) })
	for i, e := range storm {
		for _, b := range bundles {
			if b.after == i {
				errands.send(func() { r.submit(errandsCtx, b) })
			}
		}
		for _, m := range r.remittances {
			if m.after == i {
				payouts.send(func() { r.pay(errandsCtx, m) })
			}
		}
		errands.send(func() { r.carryOut(errandsCtx, e) })
		r.sent.Add(1)
	}
	attack.Wait()
	_ = pause(ctx, r.config.LingerLeast)
	errands.wait(ctx, r.config.Linger)
	outcome.Stormed = time.Since(begun)

	begun = time.Now()
	if err := r.calm(ctx); err != nil {
		return nil, err
	}
	for _, e := range draw.witnesses(r.config.Witnesses) {
		errands.send(func() { r.carryOut(errandsCtx, e) })
	}
	limit := r.config.Settle
	errands.wait(ctx, limit)
	payouts.wait(ctx, max(limit-time.Since(begun), time.Second))
	if err := r.awaitRail(ctx, max(limit-time.Since(begun), time.Second)); err != nil && ctx.Err() == nil {
		r.record.tell("%v", err) // what follows from it, the checker finds
	}
	r.awaitClosed(ctx, max(limit-time.Since(begun), time.Second))
	recall()
	outcome.Settled = time.Since(begun)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}

	begun = time.Now()
	gatherCtx, cancelGather := context.WithTimeout(ctx, timeoutPrepare)
	defer cancelGather()
	if err := r.gather(gatherCtx, &outcome.Evidence); err != nil {
		return nil, err
	}
	outcome.Gathered = time.Since(begun)
	outcome.Faults = r.record.faults
	outcome.Ends = make(map[string]int)
	seen := make(map[string]bool)
	for i := range outcome.Evidence.Calls {
		call := &outcome.Evidence.Calls[i]
		if call.Told != "" && call.Told != checker.EndConflict && !seen[call.Request.ID] {
			seen[call.Request.ID] = true
			outcome.Ends[call.Told]++
		}
	}
	outcome.Transfers = draw.count
	outcome.Payouts = len(r.remittances)
	return outcome, nil
}

// attack carries out the strikes of the storm, each when its number of transfers has been sent, and returns when all are
// over.
func (r *round) attack(ctx context.Context) {
	var over sync.WaitGroup
	defer over.Wait()
	if r.config.Strikes.Count == 0 {
		return
	}
	for _, s := range r.config.Strikes.draw(stream(r.config.Seed, "strikes"), r.config.Transfers, len(r.world.slots), r.ledgers) {
		if r.awaitSent(ctx, s.at) != nil {
			return
		}
		over.Go(func() { r.strike(ctx, s) })
	}
}

// awaitSent waits until a number of transfers have been sent.
func (r *round) awaitSent(ctx context.Context, n int) error {
	return retry(ctx, func() (bool, error) { return r.sent.Load() >= int64(n), nil })
}

// shift opens accounts and changes their status and limits while money moves. Each command is sent twice at once.
func (r *round) shift(ctx context.Context) {
	random := stream(r.config.Seed, "shifts")
	var all sync.WaitGroup
	defer all.Wait()
	for i := range r.config.Shifts {
		ledger := pick(random, r.ledgers)
		name, workflow := ledger+"/"+pick(random, []string{frozen, limits}), workflows.AccountSetWorkflow
		in := any(activities.AccountSetInput{Account: name, Status: pick(random, []string{"frozen", "open"})})
		switch {
		case i < lates*len(r.ledgers) && i%2 == 0:
			name, workflow = r.ledgers[i/2%len(r.ledgers)]+"/"+lateOf(i/2/len(r.ledgers)), workflows.AccountOpenWorkflow
			in = activities.AccountOpenInput{Account: name, Asset: dollar}
		case name == ledger+"/"+limits:
			in = activities.AccountSetInput{
				Account: name, Floor: pick(random, []string{"none", "0", "-20.00", "50.00"}), Ceiling: pick(random, []string{"none", "120.00", "200.00"}),
			}
		}
		r.mu.Lock()
		r.shifting[name] = true
		r.mu.Unlock()
		if r.awaitSent(ctx, random.IntN(r.config.Transfers)) != nil {
			return
		}
		for client := range 2 {
			all.Go(func() {
				if err := r.ask(ctx, client, workflow, name, in); err != nil && ctx.Err() == nil {
					r.fail(fmt.Errorf("%s %s: %w", workflow, name, err))
				}
			})
		}
	}
}

// liftCeiling lets an account take back whatever it has given.
func (r *round) liftCeiling(ctx context.Context, account string) error {
	r.mu.Lock()
	r.shifting[account] = true
	r.mu.Unlock()
	return r.ask(ctx, 0, workflows.AccountSetWorkflow, account, activities.AccountSetInput{Account: account, Ceiling: activities.LimitNone})
}

// calm ends all faults. Workers with faults that have not struck are replaced by some without.
func (r *round) calm(ctx context.Context) error {
	r.phase.Store(phaseCalm)
	for _, s := range r.world.slots {
		if s.isArmed() || s.number >= calmWorkers {
			s.kill()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutPrepare)
	defer cancel()
	return r.awaitWorkers(ctx, min(calmWorkers, len(r.world.slots)))
}

const openQuery = "ExecutionStatus = 'Running'"

// awaitClosed waits until no workflow is open, for a time. What is open after it, the checker finds.
func (r *round) awaitClosed(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for ctx.Err() == nil {
		if open, err := r.open(ctx); err == nil && open == 0 {
			return
		}
		_ = pause(ctx, 4*pollInterval)
	}
}

// open counts the workflows that are open. The server's list may be behind, what it says of one is not.
func (r *round) open(ctx context.Context) (open int, err error) {
	list, err := r.namespaced.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: openQuery})
	if err != nil {
		return 0, err
	}
	for _, info := range list.GetExecutions() {
		description, err := r.namespaced.DescribeWorkflow(ctx, info.GetExecution().GetWorkflowId(), info.GetExecution().GetRunId())
		if err != nil {
			return 0, err
		}
		if description.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			open++
		}
	}
	return open, nil
}

const busySessionsSQL = `
select count(*)
from pg_stat_activity
where datname = $1 and usename = $2 and state is distinct from 'idle' and backend_type = 'client backend'`

// awaitQuiet waits until no worker's session does anything: what was on its way when its worker was killed has arrived.
func (r *round) awaitQuiet(ctx context.Context) error {
	return retry(ctx, func() (bool, error) {
		for _, ledger := range r.ledgers {
			var busy int
			err := r.world.servers.withDatabase(ctx, r.databases[ledger], func(conn *pgx.Conn) error {
				return conn.QueryRow(ctx, busySessionsSQL, r.databases[ledger], workerRole).Scan(&busy)
			})
			if err != nil || busy > 0 {
				return false, err
			}
		}
		return true, nil
	})
}

// gather collects the evidence, and has some transfers sent once more in between.
func (r *round) gather(ctx context.Context, e *checker.Evidence) (err error) {
	if err := r.awaitQuiet(ctx); err != nil {
		return err
	}
	if e.Before, err = r.books(ctx); err != nil {
		return err
	}
	r.repeat(ctx)
	r.awaitClosed(ctx, timeoutForget)
	e.Ended = time.Now()
	if e.Ledgers, err = r.books(ctx); err != nil {
		return err
	}
	histories := checker.Histories{
		Service: r.namespaced.WorkflowService(), Namespace: r.world.namespace,
		Query: "StartTime >= '" + r.started.UTC().Format(time.RFC3339Nano) + "'",
	}
	if e.Runs, err = checker.ReadRuns(ctx, histories); err != nil {
		return err
	}
	if e.Rail, err = r.railPayouts(ctx); err != nil {
		return err
	}
	r.record.mu.Lock()
	defer r.record.mu.Unlock()
	e.PayoutCalls = r.record.payoutCalls
	e.Calls, e.Disturbances, e.Troubles = r.record.calls, r.record.disturbances, r.record.troubles
	e.Discarded, e.Prompt, e.Deaths, e.Shifting = r.record.discarded, r.record.prompt, r.record.deaths, r.shifting
	return nil
}

func (r *round) books(ctx context.Context) ([]checker.Ledger, error) {
	list := make([]checker.Ledger, len(r.ledgers))
	group, ctx := errgroup.WithContext(ctx)
	for i, ledger := range r.ledgers {
		group.Go(func() (err error) {
			list[i], err = checker.ReadLedger(ctx, r.world.servers.postgres.URL(r.databases[ledger]), ledger)
			return err
		})
	}
	return list, group.Wait()
}

// repeat sends some transfers once more, each by another client, with the request that its ID belongs to.
func (r *round) repeat(ctx context.Context) {
	random := stream(r.config.Seed, "repeats")
	var requests []workflows.TransferInput
	seen := make(map[string]bool)
	for _, call := range r.record.calls {
		if call.Told != "" && !seen[call.Request.ID] {
			seen[call.Request.ID] = true
			q := call.Request
			requests = append(requests, workflows.TransferInput{ID: q.ID, From: q.From, To: q.To, Amount: q.Amount, Asset: q.Asset})
		}
	}
	random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	ctx, cancel := context.WithTimeout(ctx, r.config.Settle)
	defer cancel()
	errands := newErrands(errandsAtOnce)
	for i, in := range requests[:min(len(requests), r.config.Repeats)] {
		k := pick(random, r.world.clients)
		again := stream(r.config.Seed, fmt.Sprint("repeat ", i))
		errands.send(func() { r.insist(ctx, k, again, in, true) })
	}
	for i, m := range r.remittances[:min(len(r.remittances), r.config.Repeats/4)] {
		k := pick(random, r.world.clients)
		again := stream(r.config.Seed, fmt.Sprint("repeat payout ", i))
		errands.send(func() { r.insistOnPayout(ctx, k, again, m.request) })
	}
	errands.wait(ctx, r.config.Settle)
}

// errands runs a number of things at once. It is for one goroutine at a time.
type errands struct {
	slots chan struct{}

	mu   sync.Mutex
	runs int
	idle chan struct{} // closed while nothing runs
}

func newErrands(atOnce int) *errands {
	e := &errands{slots: make(chan struct{}, atOnce), idle: make(chan struct{})}
	close(e.idle)
	return e
}

// send has something done, as soon as there is room.
func (e *errands) send(do func()) {
	e.slots <- struct{}{}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs == 0 {
		e.idle = make(chan struct{})
	}
	e.runs++
	go func() {
		defer e.done()
		do()
	}()
}

func (e *errands) done() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs--; e.runs == 0 {
		close(e.idle)
	}
	<-e.slots
}

// wait waits until all is done, for a time.
func (e *errands) wait(ctx context.Context, limit time.Duration) {
	e.mu.Lock()
	idle := e.idle
	e.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// postgresAddress is the server's host:port.
func (s *Servers) postgresAddress() (string, error) {
	u, err := url.Parse(s.postgres.URL("postgres"))
	if err != nil {
		return "", errors.New("the server's URL can't be read")
	}
	return u.Host, nil
}
