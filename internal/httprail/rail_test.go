package httprail

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/activities"
)

const (
	token      = "t0ken-n0b0dy-may-see"
	hmacSecret = "s1gning-secret-n0b0dy-may-see-0123456789"
)

// railAt is a rail with a token; change alters its settings.
func railAt(t *testing.T, address string, change func(*Settings)) *Rail {
	t.Helper()
	s := Settings{Name: "bank", URL: address, Token: token, KeysKept: KeysKeptDefault}
	if change != nil {
		change(&s)
	}
	rail, err := New(s)
	require.NoError(t, err)
	t.Cleanup(rail.Close)
	return rail
}

func payment() activities.RailPayment {
	return activities.RailPayment{
		Key: "payout/rent-7/submit", Reference: "rent-7", Amount: "10.00", Asset: "USD/2",
		Payee: map[string]string{"name": "Ann <& Co>", "iban": "DE02"}, Memo: "März",
	}
}

// server answers every request with do, and counts them.
func server(t *testing.T, do http.HandlerFunc) (address string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		do(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", requests
}

// answering is a server's handler that always says the same.
func answering(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func asError(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	assertNoSecret(t, err.Error())
	return e
}

func assertNoSecret(t *testing.T, text string) {
	t.Helper()
	assert.NotContains(t, text, token)
	assert.NotContains(t, text, hmacSecret)
}

// recorded is what a rail's request was on the wire, byte for byte. It is answered with 500.
func recorded(t *testing.T, change func(*Settings), ask func(*Rail)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	got := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var all strings.Builder
		request, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, &all)))
		if err == nil {
			_, _ = io.Copy(io.Discard, request.Body)
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		got <- all.String()
	}()
	rail := railAt(t, "http://"+listener.Addr().String()+"/v1/", change)
	rail.now = func() time.Time { return time.Unix(1767225600, 0) }
	ask(rail)
	return strings.ReplaceAll(<-got, listener.Addr().String(), "HOST")
}

