package checker

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var begin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at is a moment, in seconds after the beginning.
func at(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }

// writing makes evidence by doing what a ledger that works would do.
type writing struct {
	e     *Evidence
	clock int
}

func newWriting() *writing {
	w := &writing{e: &Evidence{Troubles: map[string]string{}, Discarded: map[string]bool{}, Prompt: map[string]time.Duration{}, Shifting: map[string]bool{}, Ended: at(1000)}}
	for _, name := range []string{"us", "eu"} {
		l := Ledger{Name: name}
		other := map[string]string{"us": "eu", "eu": "us"}[name]
		for i, account := range []string{"world", "transit:" + other, "alice", "bob"} {
			a := Account{ID: int64(i + 1), Name: account, Asset: "USD/2", Balance: new(big.Int), Status: "open"}
			if i > 1 {
				a.Floor = new(big.Int)
			}
			l.Accounts = append(l.Accounts, a)
		}
		w.e.Ledgers = append(w.e.Ledgers, l)
	}
	return w
}

func (w *writing) ledger(name string) *Ledger {
	for i := range w.e.Ledgers {
		if w.e.Ledgers[i].Name == name {
			return &w.e.Ledgers[i]
		}
	}
	panic("no ledger " + name)
}

func (l *Ledger) account(name string) *Account {
	for i := range l.Accounts {
		if l.Accounts[i].Name == name {
			return &l.Accounts[i]
		}
	}
	panic("no account " + name)
}

func (l *Ledger) operation(key string) *Operation {
	for i := range l.Operations {
		if l.Operations[i].Key == key {
			return &l.Operations[i]
		}
	}
	panic("no operation " + key)
}

// record records an operation, and its entries if it has applied.
func (w *writing) record(ledger string, o Operation, from, to string, units int64) {
	l := w.ledger(ledger)
	w.clock++
	o.ID, o.At = int64(len(l.Operations)+1), at(w.clock)
	o.Legs = []Leg{{From: from, To: to, Asset: "USD/2", Amount: big.NewInt(units)}}
	l.Operations = append(l.Operations, o)
	if o.State != stateApplied {
		return
	}
	for name, amount := range map[string]int64{from: -units, to: units} {
		a := l.account(name)
		a.Version++
		a.Balance = new(big.Int).Add(a.Balance, big.NewInt(amount))
		l.Entries = append(l.Entries, Entry{AccountID: a.ID, Version: a.Version, OperationID: o.ID, Leg: 1, Amount: big.NewInt(amount), Balance: a.Balance})
	}
}

// ask notes a call, from when it was made until a moment after everything recorded so far.
func (w *writing) ask(r Request, called int, told string) {
	w.clock++
	w.e.Calls = append(w.e.Calls, Call{Client: "client", Request: r, Called: at(called), Returned: at(w.clock), Told: told})
	if told == EndConflict {
		return
	}
	w.e.Runs = append(w.e.Runs, Run{
		WorkflowID: "transfer/" + r.ID, RunID: "run-" + r.ID, Type: "Transfer", Status: "Completed", Started: at(called),
		Request: r, Result: &Result{Request: r, State: told},
	})
}

