package workflows_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"payonce/activities"
	"payonce/ledger"
	"payonce/workflows"
)

// The tests of this file hold the workflow against the protocol's table, with mocked time: what a ledger really answers
// is tested in tests/, on a real one.

var (
	within  = workflows.TransferInput{ID: "t1", From: "us/alice", To: "us/bob", Amount: "10", Asset: "USD"}
	between = workflows.TransferInput{ID: "t1", From: "us/alice", To: "eu/bob", Amount: "10", Asset: "USD"}
)

// answer is what an activity answers to every attempt.
type answer struct {
	state ledger.OutcomeState
	code  ledger.Code
	err   error
}

func (a answer) outcome(in activities.StepInput) (activities.StepOutcome, error) {
	if a.err != nil {
		return activities.StepOutcome{}, a.err
	}
	return activities.StepOutcome{Ledger: in.Ledger, Key: in.Key, State: a.state, Code: a.code, Detail: "because"}, nil
}

var (
	applied    = answer{state: ledger.OutcomeApplied}
	refused    = answer{state: ledger.OutcomeRefused, code: ledger.CodeInsufficientFunds}
	sealed     = answer{state: ledger.OutcomeSealed, code: ledger.CodeAttemptsExhausted}
	poison     = answer{err: temporal.NewApplicationError("constraint violated", activities.ErrorLedger)}
	conflict   = answer{err: temporal.NewNonRetryableApplicationError("taken", activities.ErrorKeyConflict, nil)}
	notHere    = answer{err: temporal.NewNonRetryableApplicationError("elsewhere", activities.ErrorLedgerNotServed, nil)}
	sealedNow  = answer{state: ledger.OutcomeSealed} // by this run, with its reason
	neverAsked = answer{err: errors.New("this activity was not to be called")}
)

// ledgers is a script: what each activity answers, and what was asked.
type ledgers struct {
	post, withdraw, deposit, refund              answer
	resolvePost, resolveWithdraw, resolveDeposit answer
	resolveRefund                                answer
	fast                                         *answer // instead, on the fast path
	calls                                        []string
	resolves                                     []activities.ResolveInput
	refunds                                      []activities.StepInput
	letters                                      []activities.DeadLetterView
	onCall                                       func(name string)
}

type world struct {
	*testsuite.TestWorkflowEnvironment
	ledgers *ledgers
}

func newWorld(t *testing.T, l *ledgers) *world {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	// A busy machine is no deadlock.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	options := workflows.DefaultOptions()
	workflows.New(options).Register(env)
	env.RegisterActivity(activities.New(nil))
	called := func(ctx context.Context, name string) {
		if activity.GetInfo(ctx).IsLocalActivity {
			name += " fast"
		}
		l.calls = append(l.calls, name)
		if l.onCall != nil {
			l.onCall(name)
		}
	}
	step := func(name string, answer func() answer) {
		env.OnActivity(name, mock.Anything, mock.Anything).Return(
			func(ctx context.Context, in activities.StepInput) (activities.StepOutcome, error) {
				called(ctx, name)
				if name == "Refund" {
					l.refunds = append(l.refunds, in)
				}
				if l.fast != nil && activity.GetInfo(ctx).IsLocalActivity {
					return l.fast.outcome(in)
				}
				return answer().outcome(in)
			}).Maybe()
	}
	step("Post", func() answer { return l.post })
	step("Withdraw", func() answer { return l.withdraw })
	step("Deposit", func() answer { return l.deposit })
	step("Refund", func() answer { return l.refund })
	env.OnActivity("Resolve", mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in activities.ResolveInput) (activities.StepOutcome, error) {
			called(ctx, "Resolve "+string(in.Kind))
			l.resolves = append(l.resolves, in)
			a := map[ledger.Kind]answer{
				ledger.KindPost: l.resolvePost, ledger.KindWithdraw: l.resolveWithdraw, ledger.KindDeposit: l.resolveDeposit,
				ledger.KindRefund: l.resolveRefund,
			}[in.Kind]
			if a.state == ledger.OutcomeSealed && a.code == "" {
				a.code = in.Code // the ledger records why it sealed
			}
			return a.outcome(in.Step)
		}).Maybe()
	env.OnActivity("DeadLetterRecord", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in activities.DeadLetterView) error {
			l.letters = append(l.letters, in)
			return nil
		}).Maybe()
	return &world{TestWorkflowEnvironment: env, ledgers: l}
}

