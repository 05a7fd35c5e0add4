package storm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// The faults, by the names under which they are counted.
const (
	// FaultKillWorker and those below it strike at any moment.
	FaultKillWorker      = "kill-worker"
	FaultStopWorker      = "stop-worker" // in order, as at a deployment
	FaultFreezeWorker    = "freeze-worker"
	FaultCutPostgres     = "cut-postgres"     // one worker's connections to one ledger are cut, and refused for a while
	FaultSwallowPostgres = "swallow-postgres" // what they send, or the answers, are lost without a word
	FaultSlowPostgres    = "slow-postgres"
	FaultCutTemporal     = "cut-temporal"
	FaultSwallowTemporal = "swallow-temporal"
	FaultSlowTemporal    = "slow-temporal"
	FaultCutClient       = "cut-client" // a client's connections to Temporal
	FaultKillPostgres    = "kill-postgres"
	FaultKillTemporal    = "kill-temporal"
	FaultEndSessions     = "end-sessions" // pg_terminate_backend of all sessions of a ledger
	FaultLockRow         = "lock-row"     // somebody holds an account's row

	// FaultWrongClock is all the life of a worker whose clock is five minutes off.
	FaultWrongClock = "wrong-clock"

	// FaultKillBefore and those below it strike at a point of a worker's step.
	FaultKillBefore   = "kill-before-write"
	FaultKillAfter    = "kill-after-commit"
	FaultKillBetween  = "kill-between-steps" // after the withdraw, before the deposit
	FaultFreezeBefore = "freeze-before-write"
	FaultFreezeAfter  = "freeze-after-commit"
	FaultLateWrite    = "late-write"           // the write begins after its attempt has timed out
	FaultTimeoutAfter = "timeout-after-commit" // the attempt times out after COMMIT
	FaultDropAnswer   = "drop-answer"
	FaultFailWrite    = "fail-write"

	// FaultCancel and those below it are done to one transfer.
	FaultCancel     = "cancel"
	FaultTerminate  = "terminate"
	FaultReset      = "reset"
	FaultForget     = "forget" // its history is deleted, and it is sent again
	FaultKillClient = "kill-client"
	FaultSendTwice  = "send-twice"
	FaultOther      = "other-content"
	FaultPoison     = "poison"
	FaultParked     = "parked"    // it waited for a person, who was there, and said everything twice
	FaultDiscard    = "discard"   // the person said to discard it
	FaultMakeAnew   = "make-anew" // several had it made anew at once, after it failed or was compensated

	// FaultBatch is a batch, some of whose rows are sent singly as well.
	FaultBatch          = "batch"
	FaultTerminateBatch = "terminate-batch" // its workflow, or that of one of its chunks

	// FaultPayout is a payout through a rail, and those below it are done at the rail, or on the way to it.
	FaultPayout      = "payout"
	FaultRail        = "rail-fault"   // it drops an answer, cuts it, sends something else, or takes too long
	FaultBounce      = "bounce"       // what it has paid comes back
	FaultCutRail     = "cut-rail"     // one worker's connections to it are cut, and refused for a while
	FaultSwallowRail = "swallow-rail" // what they send, or the answers, are lost without a word
)

// AllFaults are the faults that a long run must have seen: one that never strikes proves nothing.
func AllFaults() []string {
	return []string{
		FaultKillWorker, FaultStopWorker, FaultFreezeWorker, FaultCutPostgres, FaultSwallowPostgres, FaultSlowPostgres, FaultCutTemporal,
		FaultSwallowTemporal, FaultSlowTemporal, FaultCutClient, FaultKillPostgres, FaultKillTemporal, FaultEndSessions, FaultLockRow, FaultWrongClock,
		FaultKillBefore, FaultKillAfter, FaultKillBetween, FaultFreezeBefore, FaultFreezeAfter, FaultLateWrite, FaultTimeoutAfter,
		FaultDropAnswer, FaultFailWrite,
		FaultCancel, FaultTerminate, FaultReset, FaultForget, FaultKillClient, FaultSendTwice, FaultOther, FaultPoison, FaultParked,
		FaultDiscard, FaultMakeAnew, FaultBatch, FaultTerminateBatch,
		FaultPayout, FaultRail, FaultBounce, FaultCutRail, FaultSwallowRail,
	}
}

