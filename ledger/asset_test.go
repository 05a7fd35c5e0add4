package ledger_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

func mustAsset(t testing.TB, s string) ledger.Asset {
	t.Helper()
	asset, err := ledger.ParseAsset(s)
	require.NoError(t, err)
	return asset
}

func requireInvalid(t testing.TB, field string, err error) {
	t.Helper()
	var invalid *ledger.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field)
	require.NotEmpty(t, invalid.Reason)
}

func TestParseAsset(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in, want string // want "": refused
		scale    int
	}{
		{"USD/2", "USD/2", 2},
		{"USD", "USD/2", 2},
		{"JPY", "JPY/0", 0}, // case 44: Paymenter#1258
		{"KWD", "KWD/3", 3}, // case 46: woocommerce-gateway-stripe#2720
		{"BHD", "BHD/3", 3},
		{"POINTS/0", "POINTS/0", 0},
		{"ETH/18", "ETH/18", 18},
		{"X_1/38", "X_1/38", 38},
		{"USD/3", "USD/3", 3}, // another asset than USD/2
		{in: ""},              // case 55: blnk#65
		{in: " "},
		{in: "POINTS"}, // no scale to guess
		{in: "usd"},
		{in: "USD/"},
		{in: "USD/02"},
		{in: "USD/+2"},
		{in: "USD/-1"},
		{in: "USD/39"},
		{in: "USD/256"},
		{in: "USD/2/2"},
		{in: "/2"},
		{in: "1UP/0"},
		{in: "US D/2"},
		{in: "ÜSD/2"},
		{in: strings.Repeat("A", 17) + "/0"},
	} {
		t.Run(test.in, func(t *testing.T) {
			t.Parallel()
			got, err := ledger.ParseAsset(test.in)
			if test.want == "" {
				requireInvalid(t, "asset", err)
				require.True(t, got.IsZero())
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got.String())
			require.Equal(t, test.scale, got.Scale())
			require.Equal(t, test.want, got.Code()+test.want[strings.IndexByte(test.want, '/'):])
			again, err := ledger.ParseAsset(got.String())
			require.NoError(t, err)
			require.Equal(t, map[ledger.Asset]bool{got: true}, map[ledger.Asset]bool{again: true}, "assets are comparable")
		})
	}
}

func TestAssetZero(t *testing.T) {
	t.Parallel()
	var zero ledger.Asset
	require.True(t, zero.IsZero())
	require.Empty(t, zero.String())
}

func FuzzParseAsset(f *testing.F) {
	for _, seed := range []string{"USD", "USD/2", "POINTS/0", "ETH/18", "usd", "/", "A/0/0", "\x00/1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		asset, err := ledger.ParseAsset(s)
		if err != nil {
			var invalid *ledger.InvalidError
			require.ErrorAs(t, err, &invalid)
			return
		}
		again, err := ledger.ParseAsset(asset.String())
		require.NoError(t, err)
		require.Equal(t, asset, again)
	})
}