func (w *world) transfer(t *testing.T, in workflows.TransferInput) workflows.TransferResult {
	t.Helper()
	w.start(in)
	require.True(t, w.IsWorkflowCompleted())
	require.NoError(t, w.GetWorkflowError())
	var result workflows.TransferResult
	require.NoError(t, w.GetWorkflowResult(&result))
	return result
}

func (w *world) start(in workflows.TransferInput) {
	w.SetStartWorkflowOptions(workflowOptions(in.ID))
	w.ExecuteWorkflow(workflows.TransferWorkflow, in)
}

func TestProtocolTable(t *testing.T) {
	for _, row := range []struct {
		name    string
		in      workflows.TransferInput
		ledgers ledgers
		state   workflows.State
		calls   []string // without repeats of the same
		letters int
	}{
		{"post applied", within, ledgers{post: applied}, workflows.StateCompleted, []string{"Post fast"}, 0},
		{"post refused", within, ledgers{post: refused}, workflows.StateRejected, []string{"Post fast"}, 0},
		{"post sealed by an earlier run", within, ledgers{post: sealed}, workflows.StateFailed, []string{"Post fast"}, 1},
		{
			"post: attempts ran out, applied", within,
			ledgers{post: poison, resolvePost: applied},
			workflows.StateCompleted,
			[]string{"Post fast", "Post", "Resolve post"},
			0,
		},
		{
			"post: attempts ran out, refused", within,
			ledgers{post: poison, resolvePost: refused},
			workflows.StateRejected,
			[]string{"Post fast", "Post", "Resolve post"},
			0,
		},
		{
			"post: attempts ran out, sealed", within,
			ledgers{post: poison, resolvePost: sealedNow},
			workflows.StateFailed,
			[]string{"Post fast", "Post", "Resolve post"},
			1,
		},
		{
			"post: the worker does not hold the ledger", within,
			ledgers{fast: &notHere, post: applied},
			workflows.StateCompleted,
			[]string{"Post fast", "Post"},
			0,
		},

		{
			"withdraw and deposit applied", between,
			ledgers{withdraw: applied, deposit: applied},
			workflows.StateCompleted,
			[]string{"Withdraw fast", "Deposit fast"},
			0,
		},
		{"withdraw refused", between, ledgers{withdraw: refused}, workflows.StateRejected, []string{"Withdraw fast"}, 0},
		{
			"withdraw: attempts ran out, applied", between,
			ledgers{withdraw: poison, resolveWithdraw: applied, deposit: applied},
			workflows.StateCompleted,
			[]string{"Withdraw fast", "Withdraw", "Resolve withdraw", "Deposit fast"},
			0,
		},
		{
			"withdraw: attempts ran out, sealed", between,
			ledgers{withdraw: poison, resolveWithdraw: sealedNow},
			workflows.StateFailed,
			[]string{"Withdraw fast", "Withdraw", "Resolve withdraw"},
			1,
		},
		{
			"deposit: attempts ran out, applied", between,
			ledgers{withdraw: applied, deposit: poison, resolveDeposit: applied},
			workflows.StateCompleted,
			[]string{"Withdraw fast", "Deposit fast", "Deposit", "Resolve deposit"},
			0,
		},
		{
			"deposit: attempts ran out, sealed", between,
			ledgers{withdraw: applied, deposit: poison, resolveDeposit: sealedNow, refund: applied},
			workflows.StateCompensated,
			[]string{"Withdraw fast", "Deposit fast", "Deposit", "Resolve deposit", "Refund"},
			1,
		},
		{
			"deposit refused", between,
			ledgers{withdraw: applied, deposit: refused, refund: applied},
			workflows.StateCompensated,
			[]string{"Withdraw fast", "Deposit fast", "Refund"},
			0,
		},
		{
			"deposit sealed by an earlier run", between,
			ledgers{withdraw: applied, deposit: sealed, refund: applied},
			workflows.StateCompensated,
			[]string{"Withdraw fast", "Deposit fast", "Refund"},
			1,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := row.ledgers
			w := newWorld(t, &l)
			result := w.transfer(t, row.in)
			require.Equal(t, row.state, result.State)
			require.Equal(t, row.calls, withoutRepeats(l.calls))
			require.Len(t, l.letters, row.letters)
			require.Equal(t, "10.00", result.Amount)
			require.Equal(t, "USD/2", result.Asset)
			if row.state == workflows.StateCompleted {
				require.Empty(t, result.Code)
			} else {
				require.NotEmpty(t, result.Code)
				require.NotEmpty(t, result.Detail)
			}
			for _, refund := range l.refunds {
				require.Equal(t, activities.StepInput{
					Ledger: "us", Key: "transfer/t1/refund", From: "transit:eu", To: "alice", Amount: "10.00", Asset: "USD/2",
					Other: "eu/bob", Reverses: "transfer/t1/withdraw",
				}, refund)
			}
		})
	}
}

