package tests

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/internal/railsim/sim"
	"payonce/tests/harness"
	"payonce/workflows"
)

// record has TestRecordHistories write the histories of new ways to end. What is recorded stays: a history is how workflows
// of that time ran, and the code of today must still replay it.
var record = flag.Bool("record", false, "with -run TestRecordHistories: record the histories that are missing in tests/histories")

// recording is one way of a transfer, to be recorded under its name.
type recording struct {
	name   string
	faults []string // of the worker, for the transfer "recorded"
	in     workflows.TransferInput
	// options change the workflows' options; nil is unhurried.
	options func(*workflows.Options)
	// regions has one worker for each ledger, so that each holds only one. There are no faults then.
	regions bool
	// inTransit: money is left in transit.
	inTransit bool
	// env are further settings of the worker.
	env func(t *testing.T) []string
	// during is done after the start, to bring the transfer to its end.
	during func(t *testing.T, s *recorder)
	// workflow is recorded instead of the transfer; without an ID of a transfer there is none.
	workflow string
	// payout is what happens at the rail to the payout "recorded", which is recorded instead. Nil: there is none.
	payout *sim.Plan
	rail   []string // settings of the rail
}

// recorder is a world in which one way is recorded.
type recorder struct {
	*harness.World

	in     workflows.TransferInput
	worker *harness.FaultWorker
	rail   *harness.Rail
}

var (
	recordedPost    = workflows.TransferInput{ID: "recorded", From: "us/alice", To: "us/carol", Amount: "10", Asset: "USD"}
	recordedBetween = workflows.TransferInput{ID: "recorded", From: "us/alice", To: "eu/bob", Amount: "10", Asset: "USD", Memo: "a memo"}
)

// recordedRetry is the decision to make a transfer anew.
var recordedRetry = workflows.EndedDecision{
	Ledger: "us", Key: "transfer/recorded/deposit", Version: 1, Action: workflows.ActionRetry, By: "carol", Reason: "a test",
}

func toNobody(in workflows.TransferInput) workflows.TransferInput {
	in.To = strings.Split(in.To, "/")[0] + "/nobody"
	return in
}

func telling(in workflows.TransferInput) workflows.TransferInput {
	in.Notify = []string{"ops"}
	return in
}

func tooMuch(in workflows.TransferInput) workflows.TransferInput {
	in.Amount = "1000"
	return in
}

// cancelAt cancels the transfer when a fault strikes at a point.
func cancelAt(point string) func(*testing.T, *recorder) {
	return func(t *testing.T, s *recorder) {
		t.Helper()
		s.worker.AwaitEvent(t, "blocked", struckBy(point, "hold"))
		require.NoError(t, s.Transfers.Cancel(t.Context(), s.in.ID))
	}
}

// decideAt waits until the transfer is parked for the how many-th time, and decides.
func decideAt(number int, action workflows.Action) func(*testing.T, *recorder) {
	return func(t *testing.T, s *recorder) {
		t.Helper()
		s.AwaitParked(t, s.in.ID, number)
		_, err := s.Transfers.Decide(t.Context(), s.in.ID, workflows.Decision{
			Action: action, Parking: number, By: "carol", Reason: "a test", SettledOutside: action == workflows.ActionDiscard,
		})
		require.NoError(t, err)
	}
}

