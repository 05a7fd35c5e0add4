package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/ledger"
)

// Anyone with a Temporal SDK in any language can start a transfer with what stands here:
//
//	workflow type   "Transfer"
//	task queue      "payonce"
//	workflow ID     "transfer/" + the transfer's ID
//	input           one JSON object: TransferInput
//	result          one JSON object: TransferResult
//
// Start it with the workflow ID reuse policy "allow duplicate failed only" and the conflict policy "use existing" (or
// "fail", which tells whether the start attached to an earlier one). A start that attached must compare its input with
// that of the transfer it attached to, which is in the history's first event: the same ID with another request is a
// mistake of the caller's.

// TransferWorkflow is the type of the transfer workflow.
const TransferWorkflow = "Transfer"

// TaskQueue is where workflows run.
const TaskQueue = "payonce"

// LedgerTaskQueue is where the activities of one ledger run: "payonce-eu". Workers that hold the ledger poll it.
func LedgerTaskQueue(ledgerName string) string { return TaskQueue + "-" + ledgerName }

// TransferIDBytesMax bounds a transfer's ID.
const TransferIDBytesMax = 200

const transferWorkflowIDPrefix = "transfer/"

// TransferWorkflowID is the workflow ID of the transfer with the given ID. A Transfer under any other workflow ID fails.
func TransferWorkflowID(id string) string { return transferWorkflowIDPrefix + id }

// StepKey is the idempotence key of a step. Run ID and attempt are not part of it: a retry, a reset, a second start meet
// the same key.
func StepKey(workflowID string, step Step) string { return workflowID + "/" + string(step) }

// Step is one named part of a transfer.
type Step string

// The steps. A transfer within one ledger has post alone; between two it has withdraw and deposit, or refund instead.
// Resolving a step decides its outcome after its attempts ran out.
const (
	StepPost            Step = "post"
	StepWithdraw        Step = "withdraw"
	StepDeposit         Step = "deposit"
	StepRefund          Step = "refund"
	StepResolvePost     Step = "resolve-post"
	StepResolveWithdraw Step = "resolve-withdraw"
	StepResolveDeposit  Step = "resolve-deposit"
	StepResolveRefund   Step = "resolve-refund" // of a transfer that is discarded
)

