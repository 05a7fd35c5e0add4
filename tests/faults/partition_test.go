package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"payonce/internal/faultworker/fault"
	"payonce/tests/harness"
	"payonce/workflows"
)

// A worker is cut off from Temporal in the middle of a step, notices nothing, and goes on. The server takes it for dead and
// gives the step to another. Both carry it out; whichever comes first to the ledger moves the money, and the other is told
// what the first has done.
func TestWorkerCutOffFromTemporal(t *testing.T) {
	t.Parallel()
	options := func(o *workflows.Options) {
		timedOutDurable(o)
		o.Forward.TimeoutStartToClose = 15 * time.Second
	}
	for _, row := range []struct {
		name  string
		point string // where the first worker is when it is cut off
		first bool   // it goes on before the other begins, and else after the other has ended
		lost  string // what it then says in vain
	}{
		{"it commits first", "deposit/after", true, reportActivity},
		// What is overdue it does not report: it asks for more work.
		{"it commits last", "deposit/before", false, "PollActivityTaskQueue"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Config{})
			temporal := w.TemporalProxy(t)
			cutOff := startFaulty(t, w, harness.FaultConfig{
				Options: options, Faults: []string{row.point + "=hold;transfer=rent"},
				Env: []string{"TEMPORAL_ADDRESS=" + temporal.Address},
			})
			in := between(t, w, "rent")
			start(t, w, in)
			cutOff.AwaitStrike(t, row.point, in.ID)
			temporal.Cut()
			if row.first {
				cutOff.LetGo(t)
				awaitAnswers(t, 1, fault.KindDeposit, in.ID, cutOff)
			}
			other := startFaulty(t, w, harness.FaultConfig{Options: options})
			once(t, w, in, workflows.StateCompleted, arrived)
			cutOff.LetGo(t)

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
