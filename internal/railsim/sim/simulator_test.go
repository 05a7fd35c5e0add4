package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start returns a simulator that anyone may ask, and where.
func start(t *testing.T, c Config) (*Simulator, string) {
	t.Helper()
	s := New(c)
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s, server.URL
}

// answer is a status and a body.
type answer struct {
	status int
	body   string
}

func do(ctx context.Context, method, address, body string, header http.Header) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	maps.Copy(request.Header, header)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(raw)}, err
}

func keyed7() http.Header {
	return http.Header{"Idempotency-Key": {`"k-7"`}, "Content-Type": {"application/json"}}
}

const body7 = `{"reference":"rent-7","amount":"10.00","asset":"USD/2","payee":{"iban":"DE02"}}`

func submit(t *testing.T, address string) answer {
	t.Helper()
	got, err := do(t.Context(), http.MethodPost, address+"/v1/payouts", body7, keyed7())
	require.NoError(t, err)
	return got
}

func TestContractIsEnforced(t *testing.T) {
	t.Parallel()
	s, address := start(t, Config{})
	with := func(name, value string) http.Header {
		h := keyed7()
		h.Set(name, value)
		if value == "" {
			h.Del(name)
		}
		return h
	}
	for name, test := range map[string]struct {
		body   string
		header http.Header
	}{
		"no key":             {body7, with("Idempotency-Key", "")},
		"a key in no quotes": {body7, with("Idempotency-Key", "k-7")},
		"an empty key":       {body7, with("Idempotency-Key", `""`)},
		"a cut escape":       {body7, with("Idempotency-Key", `"k%2"`)},
		"a wrong escape":     {body7, with("Idempotency-Key", `"k%2G"`)},
		"a quote within":     {body7, with("Idempotency-Key", `"k"7"`)},
		"two keys":           {body7, http.Header{"Idempotency-Key": {`"a"`, `"b"`}, "Content-Type": {"application/json"}}},
		"another type":       {body7, with("Content-Type", "text/plain")},
		"no JSON":            {"x", keyed7()},
		"two bodies":         {body7 + body7, keyed7()},
		"an unknown field":   {strings.Replace(body7, "payee", "payer", 1), keyed7()},
		"no payee":           {strings.Replace(body7, `,"payee":{"iban":"DE02"}`, "", 1), keyed7()},
		"no reference":       {strings.Replace(body7, "rent-7", "", 1), keyed7()},
		"too few digits":     {strings.Replace(body7, "10.00", "10.0", 1), keyed7()},
		"no digits":          {strings.Replace(body7, "10.00", "10", 1), keyed7()},
		"an amount of JSON":  {strings.Replace(body7, `"10.00"`, "10.00", 1), keyed7()},
		"a leading zero":     {strings.Replace(body7, "10.00", "010.00", 1), keyed7()},
		"nothing":            {strings.Replace(body7, "10.00", "0.00", 1), keyed7()},
		"below zero":         {strings.Replace(body7, "10.00", "-10.00", 1), keyed7()},
		"an exponent":        {strings.Replace(body7, "10.00", "1e1", 1), keyed7()},
		"no scale":           {strings.Replace(body7, "USD/2", "USD", 1), keyed7()},
	} {
		got, err := do(t.Context(), http.MethodPost, address+"/v1/payouts", test.body, test.header)
		require.NoError(t, err)
		assert.Equal(t, 400, got.status, name)
		assert.Contains(t, got.body, "invalid_request", name)
	}
	require.Empty(t, s.Books().Payouts)

	require.Equal(t, 201, submit(t, address).status)
	require.Equal(t, 200, submit(t, address).status)
	got, err := do(t.Context(), http.MethodPost, address+"/v1/payouts", strings.Replace(body7, "10.00", "11.00", 1), keyed7())
	require.NoError(t, err)
	require.Equal(t, answer{422, `{"error":"key_conflict","detail":"the key was used with other content"}`}, got)
	require.Equal(t, 2, s.Books().Payouts[0].Submits)
}

// TestOneKeyAtOnce: of many requests with one key at once one is carried out, and the others are told so.
func TestOneKeyAtOnce(t *testing.T) {
	t.Parallel()
	s, address := start(t, Config{})
	require.NoError(t, s.Plan(Rule{Plan: Plan{Submit: []Fault{{Do: "answer", AfterMS: 500}}}}))
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 8 {
		all.Go(func() {
			got, err := do(t.Context(), http.MethodPost, address+"/v1/payouts", body7, keyed7())
			mu.Lock()
			defer mu.Unlock()
			assert.NoError(t, err)
			statuses[got.status]++
		})
	}
	all.Wait()
	require.Equal(t, 1, statuses[201], statuses)
	require.Positive(t, statuses[409], statuses)
	require.Equal(t, Sums{Payouts: 1, Sent: 1}, s.Books().References["rent-7"])
}

