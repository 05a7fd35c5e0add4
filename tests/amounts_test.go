package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"payonce/tests/harness"
	"payonce/workflows"
)

// Amounts are exact or refused, from the command line to the ledger and back.
func TestAmounts(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	nines := strings.Repeat("9", 38)
	for _, row := range []struct {
		name   string
		asset  string
		amount string
		arrive string
	}{
		// Case 44 (Paymenter#1258): yen have no decimals, and are not multiplied by 100.
		{"yen", "JPY", "80", "80"},
		// Case 46 (woocommerce-gateway-stripe#2720): dinars have three.
		{"dinars", "KWD", "1.234", "1.234"},
		{"dinars of Bahrain", "BHD", "0.001", "0.001"},
		// Case 48 (numscript PR#156): what a float can't hold is exact.
		{"2^53 + 1", "P53/0", "9007199254740993", "9007199254740993"},
		{"2^53 + 1 cents", "USD", "90071992547409.93", "90071992547409.93"},
		{"2^64 + 1", "P64/0", "18446744073709551617", "18446744073709551617"},
		{"38 digits", "P38/0", nines, nines},
		{"38 digits with decimals", "ETH/18", "12345678901234567890.123456789012345678", "12345678901234567890.123456789012345678"},
		{"a pure fraction of 38 digits", "DUST/38", "0." + nines, "0." + nines},
		{"fewer decimals than the asset has", "USD", "7.5", "7.50"},
		{"leading zeros", "USD", "007", "7.00"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, to := range []string{w.AccountIn(t, "us", row.asset, ""), w.AccountIn(t, "eu", row.asset, "")} {
				in := workflows.TransferInput{ID: w.Unique("exact"), From: unlimited(t, w, row.asset), To: to, Amount: row.amount, Asset: row.asset}
				result := w.CLITransfer(t, in)
				require.Equal(t, exitDone, result.Code)
				require.Equal(t, row.arrive, result.Transfer(t).Amount)
				require.Equal(t, row.arrive, w.Balance(t, to))
				shown := w.CLI(t, "account", "show", to)
				require.Equal(t, row.arrive, shown.Document(t)["balance"], "a decimal string")
			}
		})
	}
}

// unlimited opens one more account that money comes from.
func unlimited(t *testing.T, w *harness.World, asset string) string {
	t.Helper()
	name := "us/" + w.Unique("world")
	require.Equal(t, exitDone, w.CLI(t, "account", "open", name, "--asset", asset, "--floor", "none").Code)
	return name
}

// Malformed amounts are refused at the edge, by the command line, and by the workflow for clients that skip it; nothing is
// recorded. Case 50 (hyperswitch PR#11491): a negative amount does not reverse the flow.
func TestMalformedAmounts(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	for _, row := range []struct{ asset, amount, says string }{
		{"JPY", "80.5", "has 1 decimal digits; JPY/0 has 0"},
		{"JPY", "80.0", "has 1 decimal digits; JPY/0 has 0"},
		{"KWD", "1.2345", "has 4 decimal digits; KWD/3 has 3"},
		{"USD", "-1", "not a plain decimal number"},
		{"USD", "-0", "not a plain decimal number"},
		{"USD", "+1", "not a plain decimal number"},
		{"USD", "1e3", "not a plain decimal number"},
		{"USD", "1,000", "not a plain decimal number"},
		{"USD", "1_000", "not a plain decimal number"},
		{"USD", " 1", "not a plain decimal number"},
		{"USD", "1 ", "not a plain decimal number"},
		{"USD", "1.", "not a plain decimal number"},
		{"USD", ".5", "not a plain decimal number"},
		{"USD", "0x10", "not a plain decimal number"},
		{"USD", "NaN", "not a plain decimal number"},
		{"USD", "١", "not a plain decimal number"},
		{"USD", "0", "above zero"},
		{"USD", "0.00", "above zero"},
		{"POINTS/0", "1" + strings.Repeat("0", 38), "more than 38 digits"},
		{"USD", "1" + strings.Repeat("0", 36), "more than 38 digits"},
		{"", "1", "an asset is required"},
		{"usd", "1", "capital letters"},
		{"XXQ", "1", "not an ISO 4217 code"},
		{"USD/02", "1", "the scale"},
		{"USD/39", "1", "the scale"},
	} {
		t.Run(row.asset+" "+row.amount, func(t *testing.T) {
			t.Parallel()
			in := workflows.TransferInput{ID: w.Unique("malformed"), From: "us/alice", To: "us/bob", Amount: row.amount, Asset: row.asset}
			refused := w.CLITransfer(t, in)
			require.Equal(t, exitUsage, refused.Code)
			require.Contains(t, refused.Failure(t).Error, row.says)

			err := w.Start(t, in).Get(t.Context(), nil)
			var failure *temporal.ApplicationError
			require.ErrorAs(t, err, &failure)
			require.Equal(t, workflows.ErrorInvalidInput, failure.Type())
			require.Contains(t, failure.Message(), row.says)
			require.Empty(t, w.Steps(t, in.ID))
		})
	}
}

// A balance never has more than 38 digits: what would lift it above is refused, and never wraps around.
func TestBalanceOverflow(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	nines := strings.Repeat("9", 38)
	full := w.AccountIn(t, "us", "POINTS/0", nines)
	for _, from := range []string{unlimited(t, w, "POINTS/0"), w.AccountIn(t, "eu", "POINTS/0", "5")} {
		in := workflows.TransferInput{ID: w.Unique("overflow"), From: from, To: full, Amount: "1", Asset: "POINTS/0"}
		refused := w.CLITransfer(t, in)
		if strings.HasPrefix(from, "us/") {
			require.Equal(t, exitRejected, refused.Code)
		} else {
			require.Equal(t, exitFailed, refused.Code, "it has left eu, and is back")
		}
		require.Equal(t, "balance_overflow", string(refused.Transfer(t).Code))
		require.Equal(t, nines, w.Balance(t, full))
	}
}