// Cases 18, 21 (killbill#1015, sdk-java#305): a cancelled transfer is resolved, and undone only as far as it went.
func TestCancelledAtEveryStep(t *testing.T) {
	byCancel := answer{state: ledger.OutcomeSealed}
	for _, row := range []struct {
		name    string
		in      workflows.TransferInput
		ledgers ledgers
		during  string // the call in which the cancellation arrives; "" before the first
		state   workflows.State
		last    string // the last call
	}{
		{"before anything", between, ledgers{withdraw: neverAsked, resolveWithdraw: byCancel}, "", workflows.StateCancelled, "Resolve withdraw"},
		{
			"before anything, though an earlier run had withdrawn", between,
			ledgers{withdraw: neverAsked, deposit: neverAsked, resolveWithdraw: applied, resolveDeposit: byCancel, refund: applied},
			"", workflows.StateCancelled, "Refund",
		},
		{"during post, not applied", within, ledgers{fast: &notHere, post: poison, resolvePost: byCancel}, "Post", workflows.StateCancelled, "Resolve post"},
		{"during post, applied all the same", within, ledgers{fast: &notHere, post: poison, resolvePost: applied}, "Post", workflows.StateCompleted, "Resolve post"},
		{"during withdraw, not applied", between, ledgers{fast: &notHere, withdraw: poison, resolveWithdraw: byCancel}, "Withdraw", workflows.StateCancelled, "Resolve withdraw"},
		{
			"during withdraw, applied", between,
			ledgers{fast: &notHere, withdraw: poison, deposit: neverAsked, resolveWithdraw: applied, resolveDeposit: byCancel, refund: applied},
			"Withdraw", workflows.StateCancelled, "Refund",
		},
		{
			"during deposit, not applied", between,
			ledgers{fast: &notHere, withdraw: applied, deposit: poison, resolveDeposit: byCancel, refund: applied},
			"Deposit", workflows.StateCancelled, "Refund",
		},
		{
			"during deposit, applied all the same", between,
			ledgers{fast: &notHere, withdraw: applied, deposit: poison, resolveDeposit: applied},
			"Deposit", workflows.StateCompleted, "Resolve deposit",
		},
		{"during refund", between, ledgers{withdraw: applied, deposit: refused, refund: applied}, "Refund", workflows.StateCompensated, "Refund"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := row.ledgers
			w := newWorld(t, &l)
			cancelled := false
			l.onCall = func(name string) {
				if name == row.during && !cancelled {
					cancelled = true
					w.CancelWorkflow()
				}
			}
			if row.during == "" {
				cancelled = true
				w.RegisterDelayedCallback(w.CancelWorkflow, 0)
			}
			result := w.transfer(t, row.in)
			require.True(t, cancelled, "the cancellation did not happen")
			require.Equal(t, row.state, result.State)
			require.Equal(t, row.last, l.calls[len(l.calls)-1])
			for _, call := range l.calls {
				if errors.Is(row.ledgers.deposit.err, neverAsked.err) {
					require.NotContains(t, call, "Deposit")
				}
			}
			require.Empty(t, l.letters, "a cancelled transfer is no dead letter")
		})
	}
}

