package tests

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/internal/railsim/sim"
	"payonce/ledger"
	"payonce/starter/transfers"
	"payonce/tests/harness"
	"payonce/workflows"
)

// The tests of this file run payouts against the simulated rail, a process of its own with books of its own: whatever is
// lost on the way, it sends the money of a payout once at most, and our books say what its books say.

// railWorld is a world with a rail and an account that has 100.
type railWorld struct {
	*harness.World
	rail  *harness.Rail
	alice string
}

func newRailWorld(t *testing.T, start func(w *harness.World, rail *harness.Rail)) *railWorld {
	t.Helper()
	w := &railWorld{World: harness.New(t, harness.Config{Ledgers: []string{"us"}})}
	w.rail = w.StartRail(t, "bank")
	start(w.World, w.rail)
	w.alice = w.Account(t, "us", "100.00")
	return w
}

func (w *railWorld) in(id string) workflows.PayoutInput {
	return workflows.PayoutInput{
		ID: id, From: w.alice, Rail: "bank", Payee: map[string]string{"iban": "DE89370400440532013000"}, Amount: "10", Asset: "USD",
	}
}

// impatient is a worker that soon asks a person.
func impatient(o *workflows.Options) {
	unhurried(o)
	o.Rail.Patience = 1500 * time.Millisecond
}

// awaitParked waits until a payout is parked for the how many-th time and tells of it, which its own words alone do, and its dead
// letter is written.
func (w *railWorld) awaitParked(t *testing.T, id string, number int) *workflows.Parking {
	t.Helper()
	var parking *workflows.Parking
	harness.Eventually(t, "the payout "+id+" is parked", func() bool {
		status, err := w.Transfers.PayoutStatus(harness.Within(t, 10*time.Second), id)
		parking = status.Parking
		return err == nil && status.State == workflows.StateParked && parking != nil && parking.Number == number
	})
	awaitDeadLetter(t, w.World, workflows.StepKey(workflows.PayoutWorkflowID(id), parking.Step), func(s *activities.DeadLetterStory) bool {
		return s.Parked && s.Parking == number
	})
	return parking
}

// check has the rail asked. The command gives up soon, and is always safe.
func (w *railWorld) check(t *testing.T, id string) {
	t.Helper()
	harness.Eventually(t, "the rail is asked about "+id, func() bool { return w.CLI(t, "payout", "check", id).Code == exitDone })
}

// awaitTaken waits until a worker has taken callbacks: how many of the first change of a payout, how many of the next.
func (w *railWorld) awaitTaken(t *testing.T, reference string, counts ...int) {
	t.Helper()
	harness.Eventually(t, "the callbacks are taken", func() bool {
		var taken []int
		for _, told := range w.rail.Books(t).Callbacks {
			if told.Reference != reference {
				continue
			}
			n := 0
			for _, attempt := range told.Attempts {
				if attempt.Status == http.StatusNoContent {
					n++
				}
			}
			taken = append(taken, n)
		}
		return slices.Equal(counts, taken)
	})
}

