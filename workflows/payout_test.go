package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
	"payonce/workflows"
)

// The tests of this file hold the workflow against the table of docs/payouts.md, with mocked time and a scripted rail.

var payoutIn = workflows.PayoutInput{
	ID: "p1", From: "us/alice", Rail: "bank", Payee: map[string]string{"iban": "DE89"}, Amount: "10", Asset: "USD",
}

// payoutScript is a ledger in memory, which knows the keys of one payout, and a rail that answers by a script.
type payoutScript struct {
	books map[ledger.Kind]ledger.OutcomeState // what is recorded
	run   string                              // that has reserved; "" is this one
	fail  map[string]error                    // of the activities of the ledger, by name
	// rail is what the calls are answered, in order: "submit settled", "lookup unknown", "cancel !RailCantCancel"; ! is an
	// error of that type. The last of a kind of call is repeated.
	rail []string

	calls    []string
	letters  []activities.DeadLetterView
	onCall   func(name string)
	onLetter func(activities.DeadLetterView)
	now      func() time.Time
}

type payoutWorld struct {
	*testsuite.TestWorkflowEnvironment
	s *payoutScript
}

func newPayoutWorld(t *testing.T, s *payoutScript) *payoutWorld {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	workflows.New(workflows.DefaultOptions()).Register(env)
	env.RegisterActivity(activities.New(nil))
	env.RegisterActivity(activities.NewRails(nil))
	s.now = env.Now
	if s.books == nil {
		s.books = map[ledger.Kind]ledger.OutcomeState{}
	}
	for kind, name := range map[ledger.Kind]string{
		ledger.KindReserve: "Reserve", ledger.KindSettle: "Settle", ledger.KindReturn: "Return", ledger.KindBounce: "Bounce",
	} {
		env.OnActivity(name, mock.Anything, mock.Anything).Return(
			func(_ context.Context, in activities.StepInput) (activities.StepOutcome, error) {
				return s.post(name, kind, in)
			}).Maybe()
	}
	env.OnActivity("Resolve", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in activities.ResolveInput) (activities.StepOutcome, error) {
			s.called("Resolve " + string(in.Kind))
			if s.books[in.Kind] == "" {
				s.books[in.Kind] = ledger.OutcomeSealed
			}
			return activities.StepOutcome{Key: in.Step.Key, State: s.books[in.Kind], Code: sealedFor(s.books[in.Kind], in.Code), Repeat: true, At: s.now()}, nil
		}).Maybe()
	env.OnActivity("OperationList", mock.Anything, mock.Anything).Return(
		func(ctx context.Context, _ activities.OperationListInput) (activities.OperationList, error) {
			return s.list(activity.GetInfo(ctx).WorkflowExecution.RunID), nil
		}).Maybe()
	env.OnActivity("RailSubmit", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in activities.RailSubmitInput) (activities.RailAnswer, error) {
			if in.Key != "payout/p1/submit" || in.Reference != "p1" || in.Amount != "10.00" || in.Since.IsZero() {
				return activities.RailAnswer{}, fmt.Errorf("wrong request: %+v", in)
			}
			return s.answer("submit")
		}).Maybe()
	for name, call := range map[string]string{"RailLookup": "lookup", "RailCancel": "cancel"} {
		env.OnActivity(name, mock.Anything, activities.RailAskInput{Rail: "bank", Reference: "p1"}).Return(
			func(context.Context, activities.RailAskInput) (activities.RailAnswer, error) { return s.answer(call) }).Maybe()
	}
	env.OnActivity("DeadLetterRecord", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in activities.DeadLetterView) error {
			s.letters = append(s.letters, in)
			if s.onLetter != nil {
				s.onLetter(in)
			}
			return nil
		}).Maybe()
	return &payoutWorld{TestWorkflowEnvironment: env, s: s}
}

func sealedFor(state ledger.OutcomeState, code ledger.Code) ledger.Code {
	if state == ledger.OutcomeSealed {
		return code
	}
	return ""
}

