package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The bounds of an operation. They keep one operation within one database round trip and one Temporal payload.
const (
	KeyBytesMax           = 256
	LegsMax               = 100
	MemoBytesMax          = 1_000
	MetadataEntriesMax    = 50
	MetadataKeyBytesMax   = 100
	MetadataValueBytesMax = 1_000
)

// Key is an operation's idempotence key: 1 to KeyBytesMax bytes of printable UTF-8, compared byte for byte. It is
// unique in its ledger for as long as the ledger lives.
type Key string

// Claim is what a key takes when an outcome is recorded under it: itself, with two exceptions. The database has the same rule
// in its function operation_claim.
//
//   - A withdraw takes the key of its transfer's post. A transfer begins with one of the two. When its ID is used again for
//     another request, the two must meet, or the ID would pay twice.
//   - A return takes the key of its payout's settle. Reserved money goes one way or the other; a late attempt at one after
//     the other was recorded must meet it, or it would take the money of other payouts.
func (k Key) Claim() Key {
	if transfer, ok := strings.CutSuffix(string(k), "/"+string(KindWithdraw)); ok {
		return Key(transfer + "/" + string(KindPost))
	}
	if payout, ok := strings.CutSuffix(string(k), "/"+string(KindReturn)); ok {
		return Key(payout + "/" + string(KindSettle))
	}
	return k
}

// Kind says which step of a transfer or a payout an operation is.
type Kind string

// The kinds of operations. Of transfers: a post moves money within one ledger; a withdraw takes it from an account into
// transit, a deposit gives it from transit to an account, and a refund reverses a withdraw. Of payouts: a reserve takes money
// from an account and keeps it for a rail; a settle books it as paid, or a return reverses the reserve. A bounce reverses the
// reserve of what was settled and came back.
const (
	KindPost     Kind = "post"
	KindWithdraw Kind = "withdraw"
	KindDeposit  Kind = "deposit"
	KindRefund   Kind = "refund"
	KindReserve  Kind = "reserve"
	KindSettle   Kind = "settle"
	KindReturn   Kind = "return"
	KindBounce   Kind = "bounce"
)

// Reverses says whether operations of the kind give back what another has taken.
func (k Kind) Reverses() bool { return k == KindRefund || k == KindReturn || k == KindBounce }

// Leg moves an amount from one account to another of the same ledger. Both are named within the ledger.
type Leg struct {
	From   string
	To     string
	Asset  Asset
	Amount Amount // above zero
}

// Operation is one keyed request to a ledger. All its legs apply, in order, or none does.
type Operation struct {
	Key  Key
	Kind Kind
	Legs []Leg
	// Reverses is the key of an applied operation that this one gives back, in whole or part; "" for none.
	Reverses Key
	// Counterparty is the account on another ledger that the money is for or comes from, "eu/bob", or the rail and payee of a
	// payout; "" for a post. It is part of what the money does, so of the request's hash: the same withdraw for another
	// payee is another request.
	Counterparty string
	Memo         string
	Metadata     map[string]string
}

// Validate says whether the operation is well formed, whatever the state of its accounts. The error is an
// *InvalidError. A malformed operation is never recorded.
func (o *Operation) Validate() error {
	if err := CheckID("key", string(o.Key), KeyBytesMax); err != nil {
		return err
	}
	switch o.Kind {
	case KindPost, KindWithdraw, KindDeposit, KindRefund, KindReserve, KindSettle, KindReturn, KindBounce:
	default:
		return invalid("kind", "%q is no kind of operation", clip(string(o.Kind)))
	}
	if len(o.Legs) == 0 || len(o.Legs) > LegsMax {
		return invalid("legs", "an operation has 1 to %d legs, not %d", LegsMax, len(o.Legs))
	}
	for i := range o.Legs {
		if err := o.Legs[i].validate(o.Kind); err != nil {
			return err
		}
	}
	if o.Kind.Reverses() != (o.Reverses != "") {
		return invalid("reverses", "a refund, a return and a bounce name the operation they reverse, and nothing else does")
	}
	if o.Reverses != "" {
		if err := CheckID("reverses", string(o.Reverses), KeyBytesMax); err != nil {
			return err
		}
	}
	if err := o.checkCounterparty(); err != nil {
		return err
	}
	return CheckNotes(o.Memo, o.Metadata)
}

