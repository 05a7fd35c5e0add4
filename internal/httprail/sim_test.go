package httprail_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/internal/httprail"
	"payonce/internal/railsim/sim"
	"payonce/internal/secret"
)

const (
	token      = "t0ken-n0b0dy-may-see"
	hmacSecret = "s1gning-secret-n0b0dy-may-see-0123456789"
)

// start returns a simulator that asks for a token and a signature, and a rail that has both.
func start(t *testing.T) (*sim.Simulator, *httprail.Rail) {
	t.Helper()
	simulator := sim.New(sim.Config{Token: token, HMACSecret: hmacSecret})
	server := httptest.NewServer(simulator)
	t.Cleanup(func() {
		simulator.Close()
		server.Close()
	})
	return simulator, rail(t, server.URL+"/v1", token)
}

func rail(t *testing.T, address string, withToken secret.Text) *httprail.Rail {
	t.Helper()
	r, err := httprail.New(httprail.Settings{Name: "bank", URL: address, Token: withToken, HMACSecret: hmacSecret})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func payment() activities.RailPayment {
	return activities.RailPayment{
		Key: "payout/rent-7/submit", Reference: "rent-7", Amount: "10.00", Asset: "USD/2",
		Payee: map[string]string{"name": "Ann <& Co>", "iban": "DE02"}, Memo: "März",
	}
}

// TestFaults: what the rail says of a submit when the simulator does something to it, and how often money was sent by then.
// After it, the same submit again and a lookup tell the truth, and money was sent once.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault  sim.Fault
		want   httprail.Reason
		status int
		sent   int
		outage bool
		wait   time.Duration
	}{
		"reply lost":            {sim.Fault{Do: "drop", Executed: true}, httprail.ReasonNoAnswer, 0, 1, false, 0},
		"dropped before":        {sim.Fault{Do: "drop"}, httprail.ReasonNoAnswer, 0, 0, false, 0},
		"a proxy's page, after": {sim.Fault{Do: "status", Status: 502, Executed: true}, httprail.ReasonFailed, 502, 1, true, 0},
		"a proxy's page":        {sim.Fault{Do: "status", Status: 502}, httprail.ReasonFailed, 502, 0, true, 0},
		"500, after":            {sim.Fault{Do: "status", Status: 500, Executed: true}, httprail.ReasonFailed, 500, 1, true, 0},
		"503":                   {sim.Fault{Do: "status", Status: 503, RetryAfter: "3"}, httprail.ReasonFailed, 503, 0, true, 3 * time.Second},
		"429":                   {sim.Fault{Do: "status", Status: 429, RetryAfter: "2"}, httprail.ReasonBusy, 429, 0, true, 2 * time.Second},
		"401":                   {sim.Fault{Do: "status", Status: 401}, httprail.ReasonDenied, 401, 0, true, 0},
		"a bare 400, after":     {sim.Fault{Do: "status", Status: 400, Executed: true}, httprail.ReasonMalformed, 400, 1, false, 0},
		"a bare 422":            {sim.Fault{Do: "status", Status: 422}, httprail.ReasonMalformed, 422, 0, false, 0},
		"a bare 404":            {sim.Fault{Do: "status", Status: 404}, httprail.ReasonStatus, 404, 0, false, 0},
		"a redirect, after":     {sim.Fault{Do: "redirect", Executed: true}, httprail.ReasonStatus, 307, 1, false, 0},
		"in flight":             {sim.Fault{Do: "in_flight"}, httprail.ReasonInFlight, 409, 0, false, 0},
		"empty, after":          {sim.Fault{Do: "empty", Executed: true}, httprail.ReasonMalformed, 200, 1, false, 0},
		"empty":                 {sim.Fault{Do: "empty"}, httprail.ReasonMalformed, 200, 0, false, 0},
		"cut JSON":              {sim.Fault{Do: "cut_json"}, httprail.ReasonMalformed, 201, 1, false, 0},
		"cut connection":        {sim.Fault{Do: "cut_connection"}, httprail.ReasonNoAnswer, 201, 1, false, 0},
		"another type":          {sim.Fault{Do: "wrong_type"}, httprail.ReasonMalformed, 201, 1, false, 0},
		"another reference":     {sim.Fault{Do: "other_reference"}, httprail.ReasonOther, 201, 1, false, 0},
		"another amount":        {sim.Fault{Do: "other_amount"}, httprail.ReasonOther, 201, 1, false, 0},
		"another asset":         {sim.Fault{Do: "other_asset"}, httprail.ReasonOther, 201, 1, false, 0},
		"a word of its own":     {sim.Fault{Do: "wrong_word"}, httprail.ReasonMalformed, 201, 1, false, 0},
		"two words":             {sim.Fault{Do: "two_words"}, httprail.ReasonMalformed, 201, 1, false, 0},
		"a megabyte":            {sim.Fault{Do: "huge"}, httprail.ReasonMalformed, 201, 1, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulator, rail := start(t)
			require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{Submit: []sim.Fault{test.fault}}}))
			got, err := rail.Submit(t.Context(), payment())
			e := asError(t, err)
			require.Zero(t, got)
			require.Equal(t, test.want, e.Reason, e)
			require.Equal(t, test.status, e.Status)
			require.Equal(t, test.outage, e.Outage())
			require.Equal(t, test.wait, e.RetryAfter())
			require.Equal(t, test.sent, simulator.Books().References["rent-7"].Sent)

			got, err = rail.Submit(t.Context(), payment())
			require.NoError(t, err)
			require.Equal(t, activities.RailSettled, got.State)
			got, err = rail.Lookup(t.Context(), "rent-7")
			require.NoError(t, err)
			require.Equal(t, activities.RailSettled, got.State)
			books := simulator.Books()
			require.Equal(t, sim.Sums{Payouts: 1, Sent: 1}, books.References["rent-7"])
			require.Len(t, books.Requests, 3)
			require.Equal(t, test.fault.Do, books.Requests[0].Fault)
		})
	}
}

