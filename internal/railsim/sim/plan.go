package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule says which plan a payout follows: that of its exact reference, else that of the longest prefix, else the one with
// neither, which is for all others. A later rule for the same takes the place of an earlier one, and faults are counted anew.
type Rule struct {
	Reference string `json:"reference,omitempty"`
	Prefix    string `json:"prefix,omitempty"`
	Plan      Plan   `json:"plan"`
	// Mix draws the plan of each reference instead, by weight. The draw follows from seed and reference alone, so that the
	// order in which payouts come changes nothing.
	Mix  []Weighted `json:"mix,omitempty"`
	Seed uint64     `json:"seed,omitempty"`
}

// Weighted is one plan of a mix.
type Weighted struct {
	Weight uint64 `json:"weight"`
	Plan   Plan   `json:"plan"`
}

// Plan is what happens to a payout. The zero Plan settles it at once and answers in order. Times are milliseconds.
type Plan struct {
	// Faults strike the first requests, one after the other; when they are used up, requests are answered in order.
	Submit []Fault `json:"submit,omitempty"`
	Lookup []Fault `json:"lookup,omitempty"`
	Cancel []Fault `json:"cancel,omitempty"`

	Outcome       string `json:"outcome,omitempty"`         // settled (the default), rejected, or pending: never decided
	DecideAfterMS int64  `json:"decide_after_ms,omitempty"` // pending until then
	Code          string `json:"code,omitempty"`            // of a rejection and of a return
	Detail        string `json:"detail,omitempty"`
	ReturnAfterMS int64  `json:"return_after_ms,omitempty"` // after it was settled, the money comes back; 0: it does not
	UnknownForMS  int64  `json:"unknown_for_ms,omitempty"`  // its reference is not known so long, though the rail has it
	KeysKeptMS    int64  `json:"keys_kept_ms,omitempty"`    // then the key is forgotten; 0: as the simulator does
	Uncancellable bool   `json:"uncancellable,omitempty"`   // a cancel is answered and changes nothing

	Callbacks Callbacks `json:"callbacks,omitzero"`
}

// Fault is what happens to one request.
type Fault struct {
	Do    string `json:"do"`
	Times int    `json:"times,omitempty"` // how many requests in a row; 0 is one, below 0 all
	// Executed: it is carried out first. It is for drop, status, empty and redirect; what changes an answer carries out, and
	// in_flight never does.
	Executed bool `json:"executed,omitempty"`
	// BeforeMS passes before anything is done, AfterMS between that and the answer. The key is in use meanwhile.
	BeforeMS   int64  `json:"before_ms,omitempty"`
	AfterMS    int64  `json:"after_ms,omitempty"`
	Status     int    `json:"status,omitempty"`      // of status
	RetryAfter string `json:"retry_after,omitempty"` // of status
}

// The faults.
const (
	doAnswer         = "answer"          // in order; for its times
	doDrop           = "drop"            // the connection is closed without an answer
	doStatus         = "status"          // that status with a page of HTML
	doRedirect       = "redirect"        // 307 to another address
	doInFlight       = "in_flight"       // 409 as while another request with the key runs
	doEmpty          = "empty"           // 200 without a body
	doCutJSON        = "cut_json"        // half the body, and a length that fits it
	doCutConnection  = "cut_connection"  // half the body, and then the connection is closed
	doWrongType      = "wrong_type"      // the body as text/html
	doOtherReference = "other_reference" // the body is about another payout
	doOtherAmount    = "other_amount"
	doOtherAsset     = "other_asset"
	doWrongWord      = "wrong_word" // a status that the contract does not have
	doTwoWords       = "two_words"  // the status is there twice, and differs
	doHuge           = "huge"       // a body of a megabyte
)

var faultWords = []string{
	doAnswer, doDrop, doStatus, doRedirect, doInFlight, doEmpty, doCutJSON, doCutConnection, doWrongType, doOtherReference,
	doOtherAmount, doOtherAsset, doWrongWord, doTwoWords, doHuge,
}

// executes says whether the request is carried out.
func (f Fault) executes() bool {
	switch f.Do {
	case doDrop, doStatus, doEmpty, doRedirect:
		return f.Executed
	case doInFlight:
		return false
	default:
		return true
	}
}

