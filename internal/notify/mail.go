package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/mail"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"payonce/activities"
	"payonce/internal/setting"
)

// mailbox is an endpoint that is told by e-mail.
type mailbox struct {
	server SMTP
	from   *mail.Address
	to     []*mail.Address
	dialer *net.Dialer
	tls    *tls.Config
}

var _ activities.Notifier = (*mailbox)(nil)

func newMailbox(server SMTP, from *mail.Address, to []*mail.Address, roots *x509.CertPool) *mailbox {
	return &mailbox{
		server: server, from: from, to: to, dialer: &net.Dialer{Timeout: timeoutConnect},
		tls: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: server.Host, RootCAs: roots},
	}
}

// Format writes no more than what it is, whatever the verb: the server's password is in it.
func (*mailbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "mailbox") }

// Notify sends the event as a message of plain text. It is taken when the server says so after the message; what comes then
// is of no interest. Level 3: a repeat is the same message, byte for byte, with the same Message-ID.
func (m *mailbox) Notify(ctx context.Context, n activities.Notification) error {
	ctx, cancel := context.WithTimeout(ctx, timeoutWhole)
	defer cancel()
	message, err := m.message(n)
	if err != nil {
		return &activities.NotifyError{Err: err, Refused: true}
	}
	if err := m.send(ctx, message); err != nil && !message.IsDelivered() {
		failure := &activities.NotifyError{Err: err}
		if refusal, ok := errors.AsType[*gomail.SendError](err); ok {
			failure.Refused = refusal.ErrorCode() >= 500 && refusal.ErrorCode() <= 599
		}
		return failure
	}
	return nil
}

func (m *mailbox) send(ctx context.Context, message *gomail.Msg) error {
	// The library keeps a connection open that it could not greet.
	var connection net.Conn
	defer func() {
		if connection != nil {
			_ = connection.Close()
		}
	}()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		var err error
		connection, err = m.dialer.DialContext(ctx, network, address)
		return connection, err
	}
	policy := gomail.TLSMandatory
	if setting.IsLoopback(m.server.Host) {
		policy = gomail.TLSOpportunistic
	}
	options := []gomail.Option{
		gomail.WithPort(m.server.Port), gomail.WithTLSPolicy(policy), gomail.WithTLSConfig(m.tls), gomail.WithTimeout(timeoutWhole),
		gomail.WithDialContextFunc(dial), gomail.WithoutNoop(),
	}
	if m.server.User != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover),
			gomail.WithUsername(m.server.User), gomail.WithPassword(m.server.Password.Reveal()))
	}
	client, err := gomail.NewClient(m.server.Host, options...)
	if err != nil {
		return err
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return err
	}
	// Each reply has a time-out of its own there; all of them together have that of ctx.
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	if err := client.SendWithSMTPClient(session, message); err != nil {
		return err
	}
	return client.CloseWithSMTPClient(session)
}

// message is the same for each attempt. The text has no part in its headers but the subject, which is encoded.
func (m *mailbox) message(n activities.Notification) (*gomail.Msg, error) {
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(m.from)
	message.ToMailAddress(m.to...)
	message.Subject("payonce: " + oneLine(n.Text))
	message.SetMessageIDWithValue(mailID(n.Key, m.from))
	message.SetDateWithValue(n.Event.Timestamp.UTC())
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	var data bytes.Buffer
	if err := json.Indent(&data, n.Event.Data, "", "  "); err != nil {
		return nil, err
	}
	message.SetBodyString(gomail.TypeTextPlain, fmt.Sprintf("%s\n\ntype  %s\ntime  %s\nkey   %s\n\n%s\n",
		oneLine(n.Text), n.Event.Type, n.Event.Timestamp.UTC().Format(time.RFC3339Nano), oneLine(n.Key), data.String()))
	return message, nil
}

// mailID is a Message-ID that is the same whoever sends the notification of that key.
func mailID(key string, from *mail.Address) string {
	sum := sha256.Sum256([]byte(key))
	_, domain, _ := strings.Cut(from.Address[strings.LastIndexByte(from.Address, '@'):], "@")
	return hex.EncodeToString(sum[:16]) + "@" + domain
}

// oneLine has no line breaks, whatever the text has.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
