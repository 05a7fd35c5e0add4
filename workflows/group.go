package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

// TransferGroup carries out transfers within one ledger together: one post for each, under the key that the transfer has
// alone. What does not get its outcome here goes on as a Transfer of its own, and nobody waits for it: the group ends when
// each of its transfers has ended or goes on.
func (w *Workflows) TransferGroup(ctx workflow.Context, in GroupInput) (GroupResult, error) {
	if n := len(in.Transfers); n == 0 || n > GroupMax {
		return GroupResult{}, invalidInput(&ledger.InvalidError{Field: "transfers", Reason: fmt.Sprintf("there are %d; a group has 1 to %d", n, GroupMax)})
	}
	g := newGroup(ctx, w.options, in.Transfers)
	g.read()
	g.post(ctx)
	g.markRepeats()
	if err := g.handOn(ctx); err != nil {
		return GroupResult{}, err
	}
	return GroupResult{Ends: g.ends}, nil
}

// group is one run of a TransferGroup.
type group struct {
	options   Options
	transfers []TransferInput
	parsed    []ParsedTransfer
	ends      []GroupEnd // zero: not yet
	ledger    string     // of those that are posted here
	together  []int      // their indexes
	begun     time.Time
}

// newGroup gives the fast path the time of the durable one: on a busy machine a time-out has all posts made again.
func newGroup(ctx workflow.Context, options Options, transfers []TransferInput) group {
	options.Fast.TimeoutStartToClose = max(options.Fast.TimeoutStartToClose, options.Forward.TimeoutStartToClose)
	return group{
		options: options, transfers: transfers, ends: make([]GroupEnd, len(transfers)), begun: workflow.GetInfo(ctx).WorkflowStartTime,
	}
}

// read sorts the transfers out: malformed ones end, and those within the ledger of the first are posted together.
func (g *group) read() {
	g.parsed = make([]ParsedTransfer, len(g.transfers))
	for i, in := range g.transfers {
		parsed, err := ParseTransfer(in)
		if err != nil {
			g.ends[i] = GroupEnd{Error: ErrorInvalidInput, Detail: err.Error()}
			continue
		}
		g.parsed[i] = parsed
		if parsed.From.Ledger != parsed.To.Ledger || len(in.Notify) > 0 {
			continue // It goes on as a workflow of its own.
		}
		if g.ledger == "" {
			g.ledger = parsed.From.Ledger
		}
		if parsed.From.Ledger == g.ledger {
			g.together = append(g.together, i)
		}
	}
}

// post posts what can be posted together: first fast, then durably.
func (g *group) post(ctx workflow.Context) {
	if len(g.together) == 0 {
		return
	}
	if g.options.Fast.AttemptsMax > 0 {
		input, summary := g.posts()
		options := g.options.Fast.local()
		options.Summary = summary
		var out activities.PostGroupOutput
		err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, options), "PostGroup", input).Get(ctx, &out)
		if err == nil {
			g.take(out)
			return
		}
	}
	g.postDurably(ctx)
}

// postDurably posts by an activity. Without an answer, each goes on alone, and finds out.
func (g *group) postDurably(ctx workflow.Context) {
	input, summary := g.posts()
	var out activities.PostGroupOutput
	err := g.options.waitingOut(ctx, g.options.Forward, LedgerTaskQueue(g.ledger), summary, func(options workflow.ActivityOptions) error {
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), "PostGroup", input).Get(ctx, &out)
	})
	if err == nil {
		g.take(out)
	}
}

// posts is what is posted together.
func (g *group) posts() (input activities.PostGroupInput, summary string) {
	input = activities.PostGroupInput{Ledger: g.ledger, Steps: make([]activities.StepInput, len(g.together))}
	for n, i := range g.together {
		input.Steps[n] = g.step(i)
	}
	return input, fmt.Sprintf("%d posts on %s", len(g.together), g.ledger)
}

// step is the post of a transfer.
func (g *group) step(i int) activities.StepInput {
	in, parsed := &g.transfers[i], &g.parsed[i]
	return activities.StepInput{
		Ledger: g.ledger, Key: StepKey(TransferWorkflowID(in.ID), StepPost), From: parsed.From.Name, To: parsed.To.Name,
		Amount: parsed.Amount.Format(parsed.Asset), Asset: parsed.Asset.String(), Memo: in.Memo, Metadata: in.Metadata,
	}
}

// take reads the answers to what was posted together.
func (g *group) take(out activities.PostGroupOutput) {
	for n, answer := range out.Answers {
		g.ends[g.together[n]] = endOf(answer)
	}
}

// endOf reads an answer. No end, the zero value, is for all that one attempt can't tell.
func endOf(answer activities.PostAnswer) GroupEnd {
	end := GroupEnd{Code: answer.Code, Detail: answer.Detail, At: answer.At, Repeat: answer.Repeat}
	switch answer.State {
	case ledger.OutcomeApplied:
		end.State = StateCompleted
	case ledger.OutcomeRefused:
		end.State = StateRejected
	case ledger.OutcomeSealed:
		end.State = givenUpAs(answer.Code)
	default:
		end = GroupEnd{}
	}
	if answer.Error == activities.ErrorKeyConflict || answer.Error == activities.ErrorInvalidInput {
		end.Error = answer.Error
	}
	return end
}

// markRepeats leaves the mark of a repeat to those that were. That a ledger had recorded a post before may be by an attempt of this
// group whose answer was lost: only what it had when the group began was asked for before.
func (g *group) markRepeats() {
	for i := range g.ends {
		g.ends[i].Repeat = g.isRepeat(&g.ends[i])
	}
}

func (g *group) isRepeat(end *GroupEnd) bool { return end.Repeat && end.At.Before(g.begun) }

// handOn starts a Transfer for each that has no end. It returns when all are started, so that none is lost with the group.
func (g *group) handOn(ctx workflow.Context) error {
	disconnected, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	started := make(map[int]workflow.ChildWorkflowFuture)
	for i := range g.ends {
		if g.ends[i].State != "" || g.ends[i].Error != "" {
			continue
		}
		started[i] = startTransfer(disconnected, g.transfers[i], g.parsed[i])
	}
	for i := range g.ends {
		child, ok := started[i]
		if !ok {
			continue
		}
		if err := awaitStart(disconnected, child); err != nil {
			return err
		}
		g.ends[i].State = StateRunning
	}
	return nil
}
