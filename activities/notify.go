package activities

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"go.temporal.io/sdk/activity"
)

// Notifier tells one endpoint, outside of any database transaction of ours (level 3): a webhook, a mailbox. Its methods may be
// called concurrently.
//
// An error says only that the endpoint has not said that it has taken the notification. It may have: then it gets it again,
// with the same Key, by which it can tell.
type Notifier interface {
	// Notify tells the endpoint. The error is a *NotifyError where it says something about trying again.
	Notify(ctx context.Context, n Notification) error
}

// Notification is what an endpoint is told. All of it is the same at each attempt.
type Notification struct {
	Key   string // the notification's workflow ID, in printable UTF-8
	Event NotifyEvent
	Text  string // the event for a person, one line
}

// NotifyEvent is what a program is told. Its JSON is the body of a webhook.
type NotifyEvent struct {
	Type      string          `json:"type"`      // what ended, and how: "transfer.completed"
	Timestamp time.Time       `json:"timestamp"` // when it ended
	Data      json.RawMessage `json:"data"`      // its result
}

// NotifyError is why an endpoint has not taken a notification, as far as it is known.
type NotifyError struct {
	Err error
	// Refused: trying again would be refused again.
	Refused bool
	// RetryAfter is how long the endpoint wants to be left alone; 0 if it did not say.
	RetryAfter time.Duration
}

func (e *NotifyError) Error() string { return e.Err.Error() }

func (e *NotifyError) Unwrap() error { return e.Err }

// NotifyInput asks for an endpoint to be told. It is plain JSON.
type NotifyInput struct {
	Endpoint string      `json:"endpoint"`
	Key      string      `json:"key"`
	Event    NotifyEvent `json:"event"`
	Text     string      `json:"text"`
}

// Notifications are the activities of the endpoints of one worker process. Register the pointer with the worker of their task
// queue.
type Notifications struct {
	endpoints map[string]Notifier
}

// NewNotifications returns the activities for some endpoints, by name. The map is not changed afterwards.
func NewNotifications(endpoints map[string]Notifier) *Notifications {
	return &Notifications{endpoints: endpoints}
}

var errEndpointUnknown = errors.New("this worker has no such endpoint: set it in NOTIFY, at every worker that has NOTIFY")

// Notify tells an endpoint. Level 3: a repeat tells it again, with the same key.
func (n *Notifications) Notify(ctx context.Context, in NotifyInput) (err error) {
	defer finish(ctx, "tell "+in.Endpoint, &err)
	endpoint, ok := n.endpoints[in.Endpoint]
	if !ok {
		return errEndpointUnknown
	}
	return endpoint.Notify(ctx, Notification{Key: in.Key, Event: in.Event, Text: in.Text})
}

func classifyNotify(err *NotifyError) (typ string, retry bool) {
	if err.Refused {
		return ErrorNotifyRefused, false
	}
	return ErrorNotify, true
}

// notifyDelayMax bounds what an endpoint can ask for: it must not keep a dead letter from a person for days.
const notifyDelayMax = time.Hour

// nextRetryDelay is how long an endpoint has asked to be left alone, if that is longer than the attempt's backoff; 0 leaves it
// at that.
func nextRetryDelay(ctx context.Context, err error) time.Duration {
	notify, ok := errors.AsType[*NotifyError](err)
	if !ok || notify.RetryAfter <= 0 {
		return 0
	}
	info := activity.GetInfo(ctx)
	if policy := info.RetryPolicy; policy != nil {
		backoff := float64(policy.InitialInterval) * math.Pow(policy.BackoffCoefficient, float64(info.Attempt-1))
		if float64(notify.RetryAfter) <= min(backoff, float64(policy.MaximumInterval)) {
			return 0
		}
	}
	return min(notify.RetryAfter, notifyDelayMax)
}
