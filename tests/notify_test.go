package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"payonce/activities"
	"payonce/internal/railsim/sim"
	"payonce/ledger"
	"payonce/starter/transfers"
	"payonce/tests/harness"
	"payonce/tests/mailserver"
	"payonce/workflows"
)

const whsec = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// webhook is one that a receiver has got, and verified.
type webhook struct {
	id   string
	body string
	at   time.Time
}

// receiver takes webhooks as docs/notifications.md says: it verifies each, and acts once for each webhook-id.
type receiver struct {
	server *httptest.Server
	down   atomic.Bool // connections are closed at once

	mu     sync.Mutex
	got    []webhook
	wrong  []error
	acts   map[string]int                     // by webhook-id
	answer func(w http.ResponseWriter, n int) // the n-th reply, from 1; nil is 204
}

func newReceiver(t *testing.T, answer func(w http.ResponseWriter, n int)) *receiver {
	t.Helper()
	r := &receiver{acts: make(map[string]int), answer: answer}
	r.server = httptest.NewUnstartedServer(r)
	r.server.Listener = &gatedListener{Listener: r.server.Listener, down: &r.down}
	r.server.Start()
	t.Cleanup(r.server.Close)
	return r
}

// gatedListener closes what connects while it is down.
type gatedListener struct {
	net.Listener

	down *atomic.Bool
}

func (l *gatedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || !l.down.Load() {
			return conn, err
		}
		_ = conn.Close()
	}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err == nil {
		var verifier *standardwebhooks.Webhook
		if verifier, err = standardwebhooks.NewWebhook(whsec); err == nil {
			err = verifier.Verify(body, request.Header)
		}
	}
	r.mu.Lock()
	if err != nil {
		r.wrong = append(r.wrong, err)
		r.mu.Unlock()
		return
	}
	id := request.Header.Get("webhook-id")
	if !slices.ContainsFunc(r.got, func(before webhook) bool { return before.id == id }) {
		r.acts[id]++
	}
	r.got = append(r.got, webhook{id: id, body: string(body), at: time.Now()})
	n, answer := len(r.got), r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(w, n)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) webhooks(t *testing.T) []webhook {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.wrong)
	return slices.Clone(r.got)
}

// await waits until the receiver has got so many.
func (r *receiver) await(t *testing.T, n int) []webhook {
	t.Helper()
	var got []webhook
	harness.Eventually(t, fmt.Sprintf("%d webhooks", n), func() bool {
		got = r.webhooks(t)
		return len(got) >= n
	})
	require.Len(t, got, n)
	return got
}

// awaitEach waits until the receiver has got webhooks, each however often, in an order and no others, and returns the last.
func (r *receiver) awaitEach(t *testing.T, want ...string) webhook {
	t.Helper()
	var each []webhook
	harness.Eventually(t, fmt.Sprint(want), func() bool {
		each = slices.CompactFunc(r.webhooks(t), func(a, b webhook) bool { return a.id == b.id })
		return len(each) >= len(want)
	})
	ids := make([]string, len(each))
	for i, one := range each {
		ids[i] = one.id
	}
	require.Equal(t, want, ids)
	return each[len(each)-1]
}

