package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"payonce/internal/faultworker/fault"
	"payonce/internal/faultworker/process"
	"payonce/internal/faultworker/wrongclock"
	"payonce/workflows"
)

// slot is the place of one worker: its network, and the process that runs in it at the moment.
type slot struct {
	number   int
	temporal *link
	ledgers  map[string]*link
	rail     *link

	mu       sync.Mutex
	worker   *process.Worker // nil while there is none
	stopping bool            // it was told to stop in order
	armed    bool            // it has faults that it does to itself, or a wrong clock
	// fault is held by the fault that strikes the process: one at a time.
	fault sync.Mutex
}

func (w *World) newSlot(number int) (*slot, error) {
	s := &slot{number: number, ledgers: make(map[string]*link)}
	var err error
	if s.temporal, err = w.network.link(fmt.Sprintf("worker-%d-temporal", number), w.servers.temporal.Address); err != nil {
		return nil, err
	}
	if s.rail, err = w.network.link(fmt.Sprintf("worker-%d-rail", number), w.rail.address); err != nil {
		s.temporal.close()
		return nil, err
	}
	address, err := w.servers.postgresAddress()
	if err != nil {
		return nil, err
	}
	for _, ledger := range ledgersAll {
		if s.ledgers[ledger], err = w.network.link(fmt.Sprintf("worker-%d-%s", number, ledger), address); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *slot) close() {
	if worker := s.current(); worker != nil {
		_ = worker.Kill()
	}
	s.temporal.close()
	s.rail.close()
	for _, l := range s.ledgers {
		l.close()
	}
}

func (s *slot) isArmed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.armed
}

func (s *slot) current() *process.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker
}

// kill kills the slot's worker. It returns false when there is none, or somebody else is killing it.
func (s *slot) kill() bool {
	s.mu.Lock()
	worker := s.worker
	s.worker = nil
	s.mu.Unlock()
	return worker != nil && worker.Alive() && worker.Kill() == nil
}

// stop tells the slot's worker to stop in order.
func (s *slot) stop(ctx context.Context) bool {
	s.mu.Lock()
	worker := s.worker
	s.stopping = worker != nil
	s.mu.Unlock()
	return worker != nil && worker.Alive() && worker.Stop(ctx) == nil
}

const (
	// calmWorkers is how many workers settle what the storm has left.
	calmWorkers = 2
	// A killed worker is started again after a moment.
	restartLeast, restartMost = 50 * time.Millisecond, 400 * time.Millisecond
	// thawMost is the longest that a worker which has frozen itself stays so.
	thawLeast, thawMost = 400 * time.Millisecond, 3500 * time.Millisecond
)

// keep runs a worker in a slot, and starts it again when it ends, until the slot is not needed any more.
func (r *round) keep(s *slot) error {
	random := stream(r.config.Seed, fmt.Sprintf("worker %d", s.number))
	for {
		faults, ok := r.faultsFor(s, random)
		if !ok {
			return nil
		}
		clock := r.clockFor(s, random)
		log := &tail{}
		begun := time.Now()
		worker, err := r.startWorker(s, random, faults, clock, log)
		if err != nil {
			return err
		}
		state, err := worker.AwaitEnd(context.Background())
		if err != nil {
			return err
		}
		if clock != 0 && hasClock(worker, clock) {
			r.record.disturbed(FaultWrongClock, fmt.Sprintf("worker %d, by %s", s.number, clock), begun)
		}
		s.mu.Lock()
		expected := s.stopping || strings.Contains(state, "killed")
		s.worker, s.stopping = nil, false
		s.mu.Unlock()
		if !expected {
			r.record.died(fmt.Sprintf("worker %d: %s: %s", s.number, state, log))
		}
		if r.phase.Load() == phaseOver {
			return nil
		}
		_ = pause(context.Background(), between(random, restartLeast, restartMost))
	}
}

// faultsFor draws the faults that a slot's next worker does to itself. It returns false when no worker is needed.
func (r *round) faultsFor(s *slot, random *rand.Rand) (faults []fault.Fault, needed bool) {
	switch r.phase.Load() {
	case phaseOver:
		return nil, false
	case phaseCalm:
		return nil, s.number < calmWorkers
	}
	if r.config.Points == nil {
		return nil, true
	}
	return r.config.Points(random, s.number), true
}

// skew is how far a wrong clock is off.
const skew = 5 * time.Minute

// clockFor draws by how much the clock of a slot's next worker is off. The first worker's is right, and so are all when calm
// has come.
func (r *round) clockFor(s *slot, random *rand.Rand) time.Duration {
	if n := random.IntN(10); s.number > 0 && r.world.config.WrongClock != "" && r.phase.Load() == phaseStorm {
		switch n {
		case 0:
			return skew
		case 1:
			return -skew
		}
	}
	return 0
}