func (s *payoutScript) called(name string) {
	s.calls = append(s.calls, name)
	if s.onCall != nil {
		s.onCall(name)
	}
}

// post is what the ledger does: a key has one outcome, and a settle and a return exclude each other.
func (s *payoutScript) post(name string, kind ledger.Kind, in activities.StepInput) (activities.StepOutcome, error) {
	s.called(name)
	if err := s.fail[name]; err != nil {
		return activities.StepOutcome{}, err
	}
	other := map[ledger.Kind]ledger.Kind{ledger.KindSettle: ledger.KindReturn, ledger.KindReturn: ledger.KindSettle}[kind]
	if other != "" && s.books[other] != "" {
		return activities.StepOutcome{}, temporal.NewNonRetryableApplicationError("taken", activities.ErrorKeyConflict, nil)
	}
	_, repeat := s.books[kind]
	if !repeat {
		s.books[kind] = ledger.OutcomeApplied
	}
	outcome := activities.StepOutcome{Ledger: in.Ledger, Key: in.Key, State: s.books[kind], Repeat: repeat, At: s.now()}
	if outcome.State != ledger.OutcomeApplied {
		outcome.Code, outcome.Detail = ledger.CodeInsufficientFunds, "because"
	}
	return outcome, nil
}

func (s *payoutScript) list(run string) activities.OperationList {
	s.called("books")
	if s.run != "" {
		run = s.run
	}
	var list activities.OperationList
	for _, kind := range []ledger.Kind{ledger.KindReserve, ledger.KindSettle, ledger.KindReturn, ledger.KindBounce} {
		if s.books[kind] != "" {
			view := activities.OperationView{Kind: kind, StepOutcome: activities.StepOutcome{Ledger: "us", State: s.books[kind]}}
			if kind == ledger.KindReserve {
				view.Metadata = map[string]string{"payonce-run": run}
			}
			list.Operations = append(list.Operations, view)
		}
	}
	return list
}

func (s *payoutScript) answer(call string) (activities.RailAnswer, error) {
	at := slices.IndexFunc(s.rail, func(line string) bool { return strings.HasPrefix(line, call+" ") })
	if at < 0 {
		s.called(call)
		return activities.RailAnswer{}, temporal.NewNonRetryableApplicationError("this was not to be asked: "+call, "Script", nil)
	}
	line := s.rail[at]
	if slices.ContainsFunc(s.rail[at+1:], func(line string) bool { return strings.HasPrefix(line, call+" ") }) {
		s.rail = slices.Delete(slices.Clone(s.rail), at, at+1)
	}
	_, word, _ := strings.Cut(line, " ")
	s.called(call)
	if typ, failed := strings.CutPrefix(word, "!"); failed {
		retry := typ == activities.ErrorRail || typ == activities.ErrorRailUnavailable
		return activities.RailAnswer{}, temporal.NewApplicationErrorWithOptions("no word", typ, temporal.ApplicationErrorOptions{
			NonRetryable: !retry, Details: []any{activities.Failure{Attempt: 1}},
		})
	}
	return activities.RailAnswer{State: activities.RailState(word), RailID: "r1", Code: word + "-code"}, nil
}

func (w *payoutWorld) payout(t *testing.T) workflows.PayoutResult {
	t.Helper()
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.PayoutWorkflowID("p1"), TaskQueue: workflows.TaskQueue})
	w.ExecuteWorkflow(workflows.PayoutWorkflow, payoutIn)
	require.True(t, w.IsWorkflowCompleted())
	require.NoError(t, w.GetWorkflowError())
	var result workflows.PayoutResult
	require.NoError(t, w.GetWorkflowResult(&result))
	return result
}

func (w *payoutWorld) status(t *testing.T) workflows.PayoutStatus {
	t.Helper()
	value, err := w.QueryWorkflow(workflows.StatusQuery)
	require.NoError(t, err)
	var status workflows.PayoutStatus
	require.NoError(t, value.Get(&status))
	return status
}

