package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
)

// Options are all time-outs and retry policies of the workflows. DefaultOptions has the production values; tests and the
// demo use shorter ones. Running transfers take new values at their next step: they are not part of what a replay
// compares, except whether the fast path is on.
type Options struct {
	// Fast is the first way that a forward step is tried: as a local activity, in the worker that runs the workflow.
	Fast FastOptions
	// Forward is the durable way of post, withdraw and deposit.
	Forward StepOptions
	// Settle is how resolve and refund run: with more patience, since nothing else can be done.
	Settle StepOptions
	// Record is how a dead letter is written. AttemptsMax 0 is no cap: the transfer waits for a person anyway.
	Record StepOptions
	// Outage bounds how long a step waits for a ledger, or a rail, that can't be reached.
	Outage OutageOptions
	// Rail is how rails are asked.
	Rail RailOptions
	// Notify is how an endpoint is told of an end. What it waits for in its queue is bounded by Outage.Budget.
	Notify StepOptions
	// Ask is how the command line's reads and account commands run. The caller's own time-out ends them.
	Ask StepOptions
	// Write is how a statement's file is written.
	Write WriteOptions
}

// FastOptions bound the fast path of a step.
type FastOptions struct {
	TimeoutStartToClose time.Duration
	// AttemptsMax 0 turns the fast path off. All workers of a namespace agree about that, for as long as a transfer runs:
	// a history with the fast path does not replay without it.
	AttemptsMax int32
	Backoff     time.Duration
}

// StepOptions bound the durable path of a step. Backoff doubles from BackoffFirst up to BackoffMax.
type StepOptions struct {
	TimeoutStartToClose time.Duration
	BackoffFirst        time.Duration
	BackoffMax          time.Duration
	AttemptsMax         int32 // 0 is no cap
}

// RailOptions bound what is asked of a rail. No end of a payout follows from them: they say when it is asked again, and when a
// person is asked.
type RailOptions struct {
	// Submit is how a payout is handed to its rail, before it is asked whether it has it.
	Submit StepOptions
	// Ask is how the rail is asked about a payout, each time.
	Ask StepOptions
	// PollFirst is the time between two questions, which doubles up to PollMax.
	PollFirst time.Duration
	PollMax   time.Duration
	// Patience is how long a rail is asked about a payout that it does not know, or does not tell of, before a person is. One
	// that is pending is waited for without end.
	Patience time.Duration
}

func (o *RailOptions) pollFirst() time.Duration { return min(o.PollFirst, o.PollMax) }

// OutageOptions bound the waiting for a ledger that can't be reached. An outage uses up none of a step's attempts.
type OutageOptions struct {
	// Budget is how long one step waits in all, also in the queue of a ledger that no worker serves. After it, the
	// step's attempts count as run out.
	Budget       time.Duration
	BackoffFirst time.Duration
	BackoffMax   time.Duration
}

// WriteOptions bound the writing of a file, which takes as long as there is to write. Backoff doubles from BackoffFirst up to
// BackoffMax.
type WriteOptions struct {
	// TimeoutHeartbeat is how long a worker may be silent, which tells of itself with each page, before another one begins
	// anew.
	TimeoutHeartbeat time.Duration
	BackoffFirst     time.Duration
	BackoffMax       time.Duration
	// Within bounds all attempts together, also in the queue of a ledger that no worker serves: there is no other cap.
	Within time.Duration
}

