package demo

import "encoding/json"

// Report is how the demo went.
type Report struct {
	OK        bool             `json:"ok"`
	Scenarios []ScenarioReport `json:"scenarios"`
	// Verify is what the worker's verify command said of the books in the end.
	Verify *VerifyReport `json:"verify,omitempty"`
	// ElapsedMS is how long it took, without the start of the servers.
	ElapsedMS int64 `json:"elapsed_ms"`
}

// ScenarioReport is how one scenario went.
type ScenarioReport struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	OK    bool   `json:"ok"`
	// Balances and Expected are those of A and B in the end, in major units.
	Balances map[string]string `json:"balances"`
	Expected map[string]string `json:"expected"`
	Events   []Event           `json:"events"`
	// Problems are what differs from what the scenario must show; none if it is right.
	Problems []string `json:"problems"`
}

// VerifyReport is a run of worker verify.
type VerifyReport struct {
	OK       bool `json:"ok"`
	ExitCode int  `json:"exit_code"`
	// Report is the command's own JSON document.
	Report json.RawMessage `json:"report,omitempty"`

	text string // what it writes for a person
}

// finish decides whether all of it is right.
func (r *Report) finish() {
	r.OK = r.Verify != nil && r.Verify.OK && len(r.Scenarios) > 0
	for i := range r.Scenarios {
		r.OK = r.OK && r.Scenarios[i].OK
	}
}
