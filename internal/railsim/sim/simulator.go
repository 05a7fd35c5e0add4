package sim

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Config is what a simulator is started with.
type Config struct {
	Token       string        // requests must have it; "" asks for none
	HMACSecret  string        // requests must be signed with it, and callbacks are; "" for neither
	KeysKept    time.Duration // then keys are forgotten, where the plan says nothing else; 0: never
	CallbackURL string        // where changes are told, where the plan says nothing else; "" for nowhere
	Log         *slog.Logger  // nil for none
}

// Simulator is a payment rail in memory. It is an http.Handler; its methods may be called concurrently.
type Simulator struct {
	config Config
	mux    *http.ServeMux
	client *http.Client

	ctx  context.Context // until Close
	stop context.CancelFunc
	work sync.WaitGroup // requests, timers and callbacks

	mu     sync.Mutex
	closed bool
	books  books
	rules  rules
	keys   map[string]*keyed
	events int
}

// keyed is what the rail remembers of a key.
type keyed struct {
	key    string
	body   string
	payout *Payout // nil while nothing was carried out
	inUse  bool
	ends   time.Time // zero: never
}

// New returns a simulator without payouts. Close it.
func New(c Config) *Simulator {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Simulator{
		config: c, mux: http.NewServeMux(), client: &http.Client{Timeout: 10 * time.Second},
		books: books{byReference: map[string][]*Payout{}},
		rules: rules{used: map[useKey]int{}},
		keys:  map[string]*keyed{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.mux.HandleFunc("POST /v1/payouts", s.serve(callSubmit, s.submit))
	s.mux.HandleFunc("GET /v1/payouts/{reference}", s.serve(callLookup, s.lookup))
	s.mux.HandleFunc("POST /v1/payouts/{reference}/cancel", s.serve(callCancel, s.cancel))
	s.mux.HandleFunc("POST /sim/plans", s.postPlans)
	s.mux.HandleFunc("POST /sim/decide", s.postDecide)
	s.mux.HandleFunc("GET /sim/books", s.getBooks)
	return s
}

// ServeHTTP answers the contract and the control calls.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close ends what waits: requests that a plan holds up are dropped without being carried out any further, payouts stay as
// they are, callbacks that are not delivered are given up. It returns when all of that is over.
func (s *Simulator) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
	s.client.CloseIdleConnections()
}

// Plan adds a rule.
func (s *Simulator) Plan(rule Rule) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rules.set(rule)
}

// Books are a copy of the books.
func (s *Simulator) Books() Books {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books.copy()
}

// begin counts work that Close waits for. ok is false when it is closed already.
func (s *Simulator) begin() (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Add(1)
	}
	return !s.closed
}

// later does something after a while, unless the simulator is closed by then. The lock is held by whoever calls, and by
// nobody when it is done.
func (s *Simulator) later(after time.Duration, do func()) {
	if s.closed {
		return
	}
	s.work.Go(func() {
		if s.wait(after) {
			do()
		}
	})
}

// wait waits, and says whether the simulator is still open.
func (s *Simulator) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return s.ctx.Err() == nil
	case <-s.ctx.Done():
		return false
	}
}

// request is a request of the contract on its way through the simulator.
type request struct {
	call      string
	reference string
	key       string
	body      []byte
	header    http.Header
	fault     Fault
	executed  bool
}

// serve is what all calls have in common: who asks is known, the fault strikes, and the books have the request when its
// answer is sent. What is carried out is carried out also for who has gone.
func (s *Simulator) serve(call string, do func(*request) (reply, bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.begin() {
			panic(http.ErrAbortHandler)
		}
		defer s.work.Done()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, requestBytesMax))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		q := &request{call: call, reference: r.PathValue("reference"), body: body, header: r.Header, fault: Fault{Do: doAnswer}}
		answer, open := refuse(http.StatusUnauthorized, "denied", ""), true
		if s.authorized(r, body) {
			answer, open = do(q)
		}
		if !open {
			q.fault = Fault{Do: doDrop}
		}
		s.note(q, statusOf(q.fault, answer))
		if !write(w, q.fault, answer) {
			abort(w, q.fault)
		}
	}
}

