package process

import (
	"github.com/spf13/pflag"

	"payonce/workflows"
)

// The flags of a fault worker, beside those of OptionFlags.
const (
	FlagFault          = "fault"
	FlagSticky         = "sticky"
	FlagUntilInputEnds = "until-input-ends"
)

// EnvNaiveDatabaseURL is the database of the naive transfer's accounts, as a role that may make tables. Unset, the fault
// worker has no naive transfer.
const EnvNaiveDatabaseURL = "PAYONCE_NAIVE_DATABASE_URL"

// OptionFlags adds flags for all options of the workflows. What o has when it is called are the defaults.
func OptionFlags(flags *pflag.FlagSet, o *workflows.Options) {
	flags.DurationVar(&o.Fast.TimeoutStartToClose, "fast-timeout", o.Fast.TimeoutStartToClose, "of one attempt on the fast path")
	flags.Int32Var(&o.Fast.AttemptsMax, "fast-attempts", o.Fast.AttemptsMax, "on the fast path; 0 turns it off")
	flags.DurationVar(&o.Fast.Backoff, "fast-backoff", o.Fast.Backoff, "between attempts on the fast path")
	for _, step := range []struct {
		name    string
		options *workflows.StepOptions
	}{
		{"forward", &o.Forward},
		{"settle", &o.Settle},
		{"record", &o.Record},
		{"ask", &o.Ask},
		{"rail-submit", &o.Rail.Submit},
		{"rail-ask", &o.Rail.Ask},
		{"notify", &o.Notify},
	} {
		flags.DurationVar(&step.options.TimeoutStartToClose, step.name+"-timeout", step.options.TimeoutStartToClose, "of one attempt")
		flags.Int32Var(&step.options.AttemptsMax, step.name+"-attempts", step.options.AttemptsMax, "0 is no cap")
		flags.DurationVar(&step.options.BackoffFirst, step.name+"-backoff", step.options.BackoffFirst, "after the first attempt; it doubles")
		flags.DurationVar(&step.options.BackoffMax, step.name+"-backoff-max", step.options.BackoffMax, "the longest one")
	}
	flags.DurationVar(&o.Write.TimeoutHeartbeat, "write-heartbeat", o.Write.TimeoutHeartbeat, "how long one who writes a file may be silent")
	flags.DurationVar(&o.Write.BackoffFirst, "write-backoff", o.Write.BackoffFirst, "after the first attempt; it doubles")
	flags.DurationVar(&o.Write.BackoffMax, "write-backoff-max", o.Write.BackoffMax, "the longest one")
	flags.DurationVar(&o.Write.Within, "write-within", o.Write.Within, "all attempts together")
	flags.DurationVar(&o.Outage.Budget, "outage-budget", o.Outage.Budget, "how long a step waits for a ledger that can't be reached")
	flags.DurationVar(&o.Outage.BackoffFirst, "outage-backoff", o.Outage.BackoffFirst, "after the first try; it doubles")
	flags.DurationVar(&o.Outage.BackoffMax, "outage-backoff-max", o.Outage.BackoffMax, "the longest one")
	flags.DurationVar(&o.Rail.PollFirst, "rail-poll", o.Rail.PollFirst, "before a rail is asked again; it doubles")
	flags.DurationVar(&o.Rail.PollMax, "rail-poll-max", o.Rail.PollMax, "the longest time")
	flags.DurationVar(&o.Rail.Patience, "rail-patience", o.Rail.Patience, "how long a rail is asked before a person is")
}

// OptionArgs are the flags that set all the options.
func OptionArgs(o workflows.Options) []string {
	var args []string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	OptionFlags(flags, &o)
	flags.VisitAll(func(f *pflag.Flag) { args = append(args, "--"+f.Name+"="+f.Value.String()) })
	return args
}
