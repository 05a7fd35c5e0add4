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
	// Notify names endpoints to be told of the end, whatever it is: at most NotifyMax, which the workers' settings define. An
	// endpoint may hear of it more than once, and of several ends in any order. It is not part of what makes two requests the
	// same: the first one's counts.
	Notify []string `json:"notify,omitempty"`
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

// transferFields are the names of the fields of a TransferInput.
var transferFields = []string{"id", "from", "to", "amount", "asset", "memo", "metadata", "retries", "notify"}

// RequestOf is the transfer that a recorded operation is a step of, without its metadata, which views of operations leave out.
func RequestOf(id string, operation *activities.OperationView) TransferInput {
	in := TransferInput{
		ID: id, From: operation.From, To: operation.To, Amount: operation.Amount, Asset: operation.Asset, Memo: operation.Memo,
	}
	switch operation.Kind { //nolint:exhaustive // the others are a payout's
	case ledger.KindPost:
	case ledger.KindWithdraw:
		in.To = operation.Other
	case ledger.KindDeposit:
		in.From = operation.Other
	case ledger.KindRefund:
		in.From, in.To = operation.To, operation.Other
	}
	return in
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
	if p.Asset, p.Amount, err = parseMoney(in.Amount, in.Asset); err != nil {
		return p, err
	}
	if in.Retries != "" && in.ID != RetryTransferID(in.Retries) {
		return p, &ledger.InvalidError{Field: "retries", Reason: fmt.Sprintf("the ID of a transfer in place of %q is %q", in.Retries, RetryTransferID(in.Retries))}
	}
	if err := checkNotify(in.Notify); err != nil {
		return p, err
	}
	return p, ledger.CheckNotes(in.Memo, in.Metadata)
}

func parsePayAccount(field, s string) (ledger.AccountRef, error) {
	ref, err := ledger.ParseAccountRef(field, s)
	if err == nil && ledger.IsOwn(ref.Name) {
		err = &ledger.InvalidError{Field: field, Reason: "accounts named transit:…, rail:… and settled:… are the ledger's own"}
	}
	return ref, err
}

func parseMoney(amountText, assetText string) (asset ledger.Asset, amount ledger.Amount, err error) {
	if asset, err = ledger.ParseAsset(assetText); err != nil {
		return asset, amount, err
	}
	amount, err = ledger.ParseAmount(amountText, asset)
	if err == nil && amount.Sign() == 0 {
		err = &ledger.InvalidError{Field: "amount", Reason: "it must be above zero"}
	}
	return asset, amount, err
}

// State is where a transfer, a payout or a notification stands. All but running, pending and parked are ends.
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
	case StateCompleted, StateRejected, StateFailed, StateCompensated, StateCancelled, StateDiscarded, StateSettled, StateReturned, StateDelivered:
		return true
	case StateRunning, StatePending, StateParked:
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

// A batch is the rows of a file, each a transfer. Its workflow, Batch, counts what has become of them; the rows themselves are in
// workflows of their own, BatchChunk, which a client starts one after the other and which tell the batch. Package
// starter/batch reads files, and package starter/transfers submits them; a client of its own may do the same:
//
//	"Batch"       workflow ID BatchWorkflowID(id), input BatchInput, result BatchResult; it ends when all chunks have
//	"BatchChunk"  workflow ID BatchChunkWorkflowID(id, n), n from 0, input BatchChunkInput, result BatchChunkResult
//
// Both with the reuse policy "allow duplicate failed only" and the conflict policy "use existing". What a chunk is made of
// must follow from the batch's ID alone, so that whoever sends the rest of a batch sends what is missing. A chunk that its
// batch does not know of is started again with the reuse policy "allow duplicate": its rows are repeats then.
const (
	BatchWorkflow      = "Batch"
	BatchChunkWorkflow = "BatchChunk"
)

// BatchWorkflowID is the workflow ID of a batch.
func BatchWorkflowID(id string) string { return "batch/" + id }

// BatchChunkWorkflowID is the workflow ID of a chunk of a batch.
func BatchChunkWorkflowID(id string, chunk int) string { return fmt.Sprintf("batch/%s/%d", id, chunk) }

// BatchIDBytesMax bounds a batch's ID.
const BatchIDBytesMax = 100

// BatchChunksMax bounds the chunks of a batch.
const BatchChunksMax = 5_000

// BatchInput says what a batch consists of.
type BatchInput struct {
	// ID follows from the content of the rows, so that the same rows are the same batch: printable, without "/".
	ID     string        `json:"id"`
	Rows   int           `json:"rows"`
	Totals []AssetAmount `json:"totals"` // by asset
	Chunks int           `json:"chunks"`
	// ChunkRows and ChunkBytes are how the rows were divided into chunks; who sends the rest divides them likewise.
	ChunkRows  int `json:"chunk_rows"`
	ChunkBytes int `json:"chunk_bytes"`
	// Alike counts the rows that look like another one under another ID. They are paid.
	Alike int `json:"alike,omitempty"`
	// Progress is what a run hands on to the next. Leave it out.
	Progress *BatchProgress `json:"progress,omitempty"`
}

// AssetAmount is an amount of an asset.
type AssetAmount struct {
	Asset  string `json:"asset"`  // "USD/2"
	Amount string `json:"amount"` // "10.00"
}

// BatchChunkInput asks for a chunk of a batch.
type BatchChunkInput struct {
	Batch string `json:"batch"`
	Chunk int    `json:"chunk"`
	// Transfers are 1 to GroupMax; their JSON may have 1 MB. Those within the ledger of the first are posted together, and
	// each other is a workflow of its own: a chunk should be of one ledger, or of transfers between two.
	Transfers []TransferInput `json:"transfers"`
}

