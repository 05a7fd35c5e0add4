package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"payonce/activities"
	"payonce/tests/harness"
	"payonce/workflows"
)

// ends are how the recorded histories end: the result's state, or the type of the error.
var ends = map[string]string{
	"account-open":                     "opened",
	"batch":                            "2 completed, 1 rejected",
	"batch-chunk":                      "completed completed rejected",
	"batch-chunk-between":              "compensated completed completed",
	"batch-chunk-troubled":             "completed failed rejected",
	"cancelled-after-withdraw":         "cancelled",
	"cancelled-before-withdraw":        "cancelled",
	"compensated-by-exhaustion":        "compensated",
	"compensated-by-refusal":           "compensated",
	"completed-after-outage":           "completed",
	"completed-durable":                "completed",
	"completed-fast":                   "completed",
	"completed-notify":                 "completed",
	"completed-regions":                "completed",
	"completed-resolved":               "completed",
	"failed":                           "failed",
	"failed-by-outage":                 "failed",
	"made-anew":                        "recorded~retry-1",
	"notification-parked-retry":        "delivered",
	"parked-compensate":                "compensated",
	"parked-discard":                   "discarded",
	"parked-refund-discard-compensate": "compensated",
	"parked-retry-compensated":         "compensated",
	"parked-retry-completed":           "completed",
	"parked-withdraw-compensate":       "compensated",
	"payout-again":                     "settled",
	"payout-bounced":                   "returned",
	"payout-cancelled":                 "cancelled",
	"payout-contradiction-discard":     "discarded",
	"payout-failed":                    "failed",
	"payout-hint":                      "",
	"payout-outage":                    "settled",
	"payout-parked-answered":           "settled",
	"payout-parked-compensate":         "returned",
	"payout-parked-retry-settle":       "settled",
	"payout-pending":                   "settled",
	"payout-rejected":                  "rejected",
	"payout-reply-lost":                "settled",
	"payout-reset":                     "settled",
	"payout-returned":                  "returned",
	"payout-settled":                   "settled",
	"payout-unsent":                    "cancelled",
	"payout-wrong-malformed":           workflows.ErrorInvalidInput,
	"post-cancelled":                   "cancelled",
	"post-completed-durable":           "completed",
	"post-completed-fast":              "completed",
	"post-completed-resolved":          "completed",
	"post-failed":                      "failed",
	"post-rejected":                    "rejected",
	"rejected":                         "rejected",
	"reset":                            "completed",
	"restarted-after-terminate":        "completed",
	"statement-not-kept":               activities.ErrorStatementsNotKept,
	"wrong-key-taken":                  workflows.ErrorKeyConflict,
	"wrong-malformed":                  workflows.ErrorInvalidInput,
}

// replay runs a recorded history through workflows as a worker that takes it over does, and returns what differs.
func replay(t *testing.T, recorded *history.History, register func(worker.WorkflowReplayer), interceptors ...interceptor.WorkerInterceptor) error {
	t.Helper()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: interceptors})
	require.NoError(t, err)
	register(replayer)
	id := recorded.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
	harness.Eventually(t, id+" is replayed", func() bool {
		// The replayer writes into what it is given.
		err = replayer.ReplayWorkflowHistoryWithOptions(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)), proto.CloneOf(recorded),
			worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id}})
		return err == nil || !strings.Contains(err.Error(), deadlocked)
	})
	return err
}

// deadlocked is what the SDK says of a workflow that does not get on for a second. On a busy machine that is none that does anything
// wrong.
const deadlocked = "TMPRL1101"

func withOptions(options workflows.Options) func(worker.WorkflowReplayer) {
	return func(replayer worker.WorkflowReplayer) { workflows.New(options).Register(replayer) }
}