// requireSame says that all are the same webhook, and that the receiver has acted once.
func (r *receiver) requireSame(t *testing.T, id string, got []webhook) {
	t.Helper()
	for _, one := range got {
		require.Equal(t, []string{id, got[0].body}, []string{one.id, one.body})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Equal(t, 1, r.acts[id])
}

// notifyEnv are the settings of workers that have some endpoints.
func notifyEnv(mail *mailserver.Server, endpoints map[string]*receiver) []string {
	var list []string
	env := []string{"NOTIFY_ALLOW_PRIVATE=true"}
	for name, r := range endpoints {
		list = append(list, name+"="+r.server.URL+"/hook")
		env = append(env, "NOTIFY_"+strings.ToUpper(name)+"_SECRETS="+whsec)
	}
	if mail != nil {
		list = append(list, "mail=mailto:ops@example.com")
		env = append(env, fmt.Sprintf("NOTIFY_SMTP=smtp://127.0.0.1:%d", mail.Port), "NOTIFY_FROM=payonce@example.com")
	}
	return append(env, "NOTIFY="+strings.Join(list, ","))
}

// awaitNotified waits for the end of the notification of an endpoint that a transfer has completed.
func awaitNotified(t *testing.T, w *harness.World, endpoint, id string) workflows.NotificationResult {
	t.Helper()
	var result workflows.NotificationResult
	ctx := harness.Within(t, patience)
	require.NoError(t, w.Temporal.GetWorkflow(ctx, notificationID(endpoint, id), "").Get(ctx, &result))
	return result
}

func notificationID(endpoint, id string) string {
	return workflows.NotificationWorkflowID(endpoint, workflows.TransferWorkflowID(id), workflows.StateCompleted)
}

func notifyKey(endpoint, id string) string {
	return workflows.StepKey(notificationID(endpoint, id), workflows.StepNotify)
}

// abort breaks the connection in place of a reply.
func abort(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func TestNotify(t *testing.T) {
	t.Parallel()
	mail := mailserver.Start(t, nil)
	mail.LoseReplies(1)
	ops := newReceiver(t, func(w http.ResponseWriter, n int) {
		if n == 1 {
			abort(w)
		}
	})
	gone := newReceiver(t, func(w http.ResponseWriter, n int) {
		if n == 1 {
			w.WriteHeader(http.StatusGone)
		}
	})
	down, once, group, anew := newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil)
	down.down.Store(true)
	w := harness.New(t, harness.Config{})
	w.StartFaultWorker(t, harness.FaultConfig{
		Options: unhurried,
		Env:     notifyEnv(mail, map[string]*receiver{"ops": ops, "down": down, "gone": gone, "once": once, "group": group, "anew": anew}),
		Faults:  []string{"deposit/before=fail:5;transfer=poison"},
	})
	pay := func(t *testing.T, id string, notify ...string) workflows.TransferInput {
		t.Helper()
		return workflows.TransferInput{ID: id, From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "10", Asset: "USD", Notify: notify}
	}

	// The receiver took it and its reply was lost: it comes again, the same, and the receiver acts once.
	t.Run("reply lost", func(t *testing.T) {
		t.Parallel()
		in := pay(t, "rent", "ops", "mail")
		told := w.CLITransfer(t, in)
		require.Equal(t, exitDone, told.Code)
		require.Equal(t, workflows.StateDelivered, awaitNotified(t, w, "ops", in.ID).State)
		got := ops.await(t, 2)
		ops.requireSame(t, "notify/ops/transfer/rent/completed", got)
		var event struct {
			activities.NotifyEvent

			Data workflows.TransferResult `json:"data"`
		}
		require.NoError(t, json.Unmarshal([]byte(got[0].body), &event))
		require.Equal(t, "transfer.completed", event.Type)
		require.Equal(t, told.Transfer(t).TransferResult, event.Data)
		require.Equal(t, event.Data.Steps[1].At, event.Timestamp, "the ledger's clock")

		require.Equal(t, workflows.StateDelivered, awaitNotified(t, w, "mail", in.ID).State)
		messages := mail.Messages()
		require.Len(t, messages, 2)
		require.Equal(t, messages[0], messages[1], "the same message, with the same Message-ID")
		require.Contains(t, messages[0].Raw, "Subject: payonce: transfer rent: completed: 10.00 USD/2")
	})

	// Another run of the same transfer, after it was reset, tells nobody again.
	t.Run("told once", func(t *testing.T) {
		t.Parallel()
		in := pay(t, "reset", "once")
		w.Start(t, in)
		w.AwaitEnd(t, in.ID)
		awaitNotified(t, w, "once", in.ID)
		w.Reset(t, workflows.TransferWorkflowID(in.ID))
		require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, in.ID).State)
		w.AwaitEvent(t, workflows.TransferWorkflowID(in.ID), enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED)
		once.requireSame(t, "notify/once/transfer/reset/completed", once.await(t, 1))
	})

	// What travels with others tells its end as well.
	t.Run("in a group", func(t *testing.T) {
		t.Parallel()
		in := pay(t, "grouped", "group")
		in.To = w.Account(t, "us", "")
		grouping := transfers.New(w.Temporal, transfers.Options{Group: &transfers.GroupOptions{}})
		result, err := grouping.Transfer(harness.Within(t, patience), in)
		require.NoError(t, err)
		require.Equal(t, workflows.StateCompleted, result.State)
		group.requireSame(t, "notify/group/transfer/grouped/completed", group.await(t, 1))
	})

	// A transfer that is made anew tells those whom the one before was to tell.
	t.Run("made anew", func(t *testing.T) {
		t.Parallel()
		in := pay(t, "poison", "anew")
		require.Equal(t, exitFailed, w.CLITransfer(t, in).Code)
		require.Equal(t, "notify/anew/transfer/poison/compensated", anew.await(t, 1)[0].id)
		require.Equal(t, exitDone, w.CLI(t, "deadletter", "retry", in.ID, "--by", "ann").Code)
		require.Equal(t, "notify/anew/transfer/poison~retry-1/completed", anew.await(t, 2)[1].id)
	})

	// The endpoint is down until attempts run out: the transfer has long ended, and a person has it told later.
	t.Run("endpoint down", func(t *testing.T) {
		t.Parallel()
		in := pay(t, "down", "down")
		require.Equal(t, exitDone, w.CLITransfer(t, in).Code)
		key := notifyKey("down", in.ID)
		story := awaitDeadLetter(t, w, key, func(s *activities.DeadLetterStory) bool { return s.Parked })
		require.EqualValues(t, harness.ShortOptions().Notify.AttemptsMax, story.Attempts)
		require.Equal(t, []any{in.ID, "notify", activities.ErrorNotify}, []any{story.Transfer, story.Step, asReached(story).ErrorType})
		require.Equal(t, []any{ledger.PlaceDestination, in.To}, []any{story.Place, story.Account}, "the money has arrived")
		require.Equal(t, []string{"retry", "discard"}, story.Choices)
		require.Empty(t, down.webhooks(t))
		require.Equal(t, exitDone, w.CLI(t, "status", in.ID).Code)
		require.Equal(t, key, deadLetters(t, w.CLI(t, "deadletter", "list", "us", "--step", "notify", "--error", story.ErrorType))[0].Key)
		require.Equal(t, exitRejected, w.CLI(t, "deadletter", "compensate", key, "--by", "ann").Code)

		down.down.Store(false)
		require.Equal(t, exitDone, w.CLI(t, "deadletter", "retry", in.ID, "--by", "ann", "--reason", "it is up").Code, "by the transfer's ID")
		require.Equal(t, workflows.StateDelivered, awaitNotified(t, w, "down", in.ID).State)
		down.requireSame(t, "notify/down/transfer/down/completed", down.await(t, 1))
		story = awaitDeadLetter(t, w, key, func(s *activities.DeadLetterStory) bool { return s.Ended != "" })
		require.Equal(t, "retry by ann: it is up; the notification ended as delivered", story.Resolution)
		require.Equal(t, []string{"set-aside", "retry by ann: it is up", "end"}, actionsOf(&story))
		require.Equal(t, exitDone, w.CLI(t, "deadletter", "retry", key, "--by", "ann", "--reason", "it is up").Code, "the same decision again")
		require.Equal(t, exitRejected, w.CLI(t, "deadletter", "discard", key, "--by", "bob", "--reason", "no").Code)
	})

	// 410 is not tried again. Its workflow is terminated while it is parked, and a retry starts it again.
	t.Run("gone, and terminated", func(t *testing.T) {
		t.Parallel()
		in := pay(t, "gone", "gone")
		w.Start(t, in)
		key := notifyKey("gone", in.ID)
		story := awaitDeadLetter(t, w, key, func(s *activities.DeadLetterStory) bool { return s.Parked })
		require.Equal(t, []any{1, activities.ErrorNotifyRefused}, []any{story.Attempts, story.ErrorType})
		require.NoError(t, w.Temporal.TerminateWorkflow(t.Context(), notificationID("gone", in.ID), "", "a test"))
		require.Equal(t, exitDone, w.CLI(t, "deadletter", "retry", key, "--by", "ann").Code)
		require.Equal(t, workflows.StateDelivered, awaitNotified(t, w, "gone", in.ID).State)
		gone.requireSame(t, "notify/gone/transfer/gone/completed", gone.await(t, 2))
		require.Equal(t, exitRejected, w.CLI(t, "deadletter", "retry", key, "--by", "ann", "--ledger", "us").Code, "it was delivered")
		require.Equal(t, exitDone, w.CLI(t, "deadletter", "discard", key, "--by", "ann", "--reason", "it was delivered").Code)
		require.Equal(t, ledger.PlaceDestination, awaitDeadLetter(t, w, key, func(s *activities.DeadLetterStory) bool { return s.Ended != "" }).Place)
	})

	t.Run("unknown endpoint", func(t *testing.T) {
		t.Parallel()
		in := pay(t, "nobody", "nobody")
		require.Equal(t, exitDone, w.CLITransfer(t, in).Code)
		key := notifyKey("nobody", in.ID)
		story := awaitDeadLetter(t, w, key, func(s *activities.DeadLetterStory) bool { return s.Parked })
		require.Equal(t, []any{1, activities.ErrorEndpointUnknown}, []any{story.Attempts, story.ErrorType})
		require.Contains(t, story.Error, "set it in NOTIFY")
		require.Equal(t, exitDone, w.CLI(t, "deadletter", "discard", key, "--by", "ann", "--reason", "misspelt").Code, "no money is in question")
		require.Equal(t, workflows.StateDiscarded, awaitNotified(t, w, "nobody", in.ID).State)
	})

	// The longest ID, of characters that are long in JSON, is told too.
	t.Run("longest", func(t *testing.T) {
		t.Parallel()
		in := pay(t, strings.Repeat("<", workflows.TransferIDBytesMax), strings.Repeat("x", workflows.EndpointBytesMax))
		w.Start(t, in)
		require.Equal(t, workflows.StateCompleted, w.AwaitEnd(t, in.ID).State)
		awaitDeadLetter(t, w, notifyKey(in.Notify[0], in.ID), func(s *activities.DeadLetterStory) bool { return s.Parked })
	})

	t.Run("names are checked", func(t *testing.T) {
		t.Parallel()
		in := pay(t, "wrong", "No One")
		require.Equal(t, exitUsage, w.CLITransfer(t, in).Code)
	})
}

