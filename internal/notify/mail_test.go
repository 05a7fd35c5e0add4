package notify

import (
	"io"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/tests/mailserver"
)

func addresses(t *testing.T, list string) []*mail.Address {
	t.Helper()
	all, err := mail.ParseAddressList(list)
	require.NoError(t, err)
	return all
}

// mailboxAt is an endpoint by way of a server, under a name that is not this machine's unless it is "".
func mailboxAt(t *testing.T, server *mailserver.Server, host string, r *receiver) *mailbox {
	t.Helper()
	from := addresses(t, "Payments <payonce@example.com>")[0]
	at := SMTP{Host: "127.0.0.1", Port: server.Port}
	if host != "" {
		at.Host = host
	}
	m := newMailbox(at, from, addresses(t, "ops@example.com, it@example.com"), r.roots())
	m.dialer.Resolver = nameServer(t, "127.0.0.1")
	return m
}

func parse(t *testing.T, message mailserver.Message) (header mail.Header, body string) {
	t.Helper()
	parsed, err := mail.ReadMessage(strings.NewReader(message.Raw))
	require.NoError(t, err)
	raw, err := io.ReadAll(quotedprintable.NewReader(parsed.Body))
	require.NoError(t, err)
	return parsed.Header, strings.ReplaceAll(string(raw), "\r\n", "\n")
}

// A message is the same, byte for byte, however often it is sent.
func TestMail(t *testing.T) {
	t.Parallel()
	server, r := mailserver.Start(t, nil), newReceiver(t, nil)
	m := mailboxAt(t, server, "", r)
	require.NoError(t, m.Notify(t.Context(), notification()))
	require.NoError(t, m.Notify(t.Context(), notification()))
	messages := server.Messages()
	require.Len(t, messages, 2)
	require.Equal(t, messages[0], messages[1])

	require.Equal(t, "payonce@example.com", messages[0].From)
	require.Equal(t, []string{"ops@example.com", "it@example.com"}, messages[0].To)
	header, body := parse(t, messages[0])
	require.Regexp(t, `^<[0-9a-f]{32}@example\.com>$`, header.Get("Message-Id"))
	require.Equal(t, "Sun, 01 Mar 2026 12:00:00 +0000", header.Get("Date"))
	subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
	require.NoError(t, err)
	require.Equal(t, "payonce: "+notification().Text, subject)
	require.Contains(t, body, notification().Text+"\n\ntype  transfer.completed\ntime  2026-03-01T12:00:00.123456Z\nkey   "+notification().Key+"\n")
	require.Contains(t, body, `"state": "completed"`)

	other := notification()
	other.Key = "notify/ops/transfer/other/completed"
	require.NoError(t, m.Notify(t.Context(), other))
	headerOther, _ := parse(t, server.Messages()[2])
	require.NotEqual(t, header.Get("Message-Id"), headerOther.Get("Message-Id"))
}

// Nothing that a client can write makes a header, another recipient, or an end of the message.
func TestMailHeaderInjection(t *testing.T) {
	t.Parallel()
	server, r := mailserver.Start(t, nil), newReceiver(t, nil)
	m := mailboxAt(t, server, "", r)
	plain := notification()
	require.NoError(t, m.Notify(t.Context(), plain))
	want, _ := parse(t, server.Messages()[0])
	for _, evil := range []string{
		"x\r\nBcc: eve@evil.example\r\n\r\nhello", "x\nBcc: eve@evil.example", "x\rBcc: eve@evil.example", "x\u2028Bcc: eve@evil.example",
		"=?utf-8?q?x=0D=0ABcc:_eve@evil.example?=", "x\r\n.\r\nMAIL FROM:<eve@evil.example>\r\n", strings.Repeat("ü long ", 100) + "\r\nBcc: eve@evil.example",
	} {
		n := plain
		n.Text, n.Key = evil, evil
		n.Event.Type = evil
		require.NoError(t, m.Notify(t.Context(), n))
		messages := server.Messages()
		last := messages[len(messages)-1]
		require.Equal(t, []string{"ops@example.com", "it@example.com"}, last.To)
		got, _ := parse(t, last)
		require.Len(t, got, len(want), "%q: %v", evil, got)
		require.Empty(t, got.Get("Bcc"))
		require.Equal(t, want.Get("To"), got.Get("To"))
	}
	require.Len(t, server.Messages(), 8)
}

// A password, and what is told, goes to another machine only over TLS that is verified.
func TestMailNeedsTLS(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	plain, encrypted := mailserver.Start(t, nil), mailserver.Start(t, r.certificate())
	require.Error(t, mailboxAt(t, plain, "example.com", r).Notify(t.Context(), notification()))
	require.Empty(t, plain.Messages())

	require.NoError(t, mailboxAt(t, encrypted, "example.com", r).Notify(t.Context(), notification()))
	require.True(t, encrypted.Messages()[0].TLS)
	for name, m := range map[string]*mailbox{
		"another name":   mailboxAt(t, encrypted, "mail.other.test", r),
		"another signer": mailboxAt(t, encrypted, "example.com", r),
	} {
		if name == "another signer" {
			m.tls.RootCAs = nil
		}
		require.ErrorContains(t, m.Notify(t.Context(), notification()), "certificate", name)
	}
	require.Len(t, encrypted.Messages(), 1)
}

// A server gets the password that is set for it. A wrong one may be put right, and is in no error.
func TestMailPassword(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	server := mailserver.Start(t, r.certificate())
	server.Password = "p4ss:w0rd"
	m := mailboxAt(t, server, "example.com", r)
	require.Error(t, m.Notify(t.Context(), notification()), "without one")
	m.server.User, m.server.Password = "payonce", "wr0ng"
	err := m.Notify(t.Context(), notification())
	require.False(t, asFailure(t, err).Refused)
	require.NotContains(t, err.Error(), "wr0ng")
	require.Empty(t, server.Messages())
	m.server.Password = "p4ss:w0rd"
	require.NoError(t, m.Notify(t.Context(), notification()))
	require.Len(t, server.Messages(), 1)
}

func TestMailReplies(t *testing.T) {
	t.Parallel()
	server, r := mailserver.Start(t, nil), newReceiver(t, nil)
	m := mailboxAt(t, server, "", r)
	server.Refuse(550)
	require.True(t, asFailure(t, m.Notify(t.Context(), notification())).Refused)
	server.Refuse(451)
	require.False(t, asFailure(t, m.Notify(t.Context(), notification())).Refused)
	server.Refuse(0)
	server.LoseReplies(1)
	require.False(t, asFailure(t, m.Notify(t.Context(), notification())).Refused)
	require.Len(t, server.Messages(), 1, "it was taken all the same")
	require.NoError(t, m.Notify(t.Context(), notification()))
}