func recordings() []recording {
	return append(append(batchRecordings(), payoutRecordings()...), []recording{
		{name: "post-completed-fast", in: recordedPost},
		{name: "post-completed-durable", in: recordedPost, faults: []string{"post/before=fail:2"}},
		{name: "post-completed-resolved", in: recordedPost, faults: []string{"post/after=drop:always"}},
		{name: "post-rejected", in: tooMuch(recordedPost)},
		{name: "post-failed", in: recordedPost, faults: []string{"post/before=fail:5"}},
		{name: "post-cancelled", in: recordedPost, faults: []string{"post/before=fail:2", "post/before=hold"}, during: cancelAt("post/before")},
		{name: "completed-fast", in: recordedBetween},
		{name: "completed-durable", in: recordedBetween, faults: []string{"withdraw/before=fail:2", "deposit/before=fail:2"}},
		{name: "completed-regions", in: recordedBetween, regions: true},
		{name: "completed-resolved", in: recordedBetween, faults: []string{"withdraw/after=drop:always", "deposit/after=drop:always"}},
		{name: "completed-after-outage", in: recordedBetween, faults: []string{"withdraw/before=fail:3;error=unavailable", "deposit/before=fail:2;error=unavailable"}},
		{name: "rejected", in: tooMuch(recordedBetween)},
		{name: "failed", in: recordedBetween, faults: []string{"withdraw/before=fail:5"}},
		{
			name: "failed-by-outage", in: recordedBetween, faults: []string{"withdraw/before=fail:always;error=unavailable"},
			options: func(o *workflows.Options) {
				unhurried(o)
				o.Outage.Budget = 2 * time.Second
			},
		},
		{name: "compensated-by-refusal", in: toNobody(recordedBetween)},
		{name: "compensated-by-exhaustion", in: recordedBetween, faults: []string{"deposit/before=fail:5"}},
		{
			name: "cancelled-before-withdraw", in: recordedBetween, faults: []string{"withdraw/before=fail:2", "withdraw/before=hold"},
			during: cancelAt("withdraw/before"),
		},
		{
			name: "cancelled-after-withdraw", in: recordedBetween, faults: []string{"deposit/before=fail:2", "deposit/before=hold"},
			during: cancelAt("deposit/before"),
		},
		{
			name: "parked-retry-completed", in: recordedBetween, faults: []string{"deposit/after=drop:always", "resolve/before=fail:4"},
			during: decideAt(1, workflows.ActionRetry),
		},
		{
			name: "parked-retry-compensated", in: toNobody(recordedBetween), faults: []string{"refund/before=fail:8"},
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				decideAt(1, workflows.ActionRetry)(t, s)
				decideAt(2, workflows.ActionRetry)(t, s)
			},
		},
		{
			name: "parked-compensate", in: recordedBetween, faults: []string{"deposit/before=fail:always", "resolve/before=fail:4"},
			during: decideAt(1, workflows.ActionCompensate),
		},
		{
			name: "parked-withdraw-compensate", in: recordedBetween, faults: []string{"withdraw/after=drop:always", "resolve/before=fail:4"},
			during: decideAt(1, workflows.ActionCompensate),
		},
		{
			name: "parked-discard", in: recordedBetween, inTransit: true, faults: []string{"deposit/before=fail:always", "resolve/before=fail:4"},
			during: decideAt(1, workflows.ActionDiscard),
		},
		{
			name: "parked-refund-discard-compensate", in: toNobody(recordedBetween), faults: []string{"refund/before=fail:4", "resolve/before=fail:4"},
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				decideAt(1, workflows.ActionDiscard)(t, s)
				decideAt(2, workflows.ActionCompensate)(t, s)
			},
		},
		{
			name: "made-anew", in: recordedBetween, faults: []string{"deposit/before=fail:5"}, workflow: recordedRetry.WorkflowID(),
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				s.AwaitEnd(t, s.in.ID)
				_, err := s.Transfers.DecideEnded(t.Context(), recordedRetry)
				require.NoError(t, err)
				s.AwaitEnd(t, workflows.RetryTransferID(s.in.ID))
			},
		},
		{name: "completed-notify", in: telling(recordedBetween)},
		{
			name: "notification-parked-retry", in: telling(recordedBetween), workflow: notificationID("ops", "recorded"),
			env: func(t *testing.T) []string {
				t.Helper()
				return notifyEnv(nil, map[string]*receiver{"ops": newReceiver(t, func(w http.ResponseWriter, n int) {
					if n == 1 {
						w.WriteHeader(http.StatusGone)
					}
				})})
			},
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				awaitDeadLetter(t, s.World, notifyKey("ops", "recorded"), func(letter *activities.DeadLetterStory) bool { return letter.Parked })
				// Without the run, which is another one in what is recorded.
				_, err := s.Transfers.DecideNotification(t.Context(), notificationID("ops", "recorded"), workflows.Decision{
					Action: workflows.ActionRetry, Parking: 1, By: "carol", Reason: "a test",
				})
				require.NoError(t, err)
			},
		},
		{name: "wrong-malformed", in: workflows.TransferInput{ID: "recorded", From: "us/alice", To: "eu/bob", Amount: "-10", Asset: "USD"}},
		{
			name: "wrong-key-taken", in: recordedBetween,
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				s.AwaitEnd(t, s.in.ID)
				s.Forget(t, workflows.TransferWorkflowID(s.in.ID))
				other := s.in
				other.Amount = "11"
				require.Error(t, s.Start(t, other).Get(t.Context(), nil))
			},
		},
		{
			name: "restarted-after-terminate", in: recordedBetween, faults: []string{"deposit/before=fail:2", "deposit/before=hold"},
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				s.worker.AwaitEvent(t, "blocked", struckBy("deposit/before", "hold"))
				require.NoError(t, s.Temporal.TerminateWorkflow(t.Context(), workflows.TransferWorkflowID(s.in.ID), "", "a test"))
				s.Start(t, s.in)
			},
		},
		{
			name: "reset", in: recordedBetween,
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				s.AwaitEnd(t, s.in.ID)
				s.Reset(t, workflows.TransferWorkflowID(s.in.ID))
			},
		},
		{
			name: "account-open", workflow: "recorded-open",
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				_, err := s.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "recorded-open", TaskQueue: workflows.TaskQueue},
					workflows.AccountOpenWorkflow, activities.AccountOpenInput{Account: "us/dora", Asset: "USD"})
				require.NoError(t, err)
			},
		},
		{
			// The worker keeps none, so that no path of its machine is in the history.
			name: "statement-not-kept", workflow: "recorded-statement",
			during: func(t *testing.T, s *recorder) {
				t.Helper()
				_, err := s.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "recorded-statement", TaskQueue: workflows.TaskQueue},
					workflows.StatementWriteWorkflow, workflows.StatementInput{Account: "us/alice", Last: "month"})
				require.NoError(t, err)
			},
		},
	}...)
}

