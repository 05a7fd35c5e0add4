package httprail

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/internal/secret"
)

// variables is an environment.
type variables map[string]string

func (v variables) LookupEnv(name string) (string, bool) {
	value, ok := v[name]
	return value, ok
}

func (v variables) Environ() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		all = append(all, name+"="+v[name])
	}
	return all
}

// readSettings returns what is wrong, a line each.
func readSettings(v variables) (all []Settings, wrong []string) {
	all = ReadSettings(v, func(variable, reason string) { wrong = append(wrong, variable+": "+reason) })
	return all, wrong
}

func TestReadSettings(t *testing.T) {
	t.Parallel()
	got, wrong := readSettings(variables{
		"RAILS":                     " bank = https://bank.example/v1/ ,\n my-card=http://127.0.0.1:8480,dev=http://railsim:8480/v1",
		"RAIL_BANK_TOKEN":           token,
		"RAIL_BANK_KEYS_KEPT":       "23h",
		"RAIL_MY_CARD_HMAC_SECRET":  hmacSecret,
		"RAIL_MY_CARD_TOKEN":        token,
		"RAIL_DEV_TOKEN":            token,
		"RAIL_DEV_PLAIN_HTTP":       "true",
		"RAIL_BNAK_TOKEN":           "",
		"RAILS_ENV":                 "production",
		"UNRELATED_RAIL_BANK_TOKEN": "x",
	})
	require.Empty(t, wrong)
	require.Equal(t, []Settings{
		{Name: "bank", URL: "https://bank.example/v1", Token: token, KeysKept: 23 * time.Hour, Timeouts: DefaultTimeouts()},
		{
			Name: "my-card", URL: "http://127.0.0.1:8480", Token: token, HMACSecret: hmacSecret, KeysKept: 12 * time.Hour,
			Timeouts: DefaultTimeouts(),
		},
		{Name: "dev", URL: "http://railsim:8480/v1", Token: token, PlainHTTP: true, KeysKept: 12 * time.Hour, Timeouts: DefaultTimeouts()},
	}, got)
	for _, s := range got {
		rail, err := New(s)
		require.NoError(t, err)
		rail.Close()
	}

	got, wrong = readSettings(variables{})
	require.Empty(t, wrong)
	require.Empty(t, got)
}

func TestWrongSettings(t *testing.T) {
	t.Parallel()
	const password = "tr0ub4dor"
	noPEM := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(noPEM, []byte("no certificate"), 0o600))
	for name, test := range map[string]struct {
		change variables
		want   string
	}{
		"no name":               {variables{"RAILS": "https://u:" + password + "@bank.example"}, "RAILS: entry 1 has no name"},
		"a malformed name":      {variables{"RAILS": "bank=https://b.example,BANK=https://b.example"}, "RAILS: entry 2 has no name"},
		"a name twice":          {variables{"RAILS": "bank=https://b.example,bank=https://b.example"}, "RAILS: the rail bank is there twice"},
		"a comma at the end":    {variables{"RAILS": "bank=https://b.example,"}, "RAILS: entry 2 has no name"},
		"no URL":                {variables{"RAILS": "bank=" + password}, "RAILS: the rail bank: its URL can't be read"},
		"an unreadable URL":     {variables{"RAILS": "bank=https://" + password + "\x7f/"}, "RAILS: the rail bank: its URL can't be read"},
		"a password in the URL": {variables{"RAILS": "bank=https://u:" + password + "@b.example"}, "RAILS: the rail bank: its URL must not have a user"},
		"a query":               {variables{"RAILS": "bank=https://b.example/?key=" + password}, "RAILS: the rail bank: its URL must end with its path"},
		"another scheme":        {variables{"RAILS": "bank=ftp://b.example"}, "RAILS: the rail bank: its URL must begin with https://"},
		"http":                  {variables{"RAILS": "bank=http://b.example"}, "RAILS: the rail bank: its URL must begin with https://: http would show"},
		"http to what looks like this machine": {
			variables{"RAILS": "bank=http://127.0.0.1.b.example"}, "RAILS: the rail bank: its URL must begin with https://: http would show",
		},
		"nothing to show":         {variables{"RAIL_BANK_TOKEN": ""}, "RAIL_BANK_TOKEN: set it, or RAIL_BANK_HMAC_SECRET, or both"},
		"a token with a blank":    {variables{"RAIL_BANK_TOKEN": password + " x"}, "RAIL_BANK_TOKEN: it has a blank"},
		"a token with a break":    {variables{"RAIL_BANK_TOKEN": password + "\r\nX: y"}, "RAIL_BANK_TOKEN: it has a blank"},
		"a secret that is short":  {variables{"RAIL_BANK_HMAC_SECRET": password}, "RAIL_BANK_HMAC_SECRET: it has 9 bytes; at least 32"},
		"no such file":            {variables{"RAIL_BANK_CA_FILE": "/no/such.pem"}, "RAIL_BANK_CA_FILE: open /no/such.pem"},
		"a file without PEM":      {variables{"RAIL_BANK_CA_FILE": noPEM}, "has no certificate in PEM form"},
		"no duration":             {variables{"RAIL_BANK_KEYS_KEPT": "12"}, `RAIL_BANK_KEYS_KEPT: "12" is not a duration above zero`},
		"no time":                 {variables{"RAIL_BANK_KEYS_KEPT": "0s"}, `RAIL_BANK_KEYS_KEPT: "0s" is not a duration above zero`},
		"neither true nor false":  {variables{"RAIL_BANK_PLAIN_HTTP": "1"}, `RAIL_BANK_PLAIN_HTTP: "1" is not true or false`},
		"a misspelt rail":         {variables{"RAIL_BNAK_CA_FILE": password}, "RAIL_BNAK_CA_FILE: no rail of RAILS has such a setting"},
		"a misspelt setting":      {variables{"RAIL_BANK_CAFILE": password}, "RAIL_BANK_CAFILE: no rail of RAILS has such a setting"},
		"settings without a rail": {variables{"RAILS": ""}, "RAIL_BANK_TOKEN: no rail of RAILS has such a setting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := variables{"RAILS": "bank=https://bank.example/v1", "RAIL_BANK_TOKEN": token}
			maps.Copy(v, test.change)
			_, wrong := readSettings(v)
			all := strings.Join(wrong, "\n")
			require.Contains(t, all, test.want)
			assert.NotContains(t, all, password)
			assertNoSecret(t, all)
		})
	}

	t.Run("all at once", func(t *testing.T) {
		t.Parallel()
		_, wrong := readSettings(variables{"RAILS": "bank=http://b.example,=x", "RAIL_BANK_KEYS_KEPT": "x", "RAIL_Y": "x"})
		require.Len(t, wrong, 5, wrong)
	})
}

func TestNewChecksTheAddress(t *testing.T) {
	t.Parallel()
	_, err := New(Settings{Name: "bank", URL: "http://bank.example", Token: token})
	require.ErrorContains(t, err, "rail bank: its URL must begin with https://")
}

func TestSecretsOfSettingsAreNeverShown(t *testing.T) {
	t.Parallel()
	s := Settings{Name: "bank", URL: "https://bank.example/v1", Token: token, HMACSecret: hmacSecret}
	rail, err := New(s)
	require.NoError(t, err)
	defer rail.Close()
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb+verb+"\n", s, &s, rail, []*Rail{rail})
	}
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	out.Write(raw)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("all", "settings", s, "token", s.Token, "rail", rail)
	assertNoSecret(t, out.String())
	require.NotContains(t, out.String(), fmt.Sprintf("%x", token))
	require.Equal(t, token, secret.Text(token).Reveal())
}
