package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Story tells all that is known about a violation: the calls, the runs with their events, the operations with their
// entries, what was done to everybody meanwhile.
func Story(e *Evidence, v Violation) string {
	x := newIndex(e)
	s := &story{index: x}
	s.line("%s", v)
	switch {
	case v.Transfer != "" && x.transfers[v.Transfer] != nil:
		s.transfer(x.transfers[v.Transfer])
	case x.payout(v.Transfer) != nil:
		s.payout(x.payout(v.Transfer))
	case v.Account != "":
		s.account(v.Account)
	}
	return s.text.String()
}

// Smallest is the violation whose story is the shortest, with its story. There must be one.
func Smallest(e *Evidence, violations []Violation) (Violation, string) {
	stories := make([]string, len(violations))
	for i, v := range violations {
		stories[i] = Story(e, v)
	}
	shortest := 0
	for i := range stories {
		// A violation that is about one transfer says more than one that is about a sum.
		about, best := violations[i].Transfer != "", violations[shortest].Transfer != ""
		if about == best && len(stories[i]) < len(stories[shortest]) || about && !best {
			shortest = i
		}
	}
	return violations[shortest], stories[shortest]
}

type story struct {
	*index

	text strings.Builder
}

func (s *story) line(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

func (s *story) transfer(t *transfer) {
	if trouble := s.Troubles[t.id]; trouble != "" {
		s.line("  done to it: %s", trouble)
	}
	s.line("  calls:")
	for _, c := range t.calls {
		told := c.Told
		if told == "" {
			told = "no end (" + clip(c.Note) + ")"
		}
		s.line("    %s to %s %s: %s %s from %s to %s: told %s", timeText(c.Called), timeText(c.Returned), c.Client,
			c.Request.Amount, c.Request.Asset, c.Request.From, c.Request.To, told)
	}
	s.runs(t.runs)
	s.operations(t.steps)
	s.letters(t.id)
	s.disturbances(t)
}

func (s *story) runs(runs []*Run) {
	for _, run := range runs {
		s.line("  run %s, %s:", run.RunID, run.Status)
		for _, event := range run.Events {
			if event.tells() {
				s.line("    %s %3d %s %s", timeText(event.At), event.ID, event.Type, event.Text)
			}
		}
	}
}

func (s *story) operations(steps []step) {
	s.line("  operations:")
	for _, step := range steps {
		s.line("    %s %s on %s: %s %s %s", timeText(step.At), step.Key, step.ledger, step.State, step.Code, legsText(step.Legs))
		for _, entry := range newBooks(s.ledgers[step.ledger]).ofOperation[step.ID] {
			s.line("      account %d version %d: %+d leaves %d", entry.AccountID, entry.Version, entry.Amount, entry.Balance)
		}
	}
}

func (s *story) letters(id string) {
	for i := range s.Ledgers {
		for _, d := range s.Ledgers[i].DeadLetters {
			if d.Transfer == id {
				s.line("  dead letter on %s: %s %s parked %t, %d attempts, money at %s (%s): %s; %s", s.Ledgers[i].Name, d.Step, d.State,
					d.Parked, d.Attempts, d.Place, d.Account, clip(d.Error), d.Resolution)
			}
		}
	}
}

// tells says whether an event is worth telling: the scheduling of tasks is not.
func (e *Event) tells() bool {
	switch e.Type {
	case "WorkflowTaskScheduled", "WorkflowTaskStarted", "UpsertWorkflowSearchAttributes":
		return false
	default:
		return true
	}
}

func (s *story) disturbances(t *transfer) {
	if len(t.calls) == 0 {
		return
	}
	from, to := t.calls[0].Called, t.calls[0].Returned
	for _, c := range t.calls {
		if !c.Repeat && c.Returned.After(to) {
			to = c.Returned
		}
	}
	s.line("  meanwhile:")
	for _, d := range s.Disturbances {
		if d.From.Before(to) && d.To.After(from) {
			s.line("    %s for %s: %s %s", timeText(d.From), d.To.Sub(d.From).Round(time.Millisecond), d.Fault, d.Detail)
		}
	}
}

// accountLinesMax bounds how much of an account is told.
const accountLinesMax = 60

// account tells an account's entries with the refusals between them, by the ledger's clock.
func (s *story) account(ref string) {
	ledger, name, _ := strings.Cut(ref, "/")
	l := s.ledgers[ledger]
	if l == nil {
		return
	}
	b := newBooks(l)
	spans := s.times()
	for i := range l.Accounts {
		a := &l.Accounts[i]
		if a.Name != name {
			continue
		}
		s.line("  %s %s, balance %s, version %d, floor %s, ceiling %s, %s", a.Name, a.Asset, a.Balance, a.Version, a.Floor, a.Ceiling, a.Status)
		type row struct {
			at      time.Time
			version int64
			text    string
		}
		var rows []row
		for j := range l.Operations {
			o := &l.Operations[j]
			id := ownerOf(o.Key)
			asked := fmt.Sprintf("asked %s, told %s", timeText(spans[id].call), timeText(spans[id].told))
			for _, e := range b.ofOperation[o.ID] {
				if e.AccountID == a.ID {
					rows = append(rows, row{o.At, e.Version, fmt.Sprintf("version %d: %+d leaves %d, %s, %s", e.Version, e.Amount, e.Balance, o.Key, asked)})
				}
			}
			if o.State == stateRefused && len(o.Legs) == 1 && (o.Legs[0].From == name || o.Legs[0].To == name) {
				rows = append(rows, row{o.At, 0, fmt.Sprintf("refused %s: %s, %s, %s", o.Code, o.Legs[0].Amount, o.Key, asked)})
			}
		}
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.version, b.version)) })
		for j, r := range rows {
			if j == accountLinesMax {
				s.line("    and %d more", len(rows)-j)
				break
			}
			s.line("    %s %s", timeText(r.at), r.text)
		}
	}
}
