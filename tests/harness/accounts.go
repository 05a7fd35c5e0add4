package harness

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/starter/asking"
	"payonce/workflows"
)

// Account opens an account for USD on a ledger, gives it money if funds are not empty, and returns its name: "us/account-3".
// A worker must be running, here and for all that opens, sets or funds accounts.
func (w *World) Account(t testing.TB, ledger, funds string) string {
	t.Helper()
	return w.AccountIn(t, ledger, "USD", funds)
}

// AccountIn is Account for any asset.
func (w *World) AccountIn(t testing.TB, ledger, asset, funds string) string {
	t.Helper()
	name := ledger + "/" + w.Unique("account")
	w.Open(t, activities.AccountOpenInput{Account: name, Asset: asset})
	if funds != "" {
		w.Fund(t, name, asset, funds)
	}
	return name
}

// Open opens an account.
func (w *World) Open(t testing.TB, in activities.AccountOpenInput) activities.AccountView {
	t.Helper()
	return ask[activities.AccountView](t, w, workflows.AccountOpenWorkflow, in)
}

// Set writes settings of an account.
func (w *World) Set(t testing.TB, in activities.AccountSetInput) activities.AccountView {
	t.Helper()
	return ask[activities.AccountView](t, w, workflows.AccountSetWorkflow, in)
}

// Fund gives an account money, from an unlimited account of its own ledger.
func (w *World) Fund(t testing.TB, account, asset, amount string) {
	t.Helper()
	ledger, _, _ := strings.Cut(account, "/")
	result, err := w.Transfers.Transfer(Within(t, patience), workflows.TransferInput{
		ID: w.Unique("fund"), From: w.Source(t, ledger, asset), To: account, Amount: amount, Asset: asset,
	})
	require.NoError(t, err)
	require.Equal(t, workflows.StateCompleted, result.State, "%+v", result)
}

// Source is the account of a ledger that money of an asset comes from: it is unlimited.
func (w *World) Source(t testing.TB, ledger, asset string) string {
	t.Helper()
	name := ledger + "/world-" + strings.ReplaceAll(asset, "/", "-")
	w.mu.Lock()
	opened := w.opened[name]
	w.mu.Unlock()
	if !opened {
		// Two at once open it twice, which is the same as once.
		w.Open(t, activities.AccountOpenInput{Account: name, Asset: asset, Floor: activities.LimitNone})
		w.mu.Lock()
		w.opened[name] = true
		w.mu.Unlock()
	}
	return name
}

// ask has a worker answer a question.
func ask[Answer any](t testing.TB, w *World, workflow string, in any) Answer {
	t.Helper()
	answer, err := asking.Run[Answer](Within(t, patience), w.Temporal, asking.Question{Workflow: workflow, Name: "harness/" + workflow, Input: in})
	require.NoError(t, err, "%s %+v", workflow, in)
	return answer
}
