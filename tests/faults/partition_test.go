package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"payonce/internal/faultworker/fault"
	"payonce/internal/pgtest"
	"payonce/tests/harness"
	"payonce/workflows"
)

// A worker is cut off from Temporal in the middle of a step, notices nothing, and goes on. The server takes it for dead and
// gives the step to another. Both carry it out; whichever comes first to the ledger moves the money, and the other is told
// what the first has done.
func TestWorkerCutOffFromTemporal(t *testing.T) {
	t.Parallel()
	options := func(o *workflows.Options) {
		durablePatient(o)
		o.Forward.TimeoutStartToClose = 4 * time.Second
	}
	for _, row := range []struct {
		name   string
		hold   func(pgtest.Message) bool // where the first worker is when it is cut off
		first  bool                      // it goes on before the other begins, and else after the other has ended
		faults []string
		lost   string // what it then says in vain
	}{
		{"it commits first", hasCommitted, true, nil, reportActivity},
		// Blocked for a moment, it does not look at its deadline. What is overdue it does not report: it asks for more work.
		{"it commits last", begins, false, []string{"deposit/before=block;for=1ms;transfer=rent"}, "PollActivityTaskQueue"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			temporal, postgres := w.TemporalProxy(t), pgtest.NewProxy(t, w.LedgerURL("eu"))
			cutOff := w.StartFaultWorker(t, harness.FaultConfig{
				Options: options, Faults: row.faults,
				Env: []string{"TEMPORAL_ADDRESS=" + temporal.Address, ledgers(w.LedgerURL("us"), postgres.URL)},
			})
			in := between(t, w, "rent")
			reached, release := postgres.HoldBefore(row.hold)
			defer release()
			start(t, w, in)
			<-reached
			temporal.Cut()
			if row.first {
				release()
				awaitAnswers(t, 1, fault.KindDeposit, in.ID, cutOff)
			}
			other := w.StartFaultWorker(t, harness.FaultConfig{Options: options})
			once(t, w, in, workflows.StateCompleted, arrived)
			release()

			late := awaitAnswers(t, 1, fault.KindDeposit, in.ID, cutOff)
			require.Len(t, late, 1)
			require.Empty(t, late[0].Error)
			answers := awaitAnswers(t, 1, fault.KindDeposit, in.ID, other)
			require.Empty(t, answers[0].Error)
			require.Equal(t, []bool{!row.first, row.first}, []bool{late[0].Repeat, answers[0].Repeat}, "who has moved the money")
			temporal.AwaitLost(t, row.lost, harness.LostRequest)
			require.True(t, cutOff.Alive(), "nothing is wrong with it")
			retriedAfter(t, w, in.ID, fault.KindDeposit, enums.TIMEOUT_TYPE_START_TO_CLOSE)
			started := activityIn(t, w, in.ID, "Deposit").started
			require.Contains(t, started.GetIdentity(), fmt.Sprintf("/%d", other.PID), "the server has heard it from the other")
			once(t, w, in, workflows.StateCompleted, arrived)
		})
	}
}