// decideAfter decides about what is parked then.
func (w *payoutWorld) decideAfter(t *testing.T, after time.Duration, action workflows.Action, refused *error) {
	t.Helper()
	w.RegisterDelayedCallback(func() {
		status := w.status(t)
		require.Equal(t, workflows.StateParked, status.State, status.Detail)
		require.Contains(t, status.Parking.Choices, action)
		w.UpdateWorkflow(workflows.DecideUpdate, string(action)+after.String(), &testsuite.TestUpdateCallback{
			OnReject: func(err error) { require.NoError(t, err) },
			OnAccept: func() {},
			OnComplete: func(_ any, err error) {
				if refused != nil {
					*refused = err
					return
				}
				require.NoError(t, err)
			},
		}, workflows.Decision{
			Action: action, Parking: status.Parking.Number, By: "carol", Reason: "it is known", SettledOutside: action == workflows.ActionDiscard,
		})
	}, after)
}

const hasApplied = ledger.OutcomeApplied

// Every row of the table, and where the money is in the end.
func TestPayoutTable(t *testing.T) {
	t.Parallel()
	reserved := map[ledger.Kind]ledger.OutcomeState{ledger.KindReserve: hasApplied}
	with := func(kinds ...ledger.Kind) map[ledger.Kind]ledger.OutcomeState {
		books := map[ledger.Kind]ledger.OutcomeState{ledger.KindReserve: hasApplied}
		for _, kind := range kinds {
			books[kind] = hasApplied
		}
		return books
	}
	for _, row := range []struct {
		name  string
		books map[ledger.Kind]ledger.OutcomeState
		rail  []string
		state workflows.State
		calls string // without repeats of the same
	}{
		{"refused", map[ledger.Kind]ledger.OutcomeState{ledger.KindReserve: ledger.OutcomeRefused}, nil, workflows.StateRejected, "Reserve"},
		{"settled at once", nil, []string{"submit settled"}, workflows.StateSettled, "Reserve submit Settle"},
		{"rejected", nil, []string{"submit rejected"}, workflows.StateReturned, "Reserve submit Return"},
		{"cancelled there", nil, []string{"submit cancelled"}, workflows.StateCancelled, "Reserve submit Return"},
		{"paid, and back before anybody asked", nil, []string{"submit returned"}, workflows.StateReturned, "Reserve submit Settle Bounce"},
		{"can't be sent", nil, []string{"submit !RailInvalid"}, workflows.StateReturned, "Reserve submit Return"},
		{"pending, then settled", nil, []string{"submit pending", "lookup pending", "lookup pending", "lookup settled"}, workflows.StateSettled, "Reserve submit lookup Settle"},
		{"pending, then rejected", nil, []string{"submit pending", "lookup rejected"}, workflows.StateReturned, "Reserve submit lookup Return"},
		{"reply lost, settled", nil, []string{"submit !RailError", "lookup settled"}, workflows.StateSettled, "Reserve submit lookup Settle"},
		{"reply lost, unknown, then settled", nil, []string{"submit !RailError", "lookup unknown", "submit !RailError", "lookup settled"}, workflows.StateSettled, "Reserve submit lookup submit lookup Settle"},
		{"never arrived, submitted again", nil, []string{
			"submit !RailError", "submit !RailError", "submit !RailError", "submit !RailError", "submit !RailError",
			"submit settled", "lookup unknown",
		}, workflows.StateSettled, "Reserve submit lookup submit Settle"},
		{"known to be pending, then forgotten, then settled", nil, []string{"submit pending", "lookup unknown", "submit pending", "lookup settled"}, workflows.StateSettled, "Reserve submit lookup submit lookup Settle"},
		{"the answer is none, settled", nil, []string{"submit !RailError", "lookup !RailError", "lookup !RailError", "lookup !RailError", "lookup settled"}, workflows.StateSettled, "Reserve submit lookup Settle"},

		{"again, after another run", reserved, []string{"lookup settled"}, workflows.StateSettled, "Reserve books lookup Settle"},
		{"again, not submitted by the other run", reserved, []string{"lookup unknown", "submit settled"}, workflows.StateSettled, "Reserve books lookup submit Settle"},
		{"again, settled before", with(ledger.KindSettle), []string{"lookup settled"}, workflows.StateSettled, "Reserve books lookup Settle"},
		{"again, bounced late", with(ledger.KindSettle), []string{"lookup returned"}, workflows.StateReturned, "Reserve books lookup Settle Bounce"},
		{"again, bounced before", with(ledger.KindSettle, ledger.KindBounce), []string{"lookup returned"}, workflows.StateReturned, "Reserve books lookup Settle Bounce"},
		{"again, returned before", with(ledger.KindReturn), []string{"lookup rejected"}, workflows.StateReturned, "Reserve books lookup Return"},
		{"again, returned before, and the rail has paid and got it back", with(ledger.KindReturn), []string{"lookup returned"}, workflows.StateReturned, "Reserve books lookup"},
		{"again, settled before, and the rail has forgotten it", with(ledger.KindSettle), []string{"lookup unknown"}, workflows.StateSettled, "Reserve books lookup"},
		{"again, returned before, and the rail says pending", with(ledger.KindReturn), []string{"lookup pending"}, workflows.StateReturned, "Reserve books lookup"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &payoutScript{books: row.books, rail: row.rail, run: "another"}
			if row.books != nil {
				s.books = maps.Clone(row.books)
			}
			w := newPayoutWorld(t, s)
			result := w.payout(t)
			require.Equal(t, row.state, result.State)
			require.Equal(t, row.calls, strings.Join(withoutRepeats(s.calls), " "))
			require.Empty(t, s.letters)
			require.Equal(t, []string{"10.00", "USD/2", "us/alice", "bank"}, []string{result.Amount, result.Asset, result.From, result.Rail})
			// Settled or given back, never both, and what is given back after it was settled is a bounce.
			require.False(t, s.books[ledger.KindSettle] == hasApplied && s.books[ledger.KindReturn] == hasApplied)
			if row.state == workflows.StateSettled {
				require.Equal(t, hasApplied, s.books[ledger.KindSettle])
				require.Empty(t, s.books[ledger.KindBounce])
			}
		})
	}
}

