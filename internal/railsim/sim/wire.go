package sim

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	requestBytesMax = 1 << 20
	skewMax         = 5 * time.Minute

	jsonType = "application/json"
	htmlType = "text/html; charset=utf-8"
)

// submission is a submit as it came.
type submission struct {
	Reference string            `json:"reference"`
	Amount    string            `json:"amount"`
	Asset     string            `json:"asset"`
	Payee     map[string]string `json:"payee"`
	Memo      string            `json:"memo"`

	key  string
	body string
}

// told is a payout in an answer or a callback.
type told struct {
	Reference string `json:"reference"`
	Status    string `json:"status"`
	Amount    string `json:"amount,omitempty"`
	Asset     string `json:"asset,omitempty"`
	RailID    string `json:"rail_id,omitempty"`
	Code      string `json:"code,omitempty"`
	Detail    string `json:"detail,omitempty"`
	At        string `json:"at,omitempty"`
}

func tell(p *Payout) told {
	return told{
		Reference: p.Reference, Status: p.Status, Amount: p.Amount, Asset: p.Asset, RailID: p.RailID, Code: p.Code,
		Detail: p.Detail, At: p.History[len(p.History)-1].At.Format(time.RFC3339Nano),
	}
}

// event is the body of a callback.
type event struct {
	EventID   string `json:"event_id"`
	Reference string `json:"reference"`
	Payout    told   `json:"payout"`
}

// complaint is the body of an answer without a payout.
type complaint struct {
	Error  string `json:"error"`
	Detail string `json:"detail,omitempty"`
}

var amountForm = regexp.MustCompile(`^(0|[1-9][0-9]*)(?:\.([0-9]+))?$`)

// readSubmission reads a submit and refuses what breaks the contract, so that payonce is held to it.
func readSubmission(header http.Header, body []byte) (submission, error) {
	s := submission{body: string(body)}
	var err error
	if s.key, err = readKey(header.Values("Idempotency-Key")); err != nil {
		return s, err
	}
	if got := header.Get("Content-Type"); got != "application/json" {
		return s, fmt.Errorf("the content type is %q", got)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return s, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return s, errors.New("there is something after the body")
	}
	if s.Reference == "" || s.Payee == nil {
		return s, errors.New("reference and payee are required")
	}
	return s, checkMoney(s.Amount, s.Asset)
}

// checkMoney wants an amount with exactly the digits that the asset has.
func checkMoney(amount, asset string) error {
	code, scale, ok := strings.Cut(asset, "/")
	digits, err := strconv.Atoi(scale)
	if !ok || code == "" || err != nil || digits < 0 {
		return fmt.Errorf("the asset %q is not like USD/2", asset)
	}
	parts := amountForm.FindStringSubmatch(amount)
	if parts == nil || len(parts[2]) != digits || strings.Trim(amount, "0.") == "" {
		return fmt.Errorf("the amount %q is not one of %s", amount, asset)
	}
	return nil
}

// readKey reads one string of RFC 9651, and the percent-encoding within it.
func readKey(values []string) (string, error) {
	if len(values) != 1 {
		return "", errors.New("there must be one Idempotency-Key")
	}
	inner, ok := strings.CutPrefix(values[0], `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	if !ok || !closed || inner == "" || strings.ContainsAny(inner, `"\`) {
		return "", errors.New("the Idempotency-Key is not a string in quotes")
	}
	var key []byte
	for rest := inner; rest != ""; {
		c := rest[0]
		rest = rest[1:]
		if c == '%' {
			if len(rest) < 2 {
				return "", errors.New("the Idempotency-Key ends within a %XX")
			}
			b, err := hex.DecodeString(rest[:2])
			if err != nil {
				return "", errors.New("the Idempotency-Key has a % without two digits")
			}
			c, rest = b[0], rest[2:]
		}
		key = append(key, c)
	}
	return string(key), nil
}

// authorized says whether a request is from who knows the token and the secret, as far as they are set.
func (s *Simulator) authorized(r *http.Request, body []byte) bool {
	if s.config.Token != "" {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(s.config.Token)) != 1 {
			return false
		}
	}
	if s.config.HMACSecret == "" {
		return true
	}
	at, signed, ok := strings.Cut(r.Header.Get("Payonce-Signature"), ",")
	at, isTime := strings.CutPrefix(at, "t=")
	signed, isV1 := strings.CutPrefix(signed, "v1=")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if !ok || !isTime || !isV1 || err != nil || time.Since(time.Unix(seconds, 0)).Abs() > skewMax {
		return false
	}
	text := strings.Join([]string{
		"payonce-request", at, r.Method, r.URL.EscapedPath(), r.Header.Get("Idempotency-Key"), string(body),
	}, "\n")
	return subtle.ConstantTimeCompare([]byte(signed), []byte(sign(s.config.HMACSecret, text))) == 1
}

func sign(secret, text string) string {
	h := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(h, text)
	return hex.EncodeToString(h.Sum(nil))
}

// reply is an answer before a fault changes it.
type reply struct {
	status int
	body   any
}

func refuse(status int, word, detail string) reply {
	return reply{status: status, body: complaint{Error: word, Detail: detail}}
}

func encode(body any) []byte {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // texts only
	}
	return raw
}

// statusOf is the status that a reply is sent with; 0 for none.
func statusOf(f Fault, answer reply) int {
	switch f.Do {
	case doDrop:
		return 0
	case doStatus:
		return f.Status
	case doRedirect:
		return http.StatusTemporaryRedirect
	case doInFlight:
		return http.StatusConflict
	case doEmpty:
		return http.StatusOK
	default:
		return answer.status
	}
}

// write sends a reply as the fault has it. whole is false when the connection must be closed then.
func write(w http.ResponseWriter, f Fault, answer reply) (whole bool) {
	status, kind, body := statusOf(f, answer), jsonType, []byte(nil)
	switch f.Do {
	case doDrop:
		return false
	case doStatus:
		kind, body = htmlType, []byte("<html><body><h1>"+http.StatusText(f.Status)+"</h1></body></html>")
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
	case doRedirect:
		kind = htmlType
		w.Header().Set("Location", "/elsewhere")
	case doInFlight:
		body = encode(complaint{Error: "in_flight"})
	case doEmpty:
	case doCutConnection:
		body = encode(answer.body)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		body = body[:len(body)/2]
	default:
		kind, body = mangleBody(f.Do, encode(mangle(f.Do, answer.body)))
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body) // who asked may be gone
	return f.Do != doCutConnection
}

// mangleBody makes the answer one that can't be read.
func mangleBody(do string, body []byte) (kind string, mangled []byte) {
	switch do {
	case doCutJSON:
		return jsonType, body[:len(body)/2]
	case doWrongType:
		return htmlType, body
	case doTwoWords:
		return jsonType, append([]byte(`{"status":"rejected",`), body[1:]...)
	case doHuge:
		return jsonType, append(body[:len(body)-1], `,"padding":"`+strings.Repeat("x", 1<<20)+`"}`...)
	default:
		return jsonType, body
	}
}

// mangle makes the answer one about something else.
func mangle(do string, body any) any {
	t, isPayout := body.(told)
	if !isPayout {
		return body
	}
	switch do {
	case doOtherReference:
		t.Reference += "-other"
	case doOtherAmount:
		t.Amount = "9" + t.Amount
	case doOtherAsset:
		t.Asset = "XTS/2"
	case doWrongWord:
		t.Status = "done"
	}
	return t
}