// With the programs as they are in production: paid, told by callbacks, asked for twice, and asked for with other content.
func TestPayout(t *testing.T) {
	t.Parallel()
	var worker *harness.Worker
	w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
		worker = w.StartWorker(t, harness.WorkerConfig{Env: rail.Env()})
	})
	callbacks := sim.Callbacks{URL: w.rail.CallbackURL(t, worker.Output)}
	payment := w.in("rent")

	// Pending, until the rail tells, twice and once more with a signature that is not its own.
	w.rail.Plan(t, "rent", sim.Plan{Outcome: "pending", Callbacks: sim.Callbacks{URL: callbacks.URL, Times: 2}})
	code, told := w.CLIPayout(t, payment, "--wait=false")
	require.Equal(t, exitDone, code)
	require.False(t, *told.Attached)
	w.AwaitPayout(t, "rent", workflows.StatePending)
	code, told = w.PayoutStatus(t, "rent")
	require.Equal(t, exitPending, code)
	require.Equal(t, workflows.StatePending, told.State)
	require.Equal(t, []string{"90.00", "10.00"}, w.Balances(t, w.alice, "us/rail:bank"))
	verified := w.Worker(t, "verify", "--temporal")
	require.Equal(t, 0, verified.Code)
	require.Contains(t, verified.Stdout, "reserved  10.00 USD/2 of "+w.alice+" in us/rail:bank since ")
	require.Contains(t, verified.Stdout, "1 payout with money reserved and an open workflow")

	w.rail.Decide(t, "rent", "settled")
	code, told = w.CLIPayout(t, payment)
	require.Equal(t, exitDone, code)
	require.True(t, *told.Attached)
	require.Equal(t, workflows.StateSettled, told.State)
	require.Equal(t, []string{"us reserve applied", "us settle applied"}, w.PayoutSteps(t, "rent"))
	require.Equal(t, []string{"90.00", "0.00", "10.00"}, w.Balances(t, w.alice, "us/rail:bank", "us/settled:bank"))

	other := payment
	other.Payee = map[string]string{"iban": "DE90"}
	code, _ = w.CLIPayout(t, other)
	require.Equal(t, exitDifferent, code)

	// Also when Temporal has forgotten it.
	w.awaitTaken(t, "rent", 2)
	w.AwaitPayout(t, "rent", workflows.StateSettled)
	w.Forget(t, workflows.PayoutWorkflowID("rent"))
	code, told = w.PayoutStatus(t, "rent")
	require.Equal(t, exitDone, code)
	require.Equal(t, workflows.StateSettled, told.State)
	code, _ = w.CLIPayout(t, other)
	require.Equal(t, exitDifferent, code)
	code, told = w.CLIPayout(t, payment)
	require.Equal(t, exitDone, code)
	require.Equal(t, workflows.StateSettled, told.State)
	require.Equal(t, sim.Sums{Payouts: 1, Sent: 1}, w.rail.Books(t).References["rent"])

	t.Run("refused by the ledger", func(t *testing.T) {
		much := w.in("much")
		much.Amount = "1000"
		code, told := w.CLIPayout(t, much)
		require.Equal(t, exitRejected, code)
		require.Equal(t, "insufficient_funds", told.Code)
		require.Empty(t, w.rail.Requests(t, "much"))
	})
	t.Run("refused by the rail", func(t *testing.T) {
		w.rail.Plan(t, "no", sim.Plan{Outcome: "rejected", Code: "ac01", Detail: "no such account"})
		code, told := w.CLIPayout(t, w.in("no"))
		require.Equal(t, exitFailed, code)
		require.Equal(t, []any{workflows.StateReturned, "ac01", "no such account"}, []any{told.State, told.Code, told.Detail})
		require.Equal(t, []string{"us reserve applied", "us return applied"}, w.PayoutSteps(t, "no"))
		require.Equal(t, "90.00", w.Balance(t, w.alice))
	})
	t.Run("told before the submit is answered", func(t *testing.T) {
		early := callbacks
		early.Early = true
		w.rail.Plan(t, "early", sim.Plan{Submit: []sim.Fault{{Do: "answer", AfterMS: 300}}, Callbacks: early})
		code, _ := w.CLIPayout(t, w.in("early"))
		require.Equal(t, exitDone, code)
		w.awaitTaken(t, "early", 1)
	})
	t.Run("callbacks that nobody may send", func(t *testing.T) {
		forged := callbacks
		forged.Forged = true
		w.rail.Plan(t, "forged", sim.Plan{Callbacks: forged})
		code, _ := w.CLIPayout(t, w.in("forged"))
		require.Equal(t, exitDone, code)
		harness.Eventually(t, "the callback is refused", func() bool {
			for _, told := range w.rail.Books(t).Callbacks {
				if told.Reference == "forged" && len(told.Attempts) > 0 {
					return told.Attempts[len(told.Attempts)-1].Status == http.StatusUnauthorized
				}
			}
			return false
		})
	})
	t.Run("unknown", func(t *testing.T) {
		for _, args := range [][]string{{"payout", "status", "nobody"}, {"payout", "check", "nobody"}, {"payout", "cancel", "nobody"}} {
			require.Equal(t, exitUsage, w.CLI(t, args...).Code, args)
		}
		require.Equal(t, exitUsage, w.CLI(t, "payout", "--from", "us/a").Code)
		require.Equal(t, exitRejected, w.CLI(t, "payout", "cancel", "rent").Code)
	})
}