// Case 82 (temporal community forum 2403): when even cleaning up does not succeed, the transfer parks and says where the
// money is.
func TestParked(t *testing.T) {
	for _, row := range []struct {
		name    string
		ledgers ledgers
		step    workflows.Step
		place   ledger.Place
		account string
		action  workflows.Action
		repair  func(*ledgers)
		state   workflows.State
	}{
		{
			"resolve-withdraw, retry",
			ledgers{withdraw: poison, resolveWithdraw: poison, deposit: applied},
			workflows.StepResolveWithdraw, ledger.PlaceUnknown, "us/alice or us/transit:eu", workflows.ActionRetry,
			func(l *ledgers) { l.resolveWithdraw = applied }, workflows.StateCompleted,
		},
		{
			"resolve-withdraw, compensate",
			ledgers{withdraw: poison, resolveWithdraw: poison, deposit: neverAsked, resolveDeposit: answer{state: ledger.OutcomeSealed}, refund: applied},
			workflows.StepResolveWithdraw, ledger.PlaceUnknown, "us/alice or us/transit:eu", workflows.ActionCompensate,
			func(l *ledgers) { l.resolveWithdraw = applied }, workflows.StateCompensated,
		},
		{
			"resolve-deposit, retry",
			ledgers{withdraw: applied, deposit: poison, resolveDeposit: poison},
			workflows.StepResolveDeposit, ledger.PlaceUnknown, "us/transit:eu or eu/bob", workflows.ActionRetry,
			func(l *ledgers) { l.resolveDeposit = applied }, workflows.StateCompleted,
		},
		{
			"refund, retry",
			ledgers{withdraw: applied, deposit: refused, refund: poison},
			workflows.StepRefund, ledger.PlaceTransit, "us/transit:eu", workflows.ActionRetry,
			func(l *ledgers) { l.refund = applied }, workflows.StateCompensated,
		},
		{
			"refund refused, retry",
			ledgers{withdraw: applied, deposit: refused, refund: refused},
			workflows.StepRefund, ledger.PlaceTransit, "us/transit:eu", workflows.ActionRetry,
			func(l *ledgers) { l.refund = applied }, workflows.StateCompensated,
		},
		{
			"deposit's key taken, compensate",
			ledgers{withdraw: applied, deposit: conflict, refund: applied},
			workflows.StepDeposit, ledger.PlaceTransit, "us/transit:eu", workflows.ActionCompensate,
			func(*ledgers) {}, workflows.StateCompensated,
		},
		{
			"resolve-deposit, discard",
			ledgers{withdraw: applied, deposit: poison, resolveDeposit: poison, refund: neverAsked},
			workflows.StepResolveDeposit, ledger.PlaceUnknown, "us/transit:eu or eu/bob", workflows.ActionDiscard,
			func(l *ledgers) { l.resolveDeposit, l.resolveRefund = sealedNow, sealedNow }, workflows.StateDiscarded,
		},
		{
			"resolve-deposit, discard, but it had arrived",
			ledgers{withdraw: applied, deposit: poison, resolveDeposit: poison, resolveRefund: neverAsked},
			workflows.StepResolveDeposit, ledger.PlaceUnknown, "us/transit:eu or eu/bob", workflows.ActionDiscard,
			func(l *ledgers) { l.resolveDeposit = applied }, workflows.StateCompleted,
		},
		{
			"resolve-withdraw, discard",
			ledgers{withdraw: poison, resolveWithdraw: poison, deposit: neverAsked, resolveDeposit: sealedNow, refund: neverAsked, resolveRefund: sealedNow},
			workflows.StepResolveWithdraw, ledger.PlaceUnknown, "us/alice or us/transit:eu", workflows.ActionDiscard,
			func(l *ledgers) { l.resolveWithdraw = applied }, workflows.StateDiscarded,
		},
		{
			"refund, discard",
			ledgers{withdraw: applied, deposit: refused, refund: poison, resolveRefund: sealedNow},
			workflows.StepRefund, ledger.PlaceTransit, "us/transit:eu", workflows.ActionDiscard,
			func(*ledgers) {}, workflows.StateDiscarded,
		},
		{
			"refund, discard, but it was back",
			ledgers{withdraw: applied, deposit: refused, refund: poison, resolveRefund: applied},
			workflows.StepRefund, ledger.PlaceTransit, "us/transit:eu", workflows.ActionDiscard,
			func(*ledgers) {}, workflows.StateCompensated,
		},
		{
			"deposit's key taken, discard",
			ledgers{withdraw: applied, deposit: conflict, refund: neverAsked, resolveRefund: sealedNow},
			workflows.StepDeposit, ledger.PlaceTransit, "us/transit:eu", workflows.ActionDiscard,
			func(*ledgers) {}, workflows.StateDiscarded,
		},
		{
			"deposit's key taken, retry",
			ledgers{withdraw: applied, deposit: conflict},
			workflows.StepDeposit, ledger.PlaceTransit, "us/transit:eu", workflows.ActionRetry,
			func(l *ledgers) { l.deposit = applied }, workflows.StateCompleted,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := row.ledgers
			w := newWorld(t, &l)
			var parked, decided workflows.TransferStatus
			var refusals []error
			decide := func(id string, d workflows.Decision) {
				w.UpdateWorkflow(workflows.DecideUpdate, id, &testsuite.TestUpdateCallback{
					OnReject: func(err error) { refusals = append(refusals, err) },
					OnAccept: func() {},
					OnComplete: func(got any, err error) {
						if err != nil {
							refusals = append(refusals, err)
							return
						}
						status, ok := got.(workflows.TransferStatus)
						require.True(t, ok)
						decided = status
					},
				}, d)
			}
			// The patience of a settling step is about half an hour; a day later the transfer is certainly parked.
			w.RegisterDelayedCallback(func() {
				parked = queryStatus(t, w)
				row.repair(&l)
				decide("stale", workflows.Decision{Action: row.action, By: "op", Parking: parked.Parking.Number + 1})
				decide("nonsense", workflows.Decision{Action: "hurry", By: "op", Parking: parked.Parking.Number})
				decide("anonymous", workflows.Decision{Action: row.action, Parking: parked.Parking.Number})
				decide("other run", workflows.Decision{Action: row.action, By: "op", Reason: "x", Parking: parked.Parking.Number, Run: "other"})
				decide("no reason", workflows.Decision{Action: workflows.ActionDiscard, By: "op", Parking: parked.Parking.Number, SettledOutside: true})
				decide("not settled", workflows.Decision{Action: workflows.ActionDiscard, By: "op", Reason: "enough", Parking: parked.Parking.Number})
				decide("good", workflows.Decision{
					Action: row.action, By: "op", Reason: "repaired", Parking: parked.Parking.Number, Run: parked.Parking.Run,
					SettledOutside: row.action == workflows.ActionDiscard,
				})
				decide("late", workflows.Decision{Action: row.action, By: "other", Parking: parked.Parking.Number})
			}, 24*time.Hour)

			result := w.transfer(t, between)

			require.Equal(t, workflows.StateParked, parked.State)
			require.Equal(t, row.step, parked.Parking.Step)
			require.Equal(t, row.place, parked.Parking.Place)
			require.Equal(t, row.account, parked.Parking.Account)
			require.Contains(t, parked.Detail, "parked at "+string(row.step))
			require.Len(t, refusals, 7, "stale, nonsense, anonymous, … and late decisions are refused")
			require.ErrorContains(t, refusals[6], "op decided to "+string(row.action), "the other is told who did what")
			require.ErrorContains(t, refusals[6], "(repaired)")
			require.NotEmpty(t, decided.Request.ID)
			require.Equal(t, row.state, result.State)

			require.GreaterOrEqual(t, len(l.letters), 2)
			require.True(t, l.letters[0].Parked)
			require.Equal(t, ledger.DeadLetterOpen, l.letters[0].State)
			require.Equal(t, row.place, l.letters[0].Place)
			require.Equal(t, []string{"retry", "compensate", "discard"}, l.letters[0].Choices)
			require.NotEmpty(t, l.letters[0].Error)
			require.Equal(t, 1, l.letters[0].Parking)
			require.Equal(t, parked.Parking.Run, l.letters[0].Run)
			require.Equal(t, ledger.DeadLetterClosed, l.letters[1].State)
			require.Equal(t, string(row.action)+" by op: repaired", l.letters[1].Resolution)
			require.Equal(t, &activities.DecisionView{ID: "good", Action: string(row.action), By: "op", Reason: "repaired"}, l.letters[1].Decision)
			require.Equal(t, l.letters[0].Key, l.letters[1].Key)

			// In the end the letter says where the money is now.
			last := l.letters[slices.IndexFunc(l.letters, func(d activities.DeadLetterView) bool { return d.Ended != "" && d.State == ledger.DeadLetterClosed })]
			require.Equal(t, l.letters[0].Key, last.Key)
			require.Equal(t, string(row.state), last.Ended)
			want := map[workflows.State][]any{
				workflows.StateCompleted:   {ledger.PlaceDestination, "eu/bob"},
				workflows.StateCompensated: {ledger.PlaceSource, "us/alice"},
				workflows.StateDiscarded:   {ledger.PlaceTransit, "us/transit:eu"},
			}[row.state]
			require.Equal(t, want, []any{last.Place, last.Account})
			if row.state == workflows.StateDiscarded {
				require.Equal(t, &workflows.Whereabouts{Place: ledger.PlaceTransit, Account: "us/transit:eu", Amount: "10.00", Asset: "USD/2"}, result.Left)
			} else {
				require.Nil(t, result.Left)
			}
			for i := 1; i < len(l.letters); i++ {
				require.True(t, l.letters[i].AsOf.After(l.letters[i-1].AsOf), "the letters have an order")
			}
		})
	}
}