// Callbacks say how a payout's changes are told. Without a URL here or of the simulator nothing is.
type Callbacks struct {
	URL     string `json:"url,omitempty"`
	Off     bool   `json:"off,omitempty"`
	Times   int    `json:"times,omitempty"`    // how often each is told; 0 is once
	DelayMS int64  `json:"delay_ms,omitempty"` // how late
	Early   bool   `json:"early,omitempty"`    // what is decided at once is told before the submit is answered
	Forged  bool   `json:"forged,omitempty"`   // signed with another secret
	RetryMS int64  `json:"retry_ms,omitempty"` // after an attempt that was not answered with 2xx; it doubles, to 10 s at most; 0 is a second
}

// ParseRules reads a rule, or a list of rules, strictly: a misspelt field would be a fault that never strikes.
func ParseRules(data []byte) ([]Rule, error) {
	decode := func(into any) error {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		return decoder.Decode(into)
	}
	if data = bytes.TrimSpace(data); bytes.HasPrefix(data, []byte("[")) {
		var all []Rule
		err := decode(&all)
		return all, err
	}
	var one Rule
	err := decode(&one)
	return []Rule{one}, err
}

func (r *Rule) check() error {
	if r.Reference != "" && r.Prefix != "" {
		return errors.New("a rule has a reference or a prefix, not both")
	}
	plans := []Plan{r.Plan}
	for _, one := range r.Mix {
		if one.Weight == 0 {
			return errors.New("each plan of a mix has a weight above 0")
		}
		plans = append(plans, one.Plan)
	}
	for _, p := range plans {
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
}

func (p Plan) check() error {
	if !slices.Contains([]string{"", statusSettled, statusRejected, statusPending}, p.Outcome) {
		return fmt.Errorf("there is no outcome %q: settled, rejected or pending", p.Outcome)
	}
	for _, f := range slices.Concat(p.Submit, p.Lookup, p.Cancel) {
		if !slices.Contains(faultWords, f.Do) {
			return fmt.Errorf("there is no fault %q: %s", f.Do, strings.Join(faultWords, ", "))
		}
		if (f.Do == doStatus) != (f.Status != 0) || f.Status != 0 && (f.Status < 200 || f.Status > 599) {
			return errors.New("the fault status, and no other, has a status from 200 to 599")
		}
		if f.BeforeMS < 0 || f.AfterMS < 0 {
			return errors.New("times are not below 0")
		}
	}
	if min(p.DecideAfterMS, p.ReturnAfterMS, p.UnknownForMS, p.KeysKeptMS, p.Callbacks.DelayMS, p.Callbacks.RetryMS) < 0 {
		return errors.New("times are not below 0")
	}
	return nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// rules chooses plans and counts faults. Its user locks.
type rules struct {
	all  []*Rule
	used map[useKey]int // requests so far
}

type useKey struct {
	rule      *Rule
	reference string
	call      string
}

func (r *rules) set(rule Rule) error {
	if err := rule.check(); err != nil {
		return err
	}
	r.all = slices.DeleteFunc(r.all, func(old *Rule) bool { return old.Reference == rule.Reference && old.Prefix == rule.Prefix })
	r.all = append(r.all, &rule)
	return nil
}

// of is the rule for a reference, and the plan that it gives it.
func (r *rules) of(reference string) (*Rule, Plan) {
	var best *Rule
	for _, rule := range r.all {
		switch {
		case rule.Reference != "" && rule.Reference == reference:
			return rule, rule.plan(reference)
		case rule.Reference != "" || !strings.HasPrefix(reference, rule.Prefix):
		case best == nil || len(rule.Prefix) > len(best.Prefix):
			best = rule
		}
	}
	if best == nil {
		return nil, Plan{}
	}
	return best, best.plan(reference)
}

func (r *Rule) plan(reference string) Plan {
	if len(r.Mix) == 0 {
		return r.Plan
	}
	var total uint64
	for _, one := range r.Mix {
		total += one.Weight
	}
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, r.Seed), reference...))
	drawn := binary.BigEndian.Uint64(sum[:]) % total
	for _, one := range r.Mix {
		if drawn < one.Weight {
			return one.Plan
		}
		drawn -= one.Weight
	}
	panic("sim: a draw beyond the weights")
}

// next is the fault that strikes this request.
func (r *rules) next(reference, call string) Fault {
	rule, plan := r.of(reference)
	if rule == nil {
		return Fault{Do: doAnswer}
	}
	faults := map[string][]Fault{callSubmit: plan.Submit, callLookup: plan.Lookup, callCancel: plan.Cancel}[call]
	key := useKey{rule: rule, reference: reference, call: call}
	n := r.used[key]
	r.used[key]++
	for _, f := range faults {
		times := max(f.Times, 1)
		if f.Times < 0 || n < times {
			return f
		}
		n -= times
	}
	return Fault{Do: doAnswer}
}
