package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/internal/faultworker/fault"
	"payonce/internal/railsim/sim"
	"payonce/tests/chaos/checker"
	"payonce/tests/chaos/storm"
	"payonce/workflows"
)

// schedule is what is done in the rounds of one test.
type schedule struct {
	transfers int
	payouts   int
	plan      func(*sim.Plan) // of the rail
	mix       storm.Mix
	strikes   storm.Strikes
	points    storm.Points
	options   func(*workflows.Options)
	repeats   int
	settle    time.Duration // 0: as long as anything may
	// linger is for how long workers do what they do to themselves, after the last transfer was sent.
	linger time.Duration
}

func point(text string) fault.Fault {
	f, err := fault.Parse(text)
	if err != nil {
		panic(err)
	}
	return f
}

var (
	bothWays  = map[storm.Kind]int{storm.KindWithin: 1, storm.KindBetween: 1}
	betweens  = map[storm.Kind]int{storm.KindBetween: 1}
	contended = map[storm.Kind]int{storm.KindPoor: 3, storm.KindRefill: 1, storm.KindHot: 1}
)

// killed: workers are killed at any moment.
var killed = schedule{transfers: 30, mix: storm.Mix{Kinds: bothWays}, strikes: storm.OnlyStrikes(5, storm.FaultKillWorker)}

// answersLost: the first answers of each worker are lost after COMMIT.
var answersLost = schedule{
	transfers: 12, mix: storm.Mix{Kinds: bothWays},
	points: storm.OnlyPoints(point("post/after=drop:3"), point("withdraw/after=drop:3"), point("deposit/after=drop:3")),
}

// depositsLost: no deposit is ever answered.
var depositsLost = schedule{transfers: 6, mix: storm.Mix{Kinds: betweens}, points: storm.OnlyPoints(point("deposit/after=drop:always"))}

// late: deposits are written after they were given up.
var late = schedule{
	transfers: 5, mix: storm.Mix{Kinds: betweens}, points: storm.OnlyPoints(point("deposit/before=block:5;for=6s")), linger: 9 * time.Second,
	options: func(o *workflows.Options) {
		o.Fast.AttemptsMax, o.Forward.AttemptsMax, o.Forward.TimeoutStartToClose = 0, 1, 700*time.Millisecond
	},
}

// again: workflows are terminated and reset.
var again = schedule{transfers: 16, mix: storm.Mix{Kinds: bothWays, Terminate: 40, Reset: 60}}

// plain: nothing is done to anything, and everything is asked twice.
var plain = schedule{transfers: 25, mix: storm.Mix{Kinds: contended}, repeats: 10}

// flaky: the database fails every second time.
var flaky = schedule{transfers: 25, mix: storm.Mix{Kinds: map[storm.Kind]int{storm.KindFlaky: 1}}}

// paid: payouts, whose rail loses answers and decides against some.
var paid = schedule{transfers: 4, payouts: 10, mix: storm.Mix{Kinds: bothWays}}

// paidUnheard: the rail pays, never answers, and does not find what it has paid for a while.
var paidUnheard = schedule{transfers: 2, payouts: 6, mix: storm.Mix{Kinds: bothWays}, plan: func(p *sim.Plan) {
	*p = sim.Plan{Submit: []sim.Fault{{Do: "drop", Executed: true, Times: -1}}, UnknownForMS: 3000, Callbacks: p.Callbacks}
}}

// unpaid: the rail takes payouts, and decides against them afterwards.
var unpaid = schedule{transfers: 2, payouts: 6, mix: storm.Mix{Kinds: bothWays}, plan: func(p *sim.Plan) {
	*p = sim.Plan{Outcome: "rejected", Code: "AC04", DecideAfterMS: 1500, Callbacks: p.Callbacks}
}}

// roundsMax is within how many rounds a planted fault must be reported.
const roundsMax = 3

