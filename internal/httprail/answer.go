package httprail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"payonce/activities"
	"payonce/ledger"
)

// The bounds of an answer.
const (
	answerBytesMax = 64 << 10
	railIDBytesMax = 200
	codeBytesMax   = 100
)

// call is one of the three things that a rail is asked.
type call string

const (
	callSubmit call = "submit"
	callLookup call = "lookup"
	callCancel call = "cancel"
)

var anyState = []activities.RailState{
	activities.RailPending, activities.RailSettled, activities.RailRejected, activities.RailCancelled, activities.RailReturned,
}

// carries is the states that a status code may carry, by what was asked. Other codes carry no payout.
var carries = map[call]map[int][]activities.RailState{
	callSubmit: {
		http.StatusOK:                  anyState,
		http.StatusCreated:             anyState,
		http.StatusAccepted:            {activities.RailPending},
		http.StatusBadRequest:          {activities.RailRejected},
		http.StatusUnprocessableEntity: {activities.RailRejected},
	},
	callLookup: {
		http.StatusOK:       anyState,
		http.StatusNotFound: {activities.RailUnknown},
	},
	callCancel: {
		http.StatusOK:       anyState,
		http.StatusAccepted: {activities.RailPending},
		http.StatusNotFound: {activities.RailUnknown},
	},
}

// payout is the contract's JSON of a payout.
type payout struct {
	reference string
	amount    string
	asset     string
	answer    activities.RailAnswer
}

// parsePayout reads a payout, strictly where it matters: one JSON object in UTF-8 and nothing after it; no field twice, in
// the contract's spelling, each a string or null; a state that the contract has. Fields that it doesn't know are left out.
func parsePayout(data []byte) (payout, error) {
	fields, err := object(data)
	if err != nil {
		return payout{}, err
	}
	r := fieldReader{fields: fields}
	p := payout{
		reference: r.text("reference"),
		amount:    r.text("amount"),
		asset:     r.text("asset"),
		answer: activities.RailAnswer{
			State:  activities.RailState(r.text("status")),
			RailID: r.name("rail_id", railIDBytesMax),
			Code:   r.name("code", codeBytesMax),
			Detail: r.text("detail"),
			At:     r.time("at"),
		},
	}
	switch {
	case r.err != nil:
		return payout{}, r.err
	case p.reference == "":
		return payout{}, errors.New("it has no reference")
	case p.answer.State == "":
		return payout{}, errors.New("it has no status")
	case p.answer.State != activities.RailUnknown && !slices.Contains(anyState, p.answer.State):
		return payout{}, fmt.Errorf("the contract has no status %q", ledger.ClipError(string(p.answer.State), codeBytesMax))
	}
	return p, nil
}

// object is the fields of a JSON object. encoding/json would take the last of two fields with one name, and STATUS for
// status: either way somebody else on the wire may have read another word.
func object(data []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	fields := make(map[string]json.RawMessage)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, errors.New("it is not whole JSON")
		}
		name, _ := token.(string)
		if _, there := fields[name]; there {
			return nil, fmt.Errorf("the field %q is there twice", ledger.ClipError(name, codeBytesMax))
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, errors.New("it is not whole JSON")
		}
		fields[name] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, errors.New("it is not whole JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after it")
	}
	return fields, nil
}

// fieldReader reads fields and keeps the first error.
type fieldReader struct {
	fields map[string]json.RawMessage
	err    error
}

// text is a field that is a string; null, or no such field, is "".
func (r *fieldReader) text(name string) string {
	var s string
	if raw, there := r.fields[name]; there && json.Unmarshal(raw, &s) != nil && r.err == nil {
		r.err = fmt.Errorf("%s is not a string", name)
	}
	return s
}

// name is a text that programs compare: whole and printable, or an error.
func (r *fieldReader) name(name string, bytesMax int) string {
	s := r.text(name)
	if s != "" && r.err == nil {
		r.err = ledger.CheckID(name, s, bytesMax)
	}
	return s
}

func (r *fieldReader) time(name string) time.Time {
	s := r.text(name)
	if s == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s is not a time as in RFC 3339", name)
	}
	return at.UTC()
}

// problem is the error that an answer without a payout names, and what it says of it; "" if it has none.
func problem(body []byte) (word, detail string) {
	fields, err := object(body)
	if err != nil {
		return "", ""
	}
	r := fieldReader{fields: fields}
	word, detail = r.name("error", codeBytesMax), r.text("detail")
	if r.err != nil {
		return "", ""
	}
	return word, detail
}