// Whatever the answer to the submit looks like, the rail is asked, and the money is where it says.
func TestPayoutFaults(t *testing.T) {
	t.Parallel()
	w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
		w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Env: rail.Env()})
	})
	submit := func(faults ...sim.Fault) sim.Plan { return sim.Plan{Submit: faults} }
	for id, row := range map[string]struct {
		plan  sim.Plan
		state workflows.State
	}{
		"reply-lost":        {submit(sim.Fault{Do: "drop", Executed: true, Times: 2}), workflows.StateSettled},
		"never-arrived":     {submit(sim.Fault{Do: "drop", Times: 3}), workflows.StateSettled},
		"502-executed":      {submit(sim.Fault{Do: "status", Status: 502, Executed: true, Times: 3}), workflows.StateSettled},
		"503-not-executed":  {submit(sim.Fault{Do: "status", Status: 503, RetryAfter: "1", Times: 2}), workflows.StateSettled},
		"401":               {submit(sim.Fault{Do: "status", Status: 401, Times: 4}), workflows.StateSettled},
		"empty":             {submit(sim.Fault{Do: "empty", Executed: true, Times: 2}), workflows.StateSettled},
		"cut":               {submit(sim.Fault{Do: "cut_json", Times: 2}), workflows.StateSettled},
		"another-payout":    {submit(sim.Fault{Do: "other_reference", Times: 2}), workflows.StateSettled},
		"another-amount":    {submit(sim.Fault{Do: "other_amount", Times: 2}), workflows.StateSettled},
		"wrong-word":        {submit(sim.Fault{Do: "wrong_word", Times: 2}), workflows.StateSettled},
		"bare-400":          {submit(sim.Fault{Do: "status", Status: 400, Times: 2}), workflows.StateSettled},
		"in-flight":         {submit(sim.Fault{Do: "in_flight", Times: 3}), workflows.StateSettled},
		"unknown-then":      {sim.Plan{Submit: []sim.Fault{{Do: "drop", Executed: true, Times: 2}}, UnknownForMS: 1500}, workflows.StateSettled},
		"pending-then":      {sim.Plan{DecideAfterMS: 1000}, workflows.StateSettled},
		"rejected-late":     {sim.Plan{DecideAfterMS: 1000, Outcome: "rejected"}, workflows.StateReturned},
		"lookup-lost":       {sim.Plan{Submit: []sim.Fault{{Do: "drop", Executed: true, Times: 2}}, Lookup: []sim.Fault{{Do: "status", Status: 502, Times: 2}, {Do: "empty"}, {Do: "drop"}}}, workflows.StateSettled},
		"returned-at-once":  {sim.Plan{Submit: []sim.Fault{{Do: "drop", Executed: true, Times: 2}}, ReturnAfterMS: 1}, workflows.StateReturned},
		"rejected-but-lost": {sim.Plan{Submit: []sim.Fault{{Do: "drop", Executed: true, Times: 2}}, Outcome: "rejected"}, workflows.StateReturned},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			w.rail.Plan(t, id, row.plan)
			in := w.in(id)
			in.From = w.Account(t, "us", "10.00")
			code, told := w.CLIPayout(t, in, timeoutLong)
			require.Equal(t, row.state, told.State)
			sums := w.rail.Books(t).References[id]
			require.Equal(t, 1, sums.Payouts)
			if row.state == workflows.StateSettled {
				require.Equal(t, exitDone, code)
				require.Equal(t, sim.Sums{Payouts: 1, Sent: 1}, sums)
				require.Equal(t, []string{"us reserve applied", "us settle applied"}, w.PayoutSteps(t, id))
				require.Equal(t, "0.00", w.Balance(t, in.From))
				return
			}
			require.Equal(t, exitFailed, code)
			require.Equal(t, sums.Sent, sums.Returned)
			require.Equal(t, "10.00", w.Balance(t, in.From))
		})
	}
}

