package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payonce/activities"
	"payonce/internal/secret"
)

const (
	// timeoutWhole is below the activity's time-out, so that an attempt says itself that it was too slow.
	timeoutWhole   = 8 * time.Second
	timeoutConnect = 4 * time.Second

	// replyBytesMax bounds what is read of a reply, and replyShownMax what an error tells of it.
	replyBytesMax = 64 << 10
	replyShownMax = 300
)

// webhook is an endpoint that is told by HTTP.
type webhook struct {
	address string // a secret: it may have a token in it
	signers []*standardwebhooks.Webhook
	dialer  *net.Dialer
	tls     *tls.Config
	client  *http.Client
	now     func() time.Time
}

var _ activities.Notifier = (*webhook)(nil)

// newWebhook returns the endpoint at address, signed with each of the secrets. It opens no connection.
func newWebhook(address secret.Text, secrets []secret.Text, roots *x509.CertPool, allowPrivate bool) (*webhook, error) {
	at, err := parseWebhookURL(address.Reveal(), allowPrivate)
	if err != nil {
		return nil, err
	}
	w := &webhook{address: address.Reveal(), now: time.Now}
	for _, one := range secrets {
		signer, err := standardwebhooks.NewWebhook(one.Reveal())
		if err != nil {
			return nil, errSecret
		}
		w.signers = append(w.signers, signer)
	}
	allowed := isPublic
	switch {
	case at.Scheme == "http":
		allowed = func(address netip.Addr) bool { return address.Unmap().IsLoopback() }
	case allowPrivate:
		allowed = func(netip.Addr) bool { return true }
	}
	w.tls = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	w.dialer = &net.Dialer{Timeout: timeoutConnect, Control: allow(allowed)}
	w.client = &http.Client{
		Timeout: timeoutWhole,
		Transport: &http.Transport{
			// No proxy: its address would be the one that is checked.
			DialContext:            w.dialer.DialContext,
			TLSHandshakeTimeout:    timeoutConnect,
			TLSClientConfig:        w.tls,
			MaxResponseHeaderBytes: replyBytesMax,
			IdleConnTimeout:        30 * time.Second,
			ForceAttemptHTTP2:      true,
			// The bound of a reply is a bound of what was sent.
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w, nil
}

// Format writes no more than what it is, whatever the verb: the address may have a token in it.
func (w *webhook) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "webhook") }

// Notify posts the event. Any 2xx reply is the receiver's word that it has taken it. Level 3: a repeat has the same body and
// the same webhook-id, and a timestamp and signatures of its own.
func (w *webhook) Notify(ctx context.Context, n activities.Notification) error {
	body, err := json.Marshal(n.Event)
	if err != nil {
		return &activities.NotifyError{Err: err, Refused: true}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address, bytes.NewReader(body))
	if err != nil {
		return &activities.NotifyError{Err: errURL, Refused: true}
	}
	if err := w.sign(request.Header, MessageID(n.Key), body); err != nil {
		return &activities.NotifyError{Err: err, Refused: true}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "payonce")
	response, err := w.client.Do(request)
	if err != nil {
		return connectionError(err)
	}
	defer func() { _ = response.Body.Close() }()
	// What can't be read of a reply is no part of it.
	reply, _ := io.ReadAll(io.LimitReader(response.Body, replyBytesMax))
	return w.verdict(response, reply)
}

func (w *webhook) sign(header http.Header, id string, body []byte) error {
	at := w.now()
	signatures := make([]string, len(w.signers))
	for i, signer := range w.signers {
		var err error
		if signatures[i], err = signer.Sign(id, at, body); err != nil {
			return err
		}
	}
	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return nil
}

// verdict reads a reply. What says that this request is wrong is refused; anything else may pass.
func (w *webhook) verdict(response *http.Response, reply []byte) error {
	code := response.StatusCode
	if code >= 200 && code <= 299 {
		return nil
	}
	text := fmt.Sprintf("the reply is %d %s", code, http.StatusText(code))
	if shown := strings.Join(strings.Fields(strings.ToValidUTF8(string(reply), "")), " "); shown != "" {
		if runes := []rune(shown); len(runes) > replyShownMax {
			shown = string(runes[:replyShownMax]) + " …"
		}
		text += ": " + shown
	}
	failure := &activities.NotifyError{Err: errors.New(text)}
	switch {
	case code >= 300 && code <= 399:
		failure.Err, failure.Refused = fmt.Errorf("%s: redirects are not followed: set the address that it leads to", text), true
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests:
	case code >= 400 && code <= 499:
		failure.Refused = true
	}
	if !failure.Refused {
		failure.RetryAfter = retryAfter(response.Header.Get("Retry-After"), w.now())
	}
	return failure
}

// retryAfter reads the header of that name: seconds, or a date. What can't be read is 0.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// connectionError is the error of a request without a reply, without its address. An address that must not be reached stays
// one.
func connectionError(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	_, refused := errors.AsType[*addressError](err)
	return &activities.NotifyError{Err: err, Refused: refused}
}

// MessageID is a notification's key as the header webhook-id has it: whatever is no letter, digit, /, -, _ or ~ is
// percent-encoded, so that any key can be in a header, and in what is signed, where full stops are separators.
func MessageID(key string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_~"
	var id strings.Builder
	for i := range len(key) {
		if strings.IndexByte(plain, key[i]) >= 0 {
			id.WriteByte(key[i])
		} else {
			fmt.Fprintf(&id, "%%%02X", key[i])
		}
	}
	return id.String()
}