// Whatever time passes, a payout of which the rail has no word is nobody's to end but a person's.
func TestPayoutUnknown(t *testing.T) {
	t.Parallel()
	lost := []string{"submit !RailError", "lookup unknown"}
	t.Run("parks, with its money reserved", func(t *testing.T) {
		t.Parallel()
		for action, want := range map[workflows.Action]struct {
			state workflows.State
			last  string
		}{
			workflows.ActionSettle:     {workflows.StateSettled, "Settle"},
			workflows.ActionCompensate: {workflows.StateReturned, "Return"},
		} {
			s := &payoutScript{rail: slices.Clone(lost)}
			w := newPayoutWorld(t, s)
			w.decideAfter(t, 100*24*time.Hour, action, nil)
			result := w.payout(t)
			require.Equal(t, want.state, result.State)
			require.Equal(t, want.last, s.calls[len(s.calls)-1])
			require.Equal(t, workflows.CodeDecided, result.Code)
			require.Equal(t, string(action)+" by carol: it is known", result.Detail)
			letter := s.letters[0]
			require.Equal(t, []any{"payout/p1/submit", "payout/p1", ledger.PlaceTransit, "us/rail:bank", true},
				[]any{letter.Key, letter.Transfer, letter.Place, letter.Account, letter.Parked})
			require.Equal(t, []string{"retry", "settle", "compensate"}, letter.Choices)
			last := s.letters[len(s.letters)-1]
			require.Equal(t, string(want.state), last.Ended)
		}
	})
	t.Run("retry asks with fresh patience", func(t *testing.T) {
		t.Parallel()
		s := &payoutScript{rail: slices.Clone(lost)}
		w := newPayoutWorld(t, s)
		w.decideAfter(t, 30*time.Hour, workflows.ActionRetry, nil)
		w.RegisterDelayedCallback(func() {
			require.NotEqual(t, workflows.StateParked, w.status(t).State)
			s.rail = []string{"lookup settled"}
		}, 40*time.Hour)
		require.Equal(t, workflows.StateSettled, w.payout(t).State)
	})
	t.Run("the rail's word ends the parking", func(t *testing.T) {
		t.Parallel()
		s := &payoutScript{rail: slices.Clone(lost)}
		w := newPayoutWorld(t, s)
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(workflows.PayoutHintSignal, nil) }, 50*time.Hour)
		w.RegisterDelayedCallback(func() {
			require.Equal(t, workflows.StateParked, w.status(t).State, "a hint alone is nothing")
			require.Equal(t, 1, w.status(t).Parking.Number)
			s.rail = []string{"lookup settled"}
			w.SignalWorkflow(workflows.PayoutHintSignal, nil)
		}, 60*time.Hour)
		require.Equal(t, workflows.StateSettled, w.payout(t).State)
		require.Equal(t, "the rail has answered: settled (settled-code); the payout ended as settled", s.letters[len(s.letters)-1].Resolution)
	})
	t.Run("the rail's word goes before a person's", func(t *testing.T) {
		t.Parallel()
		s := &payoutScript{rail: slices.Clone(lost)}
		w := newPayoutWorld(t, s)
		w.RegisterDelayedCallback(func() { s.rail = []string{"lookup settled"} }, 50*time.Hour)
		var refused error
		w.decideAfter(t, 60*time.Hour, workflows.ActionCompensate, &refused)
		require.Equal(t, workflows.StateSettled, w.payout(t).State)
		require.ErrorContains(t, refused, "the rail has answered: settled")
		require.NotContains(t, s.calls, "Return")
	})
	t.Run("a key that the rail may have forgotten is not sent again", func(t *testing.T) {
		t.Parallel()
		s := &payoutScript{rail: []string{"submit !RailError", "submit !RailError", "submit !RailError", "submit !RailError", "submit !RailError", "submit !RailKeyExpired", "lookup unknown"}}
		w := newPayoutWorld(t, s)
		w.decideAfter(t, 30*time.Hour, workflows.ActionCompensate, nil)
		require.Equal(t, workflows.StateReturned, w.payout(t).State)
		submits := 0
		for _, call := range s.calls {
			if call == "submit" {
				submits++
			}
		}
		require.Equal(t, 6, submits)
	})
}

