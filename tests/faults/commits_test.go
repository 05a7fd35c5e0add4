package faults

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/internal/faultworker/fault"
	"payonce/internal/pgtest"
	"payonce/tests/harness"
	"payonce/workflows"
)

// commitWrites are the writes that are cut off from PostgreSQL at COMMIT, and on which of the transfer's commits on that
// ledger that is.
var commitWrites = []struct {
	kind   fault.Kind
	ledger string
	commit int32
	faults []string
}{
	{fault.KindPost, "us", 1, nil},
	{fault.KindWithdraw, "us", 1, nil},
	{fault.KindDeposit, "eu", 1, nil},
	{fault.KindRefund, "us", 2, nil},
	{fault.KindResolve, "eu", 1, []string{"deposit/before=fail:always;transfer=resolve"}},
}

// cutAtCommit has a connection to PostgreSQL break at COMMIT for each kind of write: before the server has it, or when its
// answer is on the way. Which of the two it was, the worker can't know; the key tells the next attempt.
func cutAtCommit(t *testing.T, options func(*workflows.Options), applied bool) {
	t.Helper()
	w := harness.New(t, harness.Config{})
	proxies := map[string]*pgtest.Proxy{"us": pgtest.NewProxy(t, patientURL(w, "us")), "eu": pgtest.NewProxy(t, patientURL(w, "eu"))}
	var faults []string
	for _, write := range commitWrites {
		faults = append(faults, write.faults...)
	}
	worker := w.StartFaultWorker(t, harness.FaultConfig{
		Options: options, Faults: faults, Env: []string{ledgers(proxies["us"].URL, proxies["eu"].URL)},
	})
	for _, write := range commitWrites {
		t.Run(string(write.kind), func(t *testing.T) {
			in := ofKind(t, w, write.kind, string(write.kind))
			var seen, cut atomic.Int32
			proxies[write.ledger].CutBefore(func(m pgtest.Message) bool {
				if applied && !hasCommitted(m) || !applied && !commits(m) || seen.Add(1) < write.commit {
					return false
				}
				cut.Add(1)
				return true
			})
			startUnhurried(t, w, in)
			if write.kind == fault.KindResolve {
				once(t, w, in, workflows.StateCompensated, givenUpBack)
			} else {
				endsWell(t, w, write.kind, in)
			}
			require.EqualValues(t, 1, cut.Load(), "the connection was cut")

			answers := awaitAnswers(t, 2, write.kind, in.ID, worker)
			require.Contains(t, answers[0].Error, "unknown", "what became of it, the worker can't know")
			require.Empty(t, answers[1].Error)
			require.Equal(t, applied, answers[1].Repeat, "whether the first attempt was committed")
		})
	}
}

// Case 25 (activerecord-jdbc-adapter PR#1216): the connection breaks before COMMIT reaches PostgreSQL. Nothing is written,
// and the next attempt writes it.
func TestCutOffFromPostgresBeforeCommit(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(*workflows.Options){"durable path": unhurriedDurable, "fast path": unhurried} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cutAtCommit(t, options, false)
		})
	}
}

// Case 25 again: the connection breaks after PostgreSQL has committed, and before the worker hears of it. The next attempt
// finds what is written.
func TestCutOffFromPostgresAfterCommit(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(*workflows.Options){"durable path": unhurriedDurable, "fast path": unhurried} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cutAtCommit(t, options, true)
		})
	}
}

//
