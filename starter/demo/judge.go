package demo

import (
	"fmt"
	"maps"
	"slices"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
)

// judge compares what was seen with what must be, and returns what differs.
func judge(want expectation, got observation) []string {
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	for _, account := range []struct{ name, want string }{{"A", want.a}, {"B", want.b}} {
		if balance := got.balances[account.name]; balance != account.want {
			problem("%s has %s, and must have %s", account.name, orNothing(balance), account.want)
		}
	}
	if !want.keyless && got.transit != zero {
		problem("%s is left between the ledgers", orNothing(got.transit))
	}
	problems = append(problems, judgeEnds(want, got)...)
	for _, f := range want.faults {
		if times := strikes(got.announced, f.point, f.action); times < f.times {
			problem("the fault %s=%s struck %d times, and must strike %d: nothing was proved", f.point, f.action, times, f.times)
		}
		if f.action == fault.ActionKill && len(got.killed) < f.times {
			problem("%d workers were killed, and %d must be", len(got.killed), f.times)
		}
	}
	for _, m := range want.met {
		if !slices.ContainsFunc(got.announced, m.is) {
			problem("no %s was answered: %s", m.kind, m.text())
		}
	}
	if !want.keyless {
		problems = append(problems, judgeOnce(got)...)
	}
	if !maps.Equal(want.recorded, got.recorded) {
		problem("the ledgers have recorded %v, and must have %v", got.recorded, want.recorded)
	}
	if want.lateMet != "" {
		problems = append(problems, judgeLate(want.lateMet, got)...)
	}
	problems = append(problems, judgeFiles(want, got)...)
	problems = append(problems, judgeWebhooks(want, got)...)
	return append(problems, judgeLetters(want, got)...)
}

// judgeEnds compares what the client's calls were told.
func judgeEnds(want expectation, got observation) []string {
	var problems []string
	told := make(map[string]int)
	attached := 0
	for _, e := range got.ends {
		told[e.told]++
		if e.attached {
			attached++
		}
	}
	if !maps.Equal(want.ends, told) {
		problems = append(problems, fmt.Sprintf("the client was told %v, and must be told %v", told, want.ends))
	}
	if attached != want.attached {
		problems = append(problems, fmt.Sprintf("%d calls found the transfer started already, and %d must", attached, want.attached))
	}
	return problems
}

// judgeOnce checks that no step applied twice, whatever the balances say.
func judgeOnce(got observation) []string {
	applied := make(map[string]int)
	for i := range got.announced {
		if e := &got.announced[i]; e.Event == fault.EventAnswer && e.State == ledger.OutcomeApplied && !e.Repeat && e.Point.Kind != fault.KindResolve {
			applied[e.Key]++
		}
	}
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(applied)) {
		if applied[key] > 1 {
			problems = append(problems, fmt.Sprintf("%s applied %d times", key, applied[key]))
		}
	}
	return problems
}

// judgeLate checks what the attempt met that was frozen and thawed: the answer must come from the same process, after it
// went on.
func judgeLate(want ledger.OutcomeState, got observation) []string {
	for i := range got.announced {
		resumed := &got.announced[i]
		if resumed.Event != fault.EventResumed {
			continue
		}
		for j := range got.announced[i:] {
			e := &got.announced[i+j]
			if e.Event != fault.EventAnswer || e.PID != resumed.PID || e.Key != resumed.Key || e.Point.Kind != resumed.Point.Kind {
				continue
			}
			if e.State != want {
				return []string{fmt.Sprintf("the late attempt met %s, and must meet %s", orNothing(string(e.State)+e.Error), want)}
			}
			return nil
		}
		return []string{"the late attempt was thawed, and nothing was heard of it"}
	}
	return []string{"no attempt was thawed: nothing was proved"}
}

// judgeFiles checks that a statement was there as a whole or not at all, and twice the same.
func judgeFiles(want expectation, got observation) []string {
	if want.entries == 0 {
		return nil
	}
	var problems []string
	if got.part == 0 {
		problems = append(problems, "the worker was killed before it had written anything: nothing was proved")
	}
	if len(got.files) != 2 {
		return append(problems, fmt.Sprintf("%d statements were written, and 2 must be", len(got.files)))
	}
	for _, file := range got.files {
		if file.entries != want.entries {
			problems = append(problems, fmt.Sprintf("a statement has %d entries, and must have %d", file.entries, want.entries))
		}
	}
	if got.files[0].digest != got.files[1].digest {
		problems = append(problems, "the statement that was disturbed is not the one that was not")
	}
	return problems
}

func judgeLetters(want expectation, got observation) []string {
	if want.letter == "" {
		if len(got.letters) > 0 {
			return []string{fmt.Sprintf("%d dead letters were written, and none must be", len(got.letters))}
		}
		return nil
	}
	for i := range got.letters {
		letter := &got.letters[i]
		if letter.Step == string(want.letter) && letter.Place == ledger.PlaceSource && !letter.Parked {
			return nil
		}
	}
	return []string{fmt.Sprintf("there is no dead letter of the %s that says that the money is back", want.letter)}
}

func strikes(events []fault.Event, point fault.Point, action fault.Action) int {
	n := 0
	for i := range events {
		if e := &events[i]; e.Event == fault.EventFault && e.Point == point && e.Action == action {
			n++
		}
	}
	return n
}

func (m meeting) is(e fault.Event) bool {
	return e.Event == fault.EventAnswer && e.Point.Kind == m.kind && e.State == m.state && e.Repeat == m.repeat
}

func (m meeting) text() string {
	if m.repeat {
		return string(m.state) + ", a repeat"
	}
	return string(m.state) + ", for the first time"
}

func orNothing(s string) string {
	if s == "" {
		return "nothing known"
	}
	return s
}
