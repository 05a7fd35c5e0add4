package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/transfers"
	"payonce/tests/harness"
	"payonce/workflows"
)

// deadLetters reads the lines of `starter deadletter list`.
func deadLetters(t *testing.T, result *harness.Result) []activities.DeadLetterView {
	t.Helper()
	require.Equal(t, exitDone, result.Code)
	letters := []activities.DeadLetterView{}
	for line := range strings.Lines(result.Stdout) {
		var letter activities.DeadLetterView
		require.NoError(t, json.Unmarshal([]byte(line), &letter), line)
		letters = append(letters, letter)
	}
	return letters
}

// deadLetterStory reads what `starter deadletter show` says of one letter.
func deadLetterStory(t *testing.T, result *harness.Result) activities.DeadLetterStory {
	t.Helper()
	require.Equal(t, exitDone, result.Code)
	var stories struct {
		DeadLetters []activities.DeadLetterStory `json:"dead_letters"`
	}
	result.Decode(t, &stories)
	require.Len(t, stories.DeadLetters, 1)
	return stories.DeadLetters[0]
}

// timedOut is what a letter says of an attempt that has not told its end in time.
const timedOut = "StartToCloseTimeout"

// asReached is a letter as the last attempt told it that told anything. A busy machine loses one on its way to a worker, or back; what
// the one before said is a cause of its time-out then.
func asReached(story activities.DeadLetterStory) activities.DeadLetterStory {
	if story.ErrorType == timedOut && len(story.Causes) > 0 {
		story.ErrorType, story.Error, story.Causes = story.Causes[0].Type, story.Causes[0].Text, story.Causes[1:]
	}
	return story
}

// actionsOf is what happened to a letter: "set-aside", "retry by carol: why".
func actionsOf(story *activities.DeadLetterStory) []string {
	var actions []string
	for _, action := range story.Actions {
		text := action.Action
		if action.By != "" {
			text += " by " + action.By
		}
		if action.Reason != "" {
			text += ": " + action.Reason
		}
		actions = append(actions, text)
	}
	return actions
}

// awaitDeadLetter waits until a dead letter is as wanted.
func awaitDeadLetter(t *testing.T, w *harness.World, key string, fits func(*activities.DeadLetterStory) bool) activities.DeadLetterStory {
	t.Helper()
	var story activities.DeadLetterStory
	harness.Eventually(t, "the dead letter "+key+" is written", func() bool {
		result := w.CLI(t, "deadletter", "show", key)
		if result.Code != exitDone {
			return false
		}
		story = deadLetterStory(t, result)
		return fits(&story)
	})
	return story
}

// requireRefused checks that a decision was refused, and returns why.
func requireRefused(t assert.TestingT, err error) string {
	application, ok := errors.AsType[*temporal.ApplicationError](err)
	if assert.True(t, ok, "%v", err) && assert.Equal(t, workflows.ErrorDecisionRefused, application.Type()) {
		return application.Message()
	}
	return ""
}

// A dead letter keeps an error whole, however long, with the types of its chain and without its secrets; a list shows the
// beginning.
func TestDeadLetterError(t *testing.T) {
	t.Parallel()
	w, in := poisonWorld(t)
	const repeats = 20_000
	w.Exec(t, "eu", fmt.Sprintf(`
		create function poison() returns trigger language plpgsql as $$
		begin
			raise exception 'no route to postgres://app:hunter2@bank/eu with Bearer hunter2hunter2: %% the end', repeat('<poison>', %d);
		end $$`, repeats))
	w.Exec(t, "eu", `create trigger poison before insert on entries for each statement execute function poison()`)
	w.Start(t, in)
	story := requireCompensated(t, w, in)
	require.Equal(t, "deposit on ledger eu: ledger eu: post: ERROR: no route to postgres://app:***@bank/eu with Bearer ***: "+
		strings.Repeat("<poison>", repeats)+" the end (SQLSTATE P0001)", story.Error)
	require.Equal(t, "*pgconn.PgError", story.Causes[len(story.Causes)-1].Type)
	require.Equal(t, attemptsShort(), story.Attempts)
	listed := deadLetters(t, w.CLI(t, "deadletter", "list", "us", "--error", "NO ROUTE"))
	require.Len(t, listed, 1)
	require.Less(t, len(listed[0].Error), 1_100)

	// Nowhere is a secret: not in the history, nor in the books.
	for _, event := range w.History(t, workflows.TransferWorkflowID(in.ID)) {
		require.NotContains(t, event.String(), "hunter2")
	}
	var leaks int
	require.NoError(t, w.DB(t, "us").QueryRow(t.Context(), `select count(*) from dead_letters d, dead_letter_actions a
		where d.error || d.causes || a.error like '%hunter2%'`).Scan(&leaks))
	require.Zero(t, leaks)

	// The longest there is, in the form that takes most room on its way: cut in the middle, and it arrives.
	w.Exec(t, "eu", `
		create or replace function poison() returns trigger language plpgsql as $$
		begin
			raise exception 'begin % end', repeat('<', 3000000);
		end $$`)
	longest := in
	longest.ID = "longest"
	w.Start(t, longest)
	story = requireCompensated(t, w, longest)
	require.Regexp(t, `^deposit on ledger eu: ledger eu: post: ERROR: begin <+ … \(2800\d\d\d bytes left out\) … <+ end \(SQLSTATE P0001\)$`, story.Error)
	require.Greater(t, len(story.Error), ledger.ErrorBytesMax-200)
	require.Equal(t, attemptsShort(), story.Attempts)
	w.Exec(t, "eu", `drop trigger poison on entries`)
}