// TestFaultsOfQuestions: the same for lookups and cancels.
func TestFaultsOfQuestions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault sim.Fault
		want  httprail.Reason
	}{
		"dropped":           {sim.Fault{Do: "drop", Executed: true}, httprail.ReasonNoAnswer},
		"a proxy's page":    {sim.Fault{Do: "status", Status: 502}, httprail.ReasonFailed},
		"a bare 404":        {sim.Fault{Do: "status", Status: 404}, httprail.ReasonMalformed},
		"empty":             {sim.Fault{Do: "empty"}, httprail.ReasonMalformed},
		"cut JSON":          {sim.Fault{Do: "cut_json"}, httprail.ReasonMalformed},
		"another reference": {sim.Fault{Do: "other_reference"}, httprail.ReasonOther},
		"two words":         {sim.Fault{Do: "two_words"}, httprail.ReasonMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulator, rail := start(t)
			always := test.fault
			always.Times = -1 // Go's client asks again by itself when a kept connection breaks
			require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{
				Outcome: "pending", Lookup: []sim.Fault{always}, Cancel: []sim.Fault{test.fault},
			}}))
			got, err := rail.Submit(t.Context(), payment())
			require.NoError(t, err)
			require.Equal(t, activities.RailPending, got.State)
			_, err = rail.Lookup(t.Context(), "rent-7")
			require.Equal(t, test.want, asError(t, err).Reason, err)
			_, err = rail.Cancel(t.Context(), "rent-7")
			require.Equal(t, test.want, asError(t, err).Reason, err)

			got, err = rail.Cancel(t.Context(), "rent-7")
			require.NoError(t, err)
			require.Equal(t, activities.RailCancelled, got.State)
			require.Zero(t, simulator.Books().References["rent-7"].Sent)
		})
	}
}

func TestRejected(t *testing.T) {
	t.Parallel()
	simulator, rail := start(t)
	require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{Outcome: "rejected", Code: "AC01", Detail: "no such account"}}))
	for range 2 {
		got, err := rail.Submit(t.Context(), payment())
		require.NoError(t, err)
		assertAnswer(t, activities.RailAnswer{State: activities.RailRejected, RailID: "rp-1", Code: "AC01", Detail: "no such account"}, got)
	}
	got, err := rail.Lookup(t.Context(), "rent-7")
	require.NoError(t, err)
	require.Equal(t, activities.RailRejected, got.State)
	require.Equal(t, sim.Sums{Payouts: 1}, simulator.Books().References["rent-7"])
}

