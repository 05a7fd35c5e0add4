// Package headers lets a Temporal client name workflows in any language.
//
// Temporal's Go SDK repeats a request's workflow ID in a header, as a hint for gateways, and gRPC takes printable ASCII
// only: with an ID such as "transfer/Überweisung-7" every request about the workflow fails before it is sent, and a worker
// that was handed such a workflow can never answer. Where the hint can't be sent it is left out here; the request itself
// says all that it does.
package headers

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// hint is the header.
const hint = "temporal-resource-id"

// DialOption is for client.Options.ConnectionOptions.DialOptions.
func DialOption() grpc.DialOption { return grpc.WithChainUnaryInterceptor(leaveOut) }

func leaveOut(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if sent, _ := metadata.FromOutgoingContext(ctx); slices.ContainsFunc(sent.Get(hint), isNotPrintable) {
		// What FromOutgoingContext returns is a copy.
		sent.Delete(hint)
		ctx = metadata.NewOutgoingContext(ctx, sent)
	}
	return invoke(ctx, method, request, reply, conn, options...)
}

func isNotPrintable(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || '~' < value[i] {
			return true
		}
	}
	return false
}