// What bounces days after its end comes back once, however often it is told, and also when Temporal has forgotten it.
func TestPayoutBounces(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]bool{"remembered": false, "forgotten": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var worker *harness.FaultWorker
			w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
				worker = w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Env: rail.Env()})
			})
			w.rail.Plan(t, "rent", sim.Plan{Callbacks: sim.Callbacks{URL: w.rail.CallbackURL(t, worker.Log), Times: 3}})
			code, _ := w.CLIPayout(t, w.in("rent"))
			require.Equal(t, exitDone, code)
			w.awaitTaken(t, "rent", 3)
			w.AwaitPayout(t, "rent", workflows.StateSettled)
			if forget {
				w.Forget(t, workflows.PayoutWorkflowID("rent"))
			}
			w.rail.Decide(t, "rent", "returned")
			status := w.AwaitPayout(t, "rent", workflows.StateReturned)
			require.Equal(t, "ac04", status.Result.Code)
			w.awaitTaken(t, "rent", 3, 3)
			w.check(t, "rent")
			w.AwaitPayout(t, "rent", workflows.StateReturned)
			require.Equal(t, []string{"us reserve applied", "us settle applied", "us bounce applied"}, w.PayoutSteps(t, "rent"))
			require.Equal(t, []string{"100.00", "0.00", "0.00"}, w.Balances(t, w.alice, "us/rail:bank", "us/settled:bank"))
			code, told := w.CLIPayout(t, w.in("rent"))
			require.Equal(t, exitFailed, code)
			require.Equal(t, workflows.StateReturned, told.State)
			require.Equal(t, sim.Sums{Payouts: 1, Sent: 1, Returned: 1}, w.rail.Books(t).References["rent"])
		})
	}
}

// Once the rail may have forgotten the key, nothing is sent again: a person is asked, and what the rail says later goes first.
func TestPayoutKeyForgotten(t *testing.T) {
	t.Parallel()
	w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
		// Long enough for a busy machine to submit it at all, and over before a person is asked.
		w.StartFaultWorker(t, harness.FaultConfig{Env: rail.Env("KEYS_KEPT=15s"), Options: func(o *workflows.Options) {
			unhurried(o)
			o.Rail.Patience = 17 * time.Second
		}})
	})
	// The rail has it, and does not find it for a while.
	w.rail.Plan(t, "rent", sim.Plan{Submit: []sim.Fault{{Do: "drop", Executed: true, Times: -1}}, UnknownForMS: 3_600_000})
	code, told := w.CLIPayout(t, w.in("rent"), timeoutLong)
	require.Equal(t, exitPending, code)
	require.Equal(t, workflows.StateParked, told.State)
	parking := w.awaitParked(t, "rent", 1)
	require.Equal(t, []any{workflows.StepSubmit, ledger.PlaceTransit, "us/rail:bank"}, []any{parking.Step, parking.Place, parking.Account})
	require.Equal(t, sim.Sums{Payouts: 1, Sent: 1}, w.rail.Books(t).References["rent"])
	submits := onlySubmits(w.rail.Requests(t, "rent"))
	require.NotEmpty(t, submits)
	require.Equal(t, []string{"us reserve applied"}, w.PayoutSteps(t, "rent"))
	require.Equal(t, "90.00", w.Balance(t, w.alice))

	letter := deadLetters(t, w.CLI(t, "deadletter", "list", "us"))
	require.Len(t, letter, 1)
	require.Equal(t, []string{"payout/rent/submit", "payout/rent", "us/rail:bank"}, []string{letter[0].Key, letter[0].Transfer, letter[0].Account})
	require.Equal(t, []string{"retry", "settle", "compensate"}, letter[0].Choices)

	// Asked again it is the same, and never sent.
	require.Equal(t, exitDone, w.CLI(t, "deadletter", "retry", "payout/rent", "--by=carol", timeoutLong).Code)
	w.awaitParked(t, "rent", 2)
	require.Equal(t, submits, onlySubmits(w.rail.Requests(t, "rent")))
	require.Equal(t, sim.Sums{Payouts: 1, Sent: 1}, w.rail.Books(t).References["rent"])

	// The rail finds it. A person who thinks that it was not paid is told better.
	w.rail.Plan(t, "rent", sim.Plan{})
	refused := w.CLI(t, "deadletter", "compensate", "payout/rent", "--by=carol", "--reason=the bank says no on the phone", timeoutLong)
	require.Equal(t, exitRejected, refused.Code)
	require.Contains(t, refused.Stderr, "the rail has answered: settled")
	w.AwaitPayout(t, "rent", workflows.StateSettled)
	require.Equal(t, []string{"90.00", "0.00", "10.00"}, w.Balances(t, w.alice, "us/rail:bank", "us/settled:bank"))
	story := awaitDeadLetter(t, w.World, "payout/rent", func(s *activities.DeadLetterStory) bool { return s.Ended != "" })
	require.Equal(t, "the rail has answered: settled; the payout ended as settled", story.Resolution)
	require.Equal(t, []string{"set-aside", "retry by carol", "set-aside", "end", "end"}, actionsOf(&story))
}