func TestForgottenKeyPaysTwice(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config Config
		plan   Plan
	}{
		"of the plan":      {Config{KeysKept: time.Hour}, Plan{KeysKeptMS: 30}},
		"of the simulator": {Config{KeysKept: 30 * time.Millisecond}, Plan{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, address := start(t, test.config)
			require.NoError(t, s.Plan(Rule{Plan: test.plan}))
			require.Equal(t, 201, submit(t, address).status)
			require.Eventually(t, func() bool { return submit(t, address).status == 201 }, time.Minute, 10*time.Millisecond)
			books := s.Books()
			require.Equal(t, Sums{Payouts: 2, Sent: 2}, books.References["rent-7"])
			require.NotEqual(t, books.Payouts[0].RailID, books.Payouts[1].RailID)
		})
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	named := func(code string) Plan { return Plan{Code: code} }
	r := rules{used: map[useKey]int{}}
	for _, rule := range []Rule{
		{Prefix: "a", Plan: named("old")},
		{Prefix: "ab", Plan: named("ab")},
		{Prefix: "a", Plan: named("a")},
		{Reference: "abc", Plan: named("abc")},
		{Plan: named("all")},
	} {
		require.NoError(t, r.set(rule))
	}
	for reference, want := range map[string]string{"abc": "abc", "abcd": "ab", "ab": "ab", "ax": "a", "x": "all", "": "all"} {
		_, plan := r.of(reference)
		assert.Equal(t, want, plan.Code, reference)
	}

	require.NoError(t, r.set(Rule{Plan: Plan{Submit: []Fault{{Do: "drop", Times: 2}, {Do: "empty"}}, Lookup: []Fault{{Do: "drop", Times: -1}}}}))
	var got []string
	for range 4 {
		got = append(got, r.next("x", callSubmit).Do)
	}
	assert.Equal(t, []string{"drop", "drop", "empty", "answer"}, got)
	assert.Equal(t, "drop", r.next("y", callSubmit).Do, "each payout meets the faults itself")
	for range 3 {
		assert.Equal(t, "drop", r.next("x", callLookup).Do)
	}
}

func TestMix(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) map[string]string {
		r := rules{used: map[useKey]int{}}
		require.NoError(t, r.set(Rule{Seed: seed, Mix: []Weighted{
			{Weight: 3, Plan: Plan{Outcome: "settled"}}, {Weight: 1, Plan: Plan{Outcome: "rejected"}},
		}}))
		drawn := map[string]string{}
		for i := range 1000 {
			reference := fmt.Sprintf("r-%d", i)
			_, plan := r.of(reference)
			drawn[reference] = plan.Outcome
		}
		return drawn
	}
	first := draw(7)
	require.Equal(t, first, draw(7), "one seed, one draw")
	require.NotEqual(t, first, draw(8))
	rejected := 0
	for _, outcome := range first {
		if outcome == "rejected" {
			rejected++
		}
	}
	require.InDelta(t, 250, rejected, 60)
}

