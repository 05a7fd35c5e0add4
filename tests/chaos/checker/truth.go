package checker

import (
	"fmt"
	"slices"
)

// checkTruth holds what clients were told, and what workflows returned, against the ledgers.
func (x *index) checkTruth(f *findings) {
	for _, id := range x.ids {
		t := x.transfers[id]
		t.checkTold(f)
		t.checkRuns(f)
		x.checkLetters(t, f)
		x.checkDiscarded(t, f)
	}
}

func (t *transfer) checkTold(f *findings) {
	told := make(map[string]*Call) // what was told first, by the request
	for _, call := range t.calls {
		if call.Told == "" {
			continue
		}
		p, err := call.Request.payment()
		if err != nil {
			f.transfer(RuleTruth, t.id, "a client asked for what can't be read: %v", err)
			continue
		}
		if problem := t.contradicts(&p, call.Told); problem != "" {
			f.transfer(RuleTruth, t.id, "%s was told %s, and %s", call.Client, call.Told, problem)
		}
		request := fmt.Sprintf("%s/%s to %s/%s: %s %s", p.fromLedger, p.from, p.toLedger, p.to, p.amount, p.asset)
		if first := told[request]; first == nil {
			told[request] = call
		} else if first.Told != call.Told {
			f.transfer(RuleTruth, t.id, "%s was told %s, and %s was told %s", first.Client, first.Told, call.Client, call.Told)
		}
	}
}

// contradicts says how the ledgers contradict that a payment ended as told, or "".
func (t *transfer) contradicts(p *payment, told string) string {
	if told == EndConflict {
		for i := range t.steps {
			if t.steps[i].is(p) {
				return fmt.Sprintf("the ledgers hold this very request: %s", t.steps[i].String())
			}
		}
		return ""
	}
	for i := range t.steps {
		if !t.steps[i].is(p) {
			return fmt.Sprintf("the ledgers hold another request under %s", t.steps[i].Key)
		}
	}
	first := kindWithdraw
	if p.within() {
		first = kindPost
	}
	got := t.outcome(first)
	deposit, refund := t.outcome(kindDeposit), t.outcome(kindRefund)
	var holds bool
	switch told {
	case EndCompleted:
		holds = got.State == stateApplied && (p.within() || deposit.State == stateApplied) && refund.State != stateApplied
	case EndRejected:
		holds = got.State == stateRefused && t.nothingApplied()
	case EndFailed:
		holds = got.State == stateSealed && got.Code == codeAttemptsExhausted && t.nothingApplied()
	case EndCancelled:
		holds = (got.State == stateSealed && got.Code == codeCancelled && t.nothingApplied()) ||
			(got.State == stateApplied && deposit.State == stateSealed && deposit.Code == codeCancelled && refund.State == stateApplied)
	case EndCompensated:
		holds = !p.within() && got.State == stateApplied && refund.State == stateApplied &&
			(deposit.State == stateRefused || (deposit.State == stateSealed && deposit.Code != codeCancelled))
	case EndDiscarded:
		holds = (got.State == stateSealed && got.Code == codeDiscarded && t.nothingApplied()) || (t.left() && refund.State != stateApplied)
	default:
		return "that is no end of a transfer"
	}
	if !holds {
		return "the ledgers hold " + describe(t.steps)
	}
	return ""
}

// outcome is what is recorded for the step of a kind: the one that applied, if one of several has.
func (t *transfer) outcome(kind string) *Operation {
	if applied := t.applied(kind); len(applied) > 0 {
		return applied[0].Operation
	}
	if recorded := t.of(kind); len(recorded) > 0 {
		return recorded[0].Operation
	}
	return &Operation{}
}

func (t *transfer) nothingApplied() bool {
	return !slices.ContainsFunc(t.steps, func(s step) bool { return s.State == stateApplied })
}

// checkRuns holds what each run of the workflow ended with against the ledgers and the other runs.
func (t *transfer) checkRuns(f *findings) {
	for _, run := range t.runs {
		switch run.Status {
		case "Completed":
			t.checkResult(run, f)
		case "Failed":
			p, err := run.Request.payment()
			if run.FailureType != "KeyConflict" || err != nil {
				f.transfer(RuleTruth, t.id, "run %s failed: %s: %s", run.RunID, run.FailureType, run.FailureText)
			} else if problem := t.contradicts(&p, EndConflict); problem != "" {
				f.transfer(RuleTruth, t.id, "run %s failed with a conflict, and %s", run.RunID, problem)
			}
		case "Terminated", "Running":
		default:
			f.transfer(RuleTruth, t.id, "run %s was closed as %s", run.RunID, run.Status)
		}
	}
}

func (t *transfer) checkResult(run *Run, f *findings) {
	if run.Result == nil {
		f.transfer(RuleTruth, t.id, "run %s completed without a result", run.RunID)
		return
	}
	asked, errAsked := run.Request.payment()
	returned, errReturned := run.Result.payment()
	if errAsked != nil || errReturned != nil || run.Result.ID != t.id || !asked.equal(&returned) {
		f.transfer(RuleTruth, t.id, "run %s was asked for %+v and returned %+v", run.RunID, run.Request, run.Result.Request)
		return
	}
	if problem := t.contradicts(&returned, run.Result.State); problem != "" {
		f.transfer(RuleTruth, t.id, "run %s returned %s, and %s", run.RunID, run.Result.State, problem)
	}
}

// checkDiscarded sees that only a person has a transfer discarded.
func (x *index) checkDiscarded(t *transfer, f *findings) {
	for i := range t.steps {
		if s := &t.steps[i]; s.State == stateSealed && s.Code == codeDiscarded && !x.Discarded[t.id] {
			f.transfer(RuleTruth, t.id, "nobody has said to discard it, and the ledgers hold %s", s)
		}
	}
}

// checkLetters sees that a transfer whose attempts ran out has left a dead letter that tells where the money is.
func (x *index) checkLetters(t *transfer, f *findings) {
	ranOut := slices.ContainsFunc(t.steps, func(s step) bool { return s.State == stateSealed && s.Code == codeAttemptsExhausted })
	told := slices.ContainsFunc(t.calls, func(c *Call) bool { return c.Told != "" && c.Told != EndConflict })
	if !ranOut || !told {
		return
	}
	place := "source"
	if t.left() {
		place = "transit"
	}
	for i := range x.Ledgers {
		for j := range x.Ledgers[i].DeadLetters {
			d := &x.Ledgers[i].DeadLetters[j]
			if d.Transfer == t.id && d.Place == place && !d.Parked {
				return
			}
		}
	}
	f.transfer(RuleTruth, t.id, "its attempts ran out, and no dead letter says so, nor that the money is at the %s", place)
}
