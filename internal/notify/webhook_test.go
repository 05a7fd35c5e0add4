package notify

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"payonce/internal/secret"
)

func verify(t *testing.T, secret string, g got) error {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	return verifier.Verify(g.body, g.header)
}

// Each attempt has the same body and the same webhook-id, and the receiver can tell who sent it.
func TestWebhook(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := webhookTo(t, r)
	require.NoError(t, w.Notify(t.Context(), notification()))
	w.now = func() time.Time { return time.Now().Add(time.Minute) }
	require.NoError(t, w.Notify(t.Context(), notification()))

	requests := r.requests()
	require.Len(t, requests, 2)
	first, second := requests[0], requests[1]
	const want = `{"type":"transfer.completed","timestamp":"2026-03-01T12:00:00.123456Z","data":{"id":"rent 1.5%/ü","state":"completed","detail":"a \u003c b"}}`
	require.Equal(t, want, string(first.body)) //nolint:testifylint // each byte is signed
	require.Equal(t, string(first.body), string(second.body))
	require.Equal(t, "notify/ops/transfer/rent%201%2E5%25/%C3%BC/completed", first.header.Get("webhook-id"))
	require.Equal(t, first.header.Get("webhook-id"), second.header.Get("webhook-id"))
	require.NotEqual(t, first.header.Get("webhook-timestamp"), second.header.Get("webhook-timestamp"), "the attempt's time")
	require.NotEqual(t, first.header.Get("webhook-signature"), second.header.Get("webhook-signature"))
	require.Equal(t, "application/json", first.header.Get("Content-Type"))
	for _, g := range requests {
		require.NoError(t, verify(t, whsec("a").Reveal(), g))
		require.ErrorIs(t, verify(t, whsec("b").Reveal(), g), standardwebhooks.ErrNoMatchingSignature)
		g.body = append(g.body, ' ')
		require.ErrorIs(t, verify(t, whsec("a").Reveal(), g), standardwebhooks.ErrNoMatchingSignature)
	}
}

// While a secret changes, receivers with the old one and with the new one can both verify.
func TestWebhookRotation(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	require.NoError(t, webhookTo(t, r, whsec("a"), whsec("b")).Notify(t.Context(), notification()))
	g := r.requests()[0]
	require.Len(t, strings.Fields(g.header.Get("webhook-signature")), 2)
	require.NoError(t, verify(t, whsec("a").Reveal(), g))
	require.NoError(t, verify(t, whsec("b").Reveal(), g))
	require.Error(t, verify(t, whsec("c").Reveal(), g))
}

func TestWebhookReplies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code    int
		header  [2]string
		body    string
		refused bool
		after   time.Duration
		text    string // "": it is taken
	}{
		"200":                 {code: 200, body: "thanks"},
		"202":                 {code: 202},
		"301":                 {code: 301, header: [2]string{"Location", "/elsewhere"}, refused: true, text: "redirects are not followed"},
		"307":                 {code: 307, header: [2]string{"Location", "/elsewhere"}, refused: true, text: "redirects are not followed"},
		"400":                 {code: 400, body: "no such\r\nthing\xff", refused: true, text: "the reply is 400 Bad Request: no such thing"},
		"401":                 {code: 401, refused: true, text: "401 Unauthorized"},
		"404":                 {code: 404, refused: true, text: "404 Not Found"},
		"408":                 {code: 408, text: "408 Request Timeout"},
		"410":                 {code: 410, refused: true, text: "410 Gone"},
		"425":                 {code: 425, text: "425 Too Early"},
		"429":                 {code: 429, header: [2]string{"Retry-After", "90"}, after: 90 * time.Second, text: "429 Too Many Requests"},
		"500":                 {code: 500, text: "500 Internal Server Error"},
		"503":                 {code: 503, header: [2]string{"Retry-After", "7"}, after: 7 * time.Second, text: "503 Service Unavailable"},
		"503 until a date":    {code: 503, header: [2]string{"Retry-After", noon.Add(time.Minute).Format(http.TimeFormat)}, after: time.Minute - 123456*time.Microsecond, text: "503"},
		"503 until past":      {code: 503, header: [2]string{"Retry-After", noon.Add(-time.Minute).Format(http.TimeFormat)}, text: "503"},
		"503 until something": {code: 503, header: [2]string{"Retry-After", "soon"}, text: "503"},
		"a long reply":        {code: 500, body: strings.Repeat("x", 1<<20), text: strings.Repeat("x", replyShownMax) + " …"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				if test.header[0] != "" {
					w.Header().Set(test.header[0], test.header[1])
				}
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte(test.body))
			})
			w := webhookTo(t, r)
			w.now = func() time.Time { return noon }
			err := w.Notify(t.Context(), notification())
			require.Len(t, r.requests(), 1)
			if test.text == "" {
				require.NoError(t, err)
				return
			}
			failure := asFailure(t, err)
			require.ErrorContains(t, err, test.text)
			require.Less(t, len(err.Error()), 2*replyShownMax)
			require.Equal(t, test.refused, failure.Refused)
			require.Equal(t, test.after, failure.RetryAfter)
		})
	}
}