// strike is a fault at a moment of the storm: when a number of transfers have been sent.
type strike struct {
	fault  string
	at     int
	worker int
	ledger string
	to     direction
	long   time.Duration
	slow   time.Duration
	row    string
}

// Strikes is how many faults strike at moments of a storm, and how often each is drawn.
type Strikes struct {
	Count   int
	Weights []weighted[string]
}

// AllStrikes has every fault.
func AllStrikes(count int) Strikes {
	return Strikes{Count: count, Weights: []weighted[string]{
		{FaultKillWorker, 4},
		{FaultStopWorker, 1},
		{FaultFreezeWorker, 4},
		{FaultCutPostgres, 3},
		{FaultSwallowPostgres, 4},
		{FaultSlowPostgres, 2},
		{FaultCutTemporal, 2},
		{FaultSwallowTemporal, 2},
		{FaultSlowTemporal, 1},
		{FaultCutClient, 1},
		{FaultCutRail, 1},
		{FaultSwallowRail, 1},
		{FaultKillPostgres, 2},
		{FaultKillTemporal, 1},
		{FaultEndSessions, 2},
		{FaultLockRow, 3},
	}}
}

// OnlyStrikes has some faults, equally often.
func OnlyStrikes(count int, faults ...string) Strikes {
	s := Strikes{Count: count}
	for _, f := range faults {
		s.Weights = append(s.Weights, weighted[string]{f, 1})
	}
	return s
}

// draw draws the strikes of a round, in order.
func (s Strikes) draw(random *rand.Rand, transfers, workers int, ledgers []string) []strike {
	var list []strike
	for range s.Count {
		list = append(list, strike{
			fault: pickWeighted(random, s.Weights), at: random.IntN(transfers), worker: random.IntN(workers), ledger: pick(random, ledgers),
			to: pick(random, []direction{toServer, fromServer, fromServer}), long: between(random, 300*time.Millisecond, 2200*time.Millisecond),
			slow: between(random, 100*time.Millisecond, 900*time.Millisecond), row: pick(random, []string{hot, poor, plainOf(0), plainOf(1)}),
		})
	}
	slices.SortStableFunc(list, func(a, b strike) int { return a.at - b.at })
	return list
}

// strike carries a strike out, and returns when it is over. What it finds busy with another fault, or down, it leaves.
func (r *round) strike(ctx context.Context, s strike) {
	slot := r.world.slots[s.worker]
	begun := time.Now()
	detail, ok := "", false
	switch s.fault {
	case FaultKillWorker:
		ok = slot.kill()
	case FaultStopWorker:
		ok = slot.fault.TryLock()
		if ok {
			ok = slot.stop(ctx)
			slot.fault.Unlock()
		}
	case FaultFreezeWorker:
		ok = r.freeze(ctx, slot, s.long)
	case FaultCutPostgres:
		ok = r.onLink(slot.ledgers[s.ledger], func(l *link) error { return l.cut(ctx, s.long) })
	case FaultSwallowPostgres:
		ok = r.onLink(slot.ledgers[s.ledger], func(l *link) error { return l.swallow(ctx, s.to, s.long) })
	case FaultSlowPostgres:
		ok = r.onLink(slot.ledgers[s.ledger], func(l *link) error { return l.slow(ctx, s.slow, s.long) })
	case FaultCutTemporal:
		ok = r.onLink(slot.temporal, func(l *link) error { return l.cut(ctx, s.long) })
	case FaultSwallowTemporal:
		ok = r.onLink(slot.temporal, func(l *link) error { return l.swallow(ctx, s.to, s.long) })
	case FaultSlowTemporal:
		ok = r.onLink(slot.temporal, func(l *link) error { return l.slow(ctx, s.slow, s.long) })
	case FaultCutRail:
		ok = r.onLink(slot.rail, func(l *link) error { return l.cut(ctx, s.long) })
	case FaultSwallowRail:
		ok = r.onLink(slot.rail, func(l *link) error { return l.swallow(ctx, s.to, s.long) })
	case FaultCutClient:
		ok = r.onLink(r.world.clients[s.worker%len(r.world.clients)].link, func(l *link) error { return l.cut(ctx, s.long) })
	case FaultKillPostgres:
		ok = r.killPostgres(ctx, s.long)
	case FaultKillTemporal:
		ok = r.killTemporal(ctx)
	case FaultEndSessions:
		ok = r.endSessions(ctx, s.ledger)
	case FaultLockRow:
		detail = s.ledger + "/" + s.row
		ok = r.lockRow(ctx, s.ledger, s.row, s.long)
	}
	if !ok {
		return
	}
	if detail == "" {
		detail = s.target()
	}
	r.record.disturbed(s.fault, detail, begun)
}

