package httprail

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"payonce/activities"
)

// CallbackBytesMax is the longest body of a callback. Whoever reads one from the network must not read more than one byte
// beyond it.
const CallbackBytesMax = answerBytesMax

const eventIDBytesMax = 200

// clockSkewMax is how old a callback may be, or how far ahead: so long a copy of it can be sent again, which says nothing
// new, since it has the same event ID and the same state.
const clockSkewMax = 5 * time.Minute

// ErrCallbackRefused is the error of a callback that is not certainly this rail's: its signature is missing, wrong or too
// old, or there is no secret to check it with. It is answered with 401, and nothing of it is used.
var ErrCallbackRefused = errors.New("the callback is not certainly the rail's")

// Callback is what a rail tells unasked: that a payout has come into a state. Callbacks come twice, late, out of order, or
// before the answer to the submit, so it is no more than an answer that nobody had to ask for.
type Callback struct {
	EventID   string // the same whenever the rail repeats this callback
	Reference string
	Amount    string // to be compared with what was submitted
	Asset     string
	Answer    activities.RailAnswer
}

// ReadCallback checks a callback's signature and time, and then reads it. The error is ErrCallbackRefused, or of a body that
// the rail has signed and that is not the contract's: to be answered with 400.
func (r *Rail) ReadCallback(header http.Header, body []byte) (Callback, error) {
	if err := checkSignature(r.settings.HMACSecret, header.Get(signatureHeader), r.now(), signedCallback, string(body)); err != nil {
		return Callback{}, fmt.Errorf("rail %s: %w: %w", r.settings.Name, ErrCallbackRefused, err)
	}
	if len(body) > CallbackBytesMax {
		return Callback{}, fmt.Errorf("rail %s: callback: it has more than %d bytes", r.settings.Name, CallbackBytesMax)
	}
	callback, err := parseCallback(body)
	if err != nil {
		return Callback{}, fmt.Errorf("rail %s: callback: %s", r.settings.Name, r.hide(err.Error()))
	}
	callback.Answer = r.keep(callback.Answer)
	return callback, nil
}

// parseCallback reads {"event_id", "reference", "payout"}, as strictly as an answer.
func parseCallback(body []byte) (Callback, error) {
	fields, err := object(body)
	if err != nil {
		return Callback{}, err
	}
	f := fieldReader{fields: fields}
	callback := Callback{EventID: f.name("event_id", eventIDBytesMax), Reference: f.text("reference")}
	switch {
	case f.err != nil:
		return Callback{}, f.err
	case callback.EventID == "":
		return Callback{}, errors.New("it has no event_id")
	case fields["payout"] == nil:
		return Callback{}, errors.New("it has no payout")
	}
	p, err := parsePayout(fields["payout"])
	switch {
	case err != nil:
		return Callback{}, fmt.Errorf("its payout: %w", err)
	case p.reference != callback.Reference:
		return Callback{}, errors.New("its payout has another reference")
	case p.answer.State == activities.RailUnknown:
		return Callback{}, errors.New("a callback is about a payout that the rail knows")
	}
	callback.Amount, callback.Asset, callback.Answer = p.amount, p.asset, p.answer
	return callback, nil
}