// A person's word stands until the rail speaks against it, and then it is a dead letter.
func TestPayoutDecided(t *testing.T) {
	t.Parallel()
	w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
		w.StartFaultWorker(t, harness.FaultConfig{Env: rail.Env(), Options: impatient})
	})
	lost := sim.Plan{Submit: []sim.Fault{{Do: "drop", Executed: true, Times: -1}}, UnknownForMS: 3_600_000}
	park := func(t *testing.T, id string) workflows.PayoutInput {
		t.Helper()
		w.rail.Plan(t, id, lost)
		in := w.in(id)
		in.From = w.Account(t, "us", "10.00")
		code, told := w.CLIPayout(t, in, timeoutLong)
		require.Equal(t, exitPending, code)
		require.Equal(t, workflows.StateParked, told.State)
		w.awaitParked(t, id, 1)
		return in
	}
	t.Run("settled", func(t *testing.T) {
		t.Parallel()
		in := park(t, "believed")
		require.Equal(t, exitUsage, w.CLI(t, "deadletter", "settle", "payout/believed", "--by=carol").Code, "without a reason")
		require.Equal(t, exitRejected, w.CLI(t, "deadletter", "discard", "payout/believed", "--by=carol", "--reason=x", "--settled-outside").Code)
		require.Equal(t, exitDone, w.CLI(t, "deadletter", "settle", "payout/believed/submit", "--by=carol", "--reason=it is on the statement").Code)
		code, told := w.CLIPayout(t, in)
		require.Equal(t, exitDone, code)
		require.Equal(t, []any{workflows.StateSettled, workflows.CodeDecided, "settle by carol: it is on the statement"}, []any{told.State, told.Code, told.Detail})
		require.Equal(t, "0.00", w.Balance(t, in.From))
	})
	t.Run("returned, and the rail has paid", func(t *testing.T) {
		t.Parallel()
		in := park(t, "mistaken")
		require.Equal(t, exitRejected, w.CLI(t, "deadletter", "compensate", "payout/mistaken", "--by=carol").Code, "without a reason")
		require.Equal(t, exitDone, w.CLI(t, "deadletter", "compensate", "payout/mistaken", "--by=carol", "--reason=a mistake").Code)
		code, told := w.CLIPayout(t, in)
		require.Equal(t, exitFailed, code)
		require.Equal(t, workflows.StateReturned, told.State)
		require.Equal(t, "10.00", w.Balance(t, in.From))

		w.rail.Plan(t, "mistaken", sim.Plan{})
		w.check(t, "mistaken")
		parking := w.awaitParked(t, "mistaken", 1)
		require.Equal(t, []any{workflows.StepSettle, ledger.PlaceSource, in.From}, []any{parking.Step, parking.Place, parking.Account})
		story := awaitDeadLetter(t, w.World, "payout/mistaken/settle", func(*activities.DeadLetterStory) bool { return true })
		require.Equal(t, "Contradiction", story.ErrorType)
		require.Equal(t, exitDone, w.CLI(t, "deadletter", "discard", "payout/mistaken", "--by=carol", "--reason=charged by hand", "--settled-outside").Code)
		require.Equal(t, workflows.StateDiscarded, w.AwaitPayout(t, "mistaken", workflows.StateDiscarded).State)
		require.Equal(t, []string{"us reserve applied", "us return applied"}, w.PayoutSteps(t, "mistaken"))
	})
}