// TestRecordHistories records what is missing, from real runs.
func TestRecordHistories(t *testing.T) {
	if !*record {
		t.Skip("to record new histories: go test ./tests -run TestRecordHistories -record")
	}
	t.Parallel()
	for _, r := range recordings() {
		path := filepath.Join(historiesDir, r.name+".json")
		if _, err := os.Stat(path); err == nil {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			events := r.run(t)
			require.NoError(t, os.MkdirAll(historiesDir, 0o755))
			require.NoError(t, os.WriteFile(path, encodeHistory(t, events), 0o644))
		})
	}
}

// run brings the transfer to its end and returns the history of its last run.
func (r *recording) run(t *testing.T) []*history.HistoryEvent {
	t.Helper()
	w := harness.New(t, harness.Config{BooksMayBeWrong: r.inTransit})
	s := &recorder{World: w, in: r.in}
	var faults []string
	for _, fault := range r.faults {
		if !strings.Contains(fault, ";transfer=") && r.payout == nil {
			fault += ";transfer=recorded"
		}
		faults = append(faults, fault)
	}
	options := r.options
	if options == nil {
		options = unhurried
	}
	var env []string
	if r.payout != nil {
		s.rail = w.StartRail(t, "bank")
		s.rail.Plan(t, recordedPayout.ID, *r.payout)
		env = s.rail.Env(r.rail...)
	}
	if r.env != nil {
		env = r.env(t)
	}
	if r.regions {
		w.StartFaultWorker(t, harness.FaultConfig{Ledgers: []string{"us"}, Options: options})
		w.StartFaultWorker(t, harness.FaultConfig{Ledgers: []string{"eu"}, Options: options})
	} else {
		s.worker = w.StartFaultWorker(t, harness.FaultConfig{Faults: faults, Options: options, Env: env})
	}
	for _, account := range []string{"us/alice", "us/carol", "eu/bob"} {
		w.Open(t, activities.AccountOpenInput{Account: account, Asset: "USD"})
	}
	w.Fund(t, "us/alice", "USD", "20.00")
	workflowID := workflows.TransferWorkflowID(r.in.ID)
	if r.in.ID != "" {
		w.Start(t, r.in)
	}
	if r.payout != nil {
		_, err := s.Transfers.StartPayout(t.Context(), recordedPayout)
		require.NoError(t, err)
		workflowID = workflows.PayoutWorkflowID(recordedPayout.ID)
	}
	if r.workflow != "" {
		workflowID = r.workflow
	}
	if r.during != nil {
		r.during(t, s)
	}
	// How it ends is for the replay to tell.
	_ = w.Temporal.GetWorkflow(harness.Within(t, patience), workflowID, "").Get(t.Context(), nil)
	return w.History(t, workflowID)
}

// tamperings turn good histories into those of workflows that ours are not.
var tamperings = map[string]struct {
	of     string
	tamper func(*history.History)
}{
	// The first activity is another one.
	"another-activity": {"completed-durable", func(h *history.History) {
		for _, event := range h.GetEvents() {
			if scheduled := event.GetActivityTaskScheduledEventAttributes(); scheduled != nil {
				scheduled.ActivityType.Name = "Refund"
				return
			}
		}
	}},
	// The deposit was made before the withdraw.
	"deposit-first": {"completed-fast", func(h *history.History) {
		for _, event := range h.GetEvents() {
			for _, payload := range event.GetMarkerRecordedEventAttributes().GetDetails()["data"].GetPayloads() {
				payload.Data = []byte(strings.NewReplacer("Withdraw", "Deposit", "Deposit", "Withdraw").Replace(string(payload.GetData())))
			}
		}
	}},
	// The state was not written into the search attributes.
	"no-search-attributes": {"post-completed-fast", func(h *history.History) {
		h.Events = slices.DeleteFunc(h.GetEvents(), func(event *history.HistoryEvent) bool {
			return event.GetEventType() == enums.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES
		})
		for i, event := range h.GetEvents() {
			event.EventId = int64(i + 1)
		}
	}},
}

// TestRecordTampered makes the histories that must fail, out of good ones.
func TestRecordTampered(t *testing.T) {
	if !*record {
		t.Skip("to make new histories that must fail: go test ./tests -run TestRecordTampered -record")
	}
	require.NoError(t, os.MkdirAll(mustFailDir, 0o755))
	good := histories(t, historiesDir)
	for name, row := range tamperings {
		tampered := good[row.of]
		row.tamper(tampered)
		require.NoError(t, os.WriteFile(filepath.Join(mustFailDir, name+".json"), encodeHistory(t, tampered.GetEvents()), 0o644))
	}
}
