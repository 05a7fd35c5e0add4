package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"payonce/activities"
	"payonce/ledger"
)

// A person decides about a dead letter in one of two ways.
//
// A transfer that is parked takes the update "decide", with a Decision, under the update ID Decision.UpdateID().
//
// A transfer that has ended takes no update any more. A decision about it is a workflow of its own: type "DeadLetterDecide",
// task queue "payonce", workflow ID EndedDecision.WorkflowID(), input an EndedDecision, result an EndedDecided; reuse policy
// "allow duplicate failed only", conflict policy "use existing".
//
// Both IDs are made of what was read and what was decided, so the same decision sent again is the same decision, and both
// refuse with an error of type ErrorDecisionRefused what is about a state that is past, and tell who decided.

// DecideUpdate is the name of the update that decides about a parked transfer. Its argument is a Decision, its result a
// TransferStatus.
const DecideUpdate = "decide"

// DeadLetterDecideWorkflow is the type of the workflow that decides about a dead letter whose transfer has ended.
const DeadLetterDecideWorkflow = "DeadLetterDecide"

// ErrorDecisionRefused is the type of the error that refuses a decision: the transfer is not where the decision thinks it
// is, or somebody else has decided. Nothing was changed.
const ErrorDecisionRefused = activities.ErrorDecisionRefused

// Action is what a person can decide about a dead letter.
type Action string

// The actions. None can move money twice: each step keeps its key.
const (
	// ActionRetry gives a parked step fresh attempts. A transfer that failed or was compensated is made anew, once, under
	// the ID RetryTransferID.
	ActionRetry Action = "retry"
	// ActionCompensate gives the parked step fresh attempts and then takes the transfer back rather than forward: a
	// deposit that has no outcome is sealed, and the money refunded. After a discard it is the way back.
	ActionCompensate Action = "compensate"
	// ActionDiscard ends a parked transfer that was settled outside: every step that has no outcome is sealed, so that
	// nothing of it can move any more, and what is in transit stays there. Of a transfer that has ended it only closes the
	// letter.
	ActionDiscard Action = "discard"
	// ActionSettle books a payout as paid, at a person's word, when its rail does not tell.
	ActionSettle Action = "settle"
)

// Decision is a person's word about a parked transfer.
type Decision struct {
	Action  Action `json:"action"`
	Parking int    `json:"parking"`          // Parking.Number that it is about
	Run     string `json:"run,omitempty"`    // Parking.Run that it is about; "" is whichever is there
	By      string `json:"by"`               // who decides
	Reason  string `json:"reason,omitempty"` // why; a discard needs one
	// SettledOutside says that whoever was to have the money has it. Without it a transfer whose money is in transit, or
	// nobody knows where, can't be discarded.
	SettledOutside bool `json:"settled_outside,omitempty"`
}

// UpdateID is the ID under which the decision is sent.
func (d Decision) UpdateID() string {
	return fmt.Sprintf("%s-parking-%d-%s", d.Action, d.Parking, digest(d.Run, d.By, d.Reason, strconv.FormatBool(d.SettledOutside)))
}

// EndedDecision is a person's word about a dead letter whose transfer has ended.
type EndedDecision struct {
	Ledger  string `json:"ledger"`  // where the letter is
	Key     string `json:"key"`     // its key
	Version int64  `json:"version"` // the version that the decision is about
	Action  Action `json:"action"`  // retry or discard
	By      string `json:"by"`
	Reason  string `json:"reason,omitempty"`
	// Ended is how the transfer ended, if the letter still says that it is parked: the run that wrote it was closed by
	// force, and another has ended since.
	Ended State `json:"ended,omitempty"`
	// Notify names those who are to be told of the end of the transfer that is made anew.
	Notify []string `json:"notify,omitempty"`
}

// ID names the decision.
func (d EndedDecision) ID() string {
	return fmt.Sprintf("%s-version-%d-%s", d.Action, d.Version, digest(d.By, d.Reason))
}

// WorkflowID is the ID of the workflow that carries the decision out.
func (d EndedDecision) WorkflowID() string { return "deadletter/" + d.Key + "/" + d.ID() }

// EndedDecided is what came of a decision.
type EndedDecided struct {
	Letter activities.DeadLetterStory `json:"letter"`
	// Transfer is the ID of the transfer that was started in place of the one that had ended; "" for a discard.
	Transfer string `json:"transfer,omitempty"`
}

// digest is short, and another one for other texts.
func digest(texts ...string) string {
	var all strings.Builder
	for _, text := range texts {
		all.WriteString(strconv.Itoa(len(text)) + ":" + text)
	}
	sum := sha256.Sum256([]byte(all.String()))
	return hex.EncodeToString(sum[:8])
}

const (
	retrySuffix = "~retry-"
	// retryRootBytesMax leaves room for the suffix and nine digits.
	retryRootBytesMax = TransferIDBytesMax - len(retrySuffix) - 9
)

// RetryTransferID is the ID of the one transfer that is made in place of the transfer id, after that failed or was
// compensated: "rent~retry-1" for "rent", "rent~retry-2" for "rent~retry-1". It is the same whoever asks, so that there is
// one. Of an ID that would become too long a digest takes the place of the end.
func RetryTransferID(id string) string {
	root, number := id, 1
	if at := strings.LastIndex(id, retrySuffix); at > 0 {
		digits := id[at+len(retrySuffix):]
		if n, err := strconv.Atoi(digits); err == nil && n > 0 && strconv.Itoa(n) == digits && len(digits) < 9 {
			root, number = id[:at], n+1
		}
	}
	if len(root) > retryRootBytesMax {
		sum := sha256.Sum256([]byte(root))
		end := "~" + hex.EncodeToString(sum[:16])
		cut := retryRootBytesMax - len(end)
		for !utf8.RuneStart(root[cut]) {
			cut--
		}
		root = root[:cut] + end
	}
	return root + retrySuffix + strconv.Itoa(number)
}

// retriable says whether a transfer that ended so can be made anew: its money is where it was, for no reason of its own.
func retriable(state State) bool { return state == StateFailed || state == StateCompensated }

// choicesAfter are the decisions about the letter of a transfer that has ended.
func choicesAfter(state State) []string {
	if retriable(state) {
		return []string{string(ActionRetry), string(ActionDiscard)}
	}
	return []string{string(ActionDiscard)}
}

// checkWords says whether a decision is one at all. The error is a *ledger.InvalidError.
func checkWords(action Action, by, reason string) error {
	words := ledger.Decision{By: by, Reason: reason}
	if err := words.Validate(); err != nil {
		return err
	}
	if action == ActionDiscard && reason == "" {
		return &ledger.InvalidError{Field: "reason", Reason: "a discard needs one: it is all that is left of the transfer's story"}
	}
	if action == ActionSettle && reason == "" {
		return &ledger.InvalidError{Field: "reason", Reason: "booking as paid needs one: how it is known that the rail has paid"}
	}
	return nil
}