// A connection that breaks says nothing of whether the receiver has it, and nothing of the address in it.
func TestWebhookReplyLost(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	err := webhookTo(t, r).Notify(t.Context(), notification())
	require.False(t, asFailure(t, err).Refused)
	require.NotContains(t, err.Error(), "t0p")
	require.Len(t, r.requests(), 1, "the client does not send it again by itself")
}

func TestWebhookGivesUpInTime(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.False(t, asFailure(t, webhookTo(t, r).Notify(ctx, notification())).Refused)
}

func TestWebhookVerifiesTLS(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := webhookTo(t, r)
	w.tls.RootCAs = nil
	err := w.Notify(t.Context(), notification())
	require.ErrorContains(t, err, "certificate")
	require.False(t, asFailure(t, err).Refused, "a certificate that has expired is renewed")
	require.Empty(t, r.requests())
}

// No name leads a webhook to where it may not go, whatever the name server answers, and when: what counts is the address that
// is connected to. With the setting that allows it the same request arrives, so it is the guard that stops it.
func TestWebhookStaysOutside(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	to := func(t *testing.T, allowPrivate bool, addresses ...string) *webhook {
		t.Helper()
		w, err := newWebhook(secret.Text("https://example.com:"+r.port()+"/hook"), []secret.Text{whsec("a")}, r.roots(), allowPrivate)
		require.NoError(t, err)
		t.Cleanup(w.client.CloseIdleConnections)
		w.dialer.Resolver = nameServer(t, addresses...)
		return w
	}
	for _, address := range []string{
		"127.0.0.1", "127.8.8.8", "169.254.169.254", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.100.100.200", "0.0.0.0",
		"::1", "::", "fd00::1", "fd00:ec2::254", "fe80::1", "64:ff9b::7f00:1", "2002:7f00:1::",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			err := to(t, false, address).Notify(t.Context(), notification())
			require.ErrorContains(t, err, "is not a public address")
			require.True(t, asFailure(t, err).Refused)
		})
	}
	t.Run("several", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, to(t, false, "127.0.0.1", "fd00::1").Notify(t.Context(), notification()), "is not a public address")
	})
	t.Run("allowed", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, to(t, true, "127.0.0.1").Notify(t.Context(), notification()))
		require.Len(t, r.requests(), 1, "of all of them")
	})
}

// http goes to this machine alone, also when a name of it leads elsewhere.
func TestWebhookOverHTTP(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(plain.Close)
	w, err := newWebhook(secret.Text(strings.Replace(plain.URL, "127.0.0.1", "localhost", 1)), []secret.Text{whsec("a")}, nil, true)
	require.NoError(t, err)
	t.Cleanup(w.client.CloseIdleConnections)
	require.NoError(t, w.Notify(t.Context(), notification()))
	w.client.CloseIdleConnections()
	control := w.dialer.Control
	require.NoError(t, control("tcp4", "127.0.0.1:80", nil))
	require.Error(t, control("tcp4", "192.168.1.1:80", nil))
}

func TestIsPublic(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"1.1.1.1": true, "8.8.8.8": true, "172.32.0.1": true, "2606:4700::1111": true, "2a00:1450::1": true, "::ffff:8.8.8.8": true,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "224.0.0.1": false, "ff02::1": false, "255.255.255.255": false,
		"198.18.0.1": false, "192.0.2.1": false, "240.0.0.1": false, "2001::1": false, "fec0::1": false, "fe80::1%eth0": false,
	} {
		require.Equal(t, want, isPublic(netip.MustParseAddr(address)), address)
	}
}

// A message ID is plain, and of no other key.
func TestMessageID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		require.Regexp(t, `^[A-Za-z0-9/_~%-]*$`, MessageID(a))
		require.Equal(t, a == b, MessageID(a) == MessageID(b))
		back, err := url.PathUnescape(MessageID(a))
		require.NoError(t, err)
		require.Equal(t, a, back)
	})
}