// Case: the worker is killed after the receiver has it and before anybody could note that. Another sends it again.
func TestNotifyWorkerKilled(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	sent := make(chan struct{})
	ops := newReceiver(t, func(_ http.ResponseWriter, n int) {
		if n == 1 {
			close(sent)
			<-release
		}
	})
	w := harness.New(t, harness.Config{})
	config := harness.FaultConfig{
		Env: notifyEnv(nil, map[string]*receiver{"ops": ops}),
		Options: func(o *workflows.Options) {
			unhurried(o)
			o.Notify.TimeoutStartToClose = 20 * time.Second // what it costs that the worker is killed
		},
	}
	worker := w.StartFaultWorker(t, config)
	in := workflows.TransferInput{ID: "killed", From: w.Account(t, "us", "20.00"), To: w.Account(t, "us", ""), Amount: "10", Asset: "USD", Notify: []string{"ops"}}
	w.Start(t, in)
	select {
	case <-sent:
	case <-time.After(patience):
		t.Fatal("nothing was sent")
	}
	require.NoError(t, worker.Kill())
	close(release)
	w.StartFaultWorker(t, config)
	require.Equal(t, workflows.StateDelivered, awaitNotified(t, w, "ops", in.ID).State)
	ops.requireSame(t, "notify/ops/transfer/killed/completed", ops.await(t, 2))
}

