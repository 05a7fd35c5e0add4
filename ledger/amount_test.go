package ledger_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"payonce/ledger"
)

func mustAmount(t testing.TB, s string, asset ledger.Asset) ledger.Amount {
	t.Helper()
	amount, err := ledger.ParseSignedAmount(s, asset)
	require.NoError(t, err)
	return amount
}

const nines38 = "99999999999999999999999999999999999999"

func TestParseAmount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		asset, in string
		units     string // "": refused
		format    string
	}{
		{"USD/2", "10", "1000", "10.00"},
		{"USD/2", "10.00", "1000", "10.00"},
		{"USD/2", "10.5", "1050", "10.50"},
		{"USD/2", "0.01", "1", "0.01"},
		{"USD/2", "0", "0", "0.00"},
		{"USD/2", "000.10", "10", "0.10"},
		{"JPY", "80", "80", "80"}, // case 44: Paymenter#1258
		{asset: "JPY", in: "80.5"},
		{asset: "JPY", in: "80.0"},
		{"KWD", "1.234", "1234", "1.234"}, // case 46: woocommerce-gateway-stripe#2720
		{asset: "KWD", in: "1.2345"},
		{"BHD", "0.001", "1", "0.001"},
		{"ETH/18", "1.000000000000000001", "1000000000000000001", "1.000000000000000001"},
		// case 48: numscript PR#156: exact above 2^53, 2^63 and 2^64.
		{"POINTS/0", "9007199254740993", "9007199254740993", "9007199254740993"},
		{"POINTS/0", "9223372036854775808", "9223372036854775808", "9223372036854775808"},
		{"POINTS/0", "18446744073709551617", "18446744073709551617", "18446744073709551617"},
		{"POINTS/0", nines38, nines38, nines38},
		{"X/38", "0." + nines38, nines38, "0." + nines38},
		{asset: "POINTS/0", in: nines38 + "0"},
		{asset: "X/38", in: "1"},
		{asset: "USD/2", in: "1000000000000000000000000000000000000"},
		{"USD/2", "999999999999999999999999999999999999.99", nines38, "999999999999999999999999999999999999.99"},
		{"USD/2", strings.Repeat("0", 100) + "1", "100", "1.00"},
		// case 50: hyperswitch PR#11491: a sign is not read where an amount is.
		{asset: "USD/2", in: "-1"},
		{asset: "USD/2", in: "+1"},
		{asset: "USD/2", in: ""},
		{asset: "USD/2", in: "."},
		{asset: "USD/2", in: ".5"},
		{asset: "USD/2", in: "5."},
		{asset: "USD/2", in: "1.2.3"},
		{asset: "USD/2", in: "1e3"},
		{asset: "USD/2", in: "0x10"},
		{asset: "USD/2", in: "1,000"},
		{asset: "USD/2", in: "1_000"},
		{asset: "USD/2", in: " 1"},
		{asset: "USD/2", in: "1 "},
		{asset: "USD/2", in: "1.001"},
		{asset: "USD/2", in: "NaN"},
		{asset: "USD/2", in: "Infinity"},
		{asset: "USD/2", in: "١٢"}, // digits of another script
		{asset: "USD/2", in: "1\x00"},
	} {
		t.Run(test.asset+" "+test.in, func(t *testing.T) {
			t.Parallel()
			asset := mustAsset(t, test.asset)
			got, err := ledger.ParseAmount(test.in, asset)
			if test.units == "" {
				requireInvalid(t, "amount", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.units, got.String())
			require.Equal(t, test.format, got.Format(asset))
			again, err := ledger.ParseAmount(got.Format(asset), asset)
			require.NoError(t, err)
			require.Zero(t, got.Cmp(again))
		})
	}
}

func TestParseSignedAmount(t *testing.T) {
	t.Parallel()
	usd := mustAsset(t, "USD/2")
	require.Equal(t, "-10000", mustAmount(t, "-100.00", usd).String())
	require.Equal(t, "-100.00", mustAmount(t, "-100", usd).Format(usd))
	require.Equal(t, "-0.05", mustAmount(t, "-0.05", usd).Format(usd))
	require.Equal(t, "0", mustAmount(t, "-0", usd).String(), "there is one zero")
	for _, in := range []string{"--1", "-", "- 1", "+1", "−1"} {
		_, err := ledger.ParseSignedAmount(in, usd)
		requireInvalid(t, "amount", err)
	}
}

func TestParseUnits(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"0", "1", "-1", "999999999999999999", "-999999999999999999", "1000000000000000000", "9223372036854775808", nines38, "-" + nines38,
	} {
		got, ok := ledger.ParseUnits(in)
		require.True(t, ok, in)
		require.Equal(t, in, got.String())
	}
	for _, in := range []string{"", "-", "-0", "00", "01", "+1", "1.0", " 1", "1e3", "--1", nines38 + "0", "a"} {
		_, ok := ledger.ParseUnits(in)
		require.False(t, ok, in)
	}
}