// Case 81 (PeerDB#3461): what can't succeed costs one attempt.
func TestWrongRequestCostsOneAttempt(t *testing.T) {
	for name, in := range map[string]workflows.TransferInput{"within": within, "between": between} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledgers{post: conflict, withdraw: conflict}
			w := newWorld(t, &l)
			w.start(in)
			require.Equal(t, workflows.ErrorKeyConflict, applicationErrorType(t, w.GetWorkflowError()))
			require.Len(t, l.calls, 1)
			require.Empty(t, l.letters)
		})
	}
}

func TestMalformedRequestFails(t *testing.T) {
	for name, change := range map[string]func(*workflows.TransferInput){
		"no ID":           func(in *workflows.TransferInput) { in.ID = "" },
		"blank before ID": func(in *workflows.TransferInput) { in.ID = " t1" },
		"no source":       func(in *workflows.TransferInput) { in.From = "" },
		"same account":    func(in *workflows.TransferInput) { in.To = in.From },
		"transit":         func(in *workflows.TransferInput) { in.From = "us/transit:eu" },
		"no amount":       func(in *workflows.TransferInput) { in.Amount = "" },
		"zero":            func(in *workflows.TransferInput) { in.Amount = "0.00" },
		"negative":        func(in *workflows.TransferInput) { in.Amount = "-1" },
		"too many digits": func(in *workflows.TransferInput) { in.Amount = "1.001" },
		"no asset":        func(in *workflows.TransferInput) { in.Asset = "" },
		"memo with NUL":   func(in *workflows.TransferInput) { in.Memo = "a\x00b" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := between
			change(&in)
			l := ledgers{}
			w := newWorld(t, &l)
			w.start(in)
			require.Equal(t, workflows.ErrorInvalidInput, applicationErrorType(t, w.GetWorkflowError()))
			require.Empty(t, l.calls)
		})
	}
	t.Run("another workflow ID", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, &ledgers{})
		w.SetStartWorkflowOptions(workflowOptions("other"))
		w.ExecuteWorkflow(workflows.TransferWorkflow, between)
		require.Equal(t, workflows.ErrorInvalidInput, applicationErrorType(t, w.GetWorkflowError()))
	})
	t.Run("an amount that is a JSON number", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, &ledgers{})
		w.SetStartWorkflowOptions(workflowOptions("t1"))
		w.ExecuteWorkflow(workflows.TransferWorkflow, map[string]any{"id": "t1", "amount": 10})
		require.Equal(t, workflows.ErrorInvalidInput, applicationErrorType(t, w.GetWorkflowError()))
		require.ErrorContains(t, w.GetWorkflowError(), "amount: it is a JSON number, and must be a string in quotes")
	})
}