// A transfer that was compensated is made anew once, however often and by however many people at once it is asked for, and
// whatever else is decided at the same time. A retry of a retry works as well.
func TestDeadLetterMadeAnew(t *testing.T) {
	t.Parallel()
	w, in := poisonWorld(t)
	w.Exec(t, "eu", `alter table entries add constraint unlucky_check check (amount <> 1300) not valid`)
	in.Memo, in.Metadata = "rent", map[string]string{"month": "May"}
	w.Start(t, in)
	requireCompensated(t, w, in)

	decide := func(t *testing.T, id string) (taken []string, transfer string) {
		t.Helper()
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range 12 {
			group.Go(func() {
				decision := workflows.EndedDecision{
					Ledger: "us", Key: "transfer/" + id + "/deposit", Version: 1, Action: workflows.ActionRetry, By: fmt.Sprint("person ", i/2), Reason: "a test",
				}
				decided, err := w.Transfers.DecideEnded(harness.Within(t, patience), decision)
				if err != nil {
					assert.Contains(t, requireRefused(t, err), "decided to retry on 20")
					return
				}
				mu.Lock()
				defer mu.Unlock()
				taken, transfer = append(taken, decision.By), decided.Transfer
			})
		}
		group.Wait()
		return taken, transfer
	}
	taken, second := decide(t, in.ID)
	require.Len(t, taken, 2, "one person's decision, sent twice")
	require.Equal(t, taken[0], taken[1])
	require.Equal(t, "rent~retry-1", second)

	// The fault is still there, so that one is compensated too, and can be retried in its turn.
	require.Equal(t, workflows.StateCompensated, w.AwaitEnd(t, second).State)
	w.Exec(t, "eu", `alter table entries drop constraint unlucky_check`)
	_, third := decide(t, second)
	require.Equal(t, "rent~retry-2", third)
	require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, third).State)
	require.Equal(t, []string{"7.00", "13.00"}, w.Balances(t, in.From, in.To))

	request, err := w.Transfers.Request(t.Context(), third)
	require.NoError(t, err)
	require.Equal(t, second, request.Retries, "it names the one in whose place it is")
	require.Equal(t, []any{"rent", in.Metadata}, []any{request.Memo, request.Metadata})

	for id, want := range map[string]string{
		in.ID: "it is closed: retry by " + taken[0] + `: a test; made anew as "rent~retry-1"`, third: `has ended as completed, and has no dead letter`, second: "it is closed: retry by",
	} {
		refused := w.CLI(t, "deadletter", "retry", id, "--by", "dave")
		require.Equal(t, exitRejected, refused.Code)
		require.Contains(t, refused.Failure(t).Error, want)
	}
	// What was asked for long ago is answered as then, also by a Temporal that has forgotten it.
	w.Forget(t, workflows.TransferWorkflowID(in.ID))
	require.Equal(t, workflows.StateCompensated, w.Transfer(t, in).State)
	story := deadLetterStory(t, w.CLI(t, "deadletter", "show", in.ID))
	require.Equal(t, ledger.DeadLetterClosed, story.State, "another run of it does not ask again")
	require.Equal(t, []string{"7.00", "13.00"}, w.Balances(t, in.From, in.To))
}