// Every recorded way of a transfer replays with the code of today, and with any options: an operator may change them while
// transfers run.
func TestReplay(t *testing.T) {
	t.Parallel()
	impatient := workflows.DefaultOptions()
	for _, options := range []*workflows.StepOptions{&impatient.Forward, &impatient.Settle, &impatient.Record, &impatient.Notify, &impatient.Ask} {
		*options = workflows.StepOptions{TimeoutStartToClose: time.Millisecond, BackoffFirst: time.Millisecond, BackoffMax: time.Millisecond, AttemptsMax: 1}
	}
	impatient.Fast = workflows.FastOptions{TimeoutStartToClose: time.Millisecond, AttemptsMax: 1, Backoff: time.Millisecond}
	impatient.Write = workflows.WriteOptions{TimeoutHeartbeat: time.Millisecond, BackoffFirst: time.Millisecond, BackoffMax: time.Millisecond, Within: time.Millisecond}
	impatient.Outage = workflows.OutageOptions{Budget: time.Millisecond, BackoffFirst: time.Millisecond, BackoffMax: time.Millisecond}
	short := workflows.StepOptions{TimeoutStartToClose: time.Millisecond, BackoffFirst: time.Millisecond, BackoffMax: time.Millisecond, AttemptsMax: 1}
	impatient.Rail = workflows.RailOptions{Submit: short, Ask: short, PollFirst: time.Millisecond, PollMax: time.Millisecond, Patience: time.Millisecond}
	recorded := histories(t, historiesDir)
	for name, options := range map[string]workflows.Options{
		"default": workflows.DefaultOptions(), "short": harness.ShortOptions(), "impatient": impatient,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for way, one := range recorded {
				require.NoError(t, replay(t, one, withOptions(options)), way)
			}
		})
	}
	t.Run("each way is there", func(t *testing.T) {
		t.Parallel()
		got := make(map[string]string)
		for way, one := range recorded {
			got[way] = endOf(t, one)
		}
		require.Equal(t, ends, got)
		for _, r := range recordings() {
			require.Contains(t, ends, r.name)
		}
	})
}

// endOf reads how a history ends.
func endOf(t *testing.T, recorded *history.History) string {
	t.Helper()
	last := recorded.GetEvents()[len(recorded.GetEvents())-1]
	switch last.GetEventType() {
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		var result struct {
			State    string `json:"state"`
			Status   string `json:"status"`   // of an account
			Transfer string `json:"transfer"` // made anew
			Counts   struct {
				Completed int `json:"completed"`
				Rejected  int `json:"rejected"`
			} `json:"counts"` // of a batch
			Ends []struct {
				State string `json:"state"`
				Rows  []int  `json:"rows"`
			} `json:"ends"` // of a chunk of a batch
		}
		require.NoError(t, json.Unmarshal(last.GetWorkflowExecutionCompletedEventAttributes().GetResult().GetPayloads()[0].GetData(), &result))
		if result.Status == "open" {
			return "opened"
		}
		if result.Transfer != "" {
			return result.Transfer
		}
		if result.Counts.Completed > 0 {
			return fmt.Sprintf("%d completed, %d rejected", result.Counts.Completed, result.Counts.Rejected)
		}
		if len(result.Ends) > 0 {
			var ends []string
			for _, end := range result.Ends {
				ends = append(ends, slices.Repeat([]string{end.State}, len(end.Rows))...)
			}
			slices.Sort(ends)
			return strings.Join(ends, " ")
		}
		return result.State
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		failure := last.GetWorkflowExecutionFailedEventAttributes().GetFailure()
		if failure.GetActivityFailureInfo() != nil {
			failure = failure.GetCause()
		}
		return failure.GetApplicationFailureInfo().GetType()
	default:
		return last.GetEventType().String()
	}
}

// nondeterministic is what the SDK calls a workflow that does not do what its history says.
const nondeterministic = "TMPRL1100"

// A check that can't fail proves nothing: these histories are of workflows that ours are not.
func TestReplayMustFail(t *testing.T) {
	t.Parallel()
	for name, tampered := range histories(t, mustFailDir) {
		err := replay(t, tampered, withOptions(workflows.DefaultOptions()))
		require.ErrorContains(t, err, nondeterministic, name)
	}
}

// mutants are workflows that do nearly the same.
type mutants struct{ real *workflows.Workflows }

// timerFirst waits before it begins.
func (m mutants) timerFirst(ctx workflow.Context, request converter.RawValue) (workflows.TransferResult, error) {
	if err := workflow.Sleep(ctx, time.Second); err != nil {
		return workflows.TransferResult{}, err
	}
	return m.real.Transfer(ctx, request)
}

