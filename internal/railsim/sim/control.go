package sim

import (
	"encoding/json"
	"net/http"
)

// postPlans adds a rule, or each of a list.
func (s *Simulator) postPlans(w http.ResponseWriter, r *http.Request) {
	var raw json.RawMessage
	if !read(w, r, &raw) {
		return
	}
	rules, err := ParseRules(raw)
	if err != nil {
		control(w, http.StatusBadRequest, complaint{Error: "invalid_plan", Detail: err.Error()})
		return
	}
	for _, rule := range rules {
		if err := s.Plan(rule); err != nil {
			control(w, http.StatusBadRequest, complaint{Error: "invalid_plan", Detail: err.Error()})
			return
		}
	}
	control(w, http.StatusOK, struct{}{})
}

// postDecide decides about the last payout of a reference: settled, rejected, cancelled, or returned.
func (s *Simulator) postDecide(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Reference string `json:"reference"`
		Status    string `json:"status"`
		Code      string `json:"code"`
		Detail    string `json:"detail"`
	}
	if !read(w, r, &asked) {
		return
	}
	s.mu.Lock()
	p := s.books.latest(asked.Reference)
	_, plan := s.rules.of(asked.Reference)
	s.mu.Unlock()
	if p == nil {
		control(w, http.StatusNotFound, complaint{Error: "unknown_reference"})
		return
	}
	plan.Code, plan.Detail = asked.Code, asked.Detail
	if !s.decide(p, plan, asked.Status) {
		control(w, http.StatusConflict, complaint{Error: "not_possible", Detail: "the payout can't come into that state now"})
		return
	}
	control(w, http.StatusOK, struct{}{})
}

func (s *Simulator) getBooks(w http.ResponseWriter, _ *http.Request) {
	control(w, http.StatusOK, s.Books())
}

// read reads a control call's body, strictly: a misspelt field would be a fault that never strikes.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, requestBytesMax))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		control(w, http.StatusBadRequest, complaint{Error: "invalid_request", Detail: err.Error()})
		return false
	}
	return true
}

func control(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status)
	_, _ = w.Write(encode(body))
}
