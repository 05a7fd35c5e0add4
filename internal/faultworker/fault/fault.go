package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"payonce/workflows"
)

// Action is what a worker does to itself.
type Action string

// The actions.
const (
	// ActionKill ends the process with SIGKILL: nothing is cleaned up, nobody is told.
	ActionKill Action = "kill"
	// ActionFreeze stops the process with SIGSTOP. When somebody continues it, it goes on where it was, whatever its
	// deadline was: as a write does that is on its way when its sender is given up.
	ActionFreeze Action = "freeze"
	// ActionBlock waits past the attempt's time-out, or for Fault.For, and then goes on: a worker that does not look at
	// its deadline.
	ActionBlock Action = "block"
	// ActionHold waits until the worker is told to let go, however long that takes, and then goes on as after ActionBlock:
	// a test does meanwhile what it has to do, and no machine is too slow for that.
	ActionHold Action = "hold"
	// ActionFail returns an error: before, in place of the write; after, in place of its answer.
	ActionFail Action = "fail"
	// ActionPanic panics.
	ActionPanic Action = "panic"
	// ActionDrop loses the answer: the write is committed, and its caller gets ledger.ErrUnknownOutcome.
	ActionDrop Action = "drop"
)

func actions() []Action {
	return []Action{ActionKill, ActionFreeze, ActionBlock, ActionHold, ActionFail, ActionPanic, ActionDrop}
}

// Error is which of the ledger's errors ActionFail returns.
type Error string

// The errors.
const (
	ErrorPlain       Error = ""            // one that says nothing: it counts against the attempts
	ErrorUnavailable Error = "unavailable" // ledger.ErrUnavailable: an outage
	ErrorUnknown     Error = "unknown"     // ledger.ErrUnknownOutcome
)

// Fault is one thing that a worker does to itself.
type Fault struct {
	Point  Point  `json:"point"`
	Action Action `json:"action"`

	// Times is how often it strikes; 0 is once. Always strikes each time.
	Times  int  `json:"times,omitempty"`
	Always bool `json:"always,omitempty"`
	// Skip is how often its point is passed unharmed before.
	Skip int `json:"skip,omitempty"`

	// Transfer and Key narrow it to the steps of one transfer, by its ID, or to one key.
	Transfer string `json:"transfer,omitempty"`
	Key      string `json:"key,omitempty"`

	// For is how long ActionBlock waits; 0 is until past the attempt's time-out.
	For Duration `json:"for,omitempty"`
	// Error is what ActionFail returns.
	Error Error `json:"error,omitempty"`
	// KeepPolls leaves the requests for work open when ActionFreeze stops the process. The server then hands work to a
	// frozen worker, once for each open request, and has to wait each time until that work times out. Without it the
	// worker hangs up first.
	KeepPolls bool `json:"keep_polls,omitempty"`
}

// Matches says whether the fault is about a write at a point with a key, leaving aside how often.
func (f *Fault) Matches(point Point, key string) bool {
	return f.Point == point && (f.Key == "" || f.Key == key) &&
		(f.Transfer == "" || strings.HasPrefix(key, workflows.TransferWorkflowID(f.Transfer)+"/"))
}

// Parse reads a fault from a command line:
//
//	POINT=ACTION[:TIMES|:always][;transfer=ID][;key=KEY][;skip=N][;for=DURATION][;error=unavailable|unknown][;keep-polls]
//
// or the JSON of a Fault, which can name any transfer and key.
func Parse(s string) (Fault, error) {
	f, err := parse(s)
	if err == nil {
		err = f.Validate()
	}
	if err != nil {
		return Fault{}, fmt.Errorf("fault %q: %w", s, err)
	}
	return f, nil
}

func parse(s string) (f Fault, err error) {
	if strings.HasPrefix(s, "{") {
		decoder := json.NewDecoder(bytes.NewReader([]byte(s)))
		decoder.DisallowUnknownFields()
		return f, decoder.Decode(&f)
	}
	terms := strings.Split(s, ";")
	point, action, ok := strings.Cut(terms[0], "=")
	if !ok {
		return f, errors.New("it must begin with POINT=ACTION, as in withdraw/after=kill")
	}
	if f.Point, err = ParsePoint(point); err != nil {
		return f, err
	}
	action, times, counted := strings.Cut(action, ":")
	f.Action = Action(action)
	if counted {
		if err := f.parseTimes(times); err != nil {
			return f, err
		}
	}
	for _, term := range terms[1:] {
		if err := f.parseTerm(term); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *Fault) parseTimes(s string) error {
	if s == "always" {
		f.Always = true
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of times, nor always", s)
	}
	f.Times = n
	return nil
}

func (f *Fault) parseTerm(term string) error {
	name, value, _ := strings.Cut(term, "=")
	switch name {
	case "transfer":
		f.Transfer = value
	case "key":
		f.Key = value
	case "error":
		f.Error = Error(value)
	case "keep-polls":
		f.KeepPolls = true
	case "for":
		return f.For.UnmarshalText([]byte(value))
	case "skip":
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("skip: %q is not a number", value)
		}
		f.Skip = n
	default:
		return fmt.Errorf("%q is not transfer, key, skip, for, error or keep-polls", name)
	}
	return nil
}

// Validate says whether the fault makes sense.
func (f *Fault) Validate() error {
	if _, err := ParsePoint(f.Point.String()); err != nil {
		return err
	}
	switch {
	case !slices.Contains(actions(), f.Action):
		return fmt.Errorf("%q is not an action: it is one of %s", f.Action, list(actions()))
	case f.Times < 0 || f.Skip < 0 || f.For < 0:
		return errors.New("times, skip and for are not below zero")
	case f.Always && f.Times > 0:
		return errors.New("it strikes always or a number of times, not both")
	case f.Action == ActionDrop && f.Point.Moment != After:
		return errors.New("only an answer can be dropped: the point must be …/after")
	case f.For > 0 && f.Action != ActionBlock:
		return errors.New("for is about block")
	case f.Error != ErrorPlain && f.Action != ActionFail:
		return errors.New("error is about fail")
	case f.Error != ErrorPlain && f.Error != ErrorUnavailable && f.Error != ErrorUnknown:
		return fmt.Errorf("%q is not unavailable or unknown", f.Error)
	case f.KeepPolls && f.Action != ActionFreeze:
		return errors.New("keep-polls is about freeze")
	}
	return nil
}

// String is a fault for a command line, which Parse reads back.
func (f *Fault) String() string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // no part of it can't be written
	}
	return string(text)
}

// Duration is a time.Duration that is a text such as "1.5s" in JSON.
type Duration time.Duration

// MarshalText writes a duration as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}