// TransferInput asks for a transfer. It is plain JSON; amounts are strings, so that no JSON library can round them.
type TransferInput struct {
	// ID is chosen by the client before the first attempt and kept for every retry: 1 to 200 bytes of printable UTF-8
	// without leading or trailing blanks, compared byte for byte.
	ID string `json:"id"`
	// From and To are accounts, "eu/alice"; without a ledger they are on "main".
	From string `json:"from"`
	To   string `json:"to"`
	// Amount is a plain decimal number in major units, "10.00"; above zero, no more decimal digits than the asset has.
	Amount string `json:"amount"`
	// Asset is "USD/2", or a bare ISO 4217 code, which takes its ISO scale.
	Asset string `json:"asset"`
	// Memo and Metadata are kept with the entries. They are not part of what makes two requests the same.
	Memo     string            `json:"memo,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// Retries names the transfer that this one is made in place of, which failed or was compensated. The ID is
	// RetryTransferID(Retries) then. Leave it out: deciding to retry a dead letter sets it.
	Retries string `json:"retries,omitempty"`
}

// SameRequest says whether two inputs ask for the same movement of money: the same ID, accounts, amount and asset,
// however they are written ("10" and "10.00", "alice" and "main/alice"). Memo and metadata don't count. Malformed inputs
// are never the same.
func (in TransferInput) SameRequest(other TransferInput) bool {
	a, errA := ParseTransfer(in)
	b, errB := ParseTransfer(other)
	return errA == nil && errB == nil && in.ID == other.ID &&
		a.From == b.From && a.To == b.To && a.Asset == b.Asset && a.Amount.Cmp(b.Amount) == 0
}

// ParsedTransfer is a TransferInput that is known to be well formed.
type ParsedTransfer struct {
	From, To ledger.AccountRef
	Amount   ledger.Amount
	Asset    ledger.Asset
}

// String tells a person what the transfer does: "10.00 USD/2 from us/alice to eu/bob".
func (p ParsedTransfer) String() string {
	return p.Amount.Format(p.Asset) + " " + p.Asset.String() + " from " + p.From.String() + " to " + p.To.String()
}

// ParseTransfer checks an input as the workflow does. The error is a *ledger.InvalidError.
func ParseTransfer(in TransferInput) (ParsedTransfer, error) {
	var p ParsedTransfer
	err := ledger.CheckID("id", in.ID, TransferIDBytesMax)
	if err != nil {
		return p, err
	}
	if p.From, err = parsePayAccount("from", in.From); err != nil {
		return p, err
	}
	if p.To, err = parsePayAccount("to", in.To); err != nil {
		return p, err
	}
	if p.From == p.To {
		return p, &ledger.InvalidError{Field: "to", Reason: p.To.String() + " is also the account to pay from"}
	}
	if p.Asset, err = ledger.ParseAsset(in.Asset); err != nil {
		return p, err
	}
	if p.Amount, err = ledger.ParseAmount(in.Amount, p.Asset); err != nil {
		return p, err
	}
	if p.Amount.Sign() == 0 {
		return p, &ledger.InvalidError{Field: "amount", Reason: "it must be above zero"}
	}
	if in.Retries != "" && in.ID != RetryTransferID(in.Retries) {
		return p, &ledger.InvalidError{Field: "retries", Reason: fmt.Sprintf("the ID of a transfer in place of %q is %q", in.Retries, RetryTransferID(in.Retries))}
	}
	return p, ledger.CheckNotes(in.Memo, in.Metadata)
}

func parsePayAccount(field, s string) (ledger.AccountRef, error) {
	ref, err := ledger.ParseAccountRef(field, s)
	if err == nil && ledger.IsTransit(ref.Name) {
		err = &ledger.InvalidError{Field: field, Reason: "accounts named transit:… are the ledger's own"}
	}
	return ref, err
}

// State is where a transfer stands. All but running and parked are ends.
type State string

// The states. Each end but completed and discarded leaves every balance as it was.
const (
	StateRunning     State = "running"     // it has not ended; nothing is known to need a person
	StateParked      State = "parked"      // it waits for a person's decision
	StateCompleted   State = "completed"   // the money arrived
	StateRejected    State = "rejected"    // the source ledger refused it: a business reason
	StateFailed      State = "failed"      // its attempts ran out before money moved
	StateCompensated State = "compensated" // the money left, could not arrive, and is back
	StateCancelled   State = "cancelled"   // it was cancelled in time
	StateDiscarded   State = "discarded"   // a person settled it outside and ended it; what was in transit still is
)

// Ended says whether s is an end.
func (s State) Ended() bool {
	switch s {
	case StateCompleted, StateRejected, StateFailed, StateCompensated, StateCancelled, StateDiscarded:
		return true
	case StateRunning, StateParked:
		return false
	default:
		return false
	}
}

// TransferResult is how a transfer ended.
type TransferResult struct {
	ID     string `json:"id"`
	State  State  `json:"state"`
	From   string `json:"from"`   // "us/alice", always with the ledger
	To     string `json:"to"`     // "eu/bob"
	Amount string `json:"amount"` // "10.00", with all of the asset's digits
	Asset  string `json:"asset"`  // "USD/2", always with the scale
	// Code and Detail say why it did not complete: for programs, and for a person.
	Code   ledger.Code `json:"code,omitempty"`
	Detail string      `json:"detail,omitempty"`
	// Left says where the money of a discarded transfer is, in the books.
	Left *Whereabouts `json:"left,omitempty"`
	// Steps are the outcomes that the ledgers recorded, in order.
	Steps []StepReport `json:"steps"`
}

// Whereabouts say where money is.
type Whereabouts struct {
	Place   ledger.Place `json:"place"` // source, transit, destination
	Account string       `json:"account"`
	Amount  string       `json:"amount"`
	Asset   string       `json:"asset"`
}

// StepReport is the outcome of one step of a transfer.
type StepReport struct {
	Step Step `json:"step"`
	activities.StepOutcome
}

// TransferGroupWorkflow is the type of the workflow that carries out transfers within one ledger, many at once. The key of
// each is the one that it has alone, so a transfer that is in two groups, or in one and alone, is carried out once. Package
// starter/transfers gathers concurrent calls into such groups; a client of its own may too: workflow ID GroupWorkflowID(some
// unique text), input GroupInput, result GroupResult.
const TransferGroupWorkflow = "TransferGroup"

// GroupMax bounds the transfers of a group. Their JSON may have 1 MB together: Temporal refuses payloads above 2 MB.
const GroupMax = 1_000

// GroupWorkflowID is the workflow ID of a group.
func GroupWorkflowID(unique string) string { return "group/" + unique }

// GroupInput asks for transfers within one ledger. Others are accepted too, and go on as workflows of their own.
type GroupInput struct {
	Transfers []TransferInput `json:"transfers"`
}

// GroupResult says how each transfer ended, in the order of the input.
type GroupResult struct {
	Ends []GroupEnd `json:"ends"`
}

// GroupEnd is how a transfer in a group ended.
type GroupEnd struct {
	// State is an end; or running, when the transfer goes on as a workflow of its own, TransferWorkflowID(id).
	State  State       `json:"state,omitempty"`
	Code   ledger.Code `json:"code,omitempty"`
	Detail string      `json:"detail,omitempty"`
	At     time.Time   `json:"at,omitzero"`      // the ledger's clock
	Repeat bool        `json:"repeat,omitempty"` // it had been recorded before
	// Error is set instead of State for a request that has no end and has moved nothing: ErrorInvalidInput or
	// ErrorKeyConflict.
	Error string `json:"error,omitempty"`
}

// StatusQuery is the name of the query that returns a TransferStatus. It takes no argument, and a closed transfer
// answers it too, as long as its history is kept.
const StatusQuery = "status"

// TransferStatus is where a transfer stands.
type TransferStatus struct {
	Request TransferInput `json:"request"`
	State   State         `json:"state"`
	// Step is the one that is running, or the last.
	Step Step `json:"step,omitempty"`
	// Detail tells a person what is happening.
	Detail string       `json:"detail"`
	Steps  []StepReport `json:"steps"`
	// Parking is what the transfer waits for when it is parked.
	Parking *Parking `json:"parking,omitempty"`
	// Result is set when the transfer has ended.
	Result *TransferResult `json:"result,omitempty"`
}

// Parking is why a transfer waits for a person.
type Parking struct {
	// Number counts the times that this run was parked, from 1. A decision names it and the run, so that it can't be
	// applied to a state that its author has not seen.
	Number  int          `json:"number"`
	Run     string       `json:"run"`
	Step    Step         `json:"step"`
	Error   string       `json:"error"`
	Since   time.Time    `json:"since"`
	Place   ledger.Place `json:"place"`   // where the money is: source, transit, destination
	Account string       `json:"account"` // the account it is in
	Choices []Action     `json:"choices"`
}

// The types of the errors that a Transfer fails with; any other failure is a defect. A failed workflow may be started
// again with the same ID.
const (
	// ErrorInvalidInput: the request is malformed, or the workflow ID is not TransferWorkflowID(id).
	ErrorInvalidInput = activities.ErrorInvalidInput
	// ErrorKeyConflict: the ID was used before, for another request that Temporal has forgotten and the ledger has not.
	ErrorKeyConflict = activities.ErrorKeyConflict
)

// The search attributes of a transfer, both keywords. A namespace must know them before a worker starts: `starter dev`
// registers them; in production register them once with `temporal operator search-attribute create`.
var (
	SearchAttributeState      = temporal.NewSearchAttributeKeyKeyword("PayonceState")
	SearchAttributeTransferID = temporal.NewSearchAttributeKeyKeyword("PayonceTransferID")
)

// The workflows by which the command line reads and changes accounts: each runs the activity of the same name on its
// ledger's task queue and returns its answer. Inputs and results are those of the activities.
const (
	AccountOpenWorkflow      = "AccountOpen"
	AccountSetWorkflow       = "AccountSet"
	AccountShowWorkflow      = "AccountShow"
	AccountListWorkflow      = "AccountList"
	AccountStatementWorkflow = "AccountStatement"
	DeadLetterListWorkflow   = "DeadLetterList"
	DeadLetterShowWorkflow   = "DeadLetterShow"
	// OperationListWorkflow runs on a worker of TaskQueue and sees the ledgers which that worker holds.
	OperationListWorkflow = "OperationList"
)