// What is no dead letter can't be retried, and the answer says why.
func TestDeadLetterNothingToRetry(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	worker := w.StartFaultWorker(t, harness.FaultConfig{Options: patiently, Faults: []string{"deposit/before=hold;transfer=cancelled"}})
	alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
	for id, in := range map[string]workflows.TransferInput{
		"completed": {From: alice, To: bob, Amount: "1", Asset: "USD"},
		"rejected":  {From: alice, To: bob, Amount: "1000", Asset: "USD"},
		"cancelled": {From: alice, To: bob, Amount: "1", Asset: "USD"},
	} {
		in.ID = id
		w.Start(t, in)
		if id == "cancelled" {
			worker.AwaitStrike(t, "deposit/before", id)
			require.NoError(t, w.Transfers.Cancel(t.Context(), id))
		}
		w.AwaitEnd(t, id)
		refused := w.CLI(t, "deadletter", "retry", id, "--by", "carol")
		require.Equal(t, exitRejected, refused.Code)
		require.Contains(t, refused.Failure(t).Error, map[string]string{
			"completed": "has ended as completed", "rejected": "to pay again is a new ID", "cancelled": "has ended as cancelled",
		}[id])
	}
	require.Equal(t, exitUsage, w.CLI(t, "deadletter", "retry", "nothing", "--by", "carol").Code)
}

// Of many people who decide about a parked transfer at once, in all ways there are, one is heard, and the others are told who.
func TestDeadLetterDecidedAtOnce(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	in, status := parkedRefund(t, w)
	w.Set(t, activities.AccountSetInput{Account: in.From, Ceiling: "20"})
	var mu sync.Mutex
	var taken []string
	var group sync.WaitGroup
	for i := range 9 { // ten updates may be on their way at a time
		group.Go(func() {
			decision := workflows.Decision{
				Action: []workflows.Action{workflows.ActionRetry, workflows.ActionCompensate}[i%2], Parking: 1, Run: status.Parking.Run,
				By: fmt.Sprint("person ", i), Reason: "a test",
			}
			_, err := w.Transfers.Decide(harness.Within(t, patience), in.ID, decision)
			switch {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				taken = append(taken, decision.By)
			case !errors.Is(err, transfers.ErrEnded): // so quickly
				assert.Contains(t, requireRefused(t, err), "parking 1 was decided about: person ")
			}
		})
	}
	group.Wait()
	require.Len(t, taken, 1)
	require.Equal(t, workflows.StateCompensated, w.AwaitEnd(t, in.ID).State)
	story := awaitDeadLetter(t, w, "transfer/rent/refund", func(s *activities.DeadLetterStory) bool { return len(s.Actions) == 3 })
	require.Equal(t, taken[0], story.Actions[1].By)
	require.Equal(t, []string{"20.00", "0.00"}, w.Balances(t, in.From, in.To))
}

// A parked transfer that was settled outside is discarded: it ends, nothing of it moves any more, whoever tries, and the books
// go on saying that its money is in transit.
func TestDeadLetterDiscarded(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{BooksMayBeWrong: true}) // money is left in transit
	in, _ := parkedRefund(t, w)
	discard := []string{"deadletter", "discard", in.ID, "--by", "carol", "--reason", "paid by hand, receipt 7"}
	refused := w.CLI(t, discard...)
	require.Equal(t, exitRejected, refused.Code)
	require.Contains(t, refused.Failure(t).Error, "the place of the money is transit (us/transit:eu)")
	require.Equal(t, exitDone, w.CLI(t, append(discard, "--settled-outside")...).Code)

	end := w.AwaitEnd(t, in.ID)
	left := &workflows.Whereabouts{Place: ledger.PlaceTransit, Account: "us/transit:eu", Amount: "10.00", Asset: "USD/2"}
	require.Equal(t, []any{workflows.StateDiscarded, ledger.CodeDiscarded, left}, []any{end.State, end.Code, end.Left})
	require.Equal(t, "discard by carol: paid by hand, receipt 7", end.Detail)
	steps := []string{"us withdraw applied", "us refund sealed discarded", "eu deposit refused account_closed"}
	require.Equal(t, steps, w.Steps(t, in.ID))
	require.Equal(t, exitPending, w.CLITransfer(t, in).Code, "never a sign to pay again")
	story := deadLetterStory(t, w.CLI(t, "deadletter", "show", in.ID))
	require.Equal(t, []any{ledger.DeadLetterClosed, "discarded", ledger.PlaceTransit}, []any{story.State, story.Ended, story.Place})
	require.Equal(t, []string{"set-aside", "discard by carol: paid by hand, receipt 7", "end"}, actionsOf(&story))

	// With the way back open, and Temporal having forgotten it, it still moves nothing, and ends as it did.
	w.Set(t, activities.AccountSetInput{Account: in.From, Ceiling: "20"})
	w.Forget(t, workflows.TransferWorkflowID(in.ID))
	remembered := w.CLI(t, "status", in.ID)
	require.Equal(t, exitPending, remembered.Code)
	require.Equal(t, []any{workflows.StateDiscarded, left}, []any{remembered.Transfer(t).State, remembered.Transfer(t).Left}, "the ledgers remember")
	again := w.Transfer(t, in)
	require.Equal(t, []any{workflows.StateDiscarded, left}, []any{again.State, again.Left})
	require.Equal(t, steps, w.Steps(t, in.ID))
	require.Equal(t, []string{"10.00", "0.00"}, w.Balances(t, in.From, in.To))
	require.Equal(t, "10.00", w.InTransit(t, "us", "eu"))
	require.Empty(t, w.BookFaults(t))
	code, verified := w.Verify(t)
	require.Equal(t, 0, code)
	require.Len(t, verified.InTransit, 1, "listed for as long as nobody has booked it")
	require.Equal(t, workflows.TransferWorkflowID(in.ID), verified.InTransit[0].Transfer)
}