// activityLast does something more in the end.
func (m mutants) activityLast(ctx workflow.Context, request converter.RawValue) (workflows.TransferResult, error) {
	result, err := m.real.Transfer(ctx, request)
	if err != nil {
		return result, err
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Second})
	return result, workflow.ExecuteActivity(ctx, "DeadLetterRecord", activities.DeadLetterView{}).Get(ctx, nil)
}

// otherEnd fails in the end, whatever it has done.
func (m mutants) otherEnd(ctx workflow.Context, request converter.RawValue) (workflows.TransferResult, error) {
	_, err := m.real.Transfer(ctx, request)
	if err != nil {
		return workflows.TransferResult{}, err
	}
	return workflows.TransferResult{}, errors.New("it ends with an error")
}

// depositFirst has the two steps the other way round.
func (m mutants) depositFirst(ctx workflow.Context, _ converter.RawValue) (workflows.TransferResult, error) {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Second})
	for _, step := range []string{"Deposit", "Withdraw"} {
		if err := workflow.ExecuteLocalActivity(ctx, step, activities.StepInput{}).Get(ctx, nil); err != nil {
			return workflows.TransferResult{}, err
		}
	}
	err := workflow.UpsertTypedSearchAttributes(ctx, workflows.SearchAttributeState.ValueSet("completed"))
	return workflows.TransferResult{}, err
}

// A change of what the workflow does, or in which order, is found by replaying a good history.
func TestReplayFindsMutants(t *testing.T) {
	t.Parallel()
	good := histories(t, historiesDir)["completed-fast"]
	m := mutants{workflows.New(workflows.DefaultOptions())}
	as := func(transfer any) func(worker.WorkflowReplayer) {
		return func(replayer worker.WorkflowReplayer) {
			replayer.RegisterWorkflowWithOptions(transfer, workflow.RegisterOptions{Name: workflows.TransferWorkflow})
		}
	}
	require.NoError(t, replay(t, good, as(m.real.Transfer)))
	for name, transfer := range map[string]any{
		"a timer first": m.timerFirst, "an activity last": m.activityLast, "the deposit first": m.depositFirst,
	} {
		require.ErrorContains(t, replay(t, good, as(transfer)), nondeterministic, name)
	}
	err := replay(t, good, as(m.otherEnd))
	require.ErrorContains(t, err, "doesn't return the same result")
	err = replay(t, good, as(m.real.Transfer), &withoutSearchAttributes{})
	require.ErrorContains(t, err, nondeterministic, "search attributes are not written")

	// The same code with the fast path turned off is other code.
	durable := workflows.DefaultOptions()
	durable.Fast.AttemptsMax = 0
	require.ErrorContains(t, replay(t, good, withOptions(durable)), nondeterministic)
}

// withoutSearchAttributes has a workflow write none.
type withoutSearchAttributes struct {
	interceptor.WorkerInterceptorBase
}

func (*withoutSearchAttributes) InterceptWorkflow(
	_ workflow.Context, next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &inbound{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (i *inbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{interceptor.WorkflowOutboundInterceptorBase{Next: out}})
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (*outbound) UpsertTypedSearchAttributes(workflow.Context, ...temporal.SearchAttributeUpdate) error {
	return nil
}

// The fast path has what it is fast for: three commands and seven events for a transfer within a ledger, one more of each
// for one between two. More of either is more to write for Temporal, for each transfer.
func TestFastPathHistory(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	alice := w.Account(t, "us", "20.00")
	begin := []string{"WorkflowExecutionStarted", "WorkflowTaskScheduled", "WorkflowTaskStarted", "WorkflowTaskCompleted"}
	end := []string{"UpsertWorkflowSearchAttributes", "WorkflowExecutionCompleted"}
	for ledgerName, steps := range map[string][]string{"us": {"MarkerRecorded"}, "eu": {"MarkerRecorded", "MarkerRecorded"}} {
		to := w.Account(t, ledgerName, "")
		undisturbed(t, func() (want, got any) {
			in := workflows.TransferInput{ID: w.Unique("fast"), From: alice, To: to, Amount: "0.01", Asset: "USD"}
			require.Equal(t, workflows.StateCompleted, w.Transfer(t, in).State)
			var events []string
			for _, event := range w.History(t, workflows.TransferWorkflowID(in.ID)) {
				events = append(events, event.GetEventType().String())
			}
			return append(append(begin[:4:4], steps...), end...), events
		})
	}
}
