package harness

import (
	"context"
	"fmt"
	"io"
	"net"
	"path"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // what clients send may be compressed
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TemporalProxy stands between programs and Temporal, and loses calls on purpose: before the server has them, or after it
// has carried them out. A program goes through it when its TEMPORAL_ADDRESS is the proxy's Address.
type TemporalProxy struct {
	Address string // host:port

	server   *grpc.Server
	upstream *grpc.ClientConn
	ended    context.Context // calls to the server end with it
	end      context.CancelFunc

	mu    sync.Mutex
	rules []*loss
	cut   bool
	calls []ProxiedCall
}

// Lost is what of a call did not arrive.
type Lost string

// What may be lost.
const (
	LostNothing Lost = ""
	LostRequest Lost = "request" // the server has not seen it
	LostReply   Lost = "reply"   // the server has carried it out, and its caller has not heard so
)

// Loss is calls to lose.
type Loss struct {
	Method string // of Temporal's frontend: "RespondActivityTaskCompleted"
	Lost   Lost
	// Times is how many calls; 0 is one. Always is each.
	Times  int
	Always bool
	// Silent: the caller hears nothing until it gives up, as when a network swallows packets. Otherwise it is told at once
	// that the connection broke.
	Silent bool
}

// loss is a Loss and how often it has struck.
type loss struct {
	Loss

	struck int
}

// ProxiedCall is a call that has gone through a proxy.
type ProxiedCall struct {
	Method string
	Lost   Lost
	// Code is the server's answer, when it has given one: also one that was lost.
	Code codes.Code
}

// TemporalProxy returns a proxy to the world's Temporal server that passes everything on. It ends with the test.
func (w *World) TemporalProxy(t testing.TB) *TemporalProxy {
	t.Helper()
	upstream, err := grpc.NewClient(w.TemporalServer.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &TemporalProxy{Address: listener.Addr().String(), upstream: upstream}
	p.ended, p.end = context.WithCancel(context.Background())
	p.server = grpc.NewServer(grpc.UnknownServiceHandler(p.pass), grpc.ForceServerCodecV2(rawCodec{}))
	served := make(chan error, 1)
	go func() { served <- p.server.Serve(listener) }()
	t.Cleanup(func() {
		p.end()
		p.server.Stop()
		assert.NoError(t, <-served)
		assert.NoError(t, upstream.Close())
	})
	return p
}

// Lose loses calls that come in from now on.
func (p *TemporalProxy) Lose(l Loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, &loss{Loss: l})
}

// Cut lets nothing pass any more, in either direction. The server sees that the callers are gone; they hear nothing, and
// wait until they give up.
func (p *TemporalProxy) Cut() {
	p.mu.Lock()
	p.cut = true
	p.mu.Unlock()
	p.end()
}

// Calls are the calls of a method that have ended so far, in the order of their ends.
func (p *TemporalProxy) Calls(method string) []ProxiedCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	var some []ProxiedCall
	for _, call := range p.calls {
		if call.Method == method {
			some = append(some, call)
		}
	}
	return some
}

// AwaitLost waits until a call of a method has been lost.
func (p *TemporalProxy) AwaitLost(t testing.TB, method string, what Lost) {
	t.Helper()
	Eventually(t, fmt.Sprintf("the %s of a %s is lost", what, method), func() bool {
		for _, call := range p.Calls(method) {
			if call.Lost == what {
				return true
			}
		}
		return false
	})
}

// fate decides what is to be lost of a call that has just come in.
func (p *TemporalProxy) fate(method string) (what Lost, silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return LostRequest, true
	}
	for _, rule := range p.rules {
		if rule.Method == method && (rule.Always || rule.struck < max(rule.Times, 1)) {
			rule.struck++
			return rule.Lost, rule.Silent
		}
	}
	return LostNothing, false
}

func (p *TemporalProxy) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

func (p *TemporalProxy) note(call ProxiedCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
}

// pass handles one call. All calls of Temporal's frontend have one request and one reply.
func (p *TemporalProxy) pass(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	fullMethod, _ := grpc.MethodFromServerStream(stream)
	call := ProxiedCall{Method: path.Base(fullMethod)}
	var request, reply []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	what, silent := p.fate(call.Method)
	if what == LostRequest {
		call.Lost = LostRequest
		p.note(call)
		return broken(ctx, silent)
	}

	upstream, cancel := p.upstreamContext(ctx)
	err := p.upstream.Invoke(upstream, fullMethod, &request, &reply, grpc.ForceCodecV2(rawCodec{}))
	cancel()
	call.Code = status.Code(err)
	if p.isCut() {
		what, silent = LostReply, true
	}
	call.Lost = what
	p.note(call)
	if what == LostReply {
		return broken(ctx, silent)
	}
	if err != nil {
		return err
	}
	return stream.SendMsg(&reply)
}

// upstreamContext is for the call to the server on behalf of a caller. It ends with the caller's, and at the cut.
func (p *TemporalProxy) upstreamContext(ctx context.Context) (context.Context, context.CancelFunc) {
	upstream, cancel := context.WithCancel(ctx)
	if headers, ok := metadata.FromIncomingContext(ctx); ok {
		upstream = metadata.NewOutgoingContext(upstream, headers)
	}
	forget := context.AfterFunc(p.ended, cancel)
	return upstream, func() {
		forget()
		cancel()
	}
}

// broken is what the caller of a lost call gets to see.
func broken(ctx context.Context, silent bool) error {
	if silent {
		<-ctx.Done()
	}
	return status.Error(codes.Unavailable, "the connection broke")
}

// rawCodec leaves messages as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T: %w", v, io.ErrUnexpectedEOF)
	}
	return mem.BufferSlice{mem.SliceBuffer(*message)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T: %w", v, io.ErrUnexpectedEOF)
	}
	*message = data.Materialize()
	return nil
}
