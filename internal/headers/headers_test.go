package headers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

func TestLeaveOut(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		sent metadata.MD
		want metadata.MD
	}{
		{"plain", metadata.Pairs(hint, "workflow:transfer/rent 1~", "x", "ü"), metadata.Pairs(hint, "workflow:transfer/rent 1~", "x", "ü")},
		{"not ASCII", metadata.Pairs(hint, "workflow:transfer/ü", "x", "y"), metadata.Pairs("x", "y")},
		{"a control character", metadata.Pairs(hint, "workflow:\x7f"), metadata.MD{}},
		{"none", metadata.Pairs("x", "y"), metadata.Pairs("x", "y")},
		{"nothing", nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			if row.sent != nil {
				ctx = metadata.NewOutgoingContext(ctx, row.sent)
			}
			before := row.sent.Copy()
			err := leaveOut(ctx, "/method", nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
				got, _ := metadata.FromOutgoingContext(ctx)
				require.Equal(t, row.want, got)
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, before, row.sent.Copy(), "the caller's own metadata stays")
		})
	}
}
