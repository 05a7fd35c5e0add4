package harness

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"

	"payonce/internal/railsim/sim"
	"payonce/workflows"
)

// Rail is the simulated rail that runs, as a process of its own. When the world ends it must not have sent money twice for
// any payout.
type Rail struct {
	*Process

	Name    string
	url     string // of the contract
	control string
	secret  string
	token   string
}

// StartRail runs the simulated rail under a name.
func (w *World) StartRail(t testing.TB, name string) *Rail {
	t.Helper()
	r := &Rail{Name: name, secret: rand.Text() + rand.Text(), token: rand.Text()}
	var err error
	r.Process, err = startProcess(ProcessConfig{
		Path: Binary(t, railSim), Args: []string{"--listen", "127.0.0.1:0"},
		Env: append(BasicEnv(), "RAILSIM_TOKEN="+r.token, "RAILSIM_HMAC_SECRET="+r.secret),
	})
	require.NoError(t, err)
	w.atEnd(func(t testing.TB) {
		if r.Alive() {
			for reference, sums := range r.Books(t).References {
				assert.LessOrEqual(t, sums.Sent, 1, "the rail has sent %s twice", reference)
			}
		}
		assert.NoError(t, r.Kill())
		r.show(t)
	})
	Eventually(t, "the rail says where it is", func() bool { return strings.Contains(r.Stdout.String(), "\n") })
	var ready struct {
		URL     string `json:"url"`
		Control string `json:"control"`
	}
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(r.Stdout.String(), "\n", 2)[0]), &ready))
	r.url, r.control = ready.URL, ready.Control
	return r
}

// Env are the settings of a worker that serves the rail.
func (r *Rail) Env(more ...string) []string {
	prefix := "RAIL_" + strings.ToUpper(r.Name) + "_"
	env := []string{
		"RAILS=" + r.Name + "=" + r.url, prefix + "TOKEN=" + r.token, prefix + "HMAC_SECRET=" + r.secret, "PAYONCE_LISTEN=127.0.0.1:0",
	}
	for _, setting := range more {
		env = append(env, prefix+setting)
	}
	return env
}

// CallbackURL is where a worker takes the rail's callbacks.
func (r *Rail) CallbackURL(t testing.TB, workerLog *Output) string {
	t.Helper()
	var address []string
	Eventually(t, "the worker says where it listens", func() bool {
		address = listening.FindStringSubmatch(workerLog.String())
		return address != nil
	})
	return "http://" + address[1] + "/rails/" + r.Name + "/callbacks"
}

// Plan says what happens to the payout of a reference.
func (r *Rail) Plan(t testing.TB, reference string, plan sim.Plan) {
	t.Helper()
	r.ask(t, http.MethodPost, "/plans", sim.Rule{Reference: reference, Plan: plan}, nil)
}

// Decide brings a payout into a state: settled, rejected, cancelled or returned.
func (r *Rail) Decide(t testing.TB, reference, status string) {
	t.Helper()
	r.ask(t, http.MethodPost, "/decide", map[string]string{"reference": reference, "status": status, "code": "ac04"}, nil)
}

// Books are what the rail has really done.
func (r *Rail) Books(t testing.TB) sim.Books {
	t.Helper()
	var books sim.Books
	r.ask(t, http.MethodGet, "/books", nil, &books)
	return books
}

// AwaitSent waits until the rail has sent the money of a reference.
func (r *Rail) AwaitSent(t testing.TB, reference string) {
	t.Helper()
	Eventually(t, "the rail sends "+reference, func() bool { return r.Books(t).References[reference].Sent == 1 })
}

// Requests are the calls about a reference that have ended, in order: "submit", "lookup".
func (r *Rail) Requests(t testing.TB, reference string) []string {
	t.Helper()
	var calls []string
	for _, request := range r.Books(t).Requests {
		if request.Reference == reference {
			calls = append(calls, request.Call)
		}
	}
	return calls
}

func (r *Rail) ask(t testing.TB, method, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	require.NoError(t, err)
	ctx, cancel := cleanupContext()
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, r.control+path, bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, "%s %s: %s", method, path, answer)
	if out != nil {
		require.NoError(t, json.Unmarshal(answer, out))
	}
}

// Payout is the document of `starter payout` and `starter payout status`, as far as tests look at it.
type Payout struct {
	workflows.PayoutResult

	Parking  *workflows.Parking `json:"parking"`
	Attached *bool              `json:"attached"`
}

// CLIPayout runs `starter payout` for a request, with further arguments, and returns its document.
func (w *World) CLIPayout(t testing.TB, in workflows.PayoutInput, args ...string) (int, Payout) {
	t.Helper()
	line := []string{"payout", "--id=" + in.ID, "--from=" + in.From, "--rail=" + in.Rail, "--amount=" + in.Amount, "--asset=" + in.Asset}
	for name, value := range in.Payee {
		line = append(line, "--payee="+name+"="+value)
	}
	return payoutOf(t, w.CLI(t, append(line, args...)...))
}

// PayoutStatus runs `starter payout status`.
func (w *World) PayoutStatus(t testing.TB, id string) (int, Payout) {
	t.Helper()
	return payoutOf(t, w.CLI(t, "payout", "status", id))
}

func payoutOf(t testing.TB, r *Result) (int, Payout) {
	t.Helper()
	var payout Payout
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &payout), "%s", r.Stderr)
	return r.Code, payout
}

// AwaitPayout waits until a payout is in a state, and returns how it stands; if it is parked, with why.
func (w *World) AwaitPayout(t testing.TB, id string, state workflows.State) workflows.PayoutStatus {
	t.Helper()
	var status workflows.PayoutStatus
	Eventually(t, "the payout "+id+" is "+string(state), func() bool {
		ctx := Within(t, 10*time.Second)
		got, err := w.Transfers.PayoutStatus(ctx, id)
		status = got.PayoutStatus
		// That it is parked is known before why.
		return err == nil && status.State == state && (state != workflows.StateParked || status.Parking != nil)
	})
	return status
}

// AwaitSubmitting waits until a worker has begun to submit a payout to its rail.
func (w *World) AwaitSubmitting(t testing.TB, id string) {
	t.Helper()
	Eventually(t, "a worker submits "+id, func() bool {
		description, err := w.Temporal.DescribeWorkflow(t.Context(), workflows.PayoutWorkflowID(id), "")
		require.NoError(t, err)
		return slices.ContainsFunc(description.RawResponse.GetPendingActivities(), func(a *workflow.PendingActivityInfo) bool {
			return a.GetActivityType().GetName() == "RailSubmit" && a.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED
		})
	})
}

// PayoutSteps are the operations of a payout in words: "us reserve applied".
func (w *World) PayoutSteps(t testing.TB, id string) []string {
	t.Helper()
	return w.stepsOf(t, workflows.PayoutWorkflowID(id))
}
