package faults

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"google.golang.org/grpc/codes"

	"payonce/internal/faultworker/fault"
	"payonce/tests/harness"
	"payonce/workflows"
)

// The calls by which a worker reports.
const (
	reportActivity = "RespondActivityTaskCompleted"
	reportTask     = "RespondWorkflowTaskCompleted"
)

// The server carries a worker's report out, and its reply gets lost. The worker reports again, and is told that there is
// nothing to report: no step is run again for it.
func TestReportReplyLost(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		options func(*workflows.Options)
		method  string
		kind    fault.Kind
	}{
		{"of an activity", unhurriedDurable, reportActivity, fault.KindDeposit},
		{"of a workflow task", unhurriedDurable, reportTask, fault.KindDeposit},
		{"of a workflow task with local activities", unhurried, reportTask, fault.KindPost},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			proxy := w.TemporalProxy(t)
			worker := startFaulty(t, w, harness.FaultConfig{Options: row.options, Env: []string{"TEMPORAL_ADDRESS=" + proxy.Address}})
			in := ofKind(t, w, row.kind, "rent")
			proxy.Lose(harness.Loss{Method: row.method, Lost: harness.LostReply})
			startUnhurried(t, w, in)
			endsWell(t, w, row.kind, in)

			proxy.AwaitLost(t, row.method, harness.LostReply)
			calls := proxy.Calls(row.method)
			require.Contains(t, calls, harness.ProxiedCall{Method: row.method, Lost: harness.LostReply, Code: codes.OK}, "the server has carried it out")
			harness.Eventually(t, "it is told again, and there is nothing to tell", func() bool {
				return slices.Contains(proxy.Calls(row.method), harness.ProxiedCall{Method: row.method, Code: codes.NotFound})
			})
			require.Len(t, answersTo(row.kind, in.ID, worker), 1, "the step was run once")
		})
	}
}

// A worker's report is lost on its way to the server, and the worker waits for an answer that never comes. The server hands
// the work out again when its time is over, and the step meets its key.
func TestReportLost(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		options func(*workflows.Options)
		method  string
		kind    fault.Kind
	}{
		{"of an activity", timedOutDurable, reportActivity, fault.KindPost},
		{"of a workflow task with local activities", unhurried, reportTask, fault.KindWithdraw},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			proxy := w.TemporalProxy(t)
			worker := startFaulty(t, w, harness.FaultConfig{Options: row.options, Env: []string{"TEMPORAL_ADDRESS=" + proxy.Address}})
			in := ofKind(t, w, row.kind, "rent")
			proxy.Lose(harness.Loss{Method: row.method, Lost: harness.LostRequest, Silent: true})
			start(t, w, in)
			proxy.AwaitLost(t, row.method, harness.LostRequest)
			// The first worker has its hands full with the report.
			other := startFaulty(t, w, harness.FaultConfig{Options: row.options})
			endsWell(t, w, row.kind, in)
			firstMoved(t, awaitAnswers(t, 2, row.kind, in.ID, worker, other))
			if row.method == reportActivity {
				retriedAfter(t, w, in.ID, row.kind, enums.TIMEOUT_TYPE_START_TO_CLOSE)
			} else {
				require.NotEmpty(t, eventsOf(t, w, in.ID, enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT))
			}
		})
	}
}