func TestControl(t *testing.T) {
	t.Parallel()
	s, address := start(t, Config{})
	post := func(path, body string) answer {
		got, err := do(t.Context(), http.MethodPost, address+path, body, nil)
		require.NoError(t, err)
		return got
	}
	for name, body := range map[string]string{
		"a misspelt field":        `{"plan":{"decide_after":5}}`,
		"an unknown fault":        `{"plan":{"submit":[{"do":"explode"}]}}`,
		"an unknown outcome":      `{"plan":{"outcome":"maybe"}}`,
		"a status without one":    `{"plan":{"submit":[{"do":"status"}]}}`,
		"a status of another":     `{"plan":{"submit":[{"do":"drop","status":500}]}}`,
		"both selectors":          `{"reference":"a","prefix":"b"}`,
		"no weight":               `{"mix":[{"plan":{}}]}`,
		"a wrong plan in a mix":   `{"mix":[{"weight":1,"plan":{"outcome":"maybe"}}]}`,
		"a time below zero":       `{"plan":{"decide_after_ms":-1}}`,
		"a fault that ends early": `{"plan":{"submit":[{"do":"drop","before_ms":-1}]}}`,
		"no JSON":                 `x`,
		"one of a list":           `[{},{"plan":{"outcome":"maybe"}}]`,
	} {
		assert.Equal(t, 400, post("/sim/plans", body).status, name)
	}
	require.Equal(t, answer{200, "{}"}, post("/sim/plans", `[{"plan":{"outcome":"pending"}},{"prefix":"x"}]`))
	require.Equal(t, 202, submit(t, address).status)

	require.Equal(t, 404, post("/sim/decide", `{"reference":"rent-8","status":"settled"}`).status)
	require.Equal(t, 409, post("/sim/decide", `{"reference":"rent-7","status":"returned"}`).status)
	require.Equal(t, 400, post("/sim/decide", `{"reference":"rent-7","state":"settled"}`).status)
	require.Equal(t, 200, post("/sim/decide", `{"reference":"rent-7","status":"settled"}`).status)
	require.Equal(t, 409, post("/sim/decide", `{"reference":"rent-7","status":"settled"}`).status)
	require.Equal(t, 200, post("/sim/decide", `{"reference":"rent-7","status":"returned","code":"AC04"}`).status)

	got, err := do(t.Context(), http.MethodGet, address+"/sim/books", "", nil)
	require.NoError(t, err)
	require.Equal(t, 200, got.status)
	var books Books
	require.NoError(t, json.NewDecoder(bytes.NewReader([]byte(got.body))).Decode(&books))
	require.Equal(t, Sums{Payouts: 1, Sent: 1, Returned: 1}, books.References["rent-7"])
	require.Len(t, books.Payouts, 1)
	p := books.Payouts[0]
	require.Equal(t, "AC04", p.Code)
	var states []string
	for i, change := range p.History {
		states = append(states, change.Status)
		require.False(t, i > 0 && change.At.Before(p.History[i-1].At))
	}
	require.Equal(t, []string{"pending", "settled", "returned"}, states)
	require.Equal(t, s.Books().References, books.References)
}

// TestCallbacksAreRepeated until they are taken.
func TestCallbacksAreRepeated(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ids []string
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var one event
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&one))
		mu.Lock()
		defer mu.Unlock()
		if ids = append(ids, one.EventID); len(ids) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(to.Close)
	s, address := start(t, Config{CallbackURL: to.URL})
	require.NoError(t, s.Plan(Rule{Plan: Plan{Callbacks: Callbacks{RetryMS: 5}}}))
	require.NoError(t, s.Plan(Rule{Prefix: "quiet", Plan: Plan{Callbacks: Callbacks{Off: true}}}))
	submit(t, address)
	require.Eventually(t, func() bool {
		all := s.Books().Callbacks
		return len(all) == 1 && len(all[0].Attempts) == 3
	}, time.Minute, 5*time.Millisecond)
	require.Equal(t, []string{"ev-1", "ev-1", "ev-1"}, ids)
	attempts := s.Books().Callbacks[0].Attempts
	require.Equal(t, []int{503, 503, 200}, []int{attempts[0].Status, attempts[1].Status, attempts[2].Status})

	header := keyed7()
	header.Set("Idempotency-Key", `"k-8"`)
	_, err := do(t.Context(), http.MethodPost, address+"/v1/payouts", strings.Replace(body7, "rent-7", "quiet-1", 1), header)
	require.NoError(t, err)
	require.Len(t, s.Books().Callbacks, 1)
}

// TestCloseEndsWhatWaits: a request that is held up before anything is done is dropped, and nothing is done.
func TestCloseEndsWhatWaits(t *testing.T) {
	t.Parallel()
	s, address := start(t, Config{})
	require.NoError(t, s.Plan(Rule{Plan: Plan{Submit: []Fault{{Do: "answer", BeforeMS: 3_600_000}}}}))
	failed := make(chan error, 1)
	go func() {
		_, err := do(t.Context(), http.MethodPost, address+"/v1/payouts", body7, keyed7())
		failed <- err
	}()
	awaitTaken(t, s)
	s.Close()
	require.Error(t, <-failed)
	require.Empty(t, s.Books().Payouts)
	require.Equal(t, "drop", s.Books().Requests[0].Fault)
}

// awaitTaken waits until the simulator has the request with the key k-7.
func awaitTaken(t *testing.T, s *Simulator) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.keys["k-7"] != nil
	}, time.Minute, time.Millisecond)
}

// TestGoneClient: what is carried out does not depend on whether anybody still waits for the answer.
func TestGoneClient(t *testing.T) {
	t.Parallel()
	s, address := start(t, Config{})
	require.NoError(t, s.Plan(Rule{Plan: Plan{Submit: []Fault{{Do: "answer", BeforeMS: 2000}}}}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/v1/payouts", strings.NewReader(body7))
	require.NoError(t, err)
	request.Header = keyed7()
	gone := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(request) //nolint:bodyclose // there is none
		gone <- err
	}()
	awaitTaken(t, s)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	require.Eventually(t, func() bool { return s.Books().References["rent-7"].Sent == 1 }, time.Minute, 5*time.Millisecond)
}
