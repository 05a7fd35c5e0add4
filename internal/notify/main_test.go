package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"payonce/activities"
	"payonce/internal/secret"
)

// whsec is a signing secret.
func whsec(letter string) secret.Text {
	return secret.Text(secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32))))
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC)

// notification is one with what a client can put into an ID.
func notification() activities.Notification {
	return activities.Notification{
		Key: "notify/ops/transfer/rent 1.5%/ü/completed",
		Event: activities.NotifyEvent{
			Type: "transfer.completed", Timestamp: noon, Data: json.RawMessage(`{"id":"rent 1.5%/ü","state":"completed","detail":"a \u003c b"}`),
		},
		Text: "transfer rent 1.5%/ü: completed: 10.00 USD/2 from us/alice to eu/bob",
	}
}

// got is a request that a receiver has got.
type got struct {
	header http.Header
	body   []byte
}

// receiver is a real server for webhooks.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	got    []got
	answer http.HandlerFunc // nil is 204
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	r.got = append(r.got, got{header: request.Header, body: body})
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(w, request)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) requests() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

func (r *receiver) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(r.Certificate())
	return roots
}

func (r *receiver) port() string {
	_, port, _ := net.SplitHostPort(r.Listener.Addr().String())
	return port
}

// webhookTo is an endpoint at the receiver, allowed though it is on this machine.
func webhookTo(t *testing.T, r *receiver, secrets ...secret.Text) *webhook {
	t.Helper()
	if len(secrets) == 0 {
		secrets = []secret.Text{whsec("a")}
	}
	w, err := newWebhook(secret.Text(r.URL+"/hook?token=t0p"), secrets, r.roots(), true)
	require.NoError(t, err)
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

func asFailure(t *testing.T, err error) *activities.NotifyError {
	t.Helper()
	failure, ok := errors.AsType[*activities.NotifyError](err)
	require.True(t, ok, "%v", err)
	return failure
}

// nameServer answers each name with some addresses, over the network.
func nameServer(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil {
				continue
			}
			m.Response, m.Authoritative, m.Additionals = true, true, nil
			for _, address := range addresses {
				header := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET}
				ip := net.ParseIP(address)
				switch v4 := ip.To4(); {
				case v4 != nil && m.Questions[0].Type == dnsmessage.TypeA:
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: [4]byte(v4)}})
				case v4 == nil && m.Questions[0].Type == dnsmessage.TypeAAAA:
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(ip)}})
				}
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// certificate is the receiver's, for a server of another kind.
func (r *receiver) certificate() *tls.Config {
	return &tls.Config{Certificates: r.TLS.Certificates, MinVersion: tls.VersionTLS12}
}
