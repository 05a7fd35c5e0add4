package storm

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// stuckDatabase is what the database of Temporal's development server says to everything once it is stuck. An interrupt holds
	// until no statement is under way (https://www.sqlite.org/c3ref/interrupt.html), and a call that was given up on a busy machine
	// may leave one that never ends.
	stuckDatabase = "interrupted (9)"
	// A single call may be interrupted too; stuckLooks in a row are no accident.
	stuckLooks    = 5
	stuckInterval = time.Second
	timeoutLook   = 5 * time.Second
)

// nurse looks after Temporal's server until the context ends, and restarts it when its database is stuck, as whoever runs it would.
func (r *round) nurse(ctx context.Context) {
	conn, err := grpc.NewClient(r.world.servers.temporal.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.fail(err)
		return
	}
	defer conn.Close()
	frontend := workflowservice.NewWorkflowServiceClient(conn)
	for looks := 0; pause(ctx, stuckInterval) == nil; {
		lookCtx, cancel := context.WithTimeout(ctx, timeoutLook)
		_, err := frontend.DescribeNamespace(lookCtx, &workflowservice.DescribeNamespaceRequest{Namespace: r.world.servers.temporal.Namespace})
		cancel()
		if err == nil || !strings.Contains(err.Error(), stuckDatabase) {
			looks = 0
			continue
		}
		if looks++; looks < stuckLooks {
			continue
		}
		if !r.world.servers.durable {
			r.fail(fmt.Errorf("the database of Temporal's server is stuck, and it would forget all if it were restarted: %w", err))
			return
		}
		begun := time.Now()
		r.record.tell("the database of Temporal's server is stuck: it is restarted")
		if r.killTemporal(ctx) {
			r.record.disturbed(FaultKillTemporal, "its database was stuck", begun)
		}
		looks = 0
	}
}