// A payout that has ended stays so when its rail can't be understood, but not without a person.
func TestPayoutEndedAndUnclear(t *testing.T) {
	t.Parallel()
	s := &payoutScript{
		books: map[ledger.Kind]ledger.OutcomeState{ledger.KindReserve: hasApplied, ledger.KindSettle: hasApplied},
		rail:  []string{"lookup !RailError"}, run: "another",
	}
	w := newPayoutWorld(t, s)
	w.decideAfter(t, 50*time.Hour, workflows.ActionDiscard, nil)
	require.Equal(t, workflows.StateSettled, w.payout(t).State)
	require.Equal(t, []any{[]string{"retry", "discard"}, ledger.PlaceDestination}, []any{s.letters[0].Choices, s.letters[0].Place})
	require.NotContains(t, s.calls, "submit")
}

// What can't be sent goes back only if nothing of it can have been sent: an attempt before may have been one of other code.
func TestPayoutInvalidLater(t *testing.T) {
	t.Parallel()
	s := &payoutScript{rail: []string{"submit !RailUnavailable", "submit !RailInvalid", "lookup unknown", "lookup settled"}}
	w := newPayoutWorld(t, s)
	require.Equal(t, workflows.StateSettled, w.payout(t).State)
	require.Equal(t, "Reserve submit lookup Settle", strings.Join(withoutRepeats(s.calls), " "))
}