// A parked transfer whose workflow was terminated is told how to go on; when another run has ended it, its letter can still be
// closed, and says where the money is.
func TestDeadLetterOfTerminated(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	in, _ := parkedRefund(t, w)
	key := "transfer/rent/refund"
	awaitDeadLetter(t, w, key, func(s *activities.DeadLetterStory) bool { return s.Parked })
	require.NoError(t, w.Temporal.TerminateWorkflow(t.Context(), workflows.TransferWorkflowID(in.ID), "", "a test"))
	refused := w.CLI(t, "deadletter", "retry", in.ID, "--by", "carol")
	require.Equal(t, exitRejected, refused.Code)
	require.Contains(t, refused.Failure(t).Error, "start the transfer again with the same ID")

	w.Set(t, activities.AccountSetInput{Account: in.From, Ceiling: "20"})
	require.Equal(t, exitFailed, w.CLITransfer(t, in).Code)
	require.Equal(t, exitRejected, w.CLI(t, "deadletter", "compensate", in.ID, "--by", "carol").Code, "it is compensated")
	require.Equal(t, exitDone, w.CLI(t, "deadletter", "discard", key, "--by", "carol", "--reason", "it is back").Code)
	story := deadLetterStory(t, w.CLI(t, "deadletter", "show", key))
	require.Equal(t, []any{ledger.DeadLetterClosed, "compensated", ledger.PlaceSource, in.From}, []any{story.State, story.Ended, story.Place, story.Account})
}

// A decision about a run that a reset has left behind is refused: it was about what was seen there.
func TestDeadLetterDecisionAfterReset(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	in, status := parkedRefund(t, w)
	workflowID := workflows.TransferWorkflowID(in.ID)
	stale := workflows.Decision{Action: workflows.ActionRetry, Parking: 1, Run: status.Parking.Run, By: "carol", Reason: "seen before the reset"}
	w.Reset(t, workflowID)
	again := w.AwaitParked(t, in.ID, 1)
	require.NotEqual(t, status.Parking.Run, again.Parking.Run)
	_, err := w.Transfers.Decide(t.Context(), in.ID, stale)
	require.Contains(t, requireRefused(t, err), "look again")

	// A decision that was taken, and then reset away: Temporal offers it to the new run, which refuses it too.
	about := workflows.Decision{Action: workflows.ActionRetry, Parking: 1, Run: again.Parking.Run, By: "carol"}
	_, err = w.Transfers.Decide(t.Context(), in.ID, about)
	require.NoError(t, err)
	w.AwaitParked(t, in.ID, 2)
	_, err = w.Temporal.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: w.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: workflowID}, Reason: "a test", RequestId: "reset-2",
		WorkflowTaskFinishEventId: firstTask(t, w, workflowID),
	})
	require.NoError(t, err)
	third := w.AwaitParked(t, in.ID, 1)
	require.NotEqual(t, again.Parking.Run, third.Parking.Run)
	w.Set(t, activities.AccountSetInput{Account: in.From, Ceiling: "20"})
	require.Equal(t, exitDone, w.CLI(t, "deadletter", "retry", "transfer/rent/refund", "--by", "dave", "--reason", "there is room").Code)
	require.Equal(t, workflows.StateCompensated, w.AwaitEnd(t, in.ID).State)
	require.Equal(t, []string{"20.00", "0.00"}, w.Balances(t, in.From, in.To))
}

func firstTask(t *testing.T, w *harness.World, workflowID string) int64 {
	t.Helper()
	for _, event := range w.History(t, workflowID) {
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			return event.GetEventId()
		}
	}
	require.Fail(t, "no workflow task has completed")
	return 0
}