// sound is evidence of transfers with every end, and nothing wrong.
func sound() *writing {
	w := newWriting()
	within := func(id, from, to, amount, state, code, told string, units int64) {
		called := w.clock
		w.record("us", Operation{Key: "transfer/" + id + "/post", Kind: kindPost, State: state, Code: code}, from, to, units)
		w.ask(Request{ID: id, From: "us/" + from, To: "us/" + to, Amount: amount, Asset: "USD/2"}, called, told)
	}
	between := func(id, told string, deposit Operation) {
		called := w.clock
		key := "transfer/" + id + "/"
		w.record("us", Operation{Key: key + "withdraw", Kind: kindWithdraw, State: stateApplied, Counterparty: "eu/bob"}, "alice", "transit:eu", 500)
		deposit.Key, deposit.Kind, deposit.Counterparty = key+"deposit", kindDeposit, "us/alice"
		w.record("eu", deposit, "transit:us", "bob", 500)
		if deposit.State != stateApplied {
			w.record("us", Operation{Key: key + "refund", Kind: kindRefund, State: stateApplied, Counterparty: "eu/bob", Reverses: key + "withdraw"}, "transit:eu", "alice", 500)
		}
		if deposit.Code == codeAttemptsExhausted {
			w.letter(id, "deposit")
		}
		w.ask(Request{ID: id, From: "us/alice", To: "eu/bob", Amount: "5.00", Asset: "USD/2"}, called, told)
	}
	within("fund", "world", "alice", "20.00", stateApplied, "", EndCompleted, 2000)
	within("rent", "alice", "bob", "15.00", stateApplied, "", EndCompleted, 1500)
	within("much", "alice", "bob", "15.00", stateRefused, codeInsufficientFunds, EndRejected, 1500)
	within("gone", "alice", "bob", "1.00", stateSealed, codeAttemptsExhausted, EndFailed, 100)
	w.letter("gone", "post")
	within("halt", "alice", "bob", "1.00", stateSealed, codeCancelled, EndCancelled, 100)
	between("sent", EndCompleted, Operation{State: stateApplied})
	within("more", "world", "alice", "30.00", stateApplied, "", EndCompleted, 3000)
	between("back", EndCompensated, Operation{State: stateRefused, Code: "account_closed"})
	between("late", EndCompensated, Operation{State: stateSealed, Code: codeAttemptsExhausted})
	between("stop", EndCancelled, Operation{State: stateSealed, Code: codeCancelled})
	within("drop", "alice", "bob", "1.00", stateSealed, codeDiscarded, EndDiscarded, 100)
	w.e.Discarded["drop"] = true
	w.leave("left")
	other := w.e.Calls[0].Request
	other.Amount = "21.00"
	w.ask(other, w.clock, EndConflict)
	w.e.Before = w.copyBooks()
	return w
}

// leave is a transfer that a person has discarded while its money was in transit.
func (w *writing) leave(id string) {
	called := w.clock
	key := "transfer/" + id + "/"
	w.record("us", Operation{Key: key + "withdraw", Kind: kindWithdraw, State: stateApplied, Counterparty: "eu/bob"}, "alice", "transit:eu", 500)
	w.record("eu", Operation{Key: key + "deposit", Kind: kindDeposit, State: stateSealed, Code: codeAttemptsExhausted, Counterparty: "us/alice"}, "transit:us", "bob", 500)
	w.record("us", Operation{Key: key + "refund", Kind: kindRefund, State: stateSealed, Code: codeDiscarded, Counterparty: "eu/bob", Reverses: key + "withdraw"}, "transit:eu", "alice", 500)
	w.letter(id, "refund")
	letters := w.ledger("us").DeadLetters
	letters[len(letters)-1].State, letters[len(letters)-1].Place = "closed", "transit"
	w.e.Discarded[id] = true
	w.ask(Request{ID: id, From: "us/alice", To: "eu/bob", Amount: "5.00", Asset: "USD/2"}, called, EndDiscarded)
}

func (w *writing) letter(id, step string) {
	l := w.ledger("us")
	l.DeadLetters = append(l.DeadLetters, DeadLetter{Key: "transfer/" + id + "/" + step, Transfer: id, Step: step, State: "open", Place: "source", Error: "it failed"})
	w.e.Troubles[id] = "poison"
}

func (w *writing) copyBooks() []Ledger {
	var copied []Ledger
	for _, l := range w.e.Ledgers {
		l.Accounts = append([]Account{}, l.Accounts...)
		l.Operations = append([]Operation{}, l.Operations...)
		l.Entries = append([]Entry{}, l.Entries...)
		copied = append(copied, l)
	}
	return copied
}

func (w *writing) run(id string) *Run {
	for i := range w.e.Runs {
		if w.e.Runs[i].WorkflowID == "transfer/"+id {
			return &w.e.Runs[i]
		}
	}
	panic("no run of " + id)
}

func (w *writing) call(id string) *Call {
	for i := range w.e.Calls {
		if w.e.Calls[i].Request.ID == id {
			return &w.e.Calls[i]
		}
	}
	panic("no call of " + id)
}