// abort closes the connection, after what was written before.
func abort(w http.ResponseWriter, f Fault) {
	if f.Do != doDrop {
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

// strike finds the fault for a request and waits until anything may be done. ok is false when the simulator is closed first.
func (s *Simulator) strike(q *request) (ok bool) {
	s.mu.Lock()
	q.fault = s.rules.next(q.reference, q.call)
	s.mu.Unlock()
	return s.wait(ms(q.fault.BeforeMS))
}

func (s *Simulator) submit(q *request) (answer reply, open bool) {
	asked, err := readSubmission(q.header, q.body)
	if err != nil {
		return refuse(http.StatusBadRequest, "invalid_request", err.Error()), true
	}
	q.reference, q.key = asked.Reference, asked.key
	entry, refused := s.useKey(asked)
	if refused != nil {
		return *refused, true
	}
	defer s.freeKey(entry)
	if !s.strike(q) {
		return reply{}, false
	}
	if !q.fault.executes() {
		return reply{}, s.wait(ms(q.fault.AfterMS))
	}
	q.executed = true
	created := s.carryOut(entry, asked)
	if !s.wait(ms(q.fault.AfterMS)) {
		return reply{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := http.StatusOK
	switch {
	case entry.payout.Status == statusRejected:
		status = http.StatusUnprocessableEntity
	case entry.payout.Status == statusPending:
		status = http.StatusAccepted
	case created:
		status = http.StatusCreated
	}
	return reply{status: status, body: tell(entry.payout)}, true
}

// useKey takes a key into use, or says why it can't be.
func (s *Simulator) useKey(asked submission) (*keyed, *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.keys[asked.key]
	if entry != nil && !entry.inUse && !entry.ends.IsZero() && time.Now().After(entry.ends) {
		entry = nil
	}
	if entry == nil {
		entry = &keyed{key: asked.key, body: asked.body}
		s.keys[asked.key] = entry
	}
	switch {
	case entry.body != asked.body:
		refused := refuse(http.StatusUnprocessableEntity, "key_conflict", "the key was used with other content")
		return nil, &refused
	case entry.inUse:
		refused := refuse(http.StatusConflict, "in_flight", "a request with this key is being worked on")
		return nil, &refused
	}
	entry.inUse = true
	return entry, nil
}

// freeKey ends the use of a key. One that nothing was carried out with is forgotten: the rail has never seen it.
func (s *Simulator) freeKey(entry *keyed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry.inUse = false
	if entry.payout == nil {
		delete(s.keys, entry.key)
	}
}

// carryOut makes the payout of a key, once as long as the key is kept, and says whether it did now.
func (s *Simulator) carryOut(entry *keyed, asked submission) (created bool) {
	s.mu.Lock()
	if entry.payout != nil {
		entry.payout.Submits++
		s.mu.Unlock()
		return false
	}
	_, plan := s.rules.of(asked.Reference)
	now := time.Now()
	p := s.books.take(asked, now)
	p.Submits = 1
	entry.payout = p
	if kept := cmp.Or(ms(plan.KeysKeptMS), s.config.KeysKept); kept > 0 {
		entry.ends = now.Add(kept)
	}
	outcome := cmp.Or(plan.Outcome, statusSettled)
	decide := func() { s.decide(p, plan, outcome) }
	atOnce := plan.DecideAfterMS == 0
	if !atOnce {
		s.later(ms(plan.DecideAfterMS), decide)
	}
	s.mu.Unlock()
	if atOnce {
		decide()
	}
	return true
}

// decide brings a payout into a state, if it may, and tells it.
func (s *Simulator) decide(p *Payout, plan Plan, status string) (done bool) {
	s.mu.Lock()
	if !p.may(status) {
		s.mu.Unlock()
		return false
	}
	if status == statusRejected || status == statusReturned {
		p.Code, p.Detail = plan.Code, plan.Detail
	}
	p.change(status, time.Now())
	if status == statusSettled && plan.ReturnAfterMS > 0 {
		s.later(ms(plan.ReturnAfterMS), func() { s.decide(p, plan, statusReturned) })
	}
	tellNow := s.announce(p, plan.Callbacks)
	s.mu.Unlock()
	tellNow()
	return true
}

func (s *Simulator) lookup(q *request) (answer reply, open bool) {
	if !s.strike(q) || !s.wait(ms(q.fault.AfterMS)) {
		return reply{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q.executed = q.fault.executes()
	p := s.known(q.reference)
	if p == nil {
		return unknown(q.reference), true
	}
	return reply{status: http.StatusOK, body: tell(p)}, true
}

func (s *Simulator) cancel(q *request) (answer reply, open bool) {
	if len(q.body) > 0 {
		return refuse(http.StatusBadRequest, "invalid_request", "a cancel has no body"), true
	}
	if !s.strike(q) {
		return reply{}, false
	}
	s.mu.Lock()
	p := s.known(q.reference)
	_, plan := s.rules.of(q.reference)
	s.mu.Unlock()
	if p != nil && q.fault.executes() && !plan.Uncancellable {
		q.executed = s.decide(p, plan, statusCancelled)
	}
	if !s.wait(ms(q.fault.AfterMS)) {
		return reply{}, false
	}
	if p == nil {
		return unknown(q.reference), true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return reply{status: http.StatusOK, body: tell(p)}, true
}

// known is the last payout of a reference that lookups may know of by now.
func (s *Simulator) known(reference string) *Payout {
	p := s.books.latest(reference)
	if p == nil {
		return nil
	}
	_, plan := s.rules.of(reference)
	if time.Since(p.History[0].At) < ms(plan.UnknownForMS) {
		return nil
	}
	return p
}

func unknown(reference string) reply {
	return reply{status: http.StatusNotFound, body: told{Reference: reference, Status: statusUnknown}}
}

func (s *Simulator) note(q *request, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books.requests = append(s.books.requests, Request{
		At: time.Now(), Call: q.call, Reference: q.reference, Key: q.key, Fault: q.fault.Do, Executed: q.executed, Status: status,
	})
	s.config.Log.Info("request", "call", q.call, "reference", q.reference, "fault", q.fault.Do, "executed", q.executed, "status", status)
}