// BatchChunkResult says how each row of a chunk ended. The query BatchChunkQuery returns the same while the chunk runs.
type BatchChunkResult struct {
	// Ends are those that differ. Rows without one are running.
	Ends []BatchEnd `json:"ends"`
}

// BatchEnd is how some rows of a chunk ended, all alike: most rows complete, many in one database transaction.
type BatchEnd struct {
	GroupEnd
	Rows []int `json:"rows"` // their places in the input, from 0
}

// InOrder are the ends in the order of the input, up to the last row that has one; zero for a row that has none.
func (r *BatchChunkResult) InOrder() []GroupEnd {
	var ends []GroupEnd
	for _, end := range r.Ends {
		for _, row := range end.Rows {
			if row < 0 || row >= GroupMax {
				continue // no chunk has it
			}
			for len(ends) <= row {
				ends = append(ends, GroupEnd{})
			}
			ends[row] = end.GroupEnd
		}
	}
	return ends
}

// BatchChunkQuery is the name of the query that returns a BatchChunkResult. A row without an end is running.
const BatchChunkQuery = "ends"

// BatchStatusQuery is the name of the query that returns a BatchStatus.
const BatchStatusQuery = "status"

// BatchStatus is where a batch stands.
type BatchStatus struct {
	Batch    BatchInput    `json:"batch"` // without progress
	Progress BatchProgress `json:"progress"`
}

// BatchProgress is what a batch has been told by its chunks.
type BatchProgress struct {
	// Ended has a bit for each chunk whose rows have all ended; bit n%8 of byte n/8.
	Ended []byte `json:"ended"`
	// Counts are of the ended chunks.
	Counts BatchCounts `json:"counts"`
	// Going are the chunks all of whose rows have been tried and some go on, as workflows of their own.
	Going []BatchChunkReport `json:"going,omitempty"`
}

// BatchChunkSignal is the name of the signal by which a chunk tells its batch a BatchChunkReport.
const BatchChunkSignal = "chunk"

// BatchChunkReport is what has become of the rows of a chunk.
type BatchChunkReport struct {
	Chunk  int         `json:"chunk"`
	Counts BatchCounts `json:"counts"`
	// Going names rows that have not ended, up to BatchGoingMax of them; none when all have.
	Going []string `json:"going,omitempty"`
}

// BatchGoingMax bounds the rows that a report names.
const BatchGoingMax = 20

// BatchCounts count rows by what has become of them, and the money that has arrived.
type BatchCounts struct {
	Rows        int `json:"rows"` // of which it is known what has become of them, or that they go on
	Completed   int `json:"completed"`
	Rejected    int `json:"rejected"`
	Failed      int `json:"failed"`
	Compensated int `json:"compensated"`
	Cancelled   int `json:"cancelled"`
	Discarded   int `json:"discarded"`
	Conflicts   int `json:"conflicts"` // the ID is another request's; nothing moved
	Invalid     int `json:"invalid"`   // malformed; nothing moved
	Running     int `json:"running"`
	// Repeats counts those of the others that a ledger had recorded before.
	Repeats int           `json:"repeats"`
	Arrived []AssetAmount `json:"arrived"` // by asset: the amounts of completed rows
}

// BatchResult is how a batch ended.
type BatchResult struct {
	ID     string        `json:"id"`
	Totals []AssetAmount `json:"totals"`
	Alike  int           `json:"alike,omitempty"`
	Chunks int           `json:"chunks"`
	Counts BatchCounts   `json:"counts"`
}

// StatusQuery is the name of the query that returns a TransferStatus. It takes no argument, and a closed transfer
// answers it too, as long as its history is kept.
const StatusQuery = "status"

// TransferStatus is where a transfer stands.
type TransferStatus struct {
	Request TransferInput `json:"request"`
	Standing
	// Result is set when the transfer has ended.
	Result *TransferResult `json:"result,omitempty"`
}

// Standing is where a transfer or a payout stands. Its fields are among those of the status that it is in.
type Standing struct {
	State State `json:"state"`
	// Step is the one that is running, or the last.
	Step Step `json:"step,omitempty"`
	// Detail tells a person what is happening.
	Detail string       `json:"detail"`
	Steps  []StepReport `json:"steps"`
	// Parking is what it waits for when it is parked.
	Parking *Parking `json:"parking,omitempty"`
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

// The search attributes of a transfer, both keywords. It writes them with its end, and before that when it takes longer than a
// moment: nobody who starts one sets them. A namespace must know them before a worker starts: `starter dev`
// registers them; in production register them once with `temporal operator search-attribute create`.
var (
	SearchAttributeState      = temporal.NewSearchAttributeKeyKeyword("PayonceState")
	SearchAttributeTransferID = temporal.NewSearchAttributeKeyKeyword("PayonceTransferID")
)

// SearchAttributes are all of them.
func SearchAttributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{SearchAttributeState, SearchAttributeTransferID}
}

// The workflows by which the command line reads and changes accounts: each runs the activity of the same name on its
// ledger's task queue and returns its answer. Inputs and results are those of the activities.
const (
	AccountOpenWorkflow      = "AccountOpen"
	AccountSetWorkflow       = "AccountSet"
	AccountShowWorkflow      = "AccountShow"
	AccountListWorkflow      = "AccountList"
	AccountStatementWorkflow = "AccountStatement"
	AccountPeriodWorkflow    = "AccountPeriod"
	DeadLetterListWorkflow   = "DeadLetterList"
	DeadLetterShowWorkflow   = "DeadLetterShow"
	// OperationListWorkflow runs on a worker of TaskQueue and sees the ledgers which that worker holds.
	OperationListWorkflow = "OperationList"
)
