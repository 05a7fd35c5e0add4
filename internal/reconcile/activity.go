package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"payonce/ledger/postgres"
	"payonce/workflows"
)

// activityListMax keeps the result of the activity below what Temporal takes as a payload. The command lists all.
const activityListMax = 20

// heartbeatEvery is well below the activity's heartbeat time-out.
const heartbeatEvery = 10 * time.Second

// errWorkerStops ends the activity when its worker is told to stop: another one begins again.
var errWorkerStops = errors.New("the worker stops")

// Activity is the activity of workflows.ReconcileWorkflow, of a worker that holds some ledgers.
type Activity struct {
	Ledgers   []*postgres.Ledger
	Temporal  client.Client
	Namespace string
}

// Reconcile verifies the books and reconciles them with Temporal. Level 2 when it repairs, otherwise it only reads.
func (a *Activity) Reconcile(ctx context.Context, in workflows.ReconcileInput) (View, error) {
	ctx, end := context.WithCancelCause(ctx)
	var beating sync.WaitGroup
	defer beating.Wait()
	defer end(nil)
	beating.Go(func() { beat(ctx, end) })

	viewer := Viewer{ListMax: activityListMax}
	summary, err := Run(ctx, Config{Ledgers: a.Ledgers, Temporal: a.Temporal, Namespace: a.Namespace, Repair: in.Repair}, viewer.Report())
	if err != nil {
		return View{}, errors.Join(err, context.Cause(ctx))
	}
	activity.GetMetricsHandler(ctx).Gauge("payonce_reconcile_findings").Update(float64(summary.Books.Findings + summary.Findings))
	if !summary.OK() {
		activity.GetLogger(ctx).Error("the books and the workflows are not as they should be", "conclusion", summary.Conclusion())
	}
	return viewer.End(summary), nil
}

// beat tells Temporal that the activity runs, and ends it when the worker is told to stop.
func beat(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-activity.GetWorkerStopChannel(ctx):
			end(errWorkerStops)
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}
