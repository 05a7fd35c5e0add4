package httprail

import (
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/activities"
)

// TestPrivateCA: a rail's certificate must be signed by the CA that is set, or by one that the system trusts.
func TestPrivateCA(t *testing.T) {
	t.Parallel()
	settled := answering(200, "application/json", `{"reference":"rent-7","status":"settled","amount":"10.00","asset":"USD/2"}`)
	bank := httptest.NewUnstartedServer(settled)
	bank.EnableHTTP2 = true
	bank.Config.ErrorLog = log.New(io.Discard, "", 0)
	bank.StartTLS()
	t.Cleanup(bank.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: bank.Certificate().Raw}), 0o600))

	from := func(v variables) *Rail {
		all, wrong := readSettings(v)
		require.Empty(t, wrong)
		rail, err := New(all[0])
		require.NoError(t, err)
		t.Cleanup(rail.Close)
		return rail
	}
	got, err := from(variables{"RAILS": "bank=" + bank.URL, "RAIL_BANK_TOKEN": token, "RAIL_BANK_CA_FILE": file}).Submit(t.Context(), payment())
	require.NoError(t, err)
	require.Equal(t, activities.RailSettled, got.State)

	_, err = from(variables{"RAILS": "bank=" + bank.URL, "RAIL_BANK_TOKEN": token}).Submit(t.Context(), payment())
	e := asError(t, err)
	require.Equal(t, ReasonUnreachable, e.Reason)
	require.True(t, e.Outage())
	require.Contains(t, e.Error(), "certificate")
}
