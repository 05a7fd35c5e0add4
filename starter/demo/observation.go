package demo

import (
	"payonce/activities"
	"payonce/internal/faultworker/fault"
	"payonce/ledger"
	"payonce/workflows"
)

// observation is everything that was seen of one scenario. The judge sees nothing else.
type observation struct {
	// balances are those of A and B in the end, transit is what is between the ledgers more than before.
	balances map[string]string
	transit  string
	// ends are what the client's calls were told, in no order.
	ends []end
	// announced is what the workers said about the transfer's steps, each worker's in order.
	announced []fault.Event
	// killed are the PIDs of the workers that ended by SIGKILL without being told to by the demo.
	killed []int
	// recorded are the outcomes that the ledgers have under the transfer's keys.
	recorded map[workflows.Step]ledger.OutcomeState
	// letters are the transfer's dead letters.
	letters []activities.DeadLetterView
	// part is how much of a statement a killed worker had written, and files are the statements that were there after each
	// time that one was asked for.
	part  int64
	files []seenFile
	// webhooks are those that the receiver got, and acts how often it acted on one.
	webhooks []webhook
	acts     int
}

// seenFile is a statement as it was found.
type seenFile struct {
	digest  string
	entries int
}

// end is what one call of a client was told.
type end struct {
	told     string // a workflows.State, or endDifferent
	attached bool   // the transfer had been started before
}

// endDifferent is the end of a call whose ID belongs to another request: exit code 6 of the command line.
const endDifferent = "refused: the ID belongs to a different request"

// expectation is what a scenario must show.
type expectation struct {
	a, b string // the balances in the end
	// ends are how many calls of a client are told what.
	ends map[string]int
	// attached is how many of them find the transfer started already.
	attached int
	// faults must strike at least so often each.
	faults []expectedFault
	// met are answers that must have been given, each at least once.
	met []meeting
	// recorded is what the ledgers must have in the end, and nothing else.
	recorded map[workflows.Step]ledger.OutcomeState
	// lateMet is what the frozen attempt must meet after it was thawed; "" when there is none.
	lateMet ledger.OutcomeState
	// letter is the step that must have been set aside, with the transfer ended; "" for none.
	letter workflows.Step
	// entries is how many the statement must have, that a killed worker began and another one wrote, and that was then written
	// once more; 0 for no statement.
	entries int
	// webhooks is how often the receiver must get the one webhook, on which it acts once; 0 without a receiver.
	webhooks int
	// keyless: the transfer has no keys, so that a step may count twice.
	keyless bool
}

type expectedFault struct {
	point  fault.Point
	action fault.Action
	times  int
}

// meeting is an answer that a step gets.
type meeting struct {
	kind   fault.Kind
	state  ledger.OutcomeState
	repeat bool
}
