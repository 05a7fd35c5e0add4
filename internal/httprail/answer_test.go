package httprail

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/activities"
)

// TestStatusCodes goes through every status code, every word and every call, against the contract's table written out once
// more. What is not in it is no answer.
func TestStatusCodes(t *testing.T) {
	t.Parallel()
	const known = "pending settled rejected cancelled returned"
	contract := map[call]map[int]string{
		callSubmit: {200: known, 201: known, 202: "pending", 400: "rejected", 422: "rejected"},
		callLookup: {200: known, 404: "unknown"},
		callCancel: {200: known, 202: "pending", 404: "unknown"},
	}
	outages := map[int]bool{401: true, 403: true, 429: true}
	var status int
	var body string
	address, _ := server(t, func(w http.ResponseWriter, r *http.Request) { answering(status, "application/json", body)(w, r) })
	rail := railAt(t, address, nil)
	calls := everyCall(rail)
	for status = 200; status < 600; status++ {
		for _, word := range append(strings.Fields(known), "unknown", "done", "Settled", "") {
			body = fmt.Sprintf(`{"reference":"rent-7","status":%q,"amount":"10.00","asset":"USD/2"}`, word)
			if status == 204 || status == 304 {
				body = ""
			}
			for c, ask := range calls {
				got, err := ask(t.Context())
				if slices.Contains(strings.Fields(contract[c][status]), word) {
					require.NoError(t, err, "%s: %d %s", c, status, word)
					require.Equal(t, activities.RailAnswer{State: activities.RailState(word)}, got)
					continue
				}
				require.Error(t, err, "%s: %d %s", c, status, word)
				e := asError(t, err)
				require.Zero(t, got)
				require.Equal(t, status, e.Status)
				require.Equal(t, outages[status] || status >= 500, e.Outage(), "%s: %d", c, status)
				require.False(t, e.KeyConflict())
			}
			if contract[callSubmit][status]+contract[callLookup][status]+contract[callCancel][status] == "" {
				break // no word is better than another
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const jsonType = "application/json"
	whole := `{"reference":"rent-7","status":"settled","amount":"10.00","asset":"USD/2"}`
	for name, test := range map[string]struct {
		status     int
		kind, body string
		want       Reason // "" for an answer
		text       string // a part of the error
	}{
		"in order":             {200, jsonType, whole, "", ""},
		"with a character set": {200, "application/json; charset=utf-8", whole, "", ""},
		"with other fields":    {200, jsonType, `{"fee":{"status":"rejected"},` + whole[1:], "", ""},
		"with empty fields":    {200, jsonType, `{"code":null,"error":null,"at":null,` + whole[1:], "", ""},

		"HTML":                  {200, "text/html", "<html>", ReasonMalformed, "200 OK without application/json"},
		"JSON that says HTML":   {200, "text/html", whole, ReasonMalformed, "without application/json"},
		"without a type":        {200, "", whole, ReasonMalformed, "without application/json"},
		"empty":                 {200, jsonType, "", ReasonMalformed, "it is not a JSON object"},
		"an array":              {200, jsonType, "[" + whole + "]", ReasonMalformed, "it is not a JSON object"},
		"null":                  {200, jsonType, "null", ReasonMalformed, "it is not a JSON object"},
		"cut":                   {200, jsonType, whole[:len(whole)-1], ReasonMalformed, "it is not whole JSON"},
		"cut within a name":     {200, jsonType, `{"reference":"rent-7","sta`, ReasonMalformed, "it is not whole JSON"},
		"two answers":           {200, jsonType, whole + whole, ReasonMalformed, "there is something after it"},
		"something after":       {200, jsonType, whole + "x", ReasonMalformed, "there is something after it"},
		"not UTF-8":             {200, jsonType, `{"detail":"` + "\xff" + `",` + whole[1:], ReasonMalformed, "it is not UTF-8"},
		"two words":             {200, jsonType, `{"status":"rejected",` + whole[1:], ReasonMalformed, `the field "status" is there twice`},
		"another spelling":      {200, jsonType, strings.Replace(whole, "status", "Status", 1), ReasonMalformed, "it has no status"},
		"no reference":          {200, jsonType, strings.Replace(whole, "reference", "ref", 1), ReasonMalformed, "it has no reference"},
		"an unknown word":       {200, jsonType, strings.Replace(whole, "settled", "done", 1), ReasonMalformed, `the contract has no status "done"`},
		"a word as a number":    {200, jsonType, strings.Replace(whole, `"settled"`, "1", 1), ReasonMalformed, "status is not a string"},
		"an amount as a number": {200, jsonType, strings.Replace(whole, `"10.00"`, "10.00", 1), ReasonMalformed, "amount is not a string"},
		"a time that is none":   {200, jsonType, `{"at":"yesterday",` + whole[1:], ReasonMalformed, "at is not a time"},
		"a name that is too long": {
			200, jsonType, `{"rail_id":"` + strings.Repeat("x", 201) + `",` + whole[1:], ReasonMalformed, "rail_id: it has 201 bytes",
		},
		"a code with a break": {200, jsonType, `{"code":"a\nb",` + whole[1:], ReasonMalformed, "code: it contains U+000A"},
		"too long": {
			200, jsonType, `{"padding":"` + strings.Repeat("x", answerBytesMax) + `",` + whole[1:], ReasonMalformed, "with more than 65536 bytes",
		},

		"another reference":       {200, jsonType, strings.Replace(whole, "rent-7", "rent-8", 1), ReasonOther, "about another reference"},
		"another amount":          {200, jsonType, strings.Replace(whole, "10.00", "10.01", 1), ReasonOther, "about another amount or asset"},
		"other digits":            {200, jsonType, strings.Replace(whole, "10.00", "10.0", 1), ReasonOther, "about another amount or asset"},
		"another asset":           {200, jsonType, strings.Replace(whole, "USD", "EUR", 1), ReasonOther, "about another amount or asset"},
		"no amount":               {200, jsonType, strings.Replace(whole, "amount", "sum", 1), ReasonOther, "about another amount or asset"},
		"rejected, of another":    {422, jsonType, `{"reference":"rent-8","status":"rejected","amount":"10.00","asset":"USD/2"}`, ReasonOther, ""},
		"a word and an error":     {200, jsonType, `{"error":"oh",` + whole[1:], ReasonStatus, "200 OK: oh"},
		"a bare 400":              {400, jsonType, `{}`, ReasonMalformed, "400 Bad Request"},
		"a 400 with an error":     {400, jsonType, `{"error":"invalid_iban","detail":"no such bank"}`, ReasonStatus, "400 Bad Request: invalid_iban: no such bank"},
		"a 400 in HTML":           {400, "text/html", `rejected`, ReasonMalformed, "400 Bad Request"},
		"a bare 422":              {422, jsonType, ``, ReasonMalformed, "422 Unprocessable Entity"},
		"a bare 404":              {404, "text/plain", "404 page not found", ReasonStatus, "404 Not Found"},
		"in flight":               {409, jsonType, `{"error":"in_flight"}`, ReasonInFlight, "409 Conflict: in_flight"},
		"a bare 409":              {409, "text/html", ``, ReasonInFlight, "409 Conflict"},
		"another payment's key":   {422, jsonType, `{"error":"key_conflict"}`, ReasonKeyConflict, "422 Unprocessable Entity: key_conflict"},
		"key_conflict, not whole": {422, jsonType, `{"error":"key_conflict"`, ReasonMalformed, ""},
		"denied":                  {401, jsonType, `{"error":"denied"}`, ReasonDenied, "401 Unauthorized: denied"},
		"busy":                    {429, "text/html", ``, ReasonBusy, "429 Too Many Requests"},
		"a proxy's page":          {502, "text/html", "<html>", ReasonFailed, "502 Bad Gateway, which is no word about the payout"},
		"an unknown code":         {599, "text/html", "", ReasonFailed, "599, which is no word about the payout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := server(t, answering(test.status, test.kind, test.body))
			got, err := railAt(t, address, nil).Submit(t.Context(), payment())
			if test.want == "" {
				require.NoError(t, err)
				require.Equal(t, activities.RailAnswer{State: activities.RailSettled}, got)
				return
			}
			e := asError(t, err)
			require.Equal(t, test.want, e.Reason, e)
			require.Equal(t, test.status, e.Status)
			require.Equal(t, test.want == ReasonKeyConflict, e.KeyConflict())
			require.Contains(t, e.Error(), "rail bank: submit: ")
			require.Contains(t, e.Error(), test.text)
		})
	}
}

func TestAnswerIsKept(t *testing.T) {
	t.Parallel()
	address, _ := server(t, answering(200, "application/json", `{"reference":"rent-7","status":"returned","amount":"10.00",
		"asset":"USD/2","rail_id":"rp-1","code":"AC04","detail":"closed: `+strings.Repeat("ü", 1000)+`","at":"2026-01-02T04:04:05.5+01:00"}`))
	for c, ask := range everyCall(railAt(t, address, nil)) {
		got, err := ask(t.Context())
		require.NoError(t, err, c)
		require.LessOrEqual(t, len(got.Detail), 1000)
		require.True(t, strings.HasPrefix(got.Detail, "closed: üüü"))
		got.Detail = ""
		require.Equal(t, activities.RailAnswer{
			State: activities.RailReturned, RailID: "rp-1", Code: "AC04", At: time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC),
		}, got)
	}
}

// TestSecretsAreHidden has the rail repeat our secrets in every place that reaches a person.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	both := token + " " + hmacSecret
	withSecrets := func(s *Settings) { s.HMACSecret = hmacSecret }
	for name, test := range map[string]struct {
		status int
		body   string
	}{
		"in an error's detail": {403, `{"error":"denied","detail":"not ` + both + `"}`},
		"in an error":          {400, `{"error":"` + both + `"}`},
		"in a status":          {200, `{"reference":"rent-7","status":"` + both + `"}`},
		"in a field's name":    {200, `{"` + both + `":1,"` + both + `":2}`},
		"in a name":            {200, `{"reference":"rent-7","status":"settled","code":"` + both + `\n"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := server(t, answering(test.status, "application/json", test.body))
			_, err := railAt(t, address, withSecrets).Submit(t.Context(), payment())
			e := asError(t, err)
			assertNoSecret(t, fmt.Sprintf("%v %+v %#v", e, e, e))
		})
	}

	t.Run("in an answer's detail", func(t *testing.T) {
		t.Parallel()
		address, _ := server(t, answering(200, "application/json",
			`{"reference":"rent-7","status":"rejected","amount":"10.00","asset":"USD/2","detail":"`+both+`"}`))
		got, err := railAt(t, address, withSecrets).Submit(t.Context(), payment())
		require.NoError(t, err)
		require.Equal(t, "*** ***", got.Detail)
	})

	t.Run("in what is not HTTP", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 1<<16))
			_, _ = io.WriteString(conn, both+"\r\n\r\n")
		}()
		_, err = railAt(t, "http://"+listener.Addr().String(), withSecrets).Submit(t.Context(), payment())
		e := asError(t, err)
		require.Contains(t, e.Error(), "***", "Go's client quotes what it can't read")
		for cause := error(e); cause != nil; {
			assertNoSecret(t, cause.Error())
			wrapping, ok := cause.(interface{ Unwrap() error })
			if !ok {
				break
			}
			cause = wrapping.Unwrap()
		}
	})
}

// TestLookupTakesAnyAmount: only a submit knows what it asked for.
func TestLookupTakesAnyAmount(t *testing.T) {
	t.Parallel()
	address, _ := server(t, answering(200, "application/json", `{"reference":"rent-7","status":"settled"}`))
	rail := railAt(t, address, nil)
	for c, ask := range map[call]func(context.Context, string) (activities.RailAnswer, error){callLookup: rail.Lookup, callCancel: rail.Cancel} {
		got, err := ask(t.Context(), "rent-7")
		require.NoError(t, err, c)
		require.Equal(t, activities.RailSettled, got.State)
	}
}

// FuzzParsePayout: what is taken for a payout is what another reader of JSON finds there, in words that the contract has.
func FuzzParsePayout(f *testing.F) {
	f.Add([]byte(`{"reference":"rent-7","status":"settled","amount":"10.00","asset":"USD/2","rail_id":"rp-1","code":"c","detail":"d","at":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"reference":"rent-7","status":"unknown"}`))
	f.Add([]byte(`{"status":"settled","status":"rejected","reference":"x"}`))
	f.Add([]byte(`{"reference":"\ud800","status":"settled","code":null}`))
	f.Add([]byte(`{"error":"key_conflict","detail":"x"}`))
	f.Add([]byte(`[{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = problem(data)
		p, err := parsePayout(data)
		if err != nil {
			return
		}
		var other map[string]any
		require.NoError(t, json.Unmarshal(data, &other))
		assert.Equal(t, other["reference"], p.reference)
		assert.Equal(t, other["status"], string(p.answer.State))
		assert.NotEmpty(t, p.reference)
		assert.Contains(t, append([]activities.RailState{activities.RailUnknown}, anyState...), p.answer.State)
		for name, got := range map[string]string{
			"amount": p.amount, "asset": p.asset, "rail_id": p.answer.RailID, "code": p.answer.Code, "detail": p.answer.Detail,
		} {
			want, _ := other[name].(string)
			assert.Equal(t, want, got)
		}
		assert.LessOrEqual(t, len(p.answer.Code), codeBytesMax)
		assert.LessOrEqual(t, len(p.answer.RailID), railIDBytesMax)
	})
}