// DefaultOptions returns the production values. A ledger's own time-outs are below TimeoutStartToClose, so that a step
// that is given up here has normally been given up there.
func DefaultOptions() Options {
	return Options{
		Fast:    FastOptions{TimeoutStartToClose: 2 * time.Second, AttemptsMax: 2, Backoff: 100 * time.Millisecond},
		Forward: StepOptions{TimeoutStartToClose: 10 * time.Second, BackoffFirst: 200 * time.Millisecond, BackoffMax: 30 * time.Second, AttemptsMax: 10},
		Settle:  StepOptions{TimeoutStartToClose: 10 * time.Second, BackoffFirst: 500 * time.Millisecond, BackoffMax: time.Minute, AttemptsMax: 30},
		Record:  StepOptions{TimeoutStartToClose: 10 * time.Second, BackoffFirst: 500 * time.Millisecond, BackoffMax: time.Minute},
		Outage:  OutageOptions{Budget: 24 * time.Hour, BackoffFirst: time.Second, BackoffMax: time.Minute},
		Ask:     StepOptions{TimeoutStartToClose: 10 * time.Second, BackoffFirst: 200 * time.Millisecond, BackoffMax: 5 * time.Second},
		// Within a day another run of its schedule is due.
		Write:  WriteOptions{TimeoutHeartbeat: time.Minute, BackoffFirst: 5 * time.Second, BackoffMax: 5 * time.Minute, Within: 24 * time.Hour},
		Notify: StepOptions{TimeoutStartToClose: 10 * time.Second, BackoffFirst: time.Second, BackoffMax: 5 * time.Minute, AttemptsMax: 12},
		Rail: RailOptions{
			Submit:    StepOptions{TimeoutStartToClose: 30 * time.Second, BackoffFirst: time.Second, BackoffMax: time.Minute, AttemptsMax: 5},
			Ask:       StepOptions{TimeoutStartToClose: 30 * time.Second, BackoffFirst: time.Second, BackoffMax: time.Minute, AttemptsMax: 3},
			PollFirst: 5 * time.Second, PollMax: time.Hour, Patience: 24 * time.Hour,
		},
	}
}

// local returns the options of the fast path. The whole has room for every attempt: by default Temporal would bound all
// attempts together by the time-out of one.
func (o FastOptions) local() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout:    o.TimeoutStartToClose,
		ScheduleToCloseTimeout: time.Duration(o.AttemptsMax) * (o.TimeoutStartToClose + 2*o.Backoff),
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    o.Backoff,
			BackoffCoefficient: 2,
			MaximumInterval:    o.Backoff,
			MaximumAttempts:    o.AttemptsMax,
			// In an outage the durable path waits better than a local activity, which holds up its workflow task.
			NonRetryableErrorTypes: []string{activities.ErrorLedgerUnavailable},
		},
	}
}

// durable returns the options of an activity on a task queue. There is no schedule-to-start time-out: waiting
// for a worker is not a failure of the step.
func (o StepOptions) durable(queue, summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:           queue,
		Summary:             summary,
		StartToCloseTimeout: o.TimeoutStartToClose,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    o.BackoffFirst,
			BackoffCoefficient: 2,
			MaximumInterval:    o.BackoffMax,
			MaximumAttempts:    o.AttemptsMax,
		},
	}
}

// capped is durable for a step whose attempts are capped: attemptsMax of them within the time left for outages. An
// outage ends the activity at once, so that it does not use the attempts up.
func (o StepOptions) capped(queue, summary string, attemptsMax int32, within time.Duration) workflow.ActivityOptions {
	options := o.durable(queue, summary)
	options.ScheduleToCloseTimeout = within
	options.RetryPolicy.MaximumAttempts = attemptsMax
	options.RetryPolicy.NonRetryableErrorTypes = []string{activities.ErrorLedgerUnavailable, activities.ErrorRailUnavailable}
	return options
}

// long returns the options of an activity that takes as long as it takes.
func (o WriteOptions) long(ledgerName, summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              LedgerTaskQueue(ledgerName),
		Summary:                summary,
		ScheduleToCloseTimeout: o.Within,
		HeartbeatTimeout:       o.TimeoutHeartbeat,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: o.BackoffFirst, BackoffCoefficient: 2, MaximumInterval: o.BackoffMax},
	}
}

// reconcileOptions are those of the activity that verifies and reconciles. It reads everything there is, so that it takes as
// long as that takes; its heartbeat tells that its worker is there. Within a day another run of its schedule is due.
func reconcileOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              TaskQueue,
		ScheduleToCloseTimeout: 24 * time.Hour,
		HeartbeatTimeout:       time.Minute,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 5 * time.Second, BackoffCoefficient: 2, MaximumInterval: 5 * time.Minute},
	}
}
