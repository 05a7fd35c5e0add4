package demo

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/internal/faultworker/fault"
	"payonce/ledger"
	"payonce/workflows"
)

// fulfilled is an observation that is just as a scenario must be.
func fulfilled(want expectation) observation {
	got := observation{balances: map[string]string{"A": want.a, "B": want.b}, recorded: maps.Clone(want.recorded)}
	if !want.keyless {
		got.transit = zero
	}
	attached := want.attached
	for told, times := range want.ends {
		for range times {
			got.ends = append(got.ends, end{told: told, attached: attached > 0})
			attached--
		}
	}
	for _, f := range want.faults {
		for range f.times {
			got.announced = append(got.announced, fault.Event{Event: fault.EventFault, PID: 1, Point: f.point, Action: f.action, Key: keyOf(f.point.Kind)})
			if f.action == fault.ActionKill {
				got.killed = append(got.killed, 1)
			}
		}
	}
	for _, m := range want.met {
		got.announced = append(got.announced, fault.Event{
			Event: fault.EventAnswer, PID: 2, Point: fault.Point{Kind: m.kind, Moment: fault.After}, Key: keyOf(m.kind), State: m.state, Repeat: m.repeat,
		})
	}
	if want.lateMet != "" {
		got.announced = append(got.announced,
			fault.Event{Event: fault.EventResumed, PID: 1, Point: fault.Point{Kind: fault.KindDeposit, Moment: fault.Before}, Key: keyOf(fault.KindDeposit)},
			fault.Event{Event: fault.EventAnswer, PID: 1, Point: fault.Point{Kind: fault.KindDeposit, Moment: fault.After}, Key: keyOf(fault.KindDeposit), State: want.lateMet, Repeat: true})
	}
	if want.entries > 0 {
		got.part = 1
		got.files = []seenFile{{"digest", want.entries}, {"digest", want.entries}}
	}
	for range want.webhooks {
		got.webhooks, got.acts = append(got.webhooks, webhook{id: "notify/shop/transfer/a/completed", body: "{}"}), 1
	}
	if want.letter != "" {
		got.letters = []activities.DeadLetterView{{Step: string(want.letter), Place: ledger.PlaceSource}}
	}
	return got
}

func keyOf(kind fault.Kind) string { return "transfer/a/" + string(kind) }

