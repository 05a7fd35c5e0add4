package transfers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/ledger"
	"payonce/workflows"
)

// GroupOptions say how concurrent calls of Client.Transfer share workflows. The zero value is good.
//
// Temporal's work is per workflow, and the ledger's nearly none per transfer, so a group of a hundred transfers costs little
// more than one alone. A call that comes alone is a Transfer of its own, at once; calls that come while others are under way
// are gathered until those are done. What a caller is told does not depend on how its transfer travelled, nor do keys: a
// repeat in any group, or alone, is a repeat.
//
// What is different: a transfer that travels in a group has no workflow with its ID while that group runs, which takes some
// milliseconds, so that nobody finds or cancels it there. One that needs more than one attempt, or that is between two
// ledgers, goes on as a workflow of its own. The request is compared with what the ledger holds, where a memo is not part
// of it.
type GroupOptions struct {
	// Max bounds the transfers of a group; 0: 500. workflows.GroupMax is the most.
	Max int
	// AtOnce is how many groups of a ledger are under way at once; 0: 2, which was fastest where everything ran on two cores.
	AtOnce int
}

const (
	groupMaxDefault    = 500
	groupAtOnceDefault = 2
	// groupBytesMax bounds the JSON of a group's transfers, far below what Temporal warns of.
	groupBytesMax = 400_000
	// groupHold is for how long a group keeps others waiting at most: one that takes longer waits for something, and the
	// others need not.
	groupHold = time.Second
	// openGroupsMax bounds the open groups among which a transfer is looked for.
	openGroupsMax = 100
)

// gatherer gathers calls into groups, for each ledger by itself.
type gatherer struct {
	client      *Client
	max, atOnce int

	mu      sync.Mutex
	ledgers map[string]*gathering
}

// gathering is the calls for one ledger.
type gathering struct {
	queue []*seat
	busy  int
}

// seat is a call that wants a place in a group.
type seat struct {
	in     workflows.TransferInput
	parsed workflows.ParsedTransfer
	state  atomic.Int32
	ctx    context.Context //nolint:containedctx // its deadline counts among those of its group

	// What follows is set when taken is closed.
	taken chan struct{}
	end   workflows.GroupEnd // StateRunning: as a workflow of its own
	alone chan struct{}      // to be closed when the transfer that nobody is with has ended; nil in a group
}

// The states of a seat. It is either left or sent, never both.
const (
	seatWaits int32 = iota
	seatSent
	seatLeft
)

func newGatherer(c *Client, options GroupOptions) *gatherer {
	g := &gatherer{client: c, max: options.Max, atOnce: options.AtOnce, ledgers: make(map[string]*gathering)}
	if g.max <= 0 {
		g.max = groupMaxDefault
	}
	g.max = min(g.max, workflows.GroupMax)
	if g.atOnce <= 0 {
		g.atOnce = groupAtOnceDefault
	}
	return g
}

// transfer is Client.Transfer for a transfer within one ledger.
func (g *gatherer) transfer(ctx context.Context, in workflows.TransferInput, parsed workflows.ParsedTransfer) (workflows.TransferResult, error) {
	s := &seat{in: in, parsed: parsed, ctx: ctx, taken: make(chan struct{})}
	g.join(s)
	select {
	case <-s.taken:
	case <-ctx.Done():
		if s.state.CompareAndSwap(seatWaits, seatLeft) {
			return workflows.TransferResult{}, &PendingError{Status: unknownStatus(in, "it was not sent now"), Cause: context.Cause(ctx)}
		}
		return workflows.TransferResult{}, &PendingError{Status: unknownStatus(in, "it was sent, and there was no answer in time"), Cause: context.Cause(ctx)}
	}
	if s.alone != nil {
		defer close(s.alone)
	}
	switch {
	case s.end.Error == workflows.ErrorKeyConflict:
		return workflows.TransferResult{}, g.client.conflict(ctx, in)
	case s.end.Error != "":
		return workflows.TransferResult{}, &ledger.InvalidError{Field: "request", Reason: s.end.Detail}
	case s.end.State.Ended():
		return groupResult(in, parsed, &s.end), nil
	default:
		return g.client.transferAlone(ctx, in)
	}
}

// unsealed are the ends of a post whose key was not sealed.
var unsealed = map[workflows.State]ledger.OutcomeState{
	workflows.StateCompleted: ledger.OutcomeApplied, workflows.StateRejected: ledger.OutcomeRefused,
}

// groupResult is the result that the transfer would have had alone.
func groupResult(in workflows.TransferInput, parsed workflows.ParsedTransfer, end *workflows.GroupEnd) workflows.TransferResult {
	outcome := activities.StepOutcome{
		Ledger: parsed.From.Ledger, Key: workflows.StepKey(workflows.TransferWorkflowID(in.ID), workflows.StepPost),
		State: ledger.OutcomeSealed, Code: end.Code, Detail: end.Detail, At: end.At, Repeat: end.Repeat,
	}
	if state, ok := unsealed[end.State]; ok {
		outcome.State = state
	}
	return workflows.TransferResult{
		ID: in.ID, State: end.State, From: parsed.From.String(), To: parsed.To.String(),
		Amount: parsed.Amount.Format(parsed.Asset), Asset: parsed.Asset.String(), Code: end.Code, Detail: end.Detail,
		Steps: []workflows.StepReport{{Step: workflows.StepPost, StepOutcome: outcome}},
	}
}

