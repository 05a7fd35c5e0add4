package tests

import (
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/ledger"
	"payonce/tests/harness"
	"payonce/workflows"
)

// The exit codes of starter.
const (
	exitDone      = 0
	exitInternal  = 1
	exitUsage     = 2
	exitRejected  = 3
	exitFailed    = 4
	exitPending   = 5
	exitDifferent = 6
)

// party is one side of a transfer: an account to open, as it is when the transfer begins.
type party struct {
	asset   string // "" is USD
	funds   string
	status  string
	ceiling string
	unknown bool // there is no such account
}

func (p party) open(t *testing.T, w *harness.World, ledgerName string) string {
	t.Helper()
	if p.unknown {
		return ledgerName + "/" + w.Unique("nobody")
	}
	if p.asset == "" {
		p.asset = "USD"
	}
	account := w.AccountIn(t, ledgerName, p.asset, p.funds)
	if p.status != "" || p.ceiling != "" {
		w.Set(t, activities.AccountSetInput{Account: account, Status: p.status, Ceiling: p.ceiling})
	}
	return account
}

// Each business end of a transfer, with its exit code, what the ledgers have recorded, and where the money is; and the same
// again when it is asked for again.
func TestEnds(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})

	const us, eu = "us", "eu"
	funded := party{funds: "20.00"}
	for _, row := range []struct {
		name     string
		from, to party
		toLedger string
		exit     int
		state    workflows.State
		code     ledger.Code
		steps    []string
	}{
		{"one ledger", funded, party{}, us, exitDone, workflows.StateCompleted, "", []string{"us post applied"}},
		{"one ledger, source unknown", party{unknown: true}, party{}, us, exitRejected, workflows.StateRejected, ledger.CodeAccountUnknown, []string{"us post refused account_unknown"}},
		{"one ledger, source frozen", party{funds: "20", status: "frozen"}, party{}, us, exitRejected, workflows.StateRejected, ledger.CodeAccountFrozen, []string{"us post refused account_frozen"}},
		{"one ledger, source closed", party{status: "closed"}, party{}, us, exitRejected, workflows.StateRejected, ledger.CodeAccountClosed, []string{"us post refused account_closed"}},
		{"one ledger, insufficient", party{funds: "9.99"}, party{}, us, exitRejected, workflows.StateRejected, ledger.CodeInsufficientFunds, []string{"us post refused insufficient_funds"}},
		// Case 55 (blnk#65): another currency is refused, and never converted or taken for the same.
		{"one ledger, source has another asset", party{funds: "20", asset: "EUR"}, party{}, us, exitRejected, workflows.StateRejected, ledger.CodeAssetMismatch, []string{"us post refused asset_mismatch"}},
		{"one ledger, destination unknown", funded, party{unknown: true}, us, exitRejected, workflows.StateRejected, ledger.CodeAccountUnknown, []string{"us post refused account_unknown"}},
		{"one ledger, destination frozen", funded, party{status: "frozen"}, us, exitRejected, workflows.StateRejected, ledger.CodeAccountFrozen, []string{"us post refused account_frozen"}},
		{"one ledger, destination closed", funded, party{status: "closed"}, us, exitRejected, workflows.StateRejected, ledger.CodeAccountClosed, []string{"us post refused account_closed"}},
		{"one ledger, destination full", funded, party{funds: "5", ceiling: "14.99"}, us, exitRejected, workflows.StateRejected, ledger.CodeCeilingExceeded, []string{"us post refused ceiling_exceeded"}},
		{"one ledger, destination has another scale", funded, party{asset: "USD/3"}, us, exitRejected, workflows.StateRejected, ledger.CodeAssetMismatch, []string{"us post refused asset_mismatch"}},

		{"two ledgers", funded, party{}, eu, exitDone, workflows.StateCompleted, "", []string{"us withdraw applied", "eu deposit applied"}},
		{"two ledgers, to the last unit", party{funds: "10.00"}, party{ceiling: "10"}, eu, exitDone, workflows.StateCompleted, "", []string{"us withdraw applied", "eu deposit applied"}},
		{"two ledgers, source unknown", party{unknown: true}, party{}, eu, exitRejected, workflows.StateRejected, ledger.CodeAccountUnknown, []string{"us withdraw refused account_unknown"}},
		{"two ledgers, source frozen", party{funds: "20", status: "frozen"}, party{}, eu, exitRejected, workflows.StateRejected, ledger.CodeAccountFrozen, []string{"us withdraw refused account_frozen"}},
		{"two ledgers, source closed", party{status: "closed"}, party{}, eu, exitRejected, workflows.StateRejected, ledger.CodeAccountClosed, []string{"us withdraw refused account_closed"}},
		{"two ledgers, insufficient", party{funds: "9.99"}, party{}, eu, exitRejected, workflows.StateRejected, ledger.CodeInsufficientFunds, []string{"us withdraw refused insufficient_funds"}},
		{"two ledgers, source has another asset", party{funds: "20", asset: "EUR"}, party{}, eu, exitRejected, workflows.StateRejected, ledger.CodeAssetMismatch, []string{"us withdraw refused asset_mismatch"}},
		{"two ledgers, destination unknown", funded, party{unknown: true}, eu, exitFailed, workflows.StateCompensated, ledger.CodeAccountUnknown, compensated("account_unknown")},
		{"two ledgers, destination frozen", funded, party{status: "frozen"}, eu, exitFailed, workflows.StateCompensated, ledger.CodeAccountFrozen, compensated("account_frozen")},
		{"two ledgers, destination closed", funded, party{status: "closed"}, eu, exitFailed, workflows.StateCompensated, ledger.CodeAccountClosed, compensated("account_closed")},
		{"two ledgers, destination full", funded, party{funds: "5", ceiling: "14.99"}, eu, exitFailed, workflows.StateCompensated, ledger.CodeCeilingExceeded, compensated("ceiling_exceeded")},
		{"two ledgers, destination has another asset", funded, party{asset: "EUR"}, eu, exitFailed, workflows.StateCompensated, ledger.CodeAssetMismatch, compensated("asset_mismatch")},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			from, to := row.from.open(t, w, us), row.to.open(t, w, row.toLedger)
			in := workflows.TransferInput{ID: w.Unique("end"), From: from, To: to, Amount: "10", Asset: "USD"}
			before := present(t, w, row.from, from, row.to, to)

			first := w.CLITransfer(t, in)
			require.Equal(t, row.exit, first.Code)
			got := first.Transfer(t)
			require.Equal(t, row.state, got.State)
			require.Equal(t, row.code, got.Code)
			require.Equal(t, row.code == "", got.Detail == "", "what went wrong is told: %q", got.Detail)
			require.Equal(t, workflows.TransferResult{
				ID: in.ID, State: row.state, From: from, To: to, Amount: "10.00", Asset: "USD/2", Code: got.Code, Detail: got.Detail, Steps: got.Steps,
			}, got.TransferResult)
			require.Equal(t, new(false), got.Attached)
			require.Empty(t, got.Notes)
			require.Equal(t, row.steps, reported(got.Steps), "what is told")
			require.Equal(t, row.steps, w.Steps(t, in.ID), "what is in the ledgers")
			after := present(t, w, row.from, from, row.to, to)
			if row.state == workflows.StateCompleted {
				require.Equal(t, sum(t, before["from"], "-10.00"), after["from"])
				require.Equal(t, sum(t, before["to"], "10.00"), after["to"])
			} else {
				require.Equal(t, before, after, "no balance has changed")
			}

			// Case 2 (midaz#709): asked again, also for a refusal, it is the same end, and nothing moves.
			again := w.CLITransfer(t, in)
			require.Equal(t, row.exit, again.Code)
			gotAgain := again.Transfer(t)
			require.Equal(t, new(true), gotAgain.Attached)
			require.Equal(t, got.TransferResult, gotAgain.TransferResult)
			status := w.CLI(t, "status", in.ID)
			require.Equal(t, row.exit, status.Code)
			require.Equal(t, got.TransferResult, status.Transfer(t).TransferResult)
			require.Equal(t, row.steps, w.Steps(t, in.ID))
			require.Equal(t, after, present(t, w, row.from, from, row.to, to))
		})
	}
}

