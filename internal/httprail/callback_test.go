package httprail

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/internal/secret"
)

const callbackBody = `{"event_id":"ev-1","reference":"rent-7","payout":{"reference":"rent-7","status":"returned","amount":"10.00",` +
	`"asset":"USD/2","rail_id":"rp-1","code":"AC04","detail":"closed","at":"2026-01-01T00:00:00Z"}}`

var callbackTime = time.Unix(1767225600, 0)

func callbackRail(t *testing.T, key secret.Text) *Rail {
	rail := railAt(t, "https://bank.example/v1", func(s *Settings) { s.HMACSecret = key })
	rail.now = func() time.Time { return callbackTime }
	return rail
}

func TestReadCallback(t *testing.T) {
	t.Parallel()
	rail := callbackRail(t, hmacSecret)
	// { printf 'payonce-callback\n1767225600\n'; printf %s "$BODY"; } | openssl dgst -sha256 -hmac "$SECRET"
	header := http.Header{"Payonce-Signature": {"t=1767225600,v1=d01d7041162b651baae01f59d83429916771e093392c9a4b5df3ee3c357d35af"}}
	got, err := rail.ReadCallback(header, []byte(callbackBody))
	require.NoError(t, err)
	require.Equal(t, Callback{
		EventID: "ev-1", Reference: "rent-7", Amount: "10.00", Asset: "USD/2",
		Answer: activities.RailAnswer{State: activities.RailReturned, RailID: "rp-1", Code: "AC04", Detail: "closed", At: callbackTime.UTC()},
	}, got)
}

// TestCallbacksOfOthersAreRefused: what is not certainly the rail's is not even read.
func TestCallbacksOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	signed := func(key secret.Text, at time.Time) string {
		return signature(key, at, signedCallback, callbackBody)
	}
	good := signed(hmacSecret, callbackTime)
	_, goodMAC, _ := strings.Cut(good, ",")
	for name, test := range map[string]struct {
		header, body string
		ok           bool
	}{
		"in order":                       {good, callbackBody, true},
		"almost too old":                 {signed(hmacSecret, callbackTime.Add(-5*time.Minute)), callbackBody, true},
		"almost too early":               {signed(hmacSecret, callbackTime.Add(5*time.Minute)), callbackBody, true},
		"with an old secret's first":     {"t=1767225600,v1=00ff," + goodMAC + ",v0=x", callbackBody, true},
		"no signature":                   {"", callbackBody, false},
		"too old":                        {signed(hmacSecret, callbackTime.Add(-5*time.Minute-time.Second)), callbackBody, false},
		"too early":                      {signed(hmacSecret, callbackTime.Add(5*time.Minute+time.Second)), callbackBody, false},
		"another secret":                 {signed("another-secret", callbackTime), callbackBody, false},
		"no secret":                      {signed("", callbackTime), callbackBody, false},
		"another body":                   {good, strings.Replace(callbackBody, "returned", "settled", 1), false},
		"another time":                   {"t=1767225601," + goodMAC, callbackBody, false},
		"two times":                      {"t=1767225600," + good, callbackBody, false},
		"no time":                        {goodMAC, callbackBody, false},
		"a time that is none":            {"t=now," + goodMAC, callbackBody, false},
		"no hex":                         {"t=1767225600,v1=zz", callbackBody, false},
		"an empty one":                   {"t=1767225600,v1=", callbackBody, false},
		"a request of ours":              {signature(hmacSecret, callbackTime, signedRequest, callbackBody), callbackBody, false},
		"a part of the right one":        {good[:len(good)-2], callbackBody, false},
		"the right one in capitals, too": {"t=1767225600,v1=" + strings.ToUpper(strings.TrimPrefix(goodMAC, "v1=")), callbackBody, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := callbackRail(t, hmacSecret).ReadCallback(http.Header{"Payonce-Signature": {test.header}}, []byte(test.body))
			if test.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrCallbackRefused)
			assertNoSecret(t, err.Error())
		})
	}

	t.Run("a rail without a secret takes none", func(t *testing.T) {
		t.Parallel()
		_, err := callbackRail(t, "").ReadCallback(http.Header{"Payonce-Signature": {signed("", callbackTime)}}, []byte(callbackBody))
		require.ErrorIs(t, err, ErrCallbackRefused)
	})
}

// TestMalformedCallbacks: signed by the rail, and not the contract's.
func TestMalformedCallbacks(t *testing.T) {
	t.Parallel()
	replaced := func(was, is string) string {
		require.Contains(t, callbackBody, was)
		return strings.Replace(callbackBody, was, is, 1)
	}
	for name, test := range map[string]struct{ body, want string }{
		"empty":                   {"", "it is not a JSON object"},
		"no event":                {replaced("event_id", "event"), "it has no event_id"},
		"no payout":               {replaced("payout", "pay"), "it has no payout"},
		"a payout that is a text": {`{"event_id":"e","reference":"r","payout":"settled"}`, "its payout: it is not a JSON object"},
		"another reference":       {replaced(`"rent-7"`, `"rent-8"`), "its payout has another reference"},
		"no reference":            {`{"event_id":"e","payout":{"status":"settled"}}`, "its payout: it has no reference"},
		"an unknown word":         {replaced("returned", "done"), `its payout: the contract has no status "done"`},
		"unknown":                 {replaced("returned", "unknown"), "a callback is about a payout that the rail knows"},
		"two words":               {replaced(`"code"`, `"status":"settled","code"`), `its payout: the field "status" is there twice`},
		"two payouts":             {replaced(`"event_id"`, `"payout":{},"event_id"`), `the field "payout" is there twice`},
		"an event with a break":   {replaced("ev-1", `ev\n1`), "event_id: it contains U+000A"},
		"a secret in it":          {replaced("returned", hmacSecret), `the contract has no status "***"`},
		"too long":                {replaced("closed", strings.Repeat("x", CallbackBytesMax)), "more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{"Payonce-Signature": {signature(hmacSecret, callbackTime, signedCallback, test.body)}}
			_, err := callbackRail(t, hmacSecret).ReadCallback(header, []byte(test.body))
			require.ErrorContains(t, err, test.want)
			require.NotErrorIs(t, err, ErrCallbackRefused)
			assertNoSecret(t, err.Error())
		})
	}
}

// FuzzReadCallback: a body that the rail has signed is read or refused, and no other is.
func FuzzReadCallback(f *testing.F) {
	f.Add("t=1767225600,v1=00", []byte(callbackBody))
	f.Add("t=,v1=,v1=,", []byte(`{"event_id":"e","reference":"r","payout":{"reference":"r","status":"settled"}}`))
	f.Add(",,=,t=-1,v1", []byte(`{"payout":null}`))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		rail := callbackRail(t, hmacSecret)
		_, err := rail.ReadCallback(http.Header{"Payonce-Signature": {header}}, body)
		require.ErrorIs(t, err, ErrCallbackRefused)

		signed := http.Header{"Payonce-Signature": {signature(hmacSecret, callbackTime, signedCallback, string(body))}}
		got, err := rail.ReadCallback(signed, body)
		require.NotErrorIs(t, err, ErrCallbackRefused)
		if err != nil {
			return
		}
		require.NotEmpty(t, got.EventID)
		require.NotEmpty(t, got.Reference)
		require.Contains(t, anyState, got.Answer.State)
	})
}
