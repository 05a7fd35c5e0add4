package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"payonce/internal/faultworker/fault"
	"payonce/starter/transfers"
	"payonce/workflows"
)

// play is a scenario while it is played.
type play struct {
	config   *Config
	scenario *scenario
	begun    time.Time
	client   *transfers.Client

	transferID string
	workflowID string // of the transfer or the payout
	a, b       string // the accounts: "us/…", "eu/…"
	statements string // the folder where the workers keep statements; "" for none
	transit    baseline

	workers []*actor
	rail    *railProcess // the bank of a payout, or nil
	env     []string     // of the workers, beside the demo's

	mu     sync.Mutex
	events []Event
	seen   observation
}

// playScenario plays one scenario and judges it. No worker of it is left when it returns.
func playScenario(ctx context.Context, config *Config, s *scenario, run string) ScenarioReport {
	p := &play{
		config: config, scenario: s, begun: time.Now(),
		client:     transfers.New(hasty{config.Temporal}, transfers.Options{}),
		transferID: "demo-" + run + "-" + s.name,
		a:          LedgerSource + "/A-" + run + "-" + s.name,
		workflowID: workflows.TransferWorkflowID("demo-" + run + "-" + s.name),
		b:          LedgerDestination + "/B-" + run + "-" + s.name,
		events:     []Event{},
		seen:       observation{balances: make(map[string]string)},
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeoutScenario, fmt.Errorf("not done within %s", timeoutScenario))
	defer cancel()
	err := s.play(ctx, p)
	if err == nil {
		look := p.observe
		if s.look != nil {
			look = func(ctx context.Context) error { return s.look(ctx, p) }
		}
		err = look(ctx)
	}
	stopped := errors.Join(p.stopWorkers(ctx), p.rail.stop())

	p.mu.Lock()
	defer p.mu.Unlock()
	problems := judge(s.want, p.seen)
	for _, broken := range []error{err, stopped} {
		if broken != nil {
			problems = append([]string{broken.Error()}, problems...)
		}
	}
	if problems == nil {
		problems = []string{}
	}
	if len(problems) > 0 {
		p.showLogs()
	}
	return ScenarioReport{
		Name: s.name, Title: s.title, OK: len(problems) == 0,
		Balances: p.seen.balances, Expected: map[string]string{"A": s.want.a, "B": s.want.b},
		Events: p.events, Problems: problems,
	}
}

// tell adds a line to the timeline, now.
func (p *play) tell(who string, what What, format string, args ...any) {
	p.add(Event{Who: who, What: what, Text: fmt.Sprintf(format, args...)})
}

// short is a text in which A and B are called that.
func (p *play) short(text string) string {
	return strings.NewReplacer(p.a, "A", p.b, "B").Replace(text)
}

func (p *play) add(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.AtMS = time.Since(p.begun).Milliseconds()
	p.events = append(p.events, e)
	p.config.Timeline.event(&e)
}

// heard takes note of what a worker announces, and tells it if it is about this transfer.
func (p *play) heard(who string, e fault.Event) {
	if e.Event == fault.EventReady || !p.isOurs(e.Key) {
		return
	}
	p.mu.Lock()
	p.seen.announced = append(p.seen.announced, e)
	p.mu.Unlock()
	if what, text := words(&e); text != "" {
		p.add(Event{Who: who, What: what, Text: text, Announced: &e})
	}
}

// isOurs says whether a key, or what stands for one where there are none, is of the scenario's transfer, or of its statement.
func (p *play) isOurs(key string) bool {
	return key == nameOf(p.a) || strings.HasPrefix(key, p.workflowID+"/") || strings.HasPrefix(key, naiveWorkflowID(p.transferID)+"/")
}

// nameOf is an account's name within its ledger.
func nameOf(account string) string { return account[strings.IndexByte(account, '/')+1:] }

// fault is one that strikes the scenario's transfer alone.
func (p *play) fault(kind fault.Kind, moment fault.Moment, action fault.Action) fault.Fault {
	return fault.Fault{Point: fault.Point{Kind: kind, Moment: moment}, Action: action, Transfer: p.transferID}
}
