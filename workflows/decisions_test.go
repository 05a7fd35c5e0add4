package workflows_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"payonce/workflows"
)

func TestRetryTransferID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"rent":             "rent~retry-1",
		"rent~retry-1":     "rent~retry-2",
		"rent~retry-99":    "rent~retry-100",
		"rent~retry-0":     "rent~retry-0~retry-1", // not one of ours
		"rent~retry-01":    "rent~retry-01~retry-1",
		"rent~retry-":      "rent~retry-~retry-1",
		"~retry-1":         "~retry-1~retry-1",
		"a~retry-1~retry-": "a~retry-1~retry-~retry-1",
	} {
		require.Equal(t, want, workflows.RetryTransferID(id))
	}
	// However long, however often: an ID as others are, and each another one.
	for _, root := range []string{strings.Repeat("x", 200), strings.Repeat("x", 199) + "y", strings.Repeat("ü", 100), strings.Repeat("x", 184), strings.Repeat("x", 185)} {
		seen := map[string]bool{}
		for id := root; len(seen) < 200; id = workflows.RetryTransferID(id) {
			require.False(t, seen[id])
			require.LessOrEqual(t, len(id), workflows.TransferIDBytesMax)
			require.True(t, utf8.ValidString(id))
			seen[id] = true
		}
	}
	require.NotEqual(t, workflows.RetryTransferID(strings.Repeat("x", 199)+"a"), workflows.RetryTransferID(strings.Repeat("x", 199)+"b"))
}

// A transfer in place of another is that one's and no other's.
func TestRetriesNamesItsTransfer(t *testing.T) {
	t.Parallel()
	in := between
	in.ID, in.Retries = "t1~retry-1", "t1"
	_, err := workflows.ParseTransfer(in)
	require.NoError(t, err)
	in.Retries = "t2"
	_, err = workflows.ParseTransfer(in)
	require.ErrorContains(t, err, `retries: the ID of a transfer in place of "t2" is "t2~retry-1"`)
}

// Another decision has another update ID, and the same one the same.
func TestDecisionIDs(t *testing.T) {
	t.Parallel()
	decision := workflows.Decision{Action: workflows.ActionRetry, Parking: 1, Run: "r", By: "ann", Reason: "because"}
	same := decision
	require.Equal(t, decision.UpdateID(), same.UpdateID())
	ended := workflows.EndedDecision{Ledger: "us", Key: "transfer/t1/post", Version: 3, Action: workflows.ActionRetry, By: "ann", Reason: "because"}
	ids := map[string]bool{decision.UpdateID(): true, ended.ID(): true}
	for _, change := range []func(*workflows.Decision){
		func(d *workflows.Decision) { d.Action = workflows.ActionDiscard },
		func(d *workflows.Decision) { d.Parking = 2 },
		func(d *workflows.Decision) { d.Run = "s" },
		func(d *workflows.Decision) { d.By = "annb" },
		func(d *workflows.Decision) { d.By, d.Reason = "annb", "ecause" },
		func(d *workflows.Decision) { d.SettledOutside = true },
	} {
		other := decision
		change(&other)
		require.False(t, ids[other.UpdateID()])
		ids[other.UpdateID()] = true
	}
	later := ended
	later.Version = 4
	require.NotEqual(t, ended.WorkflowID(), later.WorkflowID())
	require.Equal(t, "deadletter/transfer/t1/post/"+ended.ID(), ended.WorkflowID())
}
