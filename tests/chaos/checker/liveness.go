package checker

import (
	"slices"
	"strings"
	"time"
)

// benignCauses are why a workflow task may fail without a fault of the program.
var benignCauses = []string{"", "ResetWorkflow", "UnhandledCommand", "ForceCloseCommand", "ResetStickyTaskQueue", "FailoverCloseCommand"}

// benign says that a workflow task failed without a fault of the program. A task that the server gives out without the events
// that it has not recorded yet is refused by the SDK before anything is decided in it, and comes again: github.com/temporalio,
// sdk-go issue 186, temporal issue 7741.
func benign(event Event) bool {
	return slices.Contains(benignCauses, event.Cause) ||
		event.Cause == "WorkflowWorkerUnhandledFailure" && strings.HasPrefix(event.Text, "history_events: premature end of stream,")
}

// checkLiveness sees that everything has come to an end, in time, and that what was set aside had a cause.
func (x *index) checkLiveness(f *findings) {
	for _, death := range x.Deaths {
		f.add(RuleLiveness, "a worker has ended by itself: %s", death)
	}
	for i := range x.Runs {
		run := &x.Runs[i]
		id, isTransfer := strings.CutPrefix(run.WorkflowID, workflowPrefix)
		if !isTransfer {
			id = ""
		}
		if run.Status == "Running" {
			f.transfer(RuleLiveness, id, "%s %s is open, run %s", run.Type, run.WorkflowID, run.RunID)
		}
		for _, event := range run.Events {
			if !benign(event) {
				f.transfer(RuleLiveness, id, "a task of %s failed: %s: %s", run.WorkflowID, event.Cause, event.Text)
			}
		}
	}
	for _, id := range x.ids {
		x.transfers[id].checkAnswered(f)
		x.checkPrompt(x.transfers[id], f)
	}
	for i := range x.Ledgers {
		for j := range x.Ledgers[i].DeadLetters {
			x.checkDeadLetter(&x.Ledgers[i].DeadLetters[j], f)
		}
	}
}

// checkAnswered sees that every request was told an end: a client that goes on asking is told one.
func (t *transfer) checkAnswered(f *findings) {
	told := make(map[Request]bool)
	for _, call := range t.calls {
		told[call.Request] = told[call.Request] || call.Told != ""
	}
	for _, call := range t.calls {
		if !told[call.Request] {
			f.transfer(RuleLiveness, t.id, "%s asked and was never told an end; at last it was told: %s", call.Client, t.calls[len(t.calls)-1].Note)
			return
		}
	}
}

func (x *index) checkPrompt(t *transfer, f *findings) {
	limit, ok := x.Prompt[t.id]
	if !ok || len(t.calls) == 0 {
		return
	}
	called, told := t.calls[0].Called, x.Ended
	for _, call := range t.calls {
		if call.Told != "" && call.Returned.Before(told) {
			told = call.Returned
		}
	}
	if took := told.Sub(called); took > limit {
		f.transfer(RuleLiveness, t.id, "nothing was done to it, and it took %s", took.Round(time.Millisecond))
	}
}

func (x *index) checkDeadLetter(d *DeadLetter, f *findings) {
	if p := x.payout(d.Transfer); p != nil {
		x.checkPayoutLetter(d, p, f)
		return
	}
	t := x.transfers[d.Transfer]
	if t == nil {
		f.add(RuleLiveness, "there is a dead letter of %q, a transfer that nobody has asked for", d.Transfer)
		return
	}
	if d.Parked && d.State == "open" {
		f.transfer(RuleLiveness, t.id, "its dead letter of %s waits for a decision, and nobody can decide any more", d.Step)
	}
	if x.Troubles[t.id] == "" && !x.disturbed(t) && !t.timedOut() {
		f.transfer(RuleLiveness, t.id, "%s was set aside without a cause: %s", d.Step, d.Error)
	}
}

// checkPayoutLetter sees that a payout that was set aside had a cause, and waits for nobody any more.
func (x *index) checkPayoutLetter(d *DeadLetter, p *payout, f *findings) {
	if d.Parked && d.State == "open" {
		f.transfer(RuleLiveness, p.id, "its dead letter of %s waits for a decision, and nobody can decide any more", d.Step)
	}
	if x.Troubles[p.id] == "" && len(x.Disturbances) == 0 && !p.timedOut() {
		f.transfer(RuleLiveness, p.id, "%s was set aside without a cause: %s", d.Step, d.Error)
	}
}

// disturbed says whether something was done to everybody while a transfer was under way.
func (x *index) disturbed(t *transfer) bool {
	if len(t.calls) == 0 {
		return false
	}
	from, to := t.calls[0].Called, x.Ended
	for _, call := range t.calls {
		if call.Told != "" {
			to = call.Returned
			break
		}
	}
	return slices.ContainsFunc(x.Disturbances, func(d Disturbance) bool { return d.From.Before(to) && d.To.After(from) })
}

// timedOut says whether attempts of a transfer's steps timed out. It is the machine that was slow then.
func (t *transfer) timedOut() bool {
	for _, run := range t.runs {
		for _, event := range run.Events {
			if strings.Contains(event.Text, "timeout") || strings.Contains(event.Text, "deadline") || strings.Contains(event.Type, "TimedOut") {
				return true
			}
		}
	}
	return false
}