// Case 75 (stella PR#528): an outage is waited out and uses up no attempts.
func TestOutage(t *testing.T) {
	outage := answer{err: temporal.NewApplicationErrorWithOptions("connection refused", activities.ErrorLedgerUnavailable,
		temporal.ApplicationErrorOptions{Details: []any{activities.Failure{Attempt: 1}}})}

	t.Run("shorter than the budget", func(t *testing.T) {
		t.Parallel()
		l := ledgers{withdraw: applied, deposit: outage}
		w := newWorld(t, &l)
		var waiting workflows.TransferStatus
		w.RegisterDelayedCallback(func() {
			waiting = queryStatus(t, w)
			l.deposit = applied
		}, 12*time.Hour)
		require.Equal(t, workflows.StateCompleted, w.transfer(t, between).State)
		require.Contains(t, waiting.Detail, "waiting for the ledger")
		require.Equal(t, workflows.StateRunning, waiting.State)
		require.Empty(t, l.letters)
		require.Empty(t, l.resolves)
		require.Greater(t, len(l.calls), 100, "the outage outlasted every attempt cap")
	})
	t.Run("longer than the budget", func(t *testing.T) {
		t.Parallel()
		l := ledgers{withdraw: applied, deposit: outage, resolveDeposit: answer{state: ledger.OutcomeSealed}, refund: applied}
		w := newWorld(t, &l)
		started := w.Now()
		require.Equal(t, workflows.StateCompensated, w.transfer(t, between).State)
		require.InDelta(t, 24*time.Hour, w.Now().Sub(started), float64(2*time.Minute))
		require.Len(t, l.letters, 1)
	})
	t.Run("attempts before it count", func(t *testing.T) {
		t.Parallel()
		l := ledgers{fast: &notHere, post: poison, resolvePost: applied}
		w := newWorld(t, &l)
		// The ninth attempt meets an outage, so two are left after it: the one that met it does not count.
		ninth := temporal.NewApplicationErrorWithOptions("connection refused", activities.ErrorLedgerUnavailable,
			temporal.ApplicationErrorOptions{Details: []any{activities.Failure{Attempt: 9}}})
		posts := 0
		l.onCall = func(name string) {
			if name != "Post" {
				return
			}
			posts++
			l.post = poison
			if posts == 9 {
				l.post = answer{err: ninth}
			}
		}
		require.Equal(t, workflows.StateCompleted, w.transfer(t, within).State)
		require.Equal(t, 11, posts)
	})
}

