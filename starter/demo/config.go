package demo

import (
	"io"
	"time"

	"go.temporal.io/sdk/client"

	"payonce/workflows"
)

// The stage: two ledgers, one asset, and the same money in each scenario.
const (
	LedgerSource      = "us"
	LedgerDestination = "eu"

	// NaiveDatabase is the database of the accounts of the transfer without a key.
	NaiveDatabase = "payonce_demo_naive"

	asset   = "USD/2"
	funds   = "20.00" // what A begins with
	amount  = "10.00" // what A sends
	other   = "11.00" // what it sends by mistake
	zero    = "0.00"
	world   = "world" // where A's money comes from
	callers = 5       // calls of an impatient client at once
)

// timeoutWorkflowTask is how long Temporal waits for a worker that has taken a transfer before it gives the transfer to
// another. The default, 10 s, would make a demo of waiting.
const timeoutWorkflowTask = 3 * time.Second

// timeoutScenario ends a scenario that hangs.
const timeoutScenario = 2 * time.Minute

// Config is where a demo is played. Everything is there already: servers, migrated ledgers, programs.
type Config struct {
	// Temporal is a client of the namespace that the workers use.
	Temporal client.Client
	// FaultWorker, Worker and Starter are the paths of the programs.
	FaultWorker string
	Worker      string
	Starter     string
	RailSim     string
	// Env is the whole environment of the workers, with LEDGERS and Temporal's settings.
	Env []string
	// NaiveDatabaseURL is a database for the accounts of the transfer without a key, as a role that may make tables.
	NaiveDatabaseURL string
	// Scenarios are the names of those to play, in the demo's order; none is all.
	Scenarios []string
	// Timeline is told what happens, when it does.
	Timeline *Timeline
	// Log gets the workers' logs of a scenario that went wrong.
	Log io.Writer
}

// timeoutAttempt is for an attempt that nothing is to befall: one costs that only when it hangs, and a busy machine is no part of a
// scenario.
const timeoutAttempt = 10 * time.Second

// quick are the options of the demo's workers: the defaults' shape, in seconds instead of minutes.
func quick() workflows.Options {
	return workflows.Options{
		Fast:    workflows.FastOptions{TimeoutStartToClose: timeoutAttempt, AttemptsMax: 2, Backoff: 100 * time.Millisecond},
		Forward: workflows.StepOptions{TimeoutStartToClose: timeoutAttempt, BackoffFirst: 200 * time.Millisecond, BackoffMax: time.Second, AttemptsMax: 3},
		Settle:  workflows.StepOptions{TimeoutStartToClose: timeoutAttempt, BackoffFirst: 200 * time.Millisecond, BackoffMax: time.Second, AttemptsMax: 30},
		Record:  workflows.StepOptions{TimeoutStartToClose: timeoutAttempt, BackoffFirst: 200 * time.Millisecond, BackoffMax: time.Second},
		Outage:  workflows.OutageOptions{Budget: time.Minute, BackoffFirst: 200 * time.Millisecond, BackoffMax: time.Second},
		Notify:  workflows.StepOptions{TimeoutStartToClose: timeoutAttempt, BackoffFirst: 200 * time.Millisecond, BackoffMax: time.Second, AttemptsMax: 12},
		Ask:     workflows.StepOptions{TimeoutStartToClose: timeoutAttempt, BackoffFirst: 100 * time.Millisecond, BackoffMax: time.Second},
		Write:   workflows.WriteOptions{TimeoutHeartbeat: 2 * time.Second, BackoffFirst: 200 * time.Millisecond, BackoffMax: time.Second, Within: time.Minute},
		Rail: workflows.RailOptions{
			Submit:    workflows.StepOptions{TimeoutStartToClose: timeoutAttempt, BackoffFirst: 200 * time.Millisecond, BackoffMax: time.Second, AttemptsMax: 2},
			Ask:       workflows.StepOptions{TimeoutStartToClose: timeoutAttempt, BackoffFirst: 200 * time.Millisecond, BackoffMax: time.Second, AttemptsMax: 3},
			PollFirst: 300 * time.Millisecond, PollMax: time.Second, Patience: 20 * time.Second,
		},
	}
}