func TestSoundEvidence(t *testing.T) {
	t.Parallel()
	require.Empty(t, Check(sound().e))
}

// Each row breaks one thing, and the rule that is there for it must say so.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		breaks func(w *writing)
		rule   Rule
		says   string
	}{
		// Books
		"an entry is lost": {func(w *writing) {
			l := w.ledger("us")
			l.Entries = l.Entries[1:]
		}, RuleBooks, "has 1 entries instead of 2"},
		"entries don't sum to zero": {func(w *writing) { w.ledger("us").Entries[0].Amount = big.NewInt(7) }, RuleBooks, "the entries in USD/2 sum to"},
		"an old entry is changed": {func(w *writing) {
			for i := range w.ledger("us").Entries {
				if e := &w.ledger("us").Entries[i]; e.AccountID == 3 && e.Version == 1 {
					e.Balance = big.NewInt(2001)
				}
			}
		}, RuleBooks, "us/alice: its entry of version 1 left 2001, and its entries sum to 2000"},
		"an entry says another amount than its leg": {func(w *writing) { w.ledger("us").operation("transfer/rent/post").Legs[0].Amount = big.NewInt(1499) }, RuleBooks, "its entries say otherwise"},
		"a version is missing": {func(w *writing) {
			for i := range w.ledger("us").Entries {
				if e := &w.ledger("us").Entries[i]; e.AccountID == 3 && e.Version > 1 {
					e.Version++
				}
			}
			w.ledger("us").account("alice").Version++
		}, RuleBooks, "its entry of version 3 follows the one of version 1"},
		"a balance is not that of the last entry": {func(w *writing) { w.ledger("us").account("bob").Balance = big.NewInt(1) }, RuleBooks, "us/bob: its balance is 1, and its last entry left 1500"},
		"a balance is below the floor":            {func(w *writing) { w.ledger("us").account("alice").Floor = big.NewInt(400) }, RuleBooks, "beyond its limits"},
		"an entry without an operation": {func(w *writing) {
			l := w.ledger("us")
			l.Operations = l.Operations[1:]
		}, RuleBooks, "belongs to operation 1, which is not there"},
		"an entry of no account":         {func(w *writing) { w.ledger("us").Entries[0].AccountID = 99 }, RuleBooks, "an entry belongs to account 99, which is not there"},
		"a version was lost":             {func(w *writing) { w.ledger("us").account("bob").Version++ }, RuleBooks, "us/bob: its version is 2, and its last entry's 1"},
		"a balance is above the ceiling": {func(w *writing) { w.ledger("eu").account("bob").Ceiling = big.NewInt(499) }, RuleBooks, "left 500, beyond its limits"},
		"a balance is beyond limits that change": {func(w *writing) {
			w.ledger("eu").account("bob").Ceiling = big.NewInt(499)
			w.e.Shifting["eu/bob"] = true
		}, RuleBooks, "its balance 500 is beyond its limits"},
		"a refused operation has entries": {func(w *writing) { w.ledger("us").operation("transfer/rent/post").State = stateRefused }, RuleBooks, "is refused, and has 2 entries"},
		"a time falls":                    {func(w *writing) { w.ledger("us").operation("transfer/rent/post").At = at(0) }, RuleBooks, "is earlier than that of the one before"},

		// Once
		"a step applies twice under two keys": {func(w *writing) {
			w.record("us", Operation{Key: "transfer/rent/2/post", Kind: kindPost, State: stateApplied}, "alice", "bob", 1)
		}, RuleOnce, "rent: post has applied 2 times"},
		"a key applies twice": {func(w *writing) {
			w.record("us", Operation{Key: "transfer/rent/post", Kind: kindPost, State: stateApplied}, "alice", "bob", 1)
		}, RuleOnce, "the key transfer/rent/post has applied twice on us"},
		"both paid in and refunded": {func(w *writing) {
			o := w.ledger("eu").operation("transfer/late/deposit")
			o.State, o.Code = stateApplied, ""
		}, RuleOnce, "late: it was both paid in and refunded"},
		"paid in and never taken":  {func(w *writing) { w.ledger("us").operation("transfer/sent/withdraw").State = stateRefused }, RuleOnce, "sent: it was paid in and never taken"},
		"refunded and never taken": {func(w *writing) { w.ledger("us").operation("transfer/late/withdraw").State = stateRefused }, RuleOnce, "late: it was refunded and never taken"},
		"within a ledger and between two": {func(w *writing) {
			w.record("us", Operation{Key: "transfer/rent/withdraw", Kind: kindWithdraw, State: stateApplied, Counterparty: "eu/bob"}, "alice", "transit:eu", 1)
		}, RuleOnce, "rent: it was paid within a ledger and between two"},
		"a step has two outcomes": {func(w *writing) {
			w.record("us", Operation{Key: "transfer/rent/2/post", Kind: kindPost, State: stateRefused, Code: codeInsufficientFunds}, "alice", "bob", 1500)
		}, RuleOnce, "rent: post has several outcomes: us post applied, us post refused insufficient_funds"},
		"nobody's operation":            {func(w *writing) { w.ledger("us").operation("transfer/halt/post").Key = "transfer/other/post" }, RuleOnce, "belongs to no transfer"},
		"a repeat moved money":          {func(w *writing) { w.e.Before[0].Operations = w.e.Before[0].Operations[1:] }, RuleOnce, "fund: a repeat recorded transfer/fund/post"},
		"a repeat removed an operation": {func(w *writing) { w.forget("us", "transfer/much/post") }, RuleOnce, "ledger us: a repeat removed transfer/much/post"},
		"a repeat wrote an entry":       {func(w *writing) { w.e.Before[0].Entries = w.e.Before[0].Entries[1:] }, RuleOnce, "ledger us: repeats changed the number of entries from"},
		"a repeat changed a balance": {func(w *writing) {
			w.e.Before[1].Accounts[3].Balance = big.NewInt(499)
		}, RuleOnce, "eu/bob: repeats changed it from 499 (version 1) to 500 (version 1)"},
		"a repeat changed an answer": {func(w *writing) { w.ledger("us").operation("transfer/much/post").Code = "account_closed" }, RuleOnce, "much: a repeat changed"},

		// Truth
		"told completed and sealed":         {func(w *writing) { w.call("gone").Told = EndCompleted }, RuleTruth, "gone: client was told completed, and the ledgers hold us post sealed"},
		"told rejected and not recorded":    {func(w *writing) { w.forget("us", "transfer/much/post") }, RuleTruth, "much: client was told rejected, and the ledgers hold nothing"},
		"told completed and lost":           {func(w *writing) { w.forget("us", "transfer/rent/post") }, RuleTruth, "rent: client was told completed, and the ledgers hold nothing"},
		"told compensated without a refund": {func(w *writing) { w.forget("us", "transfer/back/refund") }, RuleTruth, "back: client was told compensated"},
		"told two ends": {func(w *writing) {
			w.ask(w.call("rent").Request, 900, EndRejected)
		}, RuleTruth, "rent: client was told completed, and client was told rejected"},
		"told a conflict for the very request": {func(w *writing) { w.call("rent").Told = EndConflict }, RuleTruth, "the ledgers hold this very request"},
		"another request took the ID":          {func(w *writing) { w.call("rent").Request.Amount = "14.00" }, RuleTruth, "the ledgers hold another request"},
		"a run returned another end":           {func(w *writing) { w.run("sent").Result.State = EndCompensated }, RuleTruth, "sent: run run-sent returned compensated"},
		"a run failed":                         {func(w *writing) { w.run("sent").Status = "Failed" }, RuleTruth, "sent: run run-sent failed"},
		"a run timed out":                      {func(w *writing) { w.run("sent").Status = "TimedOut" }, RuleTruth, "was closed as TimedOut"},
		"told discarded and paid in":           {func(w *writing) { w.call("sent").Told = EndDiscarded }, RuleTruth, "sent: client was told discarded, and the ledgers hold us withdraw applied"},
		"discarded by nobody":                  {func(w *writing) { delete(w.e.Discarded, "left") }, RuleTruth, "left: nobody has said to discard it, and the ledgers hold us refund sealed discarded"},
		"a letter that sends to the wrong place": {func(w *writing) {
			letters := w.ledger("us").DeadLetters
			letters[len(letters)-1].Place = "source"
		}, RuleTruth, "left: its attempts ran out, and no dead letter says so, nor that the money is at the transit"},
		"no dead letter":                {func(w *writing) { w.ledger("us").DeadLetters = w.ledger("us").DeadLetters[1:] }, RuleTruth, "gone: its attempts ran out, and no dead letter says so"},
		"a run returned another amount": {func(w *writing) { w.run("sent").Result.Amount = "5.01" }, RuleTruth, "sent: run run-sent was asked for"},
		"a run returned nothing":        {func(w *writing) { w.run("sent").Result = nil }, RuleTruth, "sent: run run-sent completed without a result"},
		"a run failed with a conflict of its own": {func(w *writing) {
			run := *w.run("sent")
			run.Status, run.Result, run.FailureType = "Failed", nil, "KeyConflict"
			w.e.Runs = append(w.e.Runs, run)
		}, RuleTruth, "sent: run run-sent failed with a conflict, and the ledgers hold this very request"},
		"no end of a transfer": {func(w *writing) { w.call("sent").Told = "maybe" }, RuleTruth, "that is no end of a transfer"},

		// Conservation
		"money in transit": {func(w *writing) { w.ledger("eu").account("transit:us").Balance = big.NewInt(1) }, RuleConservation, "is in transit between eu and us in USD/2"},
		"a transfer's money stays on its way": {func(w *writing) {
			w.forget("eu", "transfer/sent/deposit")
		}, RuleConservation, "sent: its money has left and has come to nobody: the ledgers hold us withdraw applied"},
		"discarded money came back": {func(w *writing) {
			w.record("us", Operation{Key: "transfer/left/2/refund", Kind: kindRefund, State: stateApplied, Counterparty: "eu/bob", Reverses: "transfer/left/withdraw"}, "transit:eu", "alice", 500)
		}, RuleTruth, "left: client was told discarded"},
		"more than discarded money in transit": {func(w *writing) { w.ledger("us").account("transit:eu").Balance = big.NewInt(1001) }, RuleConservation, "1 is in transit between eu and us in USD/2"},
		"money was made":                       {func(w *writing) { w.ledger("eu").account("bob").Balance = big.NewInt(501) }, RuleConservation, "all accounts together began with 0 and have 1 of USD/2"},

		// Order
		"refused although there was enough": {func(w *writing) { w.call("much").Called = at(900); w.call("much").Returned = at(901) }, RuleOrder, "us/alice: its 12 entries and refusals fit no order"},
		"told before it happened": {func(w *writing) {
			w.call("rent").Called, w.call("rent").Returned = at(-20), at(-19)
		}, RuleOrder, "us/alice: its"},
		"written in another order than asked": {func(w *writing) {
			w.call("more").Called, w.call("more").Returned = at(-20), at(-19)
		}, RuleOrder, "us/alice: its"},

		// Liveness
		"open for ever":                   {func(w *writing) { w.run("sent").Status = "Running" }, RuleLiveness, "sent: Transfer transfer/sent is open"},
		"never told an end":               {func(w *writing) { w.call("sent").Told = "" }, RuleLiveness, "sent: client asked and was never told an end"},
		"set aside without a cause":       {func(w *writing) { delete(w.e.Troubles, "gone") }, RuleLiveness, "gone: post was set aside without a cause: it failed"},
		"a letter nobody can decide":      {func(w *writing) { w.ledger("us").DeadLetters[0].Parked = true }, RuleLiveness, "waits for a decision"},
		"a letter of nobody's transfer":   {func(w *writing) { w.ledger("us").DeadLetters[0].Transfer = "other" }, RuleLiveness, "a transfer that nobody has asked for"},
		"held up":                         {func(w *writing) { w.e.Prompt["sent"] = time.Second }, RuleLiveness, "sent: nothing was done to it, and it took"},
		"a worker died":                   {func(w *writing) { w.e.Deaths = []string{"exit status 2"} }, RuleLiveness, "a worker has ended by itself: exit status 2"},
		"a workflow is not deterministic": {func(w *writing) { w.run("sent").Events = []Event{{Cause: "NonDeterministicError"}} }, RuleLiveness, "NonDeterministicError"},
		"a worker can't carry a workflow on": {func(w *writing) {
			w.run("sent").Events = []Event{{Cause: "WorkflowWorkerUnhandledFailure", Text: "panic: history_events: premature end of stream, expectedLastEventID=28"}}
		}, RuleLiveness, "panic: history_events"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := sound()
			row.breaks(w)
			w.mustFind(t, row.rule, row.says)
		})
	}
}

