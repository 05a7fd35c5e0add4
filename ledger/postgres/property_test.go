package postgres_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"payonce/internal/ledgermodel"
	"payonce/ledger"
	"payonce/ledger/postgres"
)

// PostgreSQL and a naive model in memory, which shares nothing with it, give the same answers and end with the same
// balances: for any operations, in any order, with any repetition, seals among them, cut into batches anywhere. A
// repeat is the original. And the books are sound.
func TestPostgresAgreesWithModel(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	var world atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		// Every world has names of its own in the one database.
		w := ledgermodel.DrawWorld(rt, fmt.Sprintf("w%dx", world.Add(1)))
		statuses := w.DrawStatuses(rt)
		model := ledgermodel.New()
		for i, a := range w.Accounts {
			opened, err := b.AccountOpen(t.Context(), a)
			require.NoError(rt, err)
			model.Open(opened)
			_, err = b.AccountSet(t.Context(), a.Name, ledger.AccountChange{Status: &statuses[i]})
			require.NoError(rt, err)
			model.SetStatus(a.Name, statuses[i])
		}
		first := make(map[ledger.Key]ledger.Outcome)
		check := func(o ledger.Operation, got ledger.Result, want ledgermodel.Answer) {
			require.Equal(rt, want, answerOf(got), "%+v: %v", o, got.Err)
			if got.Err != nil {
				return
			}
			if original, ok := first[o.Key]; ok {
				require.Equal(rt, repeated(original), got.Outcome)
				return
			}
			first[o.Key] = got.Outcome
		}
		operations := w.DrawOperations(rt)
		for batch := 0; len(operations) > 0; batch++ {
			if rapid.IntRange(0, 5).Draw(rt, fmt.Sprintf("seal before batch %d", batch)) == 0 {
				o := operations[0]
				outcome, err := b.Resolve(t.Context(), seal(o))
				check(o, ledger.Result{Outcome: outcome, Err: err}, model.Resolve(seal(o)))
			}
			size := rapid.IntRange(1, len(operations)).Draw(rt, fmt.Sprintf("size of batch %d", batch))
			results, err := b.PostBatch(t.Context(), operations[:size])
			require.NoError(rt, err)
			for i, o := range operations[:size] {
				check(o, results[i], model.Post(o))
			}
			operations = operations[size:]
		}
		for _, a := range w.Accounts {
			got, err := b.Account(t.Context(), a.Name, a.Asset)
			require.NoError(rt, err)
			units, entries := model.Balance(a.Name, a.Asset)
			require.Equal(rt, units, got.Balance.String(), a.Name)
			require.Equal(rt, entries, got.Version, a.Name)
		}
		for key, outcome := range first {
			record, err := b.Operation(t.Context(), key)
			require.NoError(rt, err)
			require.Equal(rt, repeated(outcome), record.Outcome)
		}
	})
	// The transfers of a world make no sense: a deposit may be of the same ledger's withdraw. Everything else must hold.
	_, err := postgres.Verify(t.Context(), []*postgres.Ledger{b.Ledger}, postgres.Report{Finding: func(f postgres.Finding) {
		assert.Equal(t, postgres.CheckTransfer, f.Check, f.String())
	}})
	require.NoError(t, err)
}

// answerOf is a result as the model says it.
func answerOf(r ledger.Result) ledgermodel.Answer {
	a := ledgermodel.Answer{State: r.Outcome.State, Code: r.Outcome.Code, Repeat: r.Outcome.Repeat}
	for _, err := range []error{ledger.ErrKeyConflict, ledger.ErrReversalBlocked} {
		if errors.Is(r.Err, err) {
			a.Err = err
		}
	}
	return a
}
