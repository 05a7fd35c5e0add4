package harness

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
)

// callLimit is after how long the SDK gives up one call of Temporal, if its caller has set no earlier end.
const callLimit = 10 * time.Second

// patientCalls lets the test's own calls of Temporal take as long as anything may: the SDK would give one up after ten
// seconds, which on a machine that stalls says nothing about what is tested. Ends that tests have set themselves stay.
func patientCalls(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	deadline, ok := ctx.Deadline()
	if left := time.Until(deadline); !ok || left > callLimit || left < callLimit-time.Second {
		return call(ctx, method, request, reply, connection, options...)
	}
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	defer stop()
	return call(longer, method, request, reply, connection, options...)
}