func TestKeyConflict(t *testing.T) {
	t.Parallel()
	simulator, rail := start(t)
	_, err := rail.Submit(t.Context(), payment())
	require.NoError(t, err)
	other := payment()
	other.Payee = map[string]string{"iban": "DE99"}
	_, err = rail.Submit(t.Context(), other)
	e := asError(t, err)
	require.True(t, e.KeyConflict())
	require.False(t, e.Outage())
	require.Equal(t, 422, e.Status)
	require.Equal(t, sim.Sums{Payouts: 1, Sent: 1}, simulator.Books().References["rent-7"])
}

// TestInFlight: a second submit while the first is being worked on, and its caller has given up.
func TestInFlight(t *testing.T) {
	t.Parallel()
	simulator, rail := start(t)
	require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{Submit: []sim.Fault{{Do: "answer", BeforeMS: 8000}}}}))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := rail.Submit(ctx, payment())
	require.Equal(t, httprail.ReasonNoAnswer, asError(t, err).Reason)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	_, err = rail.Submit(t.Context(), payment())
	require.Equal(t, httprail.ReasonInFlight, asError(t, err).Reason)
	got, err := rail.Lookup(t.Context(), "rent-7")
	require.NoError(t, err)
	require.Equal(t, activities.RailUnknown, got.State, "it is on its way, and the rail doesn't know it yet")
	require.False(t, got.State.Definite())

	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got, err := rail.Submit(t.Context(), payment())
		assert.NoError(c, err)
		assert.Equal(c, activities.RailSettled, got.State)
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, sim.Sums{Payouts: 1, Sent: 1}, simulator.Books().References["rent-7"])
}

// TestStates follows a payout: unknown for a while though it is there, pending, settled, returned.
func TestStates(t *testing.T) {
	t.Parallel()
	simulator, rail := start(t)
	got, err := rail.Lookup(t.Context(), "rent-7")
	require.NoError(t, err)
	require.Equal(t, activities.RailAnswer{State: activities.RailUnknown}, got)

	require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{
		UnknownForMS: 5000, DecideAfterMS: 6000, ReturnAfterMS: 300, Code: "AC04", Detail: "closed",
	}}))
	got, err = rail.Submit(t.Context(), payment())
	require.NoError(t, err)
	require.Equal(t, activities.RailPending, got.State)
	var seen []activities.RailState
	require.Eventually(t, func() bool {
		got, err = rail.Lookup(t.Context(), "rent-7")
		require.NoError(t, err)
		if len(seen) == 0 || seen[len(seen)-1] != got.State {
			seen = append(seen, got.State)
		}
		return got.State == activities.RailReturned
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, activities.RailUnknown, seen[0])
	// A machine that is slow may have missed one in between.
	require.Subset(t, []activities.RailState{
		activities.RailUnknown, activities.RailPending, activities.RailSettled, activities.RailReturned,
	}, seen)
	history := simulator.Books().Payouts[0].History
	require.Equal(t, []string{"pending", "settled", "returned"}, []string{history[0].Status, history[1].Status, history[2].Status})
	assertAnswer(t, activities.RailAnswer{State: activities.RailReturned, RailID: "rp-1", Code: "AC04", Detail: "closed"}, got)
	got, err = rail.Cancel(t.Context(), "rent-7")
	require.NoError(t, err)
	require.Equal(t, activities.RailReturned, got.State)
	require.Equal(t, sim.Sums{Payouts: 1, Sent: 1, Returned: 1}, simulator.Books().References["rent-7"])
}

