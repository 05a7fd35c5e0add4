package workflows

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"payonce/activities"
	"payonce/ledger"
)

// Anyone with a Temporal SDK in any language can start a payout with what stands here:
//
//	workflow type   "Payout"
//	task queue      "payonce"
//	workflow ID     "payout/" + the payout's ID
//	input           one JSON object: PayoutInput
//	result          one JSON object: PayoutResult
//
// with the policies of a transfer, and with the same care about a start that attached.
//
// Whoever hears from a rail that something has become of a payout runs the workflow "PayoutHint", input PayoutHintInput. It
// sends an open payout the signal PayoutHintSignal, and opens again one that has ended. A hint says nothing but that it is
// worth asking: what has become of it is asked of the rail, so that a callback which is forged, late, early or doubled does
// nothing else.

// PayoutWorkflow is the type of the payout workflow.
const PayoutWorkflow = "Payout"

// RailTaskQueue is where the activities of one rail run: "payonce-rail:bank". No ledger's queue has such a name.
func RailTaskQueue(rail string) string { return TaskQueue + "-rail:" + rail }

const payoutWorkflowIDPrefix = "payout/"

// PayoutWorkflowID is the workflow ID of the payout with the given ID. A Payout under any other workflow ID fails. IDs are as
// those of transfers, up to TransferIDBytesMax. The ID is also the reference that the rail gets: choose IDs that it takes.
func PayoutWorkflowID(id string) string { return payoutWorkflowIDPrefix + id }

// PayoutHintWorkflow is the type of the workflow that hints; its ID is free.
const PayoutHintWorkflow = "PayoutHint"

// PayoutHintInput names a payout about which its rail may have something to say.
type PayoutHintInput struct {
	ID string `json:"id"` // the payout's, which is also the reference that its rail has
}

// PayoutHintSignal is the name of the signal that says that it is worth asking the rail now. It has no arguments.
const PayoutHintSignal = "hint"

// The steps of a payout. Money is reserved and submitted, and once the rail's word is definite it is settled, or returned.
// What comes back after it was settled bounces.
const (
	StepReserve        Step = "reserve"
	StepSubmit         Step = "submit"
	StepSettle         Step = "settle"
	StepReturn         Step = "return"
	StepBounce         Step = "bounce"
	StepResolveReserve Step = "resolve-reserve"
)

// The states of a payout beside those of transfers: running, parked, rejected, failed, cancelled and discarded.
const (
	StatePending  State = "pending"  // the rail has it, and has not decided
	StateSettled  State = "settled"  // the rail has paid
	StateReturned State = "returned" // the rail has not paid, or what it paid came back; the money is back
)

