package demo

import "payonce/internal/faultworker/fault"

// What says what an event is about.
type What string

// What there is to tell.
const (
	WhatSetting What = "setting" // what the demo does: it starts and thaws workers
	WhatClient  What = "client"  // what a client asks, and is told
	WhatStep    What = "step"    // a ledger's answer to a step
	WhatRepeat  What = "repeat"  // a ledger's answer that moved nothing: the outcome was there already
	WhatFault   What = "fault"   // something breaks
	WhatServer  What = "server"  // what Temporal recorded
	WhatBooks   What = "books"   // balances
)

// Event is one line of a timeline.
type Event struct {
	AtMS int64  `json:"at_ms"` // since the scenario began
	Who  string `json:"who"`   // "client", "worker 1", "temporal", "books", "demo"
	What What   `json:"what"`
	Text string `json:"text"`
	// Announced is what a worker process said, word for word, if the event comes from one.
	Announced *fault.Event `json:"announced,omitempty"`
}
