// Package mailserver is an SMTP server for tests. It keeps what it takes, and can lose its replies.
package mailserver

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
)

// Message is one that the server has taken.
type Message struct {
	From string
	To   []string
	TLS  bool
	Raw  string
}

// Server takes messages for anybody. Over TLS it asks for Password, if that is set.
type Server struct {
	Port     int
	Password string // of the user "payonce"

	mu        sync.Mutex
	messages  []Message
	loseReply int
	refuse    *smtp.SMTPError
}

// Start runs a server on this machine until the test ends; with STARTTLS if config is not nil.
func Start(t testing.TB, config *tls.Config) *Server {
	t.Helper()
	s := &Server{}
	server := smtp.NewServer(s)
	server.Domain, server.TLSConfig = "mail.test", config
	server.ErrorLog = quiet{}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address, err := netip.ParseAddrPort(listener.Addr().String())
	require.NoError(t, err)
	s.Port = int(address.Port())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return s
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

// LoseReplies has the connection break instead of the reply to the next n messages, which are taken.
func (s *Server) LoseReplies(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loseReply = n
}

// Refuse has recipients refused with a reply code; 0 is not.
func (s *Server) Refuse(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = nil
	if code != 0 {
		s.refuse = &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: "not now"}
	}
}

// Messages are those that were taken.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.messages...)
}

// NewSession is the library's.
func (s *Server) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{server: s, conn: c}, nil
}

type session struct {
	server  *Server
	conn    *smtp.Conn
	message Message
	known   bool // it has given the password
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.Password != "" && !s.known {
		return smtp.ErrAuthRequired
	}
	_, encrypted := s.conn.TLSConnectionState()
	s.message = Message{From: from, TLS: encrypted}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.refuse != nil {
		return s.server.refuse
	}
	s.message.To = append(s.message.To, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.message.Raw = string(raw)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.messages = append(s.server.messages, s.message)
	if s.server.loseReply > 0 {
		s.server.loseReply--
		_ = s.conn.Conn().Close()
		return errors.New("the reply is lost")
	}
	return nil
}

// AuthMechanisms is the library's.
func (s *session) AuthMechanisms() []string {
	if s.server.Password == "" {
		return nil
	}
	return []string{sasl.Plain}
}

// Auth is the library's.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "payonce" || password != s.server.Password {
			return smtp.ErrAuthFailed
		}
		s.known = true
		return nil
	}), nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }
