package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/ledger"
)

// FuzzAccountOpen reads settings of a new account as a person may type them: they are well formed, or an error of the input.
func FuzzAccountOpen(f *testing.F) {
	f.Add("us/alice", "USD", "", "")
	f.Add("alice", "JPY/0", "none", "none")
	f.Add("eu/bob", "ETH/18", "-100.000000000000000001", "1e3")
	f.Add("transit:eu", "usd", "-", "NONE")
	f.Add("us/", "USD/39", "5", "-5")
	f.Fuzz(func(t *testing.T, account, asset, floor, ceiling string) {
		err := checkOpen(activities.AccountOpenInput{Account: account, Asset: asset, Floor: floor, Ceiling: ceiling})
		if err != nil {
			require.Equal(t, exitUsage, exitOf(err), "%v", err)
			return
		}
		parsed, err := ledger.ParseAsset(asset)
		require.NoError(t, err)
		for _, limit := range []string{floor, ceiling} {
			if limit != "" && limit != activities.LimitNone {
				_, err := ledger.ParseSignedAmount(limit, parsed)
				require.NoError(t, err)
			}
		}
		// What opens an account also fits to set it.
		require.NoError(t, checkSet(activities.AccountSetInput{Account: account, Status: "open", Floor: floor, Ceiling: ceiling}))
	})
}

// FuzzAccountSet reads settings of an account whose asset is not known: they are of some asset, or an error of the input.
func FuzzAccountSet(f *testing.F) {
	f.Add("us/alice", "frozen", "", "")
	f.Add("alice", "", "none", "0.5")
	f.Add("eu/bob", "OPEN", "-0.", ".5")
	f.Add("eu/bob", "", "1.00000000000000000000000000000000000000000000000", "--1")
	f.Fuzz(func(t *testing.T, account, status, floor, ceiling string) {
		err := checkSet(activities.AccountSetInput{Account: account, Status: status, Floor: floor, Ceiling: ceiling})
		if err != nil {
			require.Equal(t, exitUsage, exitOf(err), "%v", err)
			return
		}
		_, err = ledger.ParseAccountRef("account", account)
		require.NoError(t, err)
		require.False(t, status == "" && floor == "" && ceiling == "", "there is something to set")
	})
}

// FuzzParseMoment reads times as a person may type them: what is read is the moment that is written.
func FuzzParseMoment(f *testing.F) {
	for _, seed := range []string{"", "2006-01-02", "2006-01-02T15:04:05Z", "2024-02-30", "2006-01-02T15:04:05.999999999+14:00", "0000-01-01", "99999-01-01"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		moment, err := parseMoment("from", s)
		if err != nil {
			require.Equal(t, exitUsage, exitOf(err), "%v", err)
			return
		}
		if s == "" {
			require.Nil(t, moment)
			return
		}
		again, err := parseMoment("from", moment.Format(time.RFC3339Nano))
		require.NoError(t, err)
		require.True(t, moment.Equal(*again), "%s and %s", moment, again)
	})
}