// hasClock says whether a worker has announced anything by a clock that is off by so much.
func hasClock(worker *process.Worker, off time.Duration) bool {
	return slices.ContainsFunc(worker.Events(), func(e fault.Event) bool { return (time.Until(e.At) - off).Abs() < skew/2 })
}

// startWorker starts a worker whose clock is off by some time, and returns at once.
func (r *round) startWorker(s *slot, random *rand.Rand, faults []fault.Fault, clock time.Duration, log *tail) (*process.Worker, error) {
	list, owners := make([]string, len(r.ledgers)), make([]string, len(r.ledgers))
	for i, ledger := range r.ledgers {
		dsn, err := r.world.through(s.ledgers[ledger], r.databases[ledger])
		if err != nil {
			return nil, err
		}
		list[i] = ledger + "=" + strings.ReplaceAll(dsn, ",", "%2C")
		owners[i] = ledger + "=" + r.world.servers.postgres.URL(r.databases[ledger])
	}
	env := append(basicEnv(), "TEMPORAL_ADDRESS="+s.temporal.address, "TEMPORAL_NAMESPACE="+r.world.namespace,
		"LEDGERS="+strings.Join(list, ","), fmt.Sprint("PAYONCE_POOL_SIZE=", poolSize), "PAYONCE_LOG_LEVEL=warn")
	env = append(env, r.world.rail.env(s.rail)...)
	if plant := r.world.config.Plant; plant != "" {
		env = append(env, EnvPlant+"="+plant, EnvPlantLedgers+"="+strings.Join(owners, ","))
	}
	binary := r.world.config.Worker
	if clock != 0 {
		binary = r.world.config.WrongClock
		env = append(env, wrongclock.Env(clock))
	}
	var worker *process.Worker
	started := make(chan struct{})
	worker, err := process.Start(process.Config{
		Binary: binary, Env: env, Faults: faults, Options: r.options,
		Sticky: random.IntN(5) == 0, Log: log,
		OnEvent: func(e fault.Event) {
			<-started
			r.announced(worker, e, random)
		},
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.worker, s.armed = worker, len(faults) > 0 || clock != 0
	s.mu.Unlock()
	close(started)
	if r.phase.Load() == phaseOver {
		// The round has ended meanwhile, and nobody has seen this one.
		return worker, worker.Kill()
	}
	return worker, nil
}

// announced counts what a worker does to itself, and thaws one that has frozen.
func (r *round) announced(worker *process.Worker, e fault.Event, random *rand.Rand) {
	if e.Event != fault.EventFault {
		return
	}
	name := pointFault(e)
	begun := time.Now()
	if e.Action != fault.ActionFreeze {
		r.record.disturbed(name, string(e.Point.Kind), begun.Add(-time.Millisecond))
		return
	}
	long := between(random, thawLeast, thawMost)
	r.background.Go(func() {
		_ = pause(context.Background(), long)
		// An error means that it was killed meanwhile.
		_ = worker.Thaw()
		r.record.disturbed(name, string(e.Point.Kind), begun)
	})
}

// awaitWorkers returns when each slot's worker asks for work.
func (r *round) awaitWorkers(ctx context.Context, slots int) error {
	for _, s := range r.world.slots[:slots] {
		err := retry(ctx, func() (bool, error) {
			worker := s.current()
			if worker == nil {
				return false, errors.New("the worker is being started")
			}
			err := worker.AwaitReady(ctx)
			return err == nil, err
		})
		if err != nil {
			return fmt.Errorf("worker %d: %w", s.number, err)
		}
	}
	return nil
}

// pointFault is the name under which a fault is counted that a worker does to itself.
func pointFault(e fault.Event) string {
	before := e.Point.Moment == fault.Before
	switch e.Action {
	case fault.ActionKill:
		switch {
		case before && e.Point.Kind == fault.KindDeposit:
			return FaultKillBetween
		case before:
			return FaultKillBefore
		default:
			return FaultKillAfter
		}
	case fault.ActionFreeze:
		if before {
			return FaultFreezeBefore
		}
		return FaultFreezeAfter
	case fault.ActionBlock, fault.ActionHold:
		if before {
			return FaultLateWrite
		}
		return FaultTimeoutAfter
	case fault.ActionDrop:
		return FaultDropAnswer
	case fault.ActionFail, fault.ActionPanic:
		return FaultFailWrite
	default:
		return string(e.Action)
	}
}

// Points draws the faults that a worker does to itself.
type Points func(random *rand.Rand, slot int) []fault.Fault

// OnlyPoints are some faults, which every worker does to itself.
func OnlyPoints(faults ...fault.Fault) Points {
	return func(*rand.Rand, int) []fault.Fault { return faults }
}

// AllPoints draws one fault that stops the worker and two that don't. The first worker does none to itself.
func AllPoints(random *rand.Rand, slot int) []fault.Fault {
	if slot == 0 {
		return nil
	}
	kinds := []weighted[fault.Kind]{
		{fault.KindPost, 6},
		{fault.KindWithdraw, 6},
		{fault.KindDeposit, 8},
		{fault.KindRefund, 2},
		{fault.KindResolve, 1},
		{fault.KindReserve, 1},
		{fault.KindSettle, 1},
		{fault.KindReturn, 1},
		{fault.KindBounce, 1},
	}
	draw := func() fault.Fault {
		moment := fault.Before
		if random.IntN(2) == 0 {
			moment = fault.After
		}
		f := fault.Fault{Point: fault.Point{Kind: pickWeighted(random, kinds), Moment: moment}, Skip: random.IntN(16)}
		switch f.Point.Kind { //nolint:exhaustive // of these there are few
		case fault.KindRefund, fault.KindResolve, fault.KindReserve, fault.KindSettle, fault.KindReturn, fault.KindBounce:
			f.Skip = random.IntN(3)
		}
		return f
	}
	stopping := draw()
	stopping.Action = fault.ActionKill
	if random.IntN(5) < 2 {
		stopping.Action, stopping.KeepPolls = fault.ActionFreeze, random.IntN(2) == 0
	}
	faults := []fault.Fault{stopping}
	for range 2 {
		f := draw()
		f.Times = 1 + random.IntN(3)
		f.Action = pick(random, []fault.Action{fault.ActionDrop, fault.ActionDrop, fault.ActionBlock, fault.ActionFail})
		switch f.Action {
		case fault.ActionDrop:
			f.Point.Moment = fault.After
		case fault.ActionFail:
			f.Error = pick(random, []fault.Error{fault.ErrorPlain, fault.ErrorUnavailable, fault.ErrorUnknown})
			if f.Error == fault.ErrorUnavailable && f.Point.Moment == fault.After {
				// A ledger that says it could not be reached has not committed.
				f.Error = fault.ErrorUnknown
			}
		case fault.ActionKill, fault.ActionFreeze, fault.ActionBlock, fault.ActionHold, fault.ActionPanic:
		}
		faults = append(faults, f)
	}
	return faults
}

// optionsOf draws the workflows' options: as short as a busy machine allows, so that time-outs and caps are reached.
func optionsOf(random *rand.Rand) workflows.Options {
	budget := 30 * time.Second
	if random.IntN(4) == 0 {
		// An outage budget that runs out.
		budget = 4 * time.Second
	}
	return workflows.Options{
		Fast:    workflows.FastOptions{TimeoutStartToClose: 800 * time.Millisecond, AttemptsMax: 2, Backoff: 20 * time.Millisecond},
		Forward: workflows.StepOptions{TimeoutStartToClose: 1500 * time.Millisecond, BackoffFirst: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, AttemptsMax: 3},
		Settle:  workflows.StepOptions{TimeoutStartToClose: 1500 * time.Millisecond, BackoffFirst: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, AttemptsMax: 5},
		Record:  workflows.StepOptions{TimeoutStartToClose: 2 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: 500 * time.Millisecond},
		Outage:  workflows.OutageOptions{Budget: budget, BackoffFirst: 100 * time.Millisecond, BackoffMax: 500 * time.Millisecond},
		Ask:     workflows.StepOptions{TimeoutStartToClose: 2 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: 500 * time.Millisecond},
		Write:   workflows.WriteOptions{TimeoutHeartbeat: 2 * time.Second, BackoffFirst: 50 * time.Millisecond, BackoffMax: 500 * time.Millisecond, Within: time.Minute},
		Rail: workflows.RailOptions{
			Submit:    workflows.StepOptions{TimeoutStartToClose: 1500 * time.Millisecond, BackoffFirst: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, AttemptsMax: 3},
			Ask:       workflows.StepOptions{TimeoutStartToClose: 1500 * time.Millisecond, BackoffFirst: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, AttemptsMax: 3},
			PollFirst: 100 * time.Millisecond, PollMax: 800 * time.Millisecond, Patience: 4 * time.Second,
		},
	}
}

// tail keeps the end of a log.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

const tailBytes = 4 << 10

// Write makes it an io.Writer.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(text)
	if excess := t.text.Len() - tailBytes; excess > 0 {
		t.text.Next(excess)
	}
	return len(text), nil
}

// String is what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