// onLink strikes a link unless another fault does.
func (r *round) onLink(l *link, do func(*link) error) bool {
	if !l.fault.TryLock() {
		return false
	}
	defer l.fault.Unlock()
	if err := do(l); err != nil {
		r.fail(err)
		return false
	}
	return true
}

func (r *round) freeze(ctx context.Context, s *slot, long time.Duration) bool {
	if !s.fault.TryLock() {
		return false
	}
	defer s.fault.Unlock()
	worker := s.current()
	if worker == nil || worker.Freeze() != nil {
		return false
	}
	_ = pause(ctx, long)
	// An error means that it was killed meanwhile.
	_ = worker.Thaw()
	return true
}

func (r *round) killPostgres(ctx context.Context, long time.Duration) bool {
	r.servers.Lock()
	defer r.servers.Unlock()
	p := r.world.servers.postgres
	if err := p.Kill(ctx); err != nil {
		r.fail(err)
		return false
	}
	_ = pause(ctx, long/4)
	// It has to be there again, whatever becomes of the round.
	if err := p.Restart(context.WithoutCancel(ctx)); err != nil {
		r.fail(err)
	}
	return true
}

func (r *round) killTemporal(ctx context.Context) bool {
	r.servers.Lock()
	defer r.servers.Unlock()
	t := r.world.servers.temporal
	if err := t.Kill(); err != nil {
		r.fail(err)
		return false
	}
	if err := t.Restart(context.WithoutCancel(ctx)); err != nil {
		r.fail(err)
	}
	return true
}

const endSessionsSQL = `select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1 and usename = $2`

// endSessions ends the workers' sessions of a ledger.
func (r *round) endSessions(ctx context.Context, ledger string) bool {
	var ended int
	err := r.world.servers.withDatabase(ctx, "postgres", func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, endSessionsSQL, r.databases[ledger], workerRole).Scan(&ended)
	})
	return err == nil && ended > 0
}

const lockRowSQL = `select id from accounts where name = $1 for update`

// lockRow holds an account's row, as a database transaction that does not end does.
func (r *round) lockRow(ctx context.Context, ledger, name string, long time.Duration) bool {
	locked := false
	_ = r.world.servers.withDatabase(ctx, r.databases[ledger], func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			var id int64
			if err := tx.QueryRow(ctx, lockRowSQL, name).Scan(&id); err != nil {
				return err
			}
			locked = true
			return pause(ctx, long)
		})
	})
	return locked
}

// target says what a strike was at.
func (s *strike) target() string {
	switch s.fault {
	case FaultKillPostgres, FaultKillTemporal:
		return ""
	case FaultEndSessions:
		return s.ledger
	case FaultCutPostgres, FaultSwallowPostgres, FaultSlowPostgres:
		return fmt.Sprintf("worker %d and %s", s.worker, s.ledger)
	default:
		return fmt.Sprintf("worker %d", s.worker)
	}
}
