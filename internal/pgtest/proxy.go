package pgtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Proxy stands between a client and PostgreSQL. It cuts connections, or holds them up, between two chosen messages of the
// protocol: a network that fails at the worst moment, on purpose.
type Proxy struct {
	URL string // of the database, through the proxy

	server   string
	listener net.Listener

	mu    sync.Mutex
	cut   func(Message) bool
	hold  *hold
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

// Message is what passes through a proxy, as far as a test wants to tell one from another.
type Message struct {
	FromServer bool
	Type       byte   // of the protocol: 'E' is Execute from the client and ErrorResponse from the server
	Statement  string // what a client's Bind ('B') or simple Query ('Q') is about to run, trimmed
	Tag        string // of the server's CommandComplete ('C'): "COMMIT"
}

// NewProxy returns a proxy to the database at rawURL. It ends with the test.
func NewProxy(t testing.TB, rawURL string) *Proxy {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal("pgtest: the URL does not parse")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	p := &Proxy{server: u.Host, listener: listener, conns: make(map[net.Conn]bool)}
	u.Host = listener.Addr().String()
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	p.URL = u.String()
	p.done.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// CutBefore makes the proxy cut a connection, both sides of it, before it passes on the first message for which cut is
// true. Then it cuts nothing more, until it is told again. cut is called for one message at a time; nil cuts nothing.
func (p *Proxy) CutBefore(cut func(Message) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
}

// hold is a place where one connection stops.
type hold struct {
	before  func(Message) bool
	reached chan struct{} // closed when the message is there
	release chan struct{} // closed when it may go on
}

// HoldBefore makes the proxy hold up, in one direction of one connection, the first message for which before is true and
// all that follow it. reached is closed when it is there; release lets it go on. Call it before the test ends: the proxy's end waits for it.
func (p *Proxy) HoldBefore(before func(Message) bool) (reached <-chan struct{}, release func()) {
	h := &hold{before: before, reached: make(chan struct{}), release: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = h
	return h.reached, sync.OnceFunc(func() { close(h.release) })
}

// waits holds m up if it is to be.
func (p *Proxy) waits(m Message) {
	p.mu.Lock()
	h := p.hold
	if h == nil || !h.before(m) {
		p.mu.Unlock()
		return
	}
	p.hold = nil
	p.mu.Unlock()
	close(h.reached)
	<-h.release
}

// cuts asks whether to cut before m.
func (p *Proxy) cuts(m Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == nil || !p.cut(m) {
		return false
	}
	p.cut = nil
	return true
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client, server) {
			return
		}
		p.done.Go(func() { p.pass(client, server) })
	}
}

// track remembers connections for close. It reports false after close.
func (p *Proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.conns == nil {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return p.conns != nil
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.done.Wait()
}

// pass passes one connection's messages on in both directions, until either side or the proxy ends it.
func (p *Proxy) pass(client, server net.Conn) {
	var both sync.WaitGroup
	end := func() {
		_ = client.Close()
		_ = server.Close()
	}
	both.Go(func() {
		defer end()
		if passStartup(client, server) != nil {
			return
		}
		c := clientStream{statements: make(map[string]string)}
		p.stream(client, server, c.message)
	})
	both.Go(func() {
		defer end()
		p.stream(server, client, serverMessage)
	})
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

func (p *Proxy) stream(from, to net.Conn, read func(typ byte, body []byte) Message) {
	for {
		var header [5]byte // type and length, which counts itself
		if _, err := io.ReadFull(from, header[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(header[1:])-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		m := read(header[0], body)
		p.waits(m)
		if p.cuts(m) {
			return
		}
		if _, err := to.Write(append(header[:], body...)); err != nil {
			return
		}
	}
}

// passStartup passes the first message on, which has no type.
func passStartup(client, server net.Conn) error {
	var length [4]byte
	if _, err := io.ReadFull(client, length[:]); err != nil {
		return err
	}
	if _, err := server.Write(length[:]); err != nil {
		return err
	}
	_, err := io.CopyN(server, client, int64(binary.BigEndian.Uint32(length[:])-4))
	return err
}

// clientStream knows what a client's prepared statements are.
type clientStream struct {
	statements map[string]string
}

func (c *clientStream) message(typ byte, body []byte) Message {
	m := Message{Type: typ}
	switch typ {
	case 'P': // Parse: the statement's name, its text
		name, rest := cString(body)
		c.statements[name], _ = cString(rest)
	case 'B': // Bind: the portal's name, the statement's
		_, rest := cString(body)
		name, _ := cString(rest)
		m.Statement = strings.TrimSpace(c.statements[name])
	case 'Q': // Query: the text
		text, _ := cString(body)
		m.Statement = strings.TrimSpace(text)
	}
	return m
}

func serverMessage(typ byte, body []byte) Message {
	m := Message{FromServer: true, Type: typ}
	if typ == 'C' {
		m.Tag, _ = cString(body)
	}
	return m
}

// cString reads a text that ends with a zero byte.
func cString(b []byte) (text string, rest []byte) {
	before, after, _ := bytes.Cut(b, []byte{0})
	return string(before), after
}