// TestWire holds what is sent against what docs/rails.md says, byte for byte.
func TestWire(t *testing.T) {
	t.Parallel()
	const head = "HOST HTTP/1.1\r\nHost: HOST\r\nUser-Agent: payonce\r\n"
	for name, test := range map[string]struct{ amount, asset, body string }{
		"two digits":   {"10.00", "USD/2", `{"reference":"rent-7","amount":"10.00","asset":"USD/2","payee":{"iban":"DE02","name":"Ann <& Co>"},"memo":"März"}`},
		"no digits":    {"1000", "JPY/0", `{"reference":"rent-7","amount":"1000","asset":"JPY/0","payee":{"iban":"DE02","name":"Ann <& Co>"},"memo":"März"}`},
		"three digits": {"1.234", "KWD/3", `{"reference":"rent-7","amount":"1.234","asset":"KWD/3","payee":{"iban":"DE02","name":"Ann <& Co>"},"memo":"März"}`},
		"all digits": {
			"99999999999999999999.999999999999999999", "ETH/18",
			`{"reference":"rent-7","amount":"99999999999999999999.999999999999999999","asset":"ETH/18","payee":{"iban":"DE02","name":"Ann <& Co>"},"memo":"März"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := payment()
			p.Amount, p.Asset = test.amount, test.asset
			got := recorded(t, nil, func(rail *Rail) {
				_, err := rail.Submit(t.Context(), p)
				require.Equal(t, ReasonFailed, asError(t, err).Reason)
			})
			want := "POST /v1/payouts " + strings.TrimPrefix(head, "HOST ") +
				"Content-Length: " + strconv.Itoa(len(test.body)) + "\r\n" +
				"Accept: application/json\r\n" +
				"Authorization: Bearer " + token + "\r\n" +
				"Content-Type: application/json\r\n" +
				"Idempotency-Key: \"payout/rent-7/submit\"\r\n" +
				"\r\n" + test.body
			require.Equal(t, want, got)
		})
	}

	t.Run("lookup", func(t *testing.T) {
		t.Parallel()
		got := recorded(t, nil, func(rail *Rail) { _, _ = rail.Lookup(t.Context(), "a/b ü?#%2") })
		require.Equal(t, "GET /v1/payouts/a%2Fb%20%C3%BC%3F%23%252 "+strings.TrimPrefix(head, "HOST ")+
			"Accept: application/json\r\nAuthorization: Bearer "+token+"\r\n\r\n", got)
	})

	t.Run("cancel, signed", func(t *testing.T) {
		t.Parallel()
		got := recorded(t, func(s *Settings) { s.Token, s.HMACSecret = "", hmacSecret }, func(rail *Rail) {
			_, _ = rail.Cancel(t.Context(), "rent-7")
		})
		// printf 'payonce-request\n1767225600\nPOST\n/v1/payouts/rent-7/cancel\n\n' | openssl dgst -sha256 -hmac "$SECRET"
		require.Equal(t, "POST /v1/payouts/rent-7/cancel "+strings.TrimPrefix(head, "HOST ")+"Content-Length: 0\r\n"+
			"Accept: application/json\r\nPayonce-Signature: t=1767225600,v1=ff3594c3d3865cf1a0c73bb016a959f75e70a938dd1bea2914c1dca94626d8ac\r\n\r\n", got)
	})

	t.Run("submit, signed", func(t *testing.T) {
		t.Parallel()
		got := recorded(t, func(s *Settings) { s.HMACSecret = hmacSecret }, func(rail *Rail) {
			_, _ = rail.Submit(t.Context(), activities.RailPayment{Key: "k", Reference: "r", Amount: "1", Asset: "JPY/0"})
		})
		// printf 'payonce-request\n1767225600\nPOST\n/v1/payouts\n"k"\n{"reference":"r","amount":"1","asset":"JPY/0","payee":{}}'
		require.Contains(t, got, "\r\nPayonce-Signature: t=1767225600,v1=a469e91a707790e79e8d456ddbc3cf1ed0faed8df64120653ee85b49836f22af\r\n")
		require.Contains(t, got, "\r\nAuthorization: Bearer "+token+"\r\n")
		require.True(t, strings.HasSuffix(got, "\r\n\r\n"+`{"reference":"r","amount":"1","asset":"JPY/0","payee":{}}`))
	})
}

func TestKeyHeader(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"payout/rent 7/submit": `"payout/rent 7/submit"`,
		"Über":                 `"%C3%9Cber"`,
		`a"b\c%d`:              `"a%22b%5Cc%25d"`,
		"a%22b":                `"a%2522b"`,
		"~\x7f":                `"~%7F"`,
	} {
		assert.Equal(t, want, keyHeader(key))
	}
}

// TestInvalid: what the contract has no place for is never sent.
func TestInvalid(t *testing.T) {
	t.Parallel()
	address, requests := server(t, answering(500, "", ""))
	rail := railAt(t, address, nil)
	for name, change := range map[string]func(*activities.RailPayment){
		"no key":                 func(p *activities.RailPayment) { p.Key = "" },
		"a key that is too long": func(p *activities.RailPayment) { p.Key = strings.Repeat("k", 257) },
		"no reference":           func(p *activities.RailPayment) { p.Reference = "" },
		"a reference with a dot": func(p *activities.RailPayment) { p.Reference = ".." },
		"a dot between slashes":  func(p *activities.RailPayment) { p.Reference = "a/./b" },
		"two slashes":            func(p *activities.RailPayment) { p.Reference = "a//b" },
		"too few digits":         func(p *activities.RailPayment) { p.Amount = "10" },
		"too many digits":        func(p *activities.RailPayment) { p.Amount = "10.000" },
		"a leading zero":         func(p *activities.RailPayment) { p.Amount = "010.00" },
		"nothing":                func(p *activities.RailPayment) { p.Amount = "0.00" },
		"below zero":             func(p *activities.RailPayment) { p.Amount = "-1.00" },
		"no scale":               func(p *activities.RailPayment) { p.Asset = "USD" },
		"no asset":               func(p *activities.RailPayment) { p.Asset = "" },
		"a broken payee":         func(p *activities.RailPayment) { p.Payee = map[string]string{"iban": "\xff"} },
		"a broken memo":          func(p *activities.RailPayment) { p.Memo = "\xff" },
	} {
		t.Run(name, func(t *testing.T) {
			p := payment()
			change(&p)
			_, err := rail.Submit(t.Context(), p)
			e := asError(t, err)
			require.Equal(t, ReasonInvalid, e.Reason)
			require.True(t, e.Invalid())
			require.False(t, e.Outage())
		})
	}
	_, err := rail.Lookup(t.Context(), "..")
	require.True(t, asError(t, err).Invalid())
	_, err = rail.Cancel(t.Context(), "")
	require.True(t, asError(t, err).Invalid())
	require.Zero(t, requests.Load())
}

// TestNothingIsSentTwice: Go's client repeats a request with an Idempotency-Key by itself when a connection that it had kept
// breaks. Attempts are counted by the caller, so that must not happen.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	var answers atomic.Bool
	answers.Store(true)
	address, requests := server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !answers.Load() {
			panic(http.ErrAbortHandler)
		}
		answering(201, "application/json", `{"reference":"rent-7","status":"pending","amount":"10.00","asset":"USD/2"}`)(w, r)
	})
	rail := railAt(t, address, nil)
	_, err := rail.Submit(t.Context(), payment())
	require.NoError(t, err)
	answers.Store(false)
	_, err = rail.Submit(t.Context(), payment())
	require.Equal(t, ReasonNoAnswer, asError(t, err).Reason)
	require.EqualValues(t, 2, requests.Load())
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere, visits := server(t, answering(200, "application/json",
		`{"reference":"rent-7","status":"settled","amount":"10.00","asset":"USD/2"}`))
	for _, status := range []int{301, 302, 303, 307, 308} {
		address, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere)
			answering(status, "application/json", `{"reference":"rent-7","status":"settled","amount":"10.00","asset":"USD/2"}`)(w, nil)
		})
		rail := railAt(t, address, nil)
		for _, ask := range everyCall(rail) {
			_, err := ask(t.Context())
			e := asError(t, err)
			require.Equal(t, ReasonStatus, e.Reason)
			require.Equal(t, status, e.Status)
		}
	}
	require.Zero(t, visits.Load())
}

