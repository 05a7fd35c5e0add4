package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// notify has endpoints told of the end of r: its result, and where its money is. It returns when their notifications are
// started, or can't be: no end depends on whom it is told to. A notification that was started before, by an earlier run that
// came to the same end, is the one.
func (r *run) notify(ctx workflow.Context, endpoints []string, end State, result any, left Whereabouts) {
	if len(endpoints) == 0 || slices.Contains(r.told, end) {
		return
	}
	r.told = append(r.told, end)
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	in := NotificationInput{
		About: r.workflowID, End: end,
		Event: activities.NotifyEvent{Type: r.about.what + "." + string(end), Timestamp: r.endedAt(ctx), Data: encodeJSON(result)},
		Text:  fmt.Sprintf("%s %s: %s: %s", r.about.what, r.about.id, end, r.about.text),
		Letter: NotificationLetter{
			Transfer: r.about.letters, Money: left, From: r.about.from.String(), To: r.about.to,
			Memo: r.about.memo, Metadata: r.about.metadata,
		},
	}
	started := make([]workflow.ChildWorkflowFuture, len(endpoints))
	for i, endpoint := range endpoints {
		in.Endpoint = endpoint
		started[i] = workflow.ExecuteChildWorkflow(workflow.WithChildOptions(disconnected, workflow.ChildWorkflowOptions{
			WorkflowID:            NotificationWorkflowID(endpoint, in.About, end),
			TaskQueue:             TaskQueue,
			ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
			WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
			StaticSummary:         in.Summary(),
		}), NotificationWorkflow, in)
	}
	for i, endpoint := range endpoints {
		if err := awaitStart(disconnected, started[i]); err != nil {
			workflow.GetLogger(ctx).Error("notification not started", "endpoint", endpoint, "about", in.About, "end", string(end), "error", err)
		}
	}
}

// endedAt is when the last step was recorded, by its ledger's clock: the same whichever run tells it. What ended without a step
// ends now.
func (r *run) endedAt(ctx workflow.Context) time.Time {
	if n := len(r.standing.Steps); n > 0 && !r.standing.Steps[n-1].At.IsZero() {
		return r.standing.Steps[n-1].At.UTC()
	}
	return workflow.Now(ctx).UTC()
}

// encodeJSON is a function of what it is given; the checker does not know that of encoding/json.
//
//workflowcheck:ignore
func encodeJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		// Results have nothing in them that JSON can't say.
		panic(err)
	}
	return data
}

// notification is one run of a Notification.
type notification struct {
	run

	status NotificationStatus
}

// Notification tells one endpoint of one end, at least once (level 3). It completes when the endpoint has taken it, or a person
// has discarded it; until then it is retried, and then parked with a dead letter. Cancelling it has no effect.
func (w *Workflows) Notification(ctx workflow.Context, in NotificationInput) (NotificationResult, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	n, err := w.newNotification(ctx, in)
	if err != nil {
		return NotificationResult{}, err
	}
	for {
		err := n.tell(ctx)
		if err == nil {
			return n.end(ctx, StateDelivered)
		}
		if n.park(ctx, StepNotify, err) == ActionDiscard {
			return n.end(ctx, StateDiscarded)
		}
	}
}

// newNotification checks the request and answers queries and updates from then on.
func (w *Workflows) newNotification(ctx workflow.Context, in NotificationInput) (*notification, error) {
	if err := CheckEndpointName("endpoint", in.Endpoint); err != nil {
		return nil, invalidInput(err)
	}
	if err := checkWorkflowID(ctx, "notification", in.Endpoint, NotificationWorkflowID(in.Endpoint, in.About, in.End)); err != nil {
		return nil, err
	}
	from, err := ledger.ParseAccountRef("from", in.Letter.From)
	if err != nil {
		return nil, invalidInput(err)
	}
	n := &notification{status: NotificationStatus{Request: in}}
	about := subject{
		what: "notification", id: in.Letter.Transfer, letters: in.Letter.Transfer, from: from, to: in.Letter.To,
		amount: in.Letter.Money.Amount, asset: in.Letter.Money.Asset, memo: in.Letter.Memo, metadata: in.Letter.Metadata,
		text: "tell " + in.Endpoint + ": " + in.Text,
	}
	if n.run, err = newRun(ctx, w.options, about, n, &n.status, &n.status.Standing); err != nil {
		return nil, err
	}
	return n, takeDecisions(ctx, &n.run, &n.status)
}

// tell makes the attempts to tell the endpoint.
func (n *notification) tell(ctx workflow.Context) error {
	n.startStep(ctx, StepNotify)
	in := n.status.Request
	options := n.options.Notify.durable(NotifyTaskQueue, n.summary(StepNotify))
	// A queue that no worker serves is waited for as long as a ledger's.
	options.ScheduleToStartTimeout = n.options.Outage.Budget
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), "Notify", activities.NotifyInput{
		Endpoint: in.Endpoint, Key: n.workflowID, Event: in.Event, Text: in.Text,
	}).Get(ctx, nil)
	if err == nil {
		return nil
	}
	attempts := attemptsUsed(err, n.options.Notify.AttemptsMax)
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START {
		attempts = 0
		err = temporal.NewApplicationError("no worker has taken it: set NOTIFY at one", activities.ErrorEndpointUnknown)
	}
	n.failed(ctx, StepNotify, err, attempts)
	return err
}

func (n *notification) summary(Step) string {
	return n.status.Request.Summary()
}

// whereabouts are those of the money of what has ended.
func (n *notification) whereabouts(Step) (ledger.Place, string) {
	money := n.status.Request.Letter.Money
	return money.Place, money.Account
}

func (n *notification) choices(Step) []Action { return []Action{ActionRetry, ActionDiscard} }

func (n *notification) end(ctx workflow.Context, state State) (NotificationResult, error) {
	in := n.status.Request
	result := NotificationResult{Endpoint: in.Endpoint, About: in.About, End: in.End, State: state, At: workflow.Now(ctx)}
	n.settle(ctx, state, in.Letter.Money)
	n.status.Result = &result
	n.say(ctx, string(state))
	n.standing.State = state
	if n.parkings > 0 {
		n.publish(ctx, state)
	}
	return result, n.letters.flush(ctx)
}
