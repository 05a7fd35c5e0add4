package reconcile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/workflows"
)

// step reads "us withdraw applied" or "eu deposit sealed cancelled" as a record of a transfer from us/alice.
func step(t *testing.T, words string) postgres.Record {
	t.Helper()
	word := append(strings.Fields(words), "")
	asset, err := ledger.ParseAsset("USD")
	require.NoError(t, err)
	amount, err := ledger.ParseAmount("10", asset)
	require.NoError(t, err)
	r := postgres.Record{
		Transfer: "transfer/rent", Ledger: word[0],
		Operation: ledger.Operation{
			Key: ledger.Key("transfer/rent/" + word[1]), Kind: ledger.Kind(word[1]), Counterparty: "eu/bob",
			Legs: []ledger.Leg{{From: "alice", To: "transit:eu", Asset: asset, Amount: amount}},
		},
		Outcome: ledger.Outcome{State: ledger.OutcomeState(word[2]), Code: ledger.Code(word[3])},
	}
	if r.Operation.Kind == ledger.KindDeposit {
		r.Operation.Counterparty = "us/alice"
	}
	return r
}

func TestRead(t *testing.T) {
	t.Parallel()
	both, us, eu := "us eu", "us", "eu"
	for _, row := range []struct {
		steps    string
		given    string
		standing standing
		state    workflows.State
	}{
		{"", both, standingNothing, ""},
		{"us post applied", us, standingEnded, workflows.StateCompleted},
		{"us post refused insufficient_funds", us, standingEnded, workflows.StateRejected},
		{"us post sealed attempts_exhausted", us, standingEnded, workflows.StateFailed},
		{"us post sealed cancelled", us, standingEnded, workflows.StateCancelled},
		{"us post sealed discarded", us, standingEnded, workflows.StateDiscarded},
		{"us withdraw refused account_closed", us, standingEnded, workflows.StateRejected},
		{"us withdraw sealed attempts_exhausted", us, standingEnded, workflows.StateFailed},
		{"us withdraw sealed cancelled", us, standingEnded, workflows.StateCancelled},
		{"us withdraw applied", both, standingUnfinished, ""},
		{"us withdraw applied", us, standingUnseen, ""},
		{"us withdraw applied, eu deposit applied", both, standingEnded, workflows.StateCompleted},
		{"eu deposit applied", eu, standingUnseen, ""},
		{"eu deposit applied", both, standingBroken, ""},
		{"us withdraw applied, eu deposit refused account_closed", both, standingUnfinished, ""},
		{"us withdraw applied, eu deposit sealed attempts_exhausted", both, standingUnfinished, ""},
		{"us withdraw applied, us refund applied, eu deposit refused account_closed", both, standingEnded, workflows.StateCompensated},
		{"us withdraw applied, us refund applied, eu deposit sealed attempts_exhausted", both, standingEnded, workflows.StateCompensated},
		{"us withdraw applied, us refund applied, eu deposit sealed discarded", both, standingEnded, workflows.StateCompensated},
		{"us withdraw applied, us refund applied, eu deposit sealed cancelled", both, standingEnded, workflows.StateCancelled},
		// Nothing keeps the deposit from being made.
		{"us withdraw applied, us refund applied", both, standingBroken, ""},
		{"us withdraw applied, us refund sealed discarded, eu deposit sealed discarded", both, standingEnded, workflows.StateDiscarded},
		{"us withdraw applied, us refund applied, eu deposit applied", both, standingBroken, ""},
		{"us withdraw refused account_closed, eu deposit applied", both, standingBroken, ""},
		{"us withdraw sealed cancelled, us refund applied", both, standingBroken, ""},
		{"us post applied, eu post applied", both, standingBroken, ""},
	} {
		t.Run(row.steps+" on "+row.given, func(t *testing.T) {
			t.Parallel()
			var records []postgres.Record
			for words := range strings.SplitSeq(row.steps, ", ") {
				if words != "" {
					records = append(records, step(t, words))
				}
			}
			got := read(records, func(name string) bool { return strings.Contains(row.given, name) })
			require.Equal(t, row.standing, got.standing)
			require.Equal(t, row.state, got.state)
			require.NotEmpty(t, got.String())
		})
	}
}

// A withdraw that can't be asked for again is a finding of the books, and nothing here stumbles over it.
func TestReadMalformed(t *testing.T) {
	t.Parallel()
	record := step(t, "us withdraw applied")
	record.Operation.Legs = nil
	got := read([]postgres.Record{record}, func(string) bool { return true })
	require.Equal(t, standingBroken, got.standing)
	require.Contains(t, got.String(), "withdraw applied")
}

func TestCommands(t *testing.T) {
	t.Parallel()
	require.Equal(t, "starter transfer --id '-x \"y\"' --from us/alice --to eu/bob --amount 10.00 --asset USD/2 --memo 'it'\\''s' --metadata a=b --metadata 'z=&'",
		transferCommand(workflows.TransferInput{
			ID: `-x "y"`, From: "us/alice", To: "eu/bob", Amount: "10.00", Asset: "USD/2", Memo: "it's",
			Metadata: map[string]string{"z": "&", "a": "b"},
		}))
	require.Equal(t, "temporal workflow reset --namespace default --workflow-id 'transfer/a b' --type FirstWorkflowTask --reason reconcile",
		resetCommand("default", "transfer/a b"))
	require.Equal(t, "'transfer/o''brien'", quoteQuery("transfer/o'brien"))
}