// everyCall is the three calls about one payment.
func everyCall(rail *Rail) map[call]func(context.Context) (activities.RailAnswer, error) {
	return map[call]func(context.Context) (activities.RailAnswer, error){
		callSubmit: func(ctx context.Context) (activities.RailAnswer, error) { return rail.Submit(ctx, payment()) },
		callLookup: func(ctx context.Context) (activities.RailAnswer, error) {
			return rail.Lookup(ctx, payment().Reference)
		},
		callCancel: func(ctx context.Context) (activities.RailAnswer, error) {
			return rail.Cancel(ctx, payment().Reference)
		},
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := listener.Addr().String()
	require.NoError(t, listener.Close())
	for name, address := range map[string]string{
		"nobody listens": "http://" + closed,
		"no such name":   "https://rail.invalid/v1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := railAt(t, address, nil).Submit(t.Context(), payment())
			e := asError(t, err)
			require.Equal(t, ReasonUnreachable, e.Reason, e)
			require.True(t, e.Outage())
			require.Zero(t, e.Status)
		})
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see that the client has gone
		<-r.Context().Done()
	}
	silent, _ := server(t, hang)
	halfway, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"reference":"rent-7","status":"settled","amount":"10.00","asset":"USD/2"`)
		_ = http.NewResponseController(w).Flush()
		hang(w, r)
	})
	// It takes connections, and never begins with TLS.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })

	for name, test := range map[string]struct {
		address  string
		timeouts Timeouts
		reason   Reason
		outage   bool
		status   int
	}{
		"of the headers": {silent, Timeouts{Connect: time.Minute, Headers: 30 * time.Millisecond, Whole: time.Minute}, ReasonNoAnswer, false, 0},
		"of the whole":   {silent, Timeouts{Connect: time.Minute, Headers: time.Minute, Whole: 30 * time.Millisecond}, ReasonNoAnswer, false, 0},
		"of the body":    {halfway, Timeouts{Connect: time.Minute, Headers: time.Minute, Whole: 5 * time.Second}, ReasonNoAnswer, false, 200},
		"of TLS": {
			"https://" + listener.Addr().String(),
			Timeouts{Connect: 30 * time.Millisecond, Headers: time.Minute, Whole: time.Minute},
			ReasonUnreachable, true, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rail := railAt(t, test.address, func(s *Settings) { s.Timeouts = test.timeouts })
			_, err := rail.Submit(t.Context(), payment())
			e := asError(t, err)
			require.Equal(t, test.reason, e.Reason, e)
			require.Equal(t, test.outage, e.Outage())
			require.Equal(t, test.status, e.Status)
		})
	}

	t.Run("of the caller", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := railAt(t, silent, nil).Submit(ctx, payment())
		e := asError(t, err)
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, e.Outage(), "a call that was given up says nothing of the rail")
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		status int
		value  string
		want   time.Duration
	}{
		"seconds":             {429, "7", 7 * time.Second},
		"a date":              {503, "Fri, 02 Jan 2026 03:04:35 GMT", 30 * time.Second},
		"a date that is past": {503, "Fri, 02 Jan 2026 03:04:00 GMT", 0},
		"too long":            {429, "86400", time.Hour},
		"far too long":        {429, "99999999999999999999999", time.Hour},
		"a date too far":      {429, "Fri, 02 Jan 2037 03:04:35 GMT", time.Hour},
		"below zero":          {429, "-3", 0},
		"words":               {429, "soon", 0},
		"nothing":             {429, "", 0},
		"another status":      {500, "7", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, retryAfter(test.status, http.Header{"Retry-After": {test.value}}, now))
		})
	}
}