func TestAmountArithmetic(t *testing.T) {
	t.Parallel()
	most, ok := ledger.ParseUnits(nines38)
	require.True(t, ok)
	one := ledger.AmountFromUnits(1)

	_, ok = most.Add(one)
	require.False(t, ok, "39 digits")
	_, ok = most.Neg().Sub(one)
	require.False(t, ok, "39 digits below zero")
	sum, ok := most.Add(one.Neg())
	require.True(t, ok)
	require.Equal(t, -1, sum.Cmp(most))
	require.Equal(t, nines38, most.String(), "no method changes an amount")

	_, ok = ledger.AmountFromBig(new(big.Int).Exp(big.NewInt(10), big.NewInt(38), nil))
	require.False(t, ok)
	n := big.NewInt(7)
	seven, ok := ledger.AmountFromBig(n)
	require.True(t, ok)
	n.SetInt64(8)
	seven.Big().SetInt64(9)
	require.Equal(t, "7", seven.String(), "the number is copied, in and out")
	require.Equal(t, []int{1, 0, -1}, []int{one.Sign(), ledger.Amount{}.Sign(), one.Neg().Sign()})
}

func TestAmountAgreesWithBig(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *big.Int {
			n, ok := new(big.Int).SetString(rapid.StringMatching(`-?[1-9][0-9]{0,37}`).Draw(t, label), 10)
			require.True(t, ok)
			return n
		}
		x, y := draw("x"), draw("y")
		a, ok := ledger.AmountFromBig(x)
		require.True(t, ok)
		b, ok := ledger.AmountFromBig(y)
		require.True(t, ok)
		check := func(got ledger.Amount, ok bool, want *big.Int) {
			if fits := len(new(big.Int).Abs(want).String()) <= ledger.AmountDigitsMax; !fits {
				require.False(t, ok)
				return
			}
			require.True(t, ok)
			require.Equal(t, want.String(), got.String())
			require.Zero(t, want.Cmp(got.Big()))
		}
		sum, ok := a.Add(b)
		check(sum, ok, new(big.Int).Add(x, y))
		difference, ok := a.Sub(b)
		check(difference, ok, new(big.Int).Sub(x, y))
		check(a.Neg(), true, new(big.Int).Neg(x))
		require.Equal(t, x.Cmp(y), a.Cmp(b))
		read, ok := ledger.ParseUnits(x.String())
		check(read, ok, x)
	})
}

func FuzzParseAmount(f *testing.F) {
	for _, seed := range []string{"10", "10.00", "0.001", "-1", "1e5", "1,0", nines38, "..", "00.10"} {
		f.Add(seed, uint8(2))
	}
	f.Fuzz(func(t *testing.T, s string, scale uint8) {
		asset := mustAsset(t, "X/"+big.NewInt(int64(scale%(ledger.AssetScaleMax+1))).String())
		amount, err := ledger.ParseAmount(s, asset)
		if err != nil {
			var invalid *ledger.InvalidError
			require.ErrorAs(t, err, &invalid)
			return
		}
		// What is read is exactly the number that is written.
		want, ok := new(big.Rat).SetString(s)
		require.True(t, ok)
		want.Mul(want, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(asset.Scale())), nil)))
		require.True(t, want.IsInt())
		require.Equal(t, want.Num().String(), amount.String())
		again, err := ledger.ParseAmount(amount.Format(asset), asset)
		require.NoError(t, err)
		require.Zero(t, amount.Cmp(again))
	})
}

func FuzzParseSignedAmount(f *testing.F) {
	for _, seed := range []string{"0", "-0", "-100.00", "--1", "-", "+1", " 1", "-.5", nines38} {
		f.Add(seed, uint8(2))
	}
	f.Fuzz(func(t *testing.T, s string, scale uint8) {
		asset := mustAsset(t, "X/"+big.NewInt(int64(scale%(ledger.AssetScaleMax+1))).String())
		amount, err := ledger.ParseSignedAmount(s, asset)
		if err != nil {
			var invalid *ledger.InvalidError
			require.ErrorAs(t, err, &invalid)
			return
		}
		unsigned, err := ledger.ParseAmount(strings.TrimPrefix(s, "-"), asset)
		require.NoError(t, err)
		if strings.HasPrefix(s, "-") {
			unsigned = unsigned.Neg()
		}
		require.Zero(t, unsigned.Cmp(amount))
		again, err := ledger.ParseSignedAmount(amount.Format(asset), asset)
		require.NoError(t, err)
		require.Zero(t, amount.Cmp(again))
	})
}

func FuzzParseUnits(f *testing.F) {
	for _, seed := range []string{"0", "-0", "00", "-1", "1_000", "9223372036854775808", nines38, "-" + nines38, "1" + nines38, "１"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		amount, ok := ledger.ParseUnits(s)
		if ok {
			require.Equal(t, s, amount.String(), "a number has one spelling")
		}
	})
}