// PayoutInput asks for money to be paid out through a rail. It is plain JSON; amounts are strings.
type PayoutInput struct {
	// ID is chosen by the client before the first attempt and kept for every retry, as a transfer's.
	ID string `json:"id"`
	// From is the account to pay from, "eu/alice"; without a ledger it is on "main".
	From string `json:"from"`
	// Rail is the name of the rail, and Payee who gets the money, in the rail's own terms: {"iban": "…", "name": "…"}.
	Rail  string            `json:"rail"`
	Payee map[string]string `json:"payee"`
	// Amount and Asset are those of a transfer.
	Amount string `json:"amount"`
	Asset  string `json:"asset"`
	// Memo goes to the rail too; Metadata does not. Both are kept with the entries, and are not part of what makes two requests
	// the same. Names of metadata that begin with payonce- are the payout's own.
	Memo     string            `json:"memo,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// Notify names endpoints to be told of each end, as a transfer's; what bounces has a second one.
	Notify []string `json:"notify,omitempty"`
}

// payoutFields are the names of the fields of a PayoutInput.
var payoutFields = []string{"id", "from", "rail", "payee", "amount", "asset", "memo", "metadata", "notify"}

// SameRequest says whether two inputs ask for the same payout: the same ID, account, rail, payee, amount and asset. Malformed
// inputs are never the same.
func (in PayoutInput) SameRequest(other PayoutInput) bool {
	a, errA := ParsePayout(in)
	b, errB := ParsePayout(other)
	return errA == nil && errB == nil && in.ID == other.ID &&
		a.From == b.From && a.Counterparty == b.Counterparty && a.Asset == b.Asset && a.Amount.Cmp(b.Amount) == 0
}

// PayoutOf is the payout that a recorded reserve is the first step of. ok is false for any other operation.
func PayoutOf(id string, reserve *activities.OperationView) (in PayoutInput, ok bool) {
	rail, payee, err := ledger.ParsePayoutCounterparty(reserve.Other)
	if reserve.Kind != ledger.KindReserve || err != nil {
		return PayoutInput{}, false
	}
	in = PayoutInput{
		ID: id, From: reserve.From, Rail: rail, Payee: payee, Amount: reserve.Amount, Asset: reserve.Asset, Memo: reserve.Memo,
		Metadata: map[string]string{},
	}
	//workflowcheck:ignore from a map to a map, in whatever order
	maps.Copy(in.Metadata, reserve.Metadata)
	if names := in.Metadata[metadataNotify]; names != "" {
		in.Notify = strings.Split(names, ",")
	}
	delete(in.Metadata, metadataRun)
	delete(in.Metadata, metadataNotify)
	return in, true
}

// ParsedPayout is a PayoutInput that is known to be well formed.
type ParsedPayout struct {
	From         ledger.AccountRef
	Rail         string
	Counterparty string // rail and payee, as the ledger keeps them
	Amount       ledger.Amount
	Asset        ledger.Asset
}

// String tells a person what the payout does: "10.00 USD/2 from us/alice through bank".
func (p ParsedPayout) String() string {
	return p.Amount.Format(p.Asset) + " " + p.Asset.String() + " from " + p.From.String() + " through " + p.Rail
}

// ParsePayout checks an input as the workflow does. The error is a *ledger.InvalidError.
func ParsePayout(in PayoutInput) (ParsedPayout, error) {
	var p ParsedPayout
	err := ledger.CheckID("id", in.ID, TransferIDBytesMax)
	if err != nil {
		return p, err
	}
	if p.From, err = parsePayAccount("from", in.From); err != nil {
		return p, err
	}
	if err := ledger.CheckRailName("rail", in.Rail); err != nil {
		return p, err
	}
	if err := ledger.CheckPayee(in.Payee); err != nil {
		return p, err
	}
	p.Rail, p.Counterparty = in.Rail, ledger.PayoutCounterparty(in.Rail, in.Payee)
	if p.Asset, p.Amount, err = parseMoney(in.Amount, in.Asset); err != nil {
		return p, err
	}
	if err := checkPayoutMetadata(in.Metadata); err != nil {
		return p, err
	}
	if err := checkNotify(in.Notify); err != nil {
		return p, err
	}
	return p, ledger.CheckNotes(in.Memo, in.Metadata)
}

// checkPayoutMetadata leaves room for what a payout keeps with its reserve.
func checkPayoutMetadata(metadata map[string]string) error {
	if entriesMax := ledger.MetadataEntriesMax - metadataAdded; len(metadata) > entriesMax {
		return &ledger.InvalidError{Field: "metadata", Reason: fmt.Sprintf("it has %d entries; a payout adds %d of its own, so at most %d are allowed",
			len(metadata), metadataAdded, entriesMax)}
	}
	//workflowcheck:ignore the answer is the same in whatever order
	for name := range metadata {
		if strings.HasPrefix(name, metadataOurs) {
			return &ledger.InvalidError{Field: "metadata", Reason: "names that begin with " + metadataOurs + " are a payout's own"}
		}
	}
	return nil
}

// PayoutResult is how a payout ended.
type PayoutResult struct {
	ID     string            `json:"id"`
	State  State             `json:"state"`
	From   string            `json:"from"` // "us/alice", always with the ledger
	Rail   string            `json:"rail"`
	Payee  map[string]string `json:"payee"`
	Amount string            `json:"amount"` // "10.00", with all of the asset's digits
	Asset  string            `json:"asset"`  // "USD/2", always with the scale
	// Code and Detail say why it did not settle, or who has said that it did in the rail's place: the ledger's code, the rail's,
	// or one of those below.
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
	// RailID is the rail's own name for the payout.
	RailID string `json:"rail_id,omitempty"`
	// Left says where the money of a discarded payout is, in the books.
	Left *Whereabouts `json:"left,omitempty"`
	// Steps are the outcomes that the ledger recorded, in order.
	Steps []StepReport `json:"steps"`
}

// Codes of a payout's result that are neither the ledger's nor the rail's.
const (
	CodeDecided = "decided" // a person has said so in the rail's place
	CodeUnsent  = "unsent"  // the rail was never asked: cancelled before, or a request that can't be sent
)

// PayoutStatus is where a payout stands: what StatusQuery of a payout returns.
type PayoutStatus struct {
	Request PayoutInput `json:"request"`
	Standing
	// Word is the rail's last word in this run, and Asked when it was given.
	Word  *activities.RailAnswer `json:"word,omitempty"`
	Asked time.Time              `json:"asked,omitzero"`
	// Result is set when the payout has ended.
	Result *PayoutResult `json:"result,omitempty"`
}