// A worker that is killed while the rail pays, or just before, leaves nothing behind that pays twice.
func TestPayoutWorkerKilled(t *testing.T) {
	t.Parallel()
	// Long enough to kill the worker meanwhile, and it costs as much that it is killed.
	const takes = 15 * time.Second
	for name, fault := range map[string]sim.Fault{
		"before the rail pays": {Do: "answer", BeforeMS: takes.Milliseconds()},
		"after it has paid":    {Do: "answer", AfterMS: takes.Milliseconds()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := func(o *workflows.Options) {
				unhurried(o)
				o.Rail.Submit.TimeoutStartToClose = takes
			}
			var worker *harness.FaultWorker
			w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
				worker = w.StartFaultWorker(t, harness.FaultConfig{Options: options, Env: rail.Env()})
			})
			w.rail.Plan(t, "rent", sim.Plan{Submit: []sim.Fault{fault}})
			code, _ := w.CLIPayout(t, w.in("rent"), "--wait=false")
			require.Equal(t, exitDone, code)
			if fault.AfterMS > 0 {
				w.rail.AwaitSent(t, "rent")
			} else {
				w.AwaitSubmitting(t, "rent")
			}
			require.NoError(t, worker.Kill())
			require.Empty(t, w.rail.Requests(t, "rent"), "it was killed before the answer")
			w.StartFaultWorker(t, harness.FaultConfig{Options: options, Env: w.rail.Env()})
			code, told := w.CLIPayout(t, w.in("rent"), timeoutLong)
			require.Equal(t, exitDone, code)
			require.Equal(t, workflows.StateSettled, told.State)
			require.Equal(t, sim.Sums{Payouts: 1, Sent: 1}, w.rail.Books(t).References["rent"])
			require.Equal(t, []string{"us reserve applied", "us settle applied"}, w.PayoutSteps(t, "rent"))
		})
	}
	for _, point := range []string{"reserve/after", "settle/before", "settle/after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			var dying *harness.FaultWorker
			w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
				dying = w.StartFaultWorker(t, harness.FaultConfig{Env: rail.Env(), Options: losing, Faults: []string{point + "=kill;key=payout/rent/" + strings.Split(point, "/")[0]}})
			})
			code, _ := w.CLIPayout(t, w.in("rent"), "--wait=false")
			require.Equal(t, exitDone, code)
			dying.AwaitKilled(t)
			w.StartFaultWorker(t, harness.FaultConfig{Env: w.rail.Env(), Options: losing})
			code, _ = w.CLIPayout(t, w.in("rent"), timeoutLong)
			require.Equal(t, exitDone, code)
			require.Equal(t, sim.Sums{Payouts: 1, Sent: 1}, w.rail.Books(t).References["rent"])
			require.Equal(t, []string{"90.00", "0.00", "10.00"}, w.Balances(t, w.alice, "us/rail:bank", "us/settled:bank"))
		})
	}
}

// Terminated at any moment, a payout that is asked for again goes on from where it stopped.
func TestPayoutTerminated(t *testing.T) {
	t.Parallel()
	w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
		w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Env: rail.Env()})
	})
	w.rail.Plan(t, "rent", sim.Plan{Outcome: "pending"})
	code, _ := w.CLIPayout(t, w.in("rent"), "--wait=false")
	require.Equal(t, exitDone, code)
	w.AwaitPayout(t, "rent", workflows.StatePending)
	require.NoError(t, w.Temporal.TerminateWorkflow(t.Context(), workflows.PayoutWorkflowID("rent"), "", "a test"))
	code, told := w.PayoutStatus(t, "rent")
	require.Equal(t, exitPending, code)
	require.Equal(t, transfers.StateUnknown, told.State)
	found := w.Worker(t, "verify", "--temporal")
	require.NotEqual(t, 0, found.Code)
	require.Contains(t, found.Stdout, "WRONG  unfinished: payout/rent: its workflow was closed as terminated; the books have 10.00 USD/2 reserved in us/rail:bank")
	require.Contains(t, found.Stdout, "starter payout --id rent --from "+w.alice+" --rail bank --amount 10.00 --asset USD/2 --payee iban=DE89370400440532013000")
	w.rail.Decide(t, "rent", "settled")
	code, told = w.CLIPayout(t, w.in("rent"))
	require.Equal(t, exitDone, code)
	require.Equal(t, workflows.StateSettled, told.State)
	require.Equal(t, []string{"submit"}, onlySubmits(w.rail.Requests(t, "rent")))
}