// checkCounterparty makes sure that the account on the other ledger is named exactly when there is one, in full, and that
// the money goes through the transit account to or from that ledger.
func (o *Operation) checkCounterparty() error {
	if o.Kind == KindPost {
		if o.Counterparty != "" {
			return invalid("counterparty", "a post stays within one ledger")
		}
		return nil
	}
	if o.Kind.IsPayout() {
		return o.checkPayee()
	}
	other, err := ParseAccountRef("counterparty", o.Counterparty)
	if err != nil {
		return err
	}
	if other.String() != o.Counterparty {
		return invalid("counterparty", "%q does not say on which ledger", clip(o.Counterparty))
	}
	for i := range o.Legs {
		transit := o.Legs[i].From
		if o.Kind == KindWithdraw {
			transit = o.Legs[i].To
		}
		if TransitLedger(transit) != other.Ledger {
			return invalid("counterparty", "%s is not on the other side of %s", other, clip(transit))
		}
	}
	return nil
}

// checkPayee makes sure that a payout's operation names a payee, and that its money goes through the accounts of that rail.
func (o *Operation) checkPayee() error {
	rail, _, err := ParsePayoutCounterparty(o.Counterparty)
	if err != nil {
		return err
	}
	for i := range o.Legs {
		for _, name := range []string{o.Legs[i].From, o.Legs[i].To} {
			if IsOwn(name) && railOf(name) != rail {
				return invalid("counterparty", "%s is not an account of the rail %s", clip(name), rail)
			}
		}
	}
	return nil
}

func (l *Leg) validate(kind Kind) error {
	if err := CheckAccountName("from", l.From); err != nil {
		return err
	}
	if err := CheckAccountName("to", l.To); err != nil {
		return err
	}
	switch {
	case l.From == l.To:
		return invalid("to", "%q is both the source and the destination", clip(l.To))
	case l.Asset.IsZero():
		return invalid("asset", "an asset is required, such as USD or POINTS/0")
	case l.Amount.Sign() <= 0:
		return invalid("amount", "%s is not above zero", l.Amount.Format(l.Asset))
	case kind == KindPost && (IsOwn(l.From) || IsOwn(l.To)):
		return invalid("from", "the ledger's own accounts take part in transfers between ledgers and in payouts only")
	case kind == KindWithdraw && (IsOwn(l.From) || !IsTransit(l.To)):
		return invalid("to", "a withdraw moves money from an account into transit")
	case (kind == KindDeposit || kind == KindRefund) && (!IsTransit(l.From) || IsOwn(l.To)):
		return invalid("from", "a %s moves money from transit to an account", kind)
	case kind == KindReserve && (IsOwn(l.From) || !IsRail(l.To)):
		return invalid("to", "a reserve moves money from an account to a rail's")
	case kind == KindSettle && (!IsRail(l.From) || !IsSettled(l.To)):
		return invalid("from", "a settle moves money from a rail's account to what the rail has settled")
	case kind == KindReturn && (!IsRail(l.From) || IsOwn(l.To)):
		return invalid("from", "a return moves money from a rail's account to an account")
	case kind == KindBounce && (!IsSettled(l.From) || IsOwn(l.To)):
		return invalid("from", "a bounce moves money from what a rail has settled to an account")
	}
	return nil
}

// Reversed is the leg that l gives back when its operation reverses another. What is settled gives back what was reserved.
func (l *Leg) Reversed() Leg {
	to := l.From
	if IsSettled(to) {
		to = RailAccount(railOf(to))
	}
	return Leg{From: l.To, To: to, Asset: l.Asset, Amount: l.Amount}
}

func checkMetadata(metadata map[string]string) error {
	if len(metadata) > MetadataEntriesMax {
		return invalid("metadata", "it has %d entries; at most %d are allowed", len(metadata), MetadataEntriesMax)
	}
	// In one order, so that workflow code, which checks too, always finds the same fault first.
	keys := make([]string, 0, len(metadata))
	//workflowcheck:ignore the order is lost in the sorting
	for key := range metadata {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		value := metadata[key]
		if err := CheckID("metadata key", key, MetadataKeyBytesMax); err != nil {
			return err
		}
		if err := checkText("metadata "+clip(key), value, MetadataValueBytesMax); err != nil {
			return err
		}
	}
	return nil
}

// RequestHash is the SHA-256 of what the operation's money does: kind, legs, the reversed operation, the
// counterparty. Memo and metadata are not part of it, nor is anything about the attempt, so a repeat has the same hash
// and another payment under the same key does not.
type RequestHash [sha256.Size]byte