// A payout that is pending for very long goes on in another run, which meets its keys.
func TestPayoutContinuesAsNew(t *testing.T) {
	t.Parallel()
	s := &payoutScript{rail: []string{"submit pending"}}
	w := newPayoutWorld(t, s)
	w.SetContinueAsNewSuggested(true)
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.PayoutWorkflowID("p1"), TaskQueue: workflows.TaskQueue})
	w.ExecuteWorkflow(workflows.PayoutWorkflow, payoutIn)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &again)
	require.Equal(t, workflows.PayoutWorkflow, again.WorkflowType.Name)
	var in workflows.PayoutInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.True(t, in.SameRequest(payoutIn))
}

// An outage of the rail costs time and nothing else.
func TestPayoutOutage(t *testing.T) {
	t.Parallel()
	s := &payoutScript{rail: []string{"submit !RailUnavailable"}}
	w := newPayoutWorld(t, s)
	w.RegisterDelayedCallback(func() {
		require.Contains(t, w.status(t).Detail, "waiting for the rail")
		s.rail = []string{"submit settled"}
	}, 12*time.Hour)
	require.Equal(t, workflows.StateSettled, w.payout(t).State)
	require.Empty(t, s.letters)
	require.NotContains(t, s.calls, "lookup")
	require.Greater(t, len(s.calls), 100)
}

// A hint has the rail asked at once, whenever it comes, and never is taken for an answer.
func TestPayoutHint(t *testing.T) {
	t.Parallel()
	t.Run("while it is pending", func(t *testing.T) {
		t.Parallel()
		s := &payoutScript{rail: []string{"submit pending", "lookup pending"}}
		w := newPayoutWorld(t, s)
		started := w.Now()
		hintedAt := 20*24*time.Hour + 30*time.Second
		w.RegisterDelayedCallback(func() {
			require.Equal(t, workflows.StatePending, w.status(t).State)
			s.rail = []string{"lookup settled"}
			w.SignalWorkflow(workflows.PayoutHintSignal, nil)
		}, hintedAt)
		require.Equal(t, workflows.StateSettled, w.payout(t).State)
		require.InDelta(t, hintedAt, w.Now().Sub(started), float64(time.Second))
	})
	t.Run("before the answer to the submit", func(t *testing.T) {
		t.Parallel()
		s := &payoutScript{rail: []string{"submit pending", "lookup settled"}}
		w := newPayoutWorld(t, s)
		s.onCall = func(name string) {
			if name == "submit" {
				w.SignalWorkflow(workflows.PayoutHintSignal, nil)
			}
		}
		started := w.Now()
		require.Equal(t, workflows.StateSettled, w.payout(t).State)
		require.Less(t, w.Now().Sub(started), time.Second)
	})
	t.Run("while the end is booked", func(t *testing.T) {
		t.Parallel()
		s := &payoutScript{rail: []string{"submit settled", "lookup returned"}}
		w := newPayoutWorld(t, s)
		s.onCall = func(name string) {
			if name == "Settle" && s.books[ledger.KindSettle] == "" {
				w.SignalWorkflow(workflows.PayoutHintSignal, nil)
			}
		}
		require.Equal(t, workflows.StateReturned, w.payout(t).State)
		require.Equal(t, "Reserve submit Settle lookup Settle Bounce", strings.Join(s.calls, " "))
	})
	t.Run("while the last dead letter is written", func(t *testing.T) {
		t.Parallel()
		s := &payoutScript{rail: []string{"submit !RailError", "lookup unknown"}}
		w := newPayoutWorld(t, s)
		hinted := false
		s.onLetter = func(letter activities.DeadLetterView) {
			if letter.Ended != "" && !hinted {
				hinted = true
				s.rail = []string{"lookup settled"}
				w.SignalWorkflow(workflows.PayoutHintSignal, nil)
			}
		}
		w.decideAfter(t, 50*time.Hour, workflows.ActionCompensate, nil)
		w.decideAfter(t, 60*time.Hour, workflows.ActionDiscard, nil)
		require.Equal(t, workflows.StateDiscarded, w.payout(t).State)
		require.True(t, hinted)
	})
}

