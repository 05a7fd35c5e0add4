package ledger

import (
	"errors"
	"fmt"
)

// What a ledger answers when it has no outcome to give. A business refusal is an outcome, not an error.
var (
	// ErrKeyConflict: the key is taken by an operation with other content. Nothing changed; no retry can succeed.
	ErrKeyConflict = errors.New("the key belongs to an operation with other content")

	// ErrUnavailable: the ledger could not be reached or used, or it went away before it was asked to commit: nothing was
	// applied. Refused credentials and missing rights, a standby and a full disk count too. It says nothing about the
	// operation, and hits every operation alike.
	ErrUnavailable = errors.New("the ledger is unavailable")

	// ErrUnknownOutcome: the ledger was asked to commit and its answer was lost. The operation happened or it did not;
	// asking again with the same key, or resolving the key, tells.
	ErrUnknownOutcome = errors.New("the outcome is unknown")

	// ErrReversalBlocked: a reversal would lift an account above its ceiling. Money on its way back is not refused for
	// good, so nothing is recorded, and the same key can succeed after the ceiling is raised.
	ErrReversalBlocked = errors.New("the account can't take its money back")

	// ErrAccountUnknown: no such account. Only reads and account commands return it; an operation is refused.
	ErrAccountUnknown = errors.New("no such account")

	// ErrAccountConflict: an account command can't be carried out, because the account differs from what it assumes.
	ErrAccountConflict = errors.New("the account can't be changed that way")

	// ErrPeriodUnfinished: entries may still be added to the period. It passes by itself.
	ErrPeriodUnfinished = errors.New("the period is not over")

	// ErrOperationUnknown: the key has no outcome.
	ErrOperationUnknown = errors.New("no operation with this key")

	// ErrDeadLetterUnknown: no such dead letter.
	ErrDeadLetterUnknown = errors.New("no such dead letter")

	// ErrDecisionRefused: the dead letter is not what the decision is about any more, or somebody else has decided.
	ErrDecisionRefused = errors.New("the decision was not taken")
)

// InvalidError says which part of an input is malformed and what would be right. No retry of the same input can
// succeed. Callers that need the field use errors.As.
type InvalidError struct {
	Field  string // the input's part, as its user knows it: "amount", "id"
	Reason string // a phrase that says what to do
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

func invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
