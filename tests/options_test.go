package tests

import (
	"time"

	"payonce/tests/harness"
	"payonce/workflows"
)

// The options of workers with faults: each changes harness.ShortOptions so that what becomes of an attempt is what the test is
// about, and never how busy the machine is.

// unhurried is for workers none of whose attempts is to run out of time.
func unhurried(o *workflows.Options) {
	o.Fast.TimeoutStartToClose = time.Minute
	for _, step := range []*workflows.StepOptions{&o.Forward, &o.Settle, &o.Record, &o.Notify, &o.Ask, &o.Rail.Submit, &o.Rail.Ask} {
		step.TimeoutStartToClose = time.Minute
	}
	o.Write.TimeoutHeartbeat = time.Minute
}

// patiently is harness.Durable for steps that are held or frozen, which is no failure of theirs.
func patiently(o *workflows.Options) {
	unhurried(o)
	harness.Durable(o)
	o.Forward.TimeoutStartToClose, o.Settle.TimeoutStartToClose = time.Hour, time.Hour
}

// losing is harness.Durable for workers that lose an attempt: that costs its time-out, which is shorter, and the attempts after it are
// more than a busy machine can lose too.
func losing(o *workflows.Options) {
	unhurried(o)
	harness.Durable(o)
	o.Forward.TimeoutStartToClose, o.Settle.TimeoutStartToClose = 10*time.Second, 10*time.Second
	o.Forward.AttemptsMax, o.Settle.AttemptsMax = 20, 20
}

// timeoutLong is for commands whose end takes as long as time-outs that have to be met: as long as anything may.
const timeoutLong = "--timeout=2m"