// join queues a call, and sends it at once if few groups are under way.
func (g *gatherer) join(s *seat) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := s.parsed.From.Ledger
	of := g.ledgers[name]
	if of == nil {
		of = &gathering{}
		g.ledgers[name] = of
	}
	of.queue = append(of.queue, s)
	if of.busy < g.atOnce {
		of.busy++
		go g.work(name, of)
	}
}

// work sends groups until nobody waits.
func (g *gatherer) work(name string, of *gathering) {
	for {
		group := g.next(name, of)
		if group == nil {
			return
		}
		done := make(chan struct{})
		if len(group) == 1 {
			group[0].end.State, group[0].alone = workflows.StateRunning, done
			close(group[0].taken)
		} else {
			go func() {
				defer close(done)
				g.send(group)
			}()
		}
		hold := time.NewTimer(groupHold)
		select {
		case <-done:
		case <-hold.C:
		}
		hold.Stop()
	}
}

// next takes the next group out of the queue; nil when nobody waits.
func (g *gatherer) next(name string, of *gathering) []*seat {
	g.mu.Lock()
	defer g.mu.Unlock()
	var group []*seat
	taken, bytes := 0, 0
	for _, s := range of.queue {
		size := sizeOf(&s.in)
		if len(group) == g.max || len(group) > 0 && bytes+size > groupBytesMax {
			break
		}
		taken++
		if s.state.CompareAndSwap(seatWaits, seatSent) {
			group = append(group, s)
			bytes += size
		}
	}
	of.queue = append([]*seat(nil), of.queue[taken:]...)
	if group == nil {
		of.busy--
		if of.busy == 0 {
			delete(g.ledgers, name)
		}
	}
	return group
}

// sizeOf is about the size of a request's JSON, and never far below it.
func sizeOf(in *workflows.TransferInput) int {
	size := 100 + len(in.ID) + len(in.From) + len(in.To) + len(in.Amount) + len(in.Asset) + len(in.Memo)
	for name, value := range in.Metadata {
		size += 8 + len(name) + len(value)
	}
	return size
}

// send has a workflow carry a group out, and tells each call its end. Whatever goes wrong with the group, each then goes on
// alone, and finds out: its key is the same.
func (g *gatherer) send(group []*seat) {
	ctx, cancel := lastsAsLongAs(group)
	defer cancel()
	result, err := g.carryOut(ctx, group)
	for i, s := range group {
		s.end = workflows.GroupEnd{State: workflows.StateRunning}
		if err == nil && len(result.Ends) == len(group) {
			s.end = result.Ends[i]
		}
		close(s.taken)
	}
}

// lastsAsLongAs is a context that ends when the last of the calls would.
func lastsAsLongAs(group []*seat) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, s := range group {
		deadline, ok := s.ctx.Deadline()
		if !ok {
			return context.WithCancel(context.Background())
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	return context.WithDeadline(context.Background(), last)
}

// carryOut starts the workflow of a group, once however often the server has to be asked, and waits for its result.
func (g *gatherer) carryOut(ctx context.Context, group []*seat) (workflows.GroupResult, error) {
	var result workflows.GroupResult
	in := workflows.GroupInput{Transfers: make([]workflows.TransferInput, len(group))}
	for i, s := range group {
		in.Transfers[i] = s.in
	}
	options := client.StartWorkflowOptions{
		ID:                       workflows.GroupWorkflowID(uuid.NewString()),
		TaskQueue:                workflows.TaskQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		EnableEagerStart:         g.client.eager,
	}
	for {
		run, err := g.client.temporal.ExecuteWorkflow(ctx, options, workflows.TransferGroupWorkflow, in)
		if err == nil {
			err = run.Get(ctx, &result)
		}
		if err == nil || ctx.Err() != nil || !mayPass(err) {
			return result, err
		}
		if err := pause(ctx, intervalRetry); err != nil {
			return result, err
		}
	}
}

// grouped looks for a transfer in the groups that are under way: it has no workflow of its own there, and the ledger knows
// it only when the group is done.
func (c *Client) grouped(ctx context.Context, id string) (in workflows.TransferInput, group string, err error) {
	open, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: openGroupsMax,
		Query:    "WorkflowType = '" + workflows.TransferGroupWorkflow + "' and ExecutionStatus = 'Running'",
	})
	if err != nil {
		return in, "", err
	}
	for _, execution := range open.GetExecutions() {
		workflowID := execution.GetExecution().GetWorkflowId()
		history := c.temporal.GetWorkflowHistory(ctx, workflowID, execution.GetExecution().GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		event, err := history.Next()
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return in, "", err
		}
		var request workflows.GroupInput
		if err := c.converter.FromPayloads(event.GetWorkflowExecutionStartedEventAttributes().GetInput(), &request); err != nil {
			continue // another client's, which nobody can read
		}
		for _, in := range request.Transfers {
			if in.ID == id {
				return in, workflowID, nil
			}
		}
	}
	return in, "", &UnknownError{ID: id}
}