func onlySubmits(calls []string) (submits []string) {
	for _, call := range calls {
		if call == "submit" {
			submits = append(submits, call)
		}
	}
	return submits
}

// Cancelled before the rail hears of it, the money is back at once; afterwards the rail decides.
func TestPayoutCancelled(t *testing.T) {
	t.Parallel()
	var worker *harness.FaultWorker
	w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
		worker = w.StartFaultWorker(t, harness.FaultConfig{Env: rail.Env(), Options: patiently, Faults: []string{"reserve/after=hold;key=payout/unsent/reserve"}})
	})
	start := func(t *testing.T, id string) workflows.PayoutInput {
		t.Helper()
		in := w.in(id)
		in.From = w.Account(t, "us", "10.00")
		code, _ := w.CLIPayout(t, in, "--wait=false")
		require.Equal(t, exitDone, code)
		return in
	}
	t.Run("unsent", func(t *testing.T) {
		t.Parallel()
		in := start(t, "unsent")
		worker.AwaitEvent(t, "blocked", struckBy("reserve/after", "hold"))
		require.NoError(t, w.Transfers.CancelPayout(t.Context(), "unsent"))
		worker.LetGo(t)
		code, told := w.CLIPayout(t, in)
		require.Equal(t, exitFailed, code)
		require.Equal(t, []any{workflows.StateCancelled, workflows.CodeUnsent}, []any{told.State, told.Code})
		require.Equal(t, "10.00", w.Balance(t, in.From))
		require.Empty(t, w.rail.Requests(t, "unsent"))
	})
	for id, row := range map[string]struct {
		tooLate bool
		state   workflows.State
		balance string
	}{
		"stopped":  {false, workflows.StateCancelled, "10.00"},
		"too-late": {true, workflows.StateSettled, "0.00"},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			w.rail.Plan(t, id, sim.Plan{Outcome: "pending", Uncancellable: row.tooLate})
			in := start(t, id)
			w.AwaitPayout(t, id, workflows.StatePending)
			require.Equal(t, exitDone, w.CLI(t, "payout", "cancel", id).Code)
			harness.Eventually(t, "the rail is asked to cancel", func() bool { return slices.Contains(w.rail.Requests(t, id), "cancel") })
			if row.tooLate {
				w.rail.Decide(t, id, "settled")
			}
			_, told := w.CLIPayout(t, in)
			require.Equal(t, row.state, told.State)
			require.Equal(t, row.balance, w.Balance(t, in.From))
		})
	}
}

// A rail that is down stops its own payouts alone, and they go on when it is there.
func TestPayoutRailDown(t *testing.T) {
	t.Parallel()
	w := newRailWorld(t, func(w *harness.World, _ *harness.Rail) {
		w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried})
	})
	code, _ := w.CLIPayout(t, w.in("rent"), "--wait=false")
	require.Equal(t, exitDone, code)
	harness.Eventually(t, "the money is reserved", func() bool { return len(w.PayoutSteps(t, "rent")) == 1 })
	moved := w.CLITransfer(t, workflows.TransferInput{ID: "meanwhile", From: w.alice, To: w.Account(t, "us", ""), Amount: "1", Asset: "USD"})
	require.Equal(t, exitDone, moved.Code)
	code, _ = w.CLIPayout(t, w.in("rent"), "--timeout=500ms")
	require.Equal(t, exitPending, code)
	w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Env: w.rail.Env()})
	code, _ = w.CLIPayout(t, w.in("rent"), timeoutLong)
	require.Equal(t, exitDone, code)
}