// While the ledger that keeps a transfer's dead letters is away, Temporal shows that it is parked, and it can be decided about;
// the letter is written when the ledger is back.
func TestDeadLetterWithoutItsLedger(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	source := w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Ledgers: []string{"us"}})
	w.StartFaultWorker(t, harness.FaultConfig{
		Options: unhurried, Ledgers: []string{"eu"}, Faults: []string{"deposit/after=drop:always", "resolve/before=fail:4"},
	})
	in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD"}
	w.Start(t, in)
	w.AwaitStep(t, in.ID, "us withdraw applied")
	require.NoError(t, source.Stop(t.Context()))
	w.AwaitParked(t, in.ID, 1)

	harness.Eventually(t, "Temporal shows it", func() bool {
		waiting, err := w.Transfers.Waiting(t.Context(), 10)
		require.NoError(t, err)
		return len(waiting) == 1 && waiting[0] == transfers.Waiting{ID: in.ID, State: workflows.StateParked}
	})
	harness.Eventually(t, "the list says what Temporal knows", func() bool {
		listed := w.CLI(t, "deadletter", "list", "us", "--timeout", "2s")
		require.Equal(t, exitPending, listed.Code)
		return strings.Contains(listed.Stderr, `Temporal knows of "rent": parked`)
	})
	// Where the transfer does not say soon that it is parked, the command asks the ledger.
	harness.Eventually(t, "the decision is taken", func() bool {
		return w.CLI(t, "deadletter", "retry", in.ID, "--by", "carol", "--timeout", "30s").Code == exitDone
	})
	harness.Eventually(t, "it is completed but for its letters", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		status, err := w.Transfers.Status(ctx, in.ID)
		return err == nil && status.State == workflows.StateCompleted
	})
	w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Ledgers: []string{"us"}})
	require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, in.ID).State)
	story := deadLetterStory(t, w.CLI(t, "deadletter", "show", in.ID))
	require.Equal(t, []string{"set-aside", "retry by carol", "end"}, actionsOf(&story))
	require.Equal(t, []any{ledger.PlaceDestination, in.To}, []any{story.Place, story.Account})
}

// retry --all: a dry run changes nothing, filters choose, and each is retried once at a bounded rate.
func TestDeadLetterRetryAll(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartFaultWorker(t, harness.FaultConfig{Options: func(o *workflows.Options) {
		unhurried(o)
		harness.Durable(o)
	}})
	w.Exec(t, "eu", `alter table entries add constraint unlucky_check check (abs(amount) <> 100) not valid`)
	const transfersCount = 12
	alice, bob := w.Account(t, "us", "100.00"), w.Account(t, "eu", "")
	for i := range transfersCount {
		w.Start(t, workflows.TransferInput{ID: fmt.Sprint("coffee-", i), From: alice, To: bob, Amount: "1", Asset: "USD"})
	}
	for i := range transfersCount {
		require.Equal(t, workflows.StateCompensated, w.AwaitEnd(t, fmt.Sprint("coffee-", i)).State)
	}
	w.Exec(t, "eu", `alter table entries drop constraint unlucky_check`)

	all := []string{"deadletter", "retry", "--all", "--ledger", "us", "--error", "unlucky_check", "--by", "repair job", "--reason", "the constraint is gone"}
	count := func() (n int) {
		require.NoError(t, w.DB(t, "us").QueryRow(t.Context(), `select count(*) from dead_letter_actions`).Scan(&n))
		return n
	}
	dry := w.CLI(t, append(all, "--dry-run")...)
	require.Equal(t, exitDone, dry.Code)
	require.Equal(t, transfersCount, strings.Count(dry.Stdout, `"would-be-taken"`))
	require.Equal(t, transfersCount, count(), "nothing was decided")
	require.Equal(t, "0.00", w.Balance(t, bob))
	require.Empty(t, w.CLI(t, append(all, "--step", "refund")...).Stdout, "none fits")

	begun := time.Now()
	done := w.CLI(t, append(all, "--rate", "4")...)
	require.Equal(t, exitDone, done.Code)
	require.Greater(t, time.Since(begun), (transfersCount-1)*time.Second/4)
	require.Equal(t, transfersCount, strings.Count(done.Stdout, `"taken"`))
	require.Contains(t, done.Stderr, fmt.Sprintf("%d dead letters: %d decisions taken", transfersCount, transfersCount))
	for i := range transfersCount {
		require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, fmt.Sprintf("coffee-%d~retry-1", i)).State)
	}
	require.Equal(t, []string{"88.00", "12.00"}, w.Balances(t, alice, bob))
	require.Empty(t, w.CLI(t, all...).Stdout, "there is nothing left")
}