// RequestHash computes the hash of a valid operation. The encoding is versioned by its first field: hashes are
// compared for as long as the ledger lives, so it can't change without keeping the old one.
func (o *Operation) RequestHash() RequestHash {
	encoded := make([]byte, 0, 256)
	field := func(s string) {
		// A length before each field, so that no two different lists of fields run together into the same bytes.
		encoded = binary.AppendUvarint(encoded, uint64(len(s)))
		encoded = append(encoded, s...)
	}
	field("payonce operation 1")
	field(string(o.Kind))
	field(string(o.Reverses))
	field(o.Counterparty)
	encoded = binary.AppendUvarint(encoded, uint64(len(o.Legs)))
	for i := range o.Legs {
		leg := &o.Legs[i]
		field(leg.From)
		field(leg.To)
		field(leg.Asset.String())
		field(leg.Amount.String())
	}
	return sha256.Sum256(encoded)
}

// OutcomeState is how an operation ended. There is no other end, and none changes.
type OutcomeState string

// The outcomes.
const (
	OutcomeApplied OutcomeState = "applied" // its entries are in the books
	OutcomeRefused OutcomeState = "refused" // for a business reason; it left no entries
	OutcomeSealed  OutcomeState = "sealed"  // given up before it had an outcome; it will never have another
)

// Code is a short reason for a refusal or a seal, for programs.
type Code string

// Why an operation is refused.
const (
	CodeAccountUnknown    Code = "account_unknown"
	CodeAccountFrozen     Code = "account_frozen"
	CodeAccountClosed     Code = "account_closed"
	CodeAssetMismatch     Code = "asset_mismatch"
	CodeInsufficientFunds Code = "insufficient_funds" // the balance would fall below the floor
	CodeCeilingExceeded   Code = "ceiling_exceeded"
	CodeBalanceOverflow   Code = "balance_overflow" // the balance would have more than AmountDigitsMax digits
	CodeReversalUnknown   Code = "reversal_unknown" // what is to be reversed did not apply
	CodeReversalExceeds   Code = "reversal_exceeds" // more than is left of what is to be reversed
	CodeKeyConflict       Code = "key_conflict"     // the key belongs to other content; never recorded, since the key is taken
)

// Why a key is sealed.
const (
	CodeAttemptsExhausted Code = "attempts_exhausted"
	CodeCancelled         Code = "cancelled"
	CodeDiscarded         Code = "discarded" // a person has settled the transfer outside
)

// Outcome is the recorded end of an operation.
type Outcome struct {
	Key    Key
	State  OutcomeState
	Code   Code      // why it was refused or sealed; "" when applied
	Detail string    // the same for a person
	At     time.Time // the database's clock, read while the accounts were locked
	Repeat bool      // the outcome was there already; nothing changed now
}

// Result is what PostBatch answers for one operation: its outcome, or an error of its own, which is an *InvalidError,
// ErrKeyConflict or ErrReversalBlocked. A batch that had to be carried out in parts also has here what went wrong with a
// part.
type Result struct {
	Outcome Outcome
	Err     error
}

// Seal asks for an operation's outcome to be decided: what is recorded under its key, or else never. It names the whole
// operation, so that a key that belongs to other content is a conflict here too and not taken for the answer.
type Seal struct {
	Operation Operation
	Code      Code   // why it is given up: CodeAttemptsExhausted, CodeCancelled or CodeDiscarded
	Detail    string // the same for a person, such as the last error; at most MemoBytesMax bytes are kept
}

// Validate says whether the seal is well formed. The error is an *InvalidError.
func (s *Seal) Validate() error {
	switch s.Code {
	case CodeAttemptsExhausted, CodeCancelled, CodeDiscarded:
		return s.Operation.Validate()
	default:
		return invalid("code", "%q is not a reason to give an operation up", clip(string(s.Code)))
	}
}

// Record is an operation with its outcome, as the ledger keeps it.
type Record struct {
	ID          int64
	Operation   Operation
	RequestHash RequestHash
	Outcome     Outcome
}

// Entry is one immutable line on one account.
type Entry struct {
	AccountID    int64
	Version      int64  // of the account after it; the first entry's is 1
	Amount       Amount // signed: what the balance rose by
	Balance      Amount // after it
	OperationID  int64  // of the operation that wrote it
	Leg          int    // of that operation, counted from 1
	Key          Key
	Kind         Kind
	Other        string // the account of the same leg that gave or took the amount
	Counterparty string // Operation.Counterparty
	Memo         string
	At           time.Time
}

func (l *Leg) String() string {
	return fmt.Sprintf("%s %s from %s to %s", l.Amount.Format(l.Asset), l.Asset, l.From, l.To)
}

// CheckNotes says whether a memo and metadata can be kept with an operation. The error is an *InvalidError.
func CheckNotes(memo string, metadata map[string]string) error {
	if err := checkText("memo", memo, MemoBytesMax); err != nil {
		return err
	}
	return checkMetadata(metadata)
}