// A receiver that asks to be left alone for less than the backoff is not told sooner, and one that asks for more, later.
func TestNotifyRetryAfter(t *testing.T) {
	t.Parallel()
	ops := newReceiver(t, func(w http.ResponseWriter, n int) {
		if n <= 2 {
			w.Header().Set("Retry-After", fmt.Sprint(2*n-1)) // 1, 3
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	w := harness.New(t, harness.Config{})
	w.StartFaultWorker(t, harness.FaultConfig{
		Env:     notifyEnv(nil, map[string]*receiver{"ops": ops}),
		Options: func(o *workflows.Options) { o.Notify.BackoffFirst, o.Notify.BackoffMax = 2*time.Second, 2*time.Second },
	})
	in := workflows.TransferInput{ID: "patient", From: w.Account(t, "us", "20.00"), To: w.Account(t, "us", ""), Amount: "10", Asset: "USD", Notify: []string{"ops"}}
	w.Start(t, in)
	got := ops.await(t, 3)
	require.GreaterOrEqual(t, got[1].at.Sub(got[0].at), 1900*time.Millisecond)
	require.GreaterOrEqual(t, got[2].at.Sub(got[1].at), 2900*time.Millisecond)
}

// Both ends of a payout that bounces are told, by the worker as it is in production.
func TestPayoutTellsBothEnds(t *testing.T) {
	t.Parallel()
	ops := newReceiver(t, nil)
	var worker *harness.Worker
	w := newRailWorld(t, func(w *harness.World, rail *harness.Rail) {
		worker = w.StartWorker(t, harness.WorkerConfig{Env: append(rail.Env(), notifyEnv(nil, map[string]*receiver{"ops": ops})...)})
	})
	w.rail.Plan(t, "rent", sim.Plan{Callbacks: sim.Callbacks{URL: w.rail.CallbackURL(t, worker.Output)}})
	code, _ := w.CLIPayout(t, w.in("rent"), "--notify=ops")
	require.Equal(t, exitDone, code)
	ops.awaitEach(t, "notify/ops/payout/rent/settled")

	w.rail.Decide(t, "rent", "returned")
	bounced := ops.awaitEach(t, "notify/ops/payout/rent/settled", "notify/ops/payout/rent/returned")
	require.Contains(t, bounced.body, `"type":"payout.returned"`)
}
