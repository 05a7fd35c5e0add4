package fault

import (
	"time"

	"payonce/ledger"
)

// EventName says what an announcement is about.
type EventName string

// The announcements of a fault worker.
const (
	EventReady   EventName = "ready"   // it asks Temporal for work on all its task queues
	EventFault   EventName = "fault"   // a fault is about to strike
	EventResumed EventName = "resumed" // it goes on after ActionFreeze, ActionBlock or ActionHold
	EventAnswer  EventName = "answer"  // a ledger has answered a write, whatever becomes of the answer
)

// Event is one announcement: a JSON object in a line on standard output.
type Event struct {
	Event EventName `json:"event"`
	At    time.Time `json:"at"`
	PID   int       `json:"pid"`

	// Of all but EventReady. EventAnswer's point is the one after the write.
	Point Point  `json:"point,omitzero"`
	Key   string `json:"key,omitempty"`
	// Attempt is the number of the activity's attempt, from 1; Local says that it is on the fast path.
	Attempt int32 `json:"attempt,omitempty"`
	Local   bool  `json:"local,omitempty"`

	// Of EventFault.
	Action Action `json:"action,omitempty"`
	// Strike counts the times that this fault has struck, from 1.
	Strike int `json:"strike,omitempty"`

	// Of EventAnswer: the outcome, or the error.
	State  ledger.OutcomeState `json:"state,omitempty"`
	Code   ledger.Code         `json:"code,omitempty"`
	Repeat bool                `json:"repeat,omitempty"` // the outcome was there already; nothing moved
	Error  string              `json:"error,omitempty"`
}