func TestAttemptCaps(t *testing.T) {
	l := ledgers{withdraw: applied, deposit: poison, resolveDeposit: answer{state: ledger.OutcomeSealed}, refund: applied}
	w := newWorld(t, &l)
	w.transfer(t, between)
	count := map[string]int{}
	for _, call := range l.calls {
		count[call]++
	}
	require.Equal(t, map[string]int{"Withdraw fast": 1, "Deposit fast": 2, "Deposit": 10, "Resolve deposit": 1, "Refund": 1}, count)
	require.Equal(t, 12, l.letters[0].Attempts)
	require.Equal(t, "transfer/t1/deposit", l.letters[0].Key)
	require.Equal(t, []string{"constraint violated", "LedgerError"}, []string{l.letters[0].Error, l.letters[0].ErrorType})
	require.Equal(t, []string{"retry", "discard"}, l.letters[0].Choices)
	require.Equal(t, "compensated", l.letters[0].Ended)
	require.Equal(t, []string{"us/alice", "eu/bob"}, []string{l.letters[0].From, l.letters[0].To})
	require.Equal(t, "us/alice", l.letters[0].Account)
	require.Equal(t, ledger.PlaceSource, l.letters[0].Place)
	require.Equal(t, ledger.CodeAttemptsExhausted, l.resolves[0].Code)
}