// mustFind holds that a check finds something by a rule, and can tell its story.
func (w *writing) mustFind(t *testing.T, rule Rule, says string) {
	t.Helper()
	var found []string
	for _, v := range Check(w.e) {
		found = append(found, v.String())
		require.NotEmpty(t, Story(w.e, v))
		if v.Rule == rule && strings.Contains(v.String(), says) {
			return
		}
	}
	t.Errorf("%s: %q is not among what was found: %q", rule, says, found)
}

// forget removes an operation and its entries.
func (w *writing) forget(ledger, key string) {
	l := w.ledger(ledger)
	id := l.operation(key).ID
	var operations []Operation
	for _, o := range l.Operations {
		if o.ID != id {
			operations = append(operations, o)
		}
	}
	var entries []Entry
	for _, e := range l.Entries {
		if e.OperationID != id {
			entries = append(entries, e)
		}
	}
	l.Operations, l.Entries = operations, entries
}

// What is no fault must not be taken for one.
func TestCheckIsFair(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *writing){
		"refused at a moment when there was too little": func(w *writing) {
			// It was asked before the money came, and told after.
			w.call("much").Called, w.call("much").Returned = at(-100), at(900)
		},
		"refused while the limits changed": func(w *writing) {
			w.call("much").Called, w.call("much").Returned = at(900), at(901)
			w.e.Shifting["us/alice"] = true
		},
		"told nothing, and then an end": func(w *writing) {
			call := *w.call("sent")
			call.Told, call.Note = "", "time-out"
			w.e.Calls = append(w.e.Calls, call)
		},
		"terminated, and started again": func(w *writing) {
			run := *w.run("sent")
			run.Status, run.Result = "Terminated", nil
			w.e.Runs = append(w.e.Runs, run)
		},
		"another request under the ID, which failed": func(w *writing) {
			run := *w.run("sent")
			run.Status, run.Result, run.FailureType, run.Request.Amount = "Failed", nil, "KeyConflict", "7.00"
			w.e.Runs = append(w.e.Runs, run)
		},
		"set aside while PostgreSQL was down": func(w *writing) {
			delete(w.e.Troubles, "gone")
			w.e.Disturbances = []Disturbance{{Fault: "kill-postgres", From: at(-10), To: at(900)}}
		},
		"a workflow was reset": func(w *writing) { w.run("sent").Events = []Event{{Cause: "ResetWorkflow"}} },
		"a task came without its events": func(w *writing) {
			text := "history_events: premature end of stream, expectedLastEventID=28 but no more events after eventID=26"
			w.run("sent").Events = []Event{{Cause: "WorkflowWorkerUnhandledFailure", Text: text}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := sound()
			change(w)
			require.Empty(t, Check(w.e))
		})
	}
}

func TestSmallest(t *testing.T) {
	t.Parallel()
	w := sound()
	w.call("sent").Told = EndRejected
	w.ledger("eu").account("bob").Balance = big.NewInt(501)
	v, story := Smallest(w.e, Check(w.e))
	require.Equal(t, "sent", v.Transfer)
	for _, part := range []string{"was told rejected", "run run-sent, Completed", "transfer/sent/withdraw on us: applied", "account 3 version"} {
		require.Contains(t, story, part)
	}
	require.NotContains(t, story, "transfer/rent")
}