// planted are the faults that are planted in the books, and between a worker and a rail, with the schedule that brings each
// out, the rule that is there for it, and what it says.
var planted = []struct {
	plant    string
	schedule schedule
	rule     checker.Rule
	says     string
}{
	{storm.PlantKeyBefore, killed, checker.RuleBooks, "has applied, and has 0 entries instead of 2"},
	{storm.PlantKeyAfter, killed, checker.RuleBooks, "which is not there"},
	{storm.PlantNoKey, answersLost, checker.RuleOnce, "has applied 2 times"},
	{storm.PlantRunKey, again, checker.RuleOnce, "has applied 2 times"},
	{storm.PlantAttemptKey, answersLost, checker.RuleOnce, "has applied 2 times"},
	{storm.PlantUnresolved, depositsLost, checker.RuleOnce, "both paid in and refunded"},
	{storm.PlantLooksOnly, late, checker.RuleOnce, "both paid in and refunded"},
	{storm.PlantRefusalForgotten, plain, checker.RuleTruth, "was told rejected, and the ledgers hold nothing"},
	{storm.PlantLateApplied, late, checker.RuleOnce, "both paid in and refunded"},
	{storm.PlantEntryLost, plain, checker.RuleBooks, "has 1 entries instead of 2"},
	{storm.PlantEntryChanged, plain, checker.RuleBooks, "its entries say otherwise"},
	{storm.PlantBalanceCached, flaky, checker.RuleBooks, "and its entries sum to"},
	{storm.PlantSubmitNoKey, paid, checker.RuleOnce, "the rail took it 2 times"},
	{storm.PlantLostIsRejected, paid, checker.RuleTruth, `at the rail it is "settled", and the ledgers hold us reserve applied, us return applied`},
	{storm.PlantUnknownIsNever, paidUnheard, checker.RuleTruth, `at the rail it is "settled", and the ledgers hold us reserve applied, us return applied`},
	{storm.PlantTakenIsSettled, unpaid, checker.RuleTruth, `at the rail it is "rejected", and the ledgers hold us reserve applied, us settle applied`},
}

// Each fault that is planted in the books must be reported, by the rule that is there for it. A checker that does not
// report them would not report the product's own.
func TestPlanted(t *testing.T) {
	t.Parallel()
	for _, row := range planted {
		t.Run(row.plant, func(t *testing.T) {
			t.Parallel()
			world := newWorld(t, row.plant)
			schedule := row.schedule
			if schedule.payouts > 0 {
				schedule.settle = 30 * time.Second // a payout about which rail and books disagree never ends
			}
			for seed := range uint64(roundsMax) {
				outcome, violations := schedule.round(t, world, seed+1)
				for _, v := range violations {
					if v.Rule == row.rule && strings.Contains(v.Detail, row.says) {
						t.Log(checker.Story(&outcome.Evidence, v))
						return
					}
				}
				t.Logf("round %d: %s: not reported; what was: %v", seed+1, outcome, violations)
			}
			t.Errorf("not reported in %d rounds", roundsMax)
		})
	}
}

// The product stands the same schedules, so what TestPlanted finds is what was planted.
func TestNothingPlanted(t *testing.T) {
	t.Parallel()
	world := newWorld(t, "")
	for _, row := range []struct {
		name     string
		schedule schedule
	}{
		{"killed", killed},
		{"answers-lost", answersLost},
		{"deposits-lost", depositsLost},
		{"late", late},
		{"again", again},
		{"plain", plain},
		{"flaky", flaky},
		{"paid", paid},
		{"paid-unheard", paidUnheard},
		{"unpaid", unpaid},
	} {
		t.Run(row.name, func(t *testing.T) { //nolint:paralleltest // a world has one round at a time
			outcome, violations := row.schedule.round(t, world, 1)
			require.Empty(t, violations, "%s", outcome)
		})
	}
}

// worlds counts the worlds: each has a namespace of its own.
var worlds atomic.Int64

// newWorld makes a world whose workers have a planted fault; "" is none, so the product.
func newWorld(t *testing.T, plant string) *storm.World {
	t.Helper()
	programs, err := build()
	require.NoError(t, err)
	worker := programs.faultWorker
	if plant != "" {
		worker = programs.planted
	}
	servers, err := steadyServers()
	require.NoError(t, err)
	namespace := fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), worlds.Add(1))
	world, err := storm.NewWorld(t.Context(), storm.Config{
		Servers: servers, Namespace: namespace, Worker: worker, Plant: plant, Workers: 2,
	})
	require.NoError(t, err)
	t.Cleanup(world.Close)
	return world
}

// round runs one round and checks it.
func (s *schedule) round(t *testing.T, world *storm.World, seed uint64) (*storm.Outcome, []checker.Violation) {
	t.Helper()
	c := storm.DefaultRound(seed)
	c.Transfers, c.Ledgers, c.Mix, c.Strikes, c.Points, c.Options = s.transfers, 2, s.mix, s.strikes, s.points, s.options
	c.Batches, c.Payouts, c.Shifts, c.Witnesses, c.Repeats, c.Linger, c.LingerLeast = 0, s.payouts, 0, 0, s.repeats, 20*time.Second, s.linger
	c.RailPlan = s.plan
	c.Settle = settle
	if s.settle > 0 {
		c.Settle = s.settle
	}
	outcome, err := world.Round(t.Context(), c)
	require.NoError(t, err)
	t.Logf("seed %d: %s", seed, outcome)
	return outcome, checker.Check(&outcome.Evidence)
}