func TestCancel(t *testing.T) {
	t.Parallel()
	simulator, rail := start(t)
	got, err := rail.Cancel(t.Context(), "rent-7")
	require.NoError(t, err)
	require.Equal(t, activities.RailUnknown, got.State)

	require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{Outcome: "pending"}}))
	require.NoError(t, simulator.Plan(sim.Rule{Prefix: "stubborn-", Plan: sim.Plan{Outcome: "pending", Uncancellable: true}}))
	stubborn := payment()
	stubborn.Key, stubborn.Reference = "k", "stubborn-1"
	for _, p := range []activities.RailPayment{payment(), stubborn} {
		_, err = rail.Submit(t.Context(), p)
		require.NoError(t, err)
	}
	for range 2 {
		got, err = rail.Cancel(t.Context(), "rent-7")
		require.NoError(t, err)
		require.Equal(t, activities.RailCancelled, got.State)
	}
	got, err = rail.Cancel(t.Context(), "stubborn-1")
	require.NoError(t, err)
	require.Equal(t, activities.RailPending, got.State)
}

// TestForgottenKey: the danger that Settings.KeysKept is for is real in the simulator.
func TestForgottenKey(t *testing.T) {
	t.Parallel()
	simulator, rail := start(t)
	require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{KeysKeptMS: 50}}))
	_, err := rail.Submit(t.Context(), payment())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := rail.Submit(t.Context(), payment())
		require.NoError(t, err)
		return simulator.Books().References["rent-7"].Sent > 1
	}, time.Minute, 20*time.Millisecond)
}

// TestNamesSurviveTheWire: keys and references arrive as they are, whatever they are made of.
func TestNamesSurviveTheWire(t *testing.T) {
	t.Parallel()
	simulator, rail := start(t)
	names := []string{
		"a", "a/b", "Überweisung/7", "a b", "a+b", "a%2Fb", "100%", "a?b=c&d", "a#b", `a"b\c`, "a;b,c=d", "a:b@c", "...", "日本", "é", "e\u0301",
		"cancel", "a/cancel",
	}
	for _, name := range names {
		p := payment()
		p.Key, p.Reference = "payout/"+name+"/submit", name
		got, err := rail.Submit(t.Context(), p)
		require.NoError(t, err, name)
		require.Equal(t, activities.RailSettled, got.State)
		got, err = rail.Lookup(t.Context(), name)
		require.NoError(t, err, name)
		require.Equal(t, activities.RailSettled, got.State)
		got, err = rail.Cancel(t.Context(), name)
		require.NoError(t, err, name)
		require.Equal(t, activities.RailSettled, got.State)
	}
	books := simulator.Books()
	require.Len(t, books.Payouts, len(names))
	for i, name := range names {
		require.Equal(t, name, books.Payouts[i].Reference)
		require.Equal(t, "payout/"+name+"/submit", books.Payouts[i].Key)
		require.Equal(t, payment().Payee, books.Payouts[i].Payee)
		require.Equal(t, payment().Memo, books.Payouts[i].Memo)
	}
}

// TestCredentials: the simulator holds each request to its token and its signature.
func TestCredentials(t *testing.T) {
	t.Parallel()
	simulator := sim.New(sim.Config{Token: token, HMACSecret: "another-secret"})
	wrongSecret := httptest.NewServer(simulator)
	t.Cleanup(func() { simulator.Close(); wrongSecret.Close() })
	right := sim.New(sim.Config{Token: token, HMACSecret: hmacSecret})
	server := httptest.NewServer(right)
	t.Cleanup(func() { right.Close(); server.Close() })
	for name, one := range map[string]*httprail.Rail{
		"no token":       rail(t, server.URL+"/v1", ""),
		"another token":  rail(t, server.URL+"/v1", "another"),
		"another secret": rail(t, wrongSecret.URL+"/v1", token),
	} {
		_, err := one.Submit(t.Context(), payment())
		e := asError(t, err)
		require.Equal(t, httprail.ReasonDenied, e.Reason, name)
		require.True(t, e.Outage())
	}
	require.Empty(t, simulator.Books().Payouts)
	require.Empty(t, right.Books().Payouts)
}

// receiver takes callbacks as a worker would, and answers what its rail says of them.
type receiver struct {
	mu  sync.Mutex
	got []received
	url string
}

