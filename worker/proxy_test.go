package main

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy passes TCP connections on to a server, and can cut them.
type proxy struct {
	t       *testing.T
	address string
	target  string

	mu       sync.Mutex
	listener net.Listener // nil while it is cut
	conns    map[net.Conn]bool
	running  sync.WaitGroup
}

// newProxy reserves an address. It is cut until connect.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{t: t, address: listener.Addr().String(), target: target, conns: make(map[net.Conn]bool)}
	require.NoError(t, listener.Close())
	t.Cleanup(func() {
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *proxy) connect() {
	p.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(p.t.Context(), "tcp4", p.address)
	require.NoError(p.t, err)
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	p.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.pass(conn) })
		}
	})
}

// cut ends all connections and refuses new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for conn := range p.conns {
		_ = conn.Close()
	}
}

func (p *proxy) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp4", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.keep(client, server) {
		return
	}
	defer p.forget(client, server)
	done := make(chan struct{}, 2)
	for _, pair := range [2][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
	_, _ = client.Close(), server.Close()
	<-done
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.conns[conn] = true
	}
	return p.listener != nil
}

func (p *proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		delete(p.conns, conn)
	}
}