func compensated(code string) []string {
	return []string{"us withdraw applied", "us refund applied", "eu deposit refused " + code}
}

// present are the balances of those parties that are there.
func present(t *testing.T, w *harness.World, from party, fromAccount string, to party, toAccount string) map[string]string {
	t.Helper()
	balances := make(map[string]string)
	if !from.unknown {
		balances["from"] = w.Balance(t, fromAccount)
	}
	if !to.unknown {
		balances["to"] = w.Balance(t, toAccount)
	}
	return balances
}

// reported are the steps of a result in the words and the order of World.Steps: the source's, then the destination's.
func reported(reports []workflows.StepReport) []string {
	steps := []string{}
	for _, ledgerName := range []string{"us", "eu"} {
		for _, r := range reports {
			if r.Ledger == ledgerName {
				o := harness.Operation{Ledger: r.Ledger, Step: string(r.Step), State: string(r.State), Code: string(r.Code)}
				steps = append(steps, o.String())
			}
		}
	}
	return steps
}

// sum adds two amounts of USD.
func sum(t *testing.T, a, b string) string {
	t.Helper()
	usd, err := ledger.ParseAsset("USD")
	require.NoError(t, err)
	x, err := ledger.ParseSignedAmount(a, usd)
	require.NoError(t, err)
	y, err := ledger.ParseSignedAmount(b, usd)
	require.NoError(t, err)
	total, ok := x.Add(y)
	require.True(t, ok)
	return total.Format(usd)
}