type received struct {
	callback httprail.Callback
	err      error
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

func receive(t *testing.T, rail *httprail.Rail) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(io.LimitReader(request.Body, httprail.CallbackBytesMax+1))
		if err != nil {
			return
		}
		callback, err := rail.ReadCallback(request.Header, body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, received{callback: callback, err: err})
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	t.Run("twice, and again when it is returned", func(t *testing.T) {
		t.Parallel()
		simulator, rail := start(t)
		to := receive(t, rail)
		require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{
			DecideAfterMS: 20, ReturnAfterMS: 50, Callbacks: sim.Callbacks{URL: to.url, Times: 2},
		}}))
		_, err := rail.Submit(t.Context(), payment())
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(to.all()) == 4 }, time.Minute, 10*time.Millisecond)
		times := map[string]int{}
		for _, one := range to.all() {
			require.NoError(t, one.err)
			require.Equal(t, "rent-7", one.callback.Reference)
			require.Equal(t, "10.00", one.callback.Amount)
			require.Equal(t, "USD/2", one.callback.Asset)
			times[one.callback.EventID+" "+string(one.callback.Answer.State)]++
		}
		require.Equal(t, map[string]int{"ev-1 settled": 2, "ev-2 returned": 2}, times)
	})

	t.Run("before the answer to the submit", func(t *testing.T) {
		t.Parallel()
		simulator, rail := start(t)
		to := receive(t, rail)
		require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{
			Submit: []sim.Fault{{Do: "drop", Executed: true}}, Callbacks: sim.Callbacks{URL: to.url, Early: true},
		}}))
		_, err := rail.Submit(t.Context(), payment())
		require.Equal(t, httprail.ReasonNoAnswer, asError(t, err).Reason)
		got := to.all()
		require.Len(t, got, 1, "it was there first")
		require.NoError(t, got[0].err)
		require.Equal(t, activities.RailSettled, got[0].callback.Answer.State)
	})

	t.Run("late", func(t *testing.T) {
		t.Parallel()
		simulator, rail := start(t)
		to := receive(t, rail)
		require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{
			ReturnAfterMS: 1, Callbacks: sim.Callbacks{URL: to.url, DelayMS: 200},
		}}))
		_, err := rail.Submit(t.Context(), payment())
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			got, err := rail.Lookup(t.Context(), "rent-7")
			return err == nil && got.State == activities.RailReturned
		}, time.Minute, 10*time.Millisecond)
		require.Eventually(t, func() bool { return len(to.all()) == 2 }, time.Minute, 10*time.Millisecond)
		require.ElementsMatch(t, []activities.RailState{activities.RailSettled, activities.RailReturned},
			[]activities.RailState{to.all()[0].callback.Answer.State, to.all()[1].callback.Answer.State},
			"what a callback says was true when it happened")
	})

	t.Run("forged", func(t *testing.T) {
		t.Parallel()
		simulator, rail := start(t)
		to := receive(t, rail)
		require.NoError(t, simulator.Plan(sim.Rule{Plan: sim.Plan{Callbacks: sim.Callbacks{URL: to.url, Early: true, Forged: true}}}))
		_, err := rail.Submit(t.Context(), payment())
		require.NoError(t, err)
		require.Len(t, to.all(), 1)
		require.ErrorIs(t, to.all()[0].err, httprail.ErrCallbackRefused)
		require.Equal(t, 401, simulator.Books().Callbacks[0].Attempts[0].Status)
	})
}

func asError(t *testing.T, err error) *httprail.Error {
	t.Helper()
	var e *httprail.Error
	require.ErrorAs(t, err, &e)
	for one := err; one != nil; one = errors.Unwrap(one) {
		assert.NotContains(t, one.Error(), token)
		assert.NotContains(t, one.Error(), hmacSecret)
	}
	return e
}

// assertAnswer compares all but the rail's clock, which must say something.
func assertAnswer(t *testing.T, want, got activities.RailAnswer) {
	t.Helper()
	assert.WithinDuration(t, time.Now(), got.At, time.Minute)
	got.At = time.Time{}
	assert.Equal(t, want, got)
}