// Cancelled before it is submitted, the money is back and the rail never hears of it; afterwards only the rail's word counts.
func TestPayoutCancelled(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		books  map[ledger.Kind]ledger.OutcomeState
		run    string
		fail   map[string]error
		rail   []string
		during string
		state  workflows.State
		calls  string
	}{
		{"before anything", nil, "", nil, nil, "", workflows.StateCancelled, "Resolve reserve"},
		{
			"after the reserve, whose answer was lost",
			map[ledger.Kind]ledger.OutcomeState{ledger.KindReserve: hasApplied},
			"",
			map[string]error{"Reserve": temporal.NewApplicationError("lost", activities.ErrorUnknownOutcome)},
			nil, "Reserve", workflows.StateCancelled, "Reserve Resolve reserve books Return",
		},
		{
			"after a reserve of another run, which may have submitted",
			map[ledger.Kind]ledger.OutcomeState{ledger.KindReserve: hasApplied},
			"another",
			map[string]error{"Reserve": temporal.NewApplicationError("lost", activities.ErrorUnknownOutcome)},
			[]string{"cancel settled"},
			"Reserve", workflows.StateSettled, "Reserve Resolve reserve books cancel Settle",
		},
		{"while it is submitted, and stopped", nil, "", nil, []string{"submit !RailError", "cancel cancelled"}, "submit", workflows.StateCancelled, "Reserve submit cancel Return"},
		{"while it is submitted, too late", nil, "", nil, []string{"submit !RailError", "cancel settled"}, "submit", workflows.StateSettled, "Reserve submit cancel Settle"},
		{"the rail can't", nil, "", nil, []string{"submit pending", "cancel !RailCantCancel", "lookup pending", "lookup settled"}, "lookup", workflows.StateSettled, "Reserve submit lookup cancel lookup Settle"},
		{"the rail thinks about it", nil, "", nil, []string{"submit pending", "cancel pending", "lookup pending", "lookup cancelled"}, "lookup", workflows.StateCancelled, "Reserve submit lookup cancel lookup Return"},
		{"never arrived, as far as the rail knows", nil, "", nil, []string{"submit !RailError", "cancel unknown", "lookup unknown", "lookup unknown", "lookup rejected"}, "submit", workflows.StateReturned, "Reserve submit cancel lookup Return"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &payoutScript{rail: row.rail, run: row.run, fail: row.fail}
			if row.books != nil {
				s.books = maps.Clone(row.books)
			}
			w := newPayoutWorld(t, s)
			cancelled := row.during == ""
			if cancelled {
				w.RegisterDelayedCallback(w.CancelWorkflow, 0)
			}
			s.onCall = func(name string) {
				if name == row.during && !cancelled {
					cancelled = true
					w.CancelWorkflow()
				}
			}
			require.Equal(t, row.state, w.payout(t).State)
			require.True(t, cancelled)
			require.Equal(t, row.calls, strings.Join(withoutRepeats(s.calls), " "))
			require.Empty(t, s.letters)
		})
	}
}

// What the rail says against the books is a person's, and loud.
func TestPayoutContradiction(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		has     ledger.Kind
		word    string
		key     string
		place   ledger.Place
		choices []string
		action  workflows.Action
		state   workflows.State
	}{
		{"paid, after it was given back", ledger.KindReturn, "settled", "payout/p1/settle", ledger.PlaceSource, []string{"retry", "discard"}, workflows.ActionDiscard, workflows.StateDiscarded},
		{"not paid, after it was settled", ledger.KindSettle, "rejected", "payout/p1/return", ledger.PlaceDestination, []string{"retry", "compensate", "discard"}, workflows.ActionCompensate, workflows.StateReturned},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &payoutScript{
				books: map[ledger.Kind]ledger.OutcomeState{ledger.KindReserve: hasApplied, row.has: hasApplied},
				rail:  []string{"lookup " + row.word}, run: "another",
			}
			w := newPayoutWorld(t, s)
			w.decideAfter(t, time.Hour, workflows.ActionRetry, nil)
			w.decideAfter(t, 2*time.Hour, row.action, nil)
			require.Equal(t, row.state, w.payout(t).State)
			require.Equal(t, []any{row.key, row.place, row.choices}, []any{s.letters[0].Key, s.letters[0].Place, s.letters[0].Choices})
			require.Equal(t, "Contradiction", s.letters[0].ErrorType)
			require.Equal(t, row.action == workflows.ActionCompensate, s.books[ledger.KindBounce] == hasApplied)
		})
	}
	t.Run("another run was first", func(t *testing.T) {
		t.Parallel()
		s := &payoutScript{rail: []string{"submit settled", "lookup settled"}}
		w := newPayoutWorld(t, s)
		s.onCall = func(name string) {
			if name == "Settle" {
				s.books[ledger.KindReturn] = hasApplied
			}
		}
		w.decideAfter(t, time.Hour, workflows.ActionDiscard, nil)
		require.Equal(t, workflows.StateDiscarded, w.payout(t).State)
		require.Equal(t, "payout/p1/settle", s.letters[0].Key)
	})
}