// breaks are ways in which an observation differs from what must be; ok is false where one does not apply.
var breaks = map[string]func(o *observation) (ok bool){
	"A has too much":   func(o *observation) bool { o.balances["A"] = "30.00"; return true },
	"B has nothing":    func(o *observation) bool { delete(o.balances, "B"); return true },
	"nothing was seen": func(o *observation) bool { *o = observation{}; return true },
	"money in transit": func(o *observation) bool {
		ok := o.transit != ""
		o.transit = amount
		return ok
	},
	"another end": func(o *observation) bool { o.ends[0].told = string(workflows.StateFailed); return true },
	"an end too many": func(o *observation) bool {
		o.ends = append(o.ends, end{told: string(workflows.StateCompleted)})
		return true
	},
	"no end":     func(o *observation) bool { o.ends = nil; return true },
	"no reunion": func(o *observation) bool { attached := o.ends[0].attached; o.ends[0].attached = false; return attached },
	"no fault": func(o *observation) bool {
		return drop(o, func(e fault.Event) bool { return e.Event == fault.EventFault })
	},
	"a fault too few": func(o *observation) bool {
		i := slices.IndexFunc(o.announced, func(e fault.Event) bool { return e.Event == fault.EventFault })
		if i < 0 {
			return false
		}
		o.announced = slices.Delete(o.announced, i, i+1)
		return true
	},
	"nobody was killed": func(o *observation) bool {
		ok := len(o.killed) > 0
		o.killed = nil
		return ok
	},
	"no answer": func(o *observation) bool {
		return drop(o, func(e fault.Event) bool { return e.Event == fault.EventAnswer })
	},
	"a repeat that was none": func(o *observation) bool {
		return change(o, func(e *fault.Event) bool {
			return e.Event == fault.EventAnswer && e.Repeat && e.State == ledger.OutcomeApplied
		},
			func(e *fault.Event) { e.Repeat = false })
	},
	"applied twice": func(o *observation) bool {
		for _, e := range o.announced {
			if e.Event == fault.EventAnswer && e.State == ledger.OutcomeApplied && !e.Repeat {
				o.announced = append(o.announced, e)
				return true
			}
		}
		return false
	},
	"a step more is recorded": func(o *observation) bool {
		ok := o.recorded != nil
		if ok {
			o.recorded[workflows.StepPost] = ledger.OutcomeApplied
		}
		return ok
	},
	"another outcome is recorded": func(o *observation) bool {
		ok := o.recorded != nil
		if ok {
			o.recorded[workflows.StepWithdraw] = ledger.OutcomeRefused
		}
		return ok
	},
	"a webhook too few": func(o *observation) bool {
		ok := len(o.webhooks) > 0
		o.webhooks = o.webhooks[:max(len(o.webhooks)-1, 0)]
		return ok
	},
	"another webhook-id": func(o *observation) bool {
		ok := len(o.webhooks) > 0
		if ok {
			o.webhooks[len(o.webhooks)-1].id = "notify/shop/transfer/b/completed"
		}
		return ok
	},
	"another body": func(o *observation) bool {
		ok := len(o.webhooks) > 0
		if ok {
			o.webhooks[len(o.webhooks)-1].body = "{} "
		}
		return ok
	},
	"the receiver acted twice": func(o *observation) bool { o.acts++; return true },
	"nothing thawed": func(o *observation) bool {
		return drop(o, func(e fault.Event) bool { return e.Event == fault.EventResumed })
	},
	"the late attempt applied": func(o *observation) bool {
		return change(o, func(e *fault.Event) bool { return e.PID == 1 && e.Event == fault.EventAnswer },
			func(e *fault.Event) { e.State = ledger.OutcomeApplied })
	},
	"the late attempt failed": func(o *observation) bool {
		return change(o, func(e *fault.Event) bool { return e.PID == 1 && e.Event == fault.EventAnswer },
			func(e *fault.Event) { e.State, e.Error = "", "the context has ended" })
	},
	"the late attempt is another's": func(o *observation) bool {
		return change(o, func(e *fault.Event) bool { return e.PID == 1 && e.Event == fault.EventAnswer },
			func(e *fault.Event) { e.PID = 2 })
	},
	"the late attempt came before the thaw": func(o *observation) bool {
		i := slices.IndexFunc(o.announced, func(e fault.Event) bool { return e.Event == fault.EventResumed })
		if i < 0 {
			return false
		}
		o.announced[i], o.announced[i+1] = o.announced[i+1], o.announced[i]
		return true
	},
	"no part of a file": func(o *observation) bool {
		ok := o.part > 0
		o.part = 0
		return ok
	},
	"one file": func(o *observation) bool {
		ok := len(o.files) > 1
		o.files = o.files[:min(1, len(o.files))]
		return ok
	},
	"another file": func(o *observation) bool {
		ok := len(o.files) > 1
		if ok {
			o.files[1].digest = "another"
		}
		return ok
	},
	"a file with fewer entries": func(o *observation) bool {
		ok := len(o.files) > 1
		for i := range o.files {
			o.files[i].entries--
		}
		return ok
	},
	"no dead letter": func(o *observation) bool {
		ok := len(o.letters) > 0
		o.letters = nil
		return ok
	},
	"a dead letter of a transfer that is parked": func(o *observation) bool {
		ok := len(o.letters) > 0
		if ok {
			o.letters[0].Parked = true
		}
		return ok
	},
	"a dead letter for nothing": func(o *observation) bool {
		ok := len(o.letters) == 0
		o.letters = []activities.DeadLetterView{{}}
		return ok
	},
}

func drop(o *observation, which func(fault.Event) bool) bool {
	before := len(o.announced)
	o.announced = slices.DeleteFunc(o.announced, which)
	return len(o.announced) < before
}

func change(o *observation, which func(*fault.Event) bool, how func(*fault.Event)) bool {
	for i := range o.announced {
		if which(&o.announced[i]) {
			how(&o.announced[i])
			return true
		}
	}
	return false
}

// Every scenario is right when it is as it must be, and wrong in every other way.
func TestJudge(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for _, s := range scenarios() {
		require.Empty(t, judge(s.want, fulfilled(s.want)), s.name)
		for name, broken := range breaks {
			got := fulfilled(s.want)
			if !broken(&got) {
				continue
			}
			used[name] = true
			require.NotEmpty(t, judge(s.want, got), "%s: %s", s.name, name)
		}
	}
	for name := range breaks {
		require.True(t, used[name], "no scenario can be broken so: %s", name)
	}
}

// What is missing is said in words.
func TestJudgeSays(t *testing.T) {
	t.Parallel()
	s := replyLost()
	got := fulfilled(s.want)
	got.balances = map[string]string{"A": "0.00", "B": "20.00"}
	got.killed = nil
	require.Equal(t, []string{
		"A has 0.00, and must have 10.00",
		"B has 20.00, and must have 10.00",
		"0 workers were killed, and 1 must be",
	}, judge(s.want, got))
}