// A ledger that can't book keeps the payout open, and says where the money is.
func TestPayoutLedgerFails(t *testing.T) {
	t.Parallel()
	s := &payoutScript{rail: []string{"submit rejected"}, fail: map[string]error{"Return": errors.New("poison")}}
	w := newPayoutWorld(t, s)
	w.RegisterDelayedCallback(func() { s.fail = nil }, 99*time.Hour)
	w.decideAfter(t, 100*time.Hour, workflows.ActionRetry, nil)
	require.Equal(t, workflows.StateReturned, w.payout(t).State)
	require.Equal(t, []any{"payout/p1/return", ledger.PlaceTransit, "us/rail:bank", []string{"retry"}},
		[]any{s.letters[0].Key, s.letters[0].Place, s.letters[0].Account, s.letters[0].Choices})
	require.Equal(t, hasApplied, s.books[ledger.KindReturn])
}

func TestPayoutMalformed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*workflows.PayoutInput){
		"no ID":         func(in *workflows.PayoutInput) { in.ID = "" },
		"own account":   func(in *workflows.PayoutInput) { in.From = "us/rail:bank" },
		"no rail":       func(in *workflows.PayoutInput) { in.Rail = "" },
		"another rail":  func(in *workflows.PayoutInput) { in.Rail = "Bank/1" },
		"no payee":      func(in *workflows.PayoutInput) { in.Payee = nil },
		"blank payee":   func(in *workflows.PayoutInput) { in.Payee = map[string]string{"iban": ""} },
		"zero":          func(in *workflows.PayoutInput) { in.Amount = "0" },
		"another scale": func(in *workflows.PayoutInput) { in.Amount = "1.001" },
		"own metadata":  func(in *workflows.PayoutInput) { in.Metadata = map[string]string{"payonce-run": "another"} },
		"too much metadata": func(in *workflows.PayoutInput) {
			in.Metadata = make(map[string]string)
			for i := range ledger.MetadataEntriesMax - 1 {
				in.Metadata[fmt.Sprint(i)] = "x"
			}
		},
	} {
		in := payoutIn
		change(&in)
		_, err := workflows.ParsePayout(in)
		require.Error(t, err, name)
	}
	s := &payoutScript{}
	w := newPayoutWorld(t, s)
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "payout/p1", TaskQueue: workflows.TaskQueue})
	w.ExecuteWorkflow(workflows.PayoutWorkflow, map[string]any{"id": "p1", "to": "x"})
	require.Equal(t, workflows.ErrorInvalidInput, applicationErrorType(t, w.GetWorkflowError()))
	require.ErrorContains(t, w.GetWorkflowError(), `there is no field "to": the fields are id, from, rail, payee, amount, asset, memo, metadata and notify`)
	require.Empty(t, s.calls)

	same := payoutIn
	same.Amount, same.Payee, same.Memo = "10.00", map[string]string{"iban": "DE89"}, "another"
	require.True(t, payoutIn.SameRequest(same))
	same.Payee = map[string]string{"iban": "DE90"}
	require.False(t, payoutIn.SameRequest(same))
}
