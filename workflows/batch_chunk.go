package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"payonce/activities"
	"payonce/ledger"
)

const (
	// chunkPosts is how often a chunk posts what has no outcome yet, before each of that goes on alone.
	chunkPosts = 3
	// chunkWave is how many rows of a chunk are started as workflows of their own at once.
	chunkWave = 50
	// chunkWaveHold is for how long a wave holds up the next at most: rows that take longer wait for something.
	chunkWaveHold = 10 * time.Second
	// lookFirst and lookMax are how often a row is looked for that somebody else carries out.
	lookFirst = time.Second
	lookMax   = time.Minute
)

// BatchChunk carries out rows of a batch: those within the ledger of the first are posted together, under the keys that they
// have alone, and each other one is a Transfer of its own. It ends when each row has an end, and tells its batch then; and
// before, if some rows take longer than the others. Cancelling it has no effect, since its rows may be on their way.
func (w *Workflows) BatchChunk(ctx workflow.Context, in BatchChunkInput) (BatchChunkResult, error) {
	if n := len(in.Transfers); n == 0 || n > GroupMax {
		return BatchChunkResult{}, invalidInput(&ledger.InvalidError{Field: "transfers", Reason: fmt.Sprintf("there are %d; a chunk has 1 to %d", n, GroupMax)})
	}
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	c := chunk{
		group: newGroup(ctx, w.options, in.Transfers), number: in.Chunk, batch: in.Batch,
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, BatchChunkQuery, func() (BatchChunkResult, error) { return c.result(), nil },
		workflow.QueryHandlerOptions{Description: "The ends of the chunk's rows."})
	if err != nil {
		return BatchChunkResult{}, err
	}
	c.read()
	c.postAll(ctx)
	c.markRepeats()
	if err := c.carryOutOthers(ctx); err != nil {
		return BatchChunkResult{}, err
	}
	c.tell(ctx)
	return c.result(), nil
}

// chunk is one run of a BatchChunk.
type chunk struct {
	group

	batch  string
	number int
}

// postAll posts what can be posted together, and again what has got no outcome: a moment's trouble of a ledger should not
// make a workflow of each row.
func (c *chunk) postAll(ctx workflow.Context) {
	c.post(ctx)
	for range chunkPosts - 1 {
		var left []int
		for _, i := range c.together {
			if !c.ends[i].settled() {
				left = append(left, i)
			}
		}
		c.together = left
		if len(left) == 0 {
			return
		}
		c.postDurably(ctx)
	}
}

// settled says whether an end is one.
func (e *GroupEnd) settled() bool { return e.State.Ended() || e.Error != "" }

// carryOutOthers has each row without an end carried out as a Transfer, some at once, and waits for their ends. A row that
// waits for something, such as a person, holds up the others for a moment only; the batch is told of it.
func (c *chunk) carryOutOthers(ctx workflow.Context) error {
	var others []int
	for i := range c.ends {
		if !c.ends[i].settled() {
			c.ends[i].State = StateRunning
			others = append(others, i)
		}
	}
	going := len(others)
	for len(others) > 0 {
		wave := others[:min(chunkWave, len(others))]
		others = others[len(wave):]
		left := len(wave)
		for _, i := range wave {
			workflow.Go(ctx, func(ctx workflow.Context) {
				end := c.carryOut(ctx, i)
				end.Repeat = c.isRepeat(&end)
				c.ends[i] = end
				left--
				going--
			})
		}
		if _, err := workflow.AwaitWithTimeout(ctx, chunkWaveHold, func() bool { return left == 0 }); err != nil {
			return err
		}
	}
	if going > 0 {
		c.tell(ctx)
	}
	return workflow.Await(ctx, func() bool { return going == 0 })
}

// carryOut has a row carried out as a Transfer of its own, and returns its end.
func (c *chunk) carryOut(ctx workflow.Context, i int) GroupEnd {
	backoff := lookFirst
	for {
		var result TransferResult
		err := startTransfer(ctx, c.transfers[i], c.parsed[i]).Get(ctx, &result)
		switch {
		case err == nil:
			return endOfTransfer(&result)
		case isType(err, ErrorKeyConflict):
			return GroupEnd{Error: ErrorKeyConflict, Detail: errorText(err)}
		case isType(err, ErrorInvalidInput):
			return GroupEnd{Error: ErrorInvalidInput, Detail: errorText(err)}
		case temporal.IsWorkflowExecutionAlreadyStartedError(err):
			// Somebody has asked for it before. What the ledgers have recorded tells its end, when it has one.
			if end, ok := c.lookUp(ctx, i); ok {
				return end
			}
		}
		// Otherwise somebody has terminated it. The batch asks for it, so it goes on from where it stopped.
		if err := workflow.Sleep(ctx, backoff); err != nil {
			// Only a cancelled context ends a sleep, and nobody cancels this one.
			panic(err)
		}
		backoff = min(2*backoff, lookMax)
	}
}

// endOfTransfer is the end of a row that was a Transfer.
func endOfTransfer(result *TransferResult) GroupEnd {
	end := GroupEnd{State: result.State, Code: result.Code, Detail: result.Detail}
	for i := range result.Steps {
		end.At = result.Steps[i].At
	}
	if len(result.Steps) > 0 {
		end.Repeat = result.Steps[0].Repeat
	}
	return end
}

// lookUp reads a row's end from what the ledgers have recorded; ok is false when there is none yet.
func (c *chunk) lookUp(ctx workflow.Context, i int) (end GroupEnd, ok bool) {
	in, parsed := c.transfers[i], c.parsed[i]
	ledgers := []string{parsed.From.Ledger}
	if parsed.To.Ledger != parsed.From.Ledger {
		ledgers = append(ledgers, parsed.To.Ledger)
	}
	var ask activities.OperationListInput
	for _, step := range []Step{StepPost, StepWithdraw, StepDeposit, StepRefund} {
		ask.Keys = append(ask.Keys, StepKey(TransferWorkflowID(in.ID), step))
	}
	found := make(Recorded)
	for _, name := range ledgers {
		var list activities.OperationList
		options := c.options.Ask.durable(LedgerTaskQueue(name), "look up "+in.ID)
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), OperationListWorkflow, ask).Get(ctx, &list)
		if err != nil {
			// It is asked again.
			workflow.GetLogger(ctx).Warn("transfer not looked up", "transfer", in.ID, "ledger", name, "error", err)
			return end, false
		}
		for n := range list.Operations {
			operation := &list.Operations[n]
			// A worker answers for all ledgers that it holds.
			if operation.Ledger != name {
				continue
			}
			if !in.SameRequest(RequestOf(in.ID, operation)) {
				return GroupEnd{Error: ErrorKeyConflict, Detail: fmt.Sprintf("the key %q was used for another request", operation.Key)}, true
			}
			found[Step(operation.Kind)] = operation // a step has the name of its operation's kind
		}
	}
	return endOfRecorded(found)
}

// endOfRecorded is the end of a transfer that somebody else has carried out, by its recorded steps.
func endOfRecorded(found Recorded) (end GroupEnd, ok bool) {
	state, why := Recall(found.Outcome)
	if state == "" {
		return end, false
	}
	end = GroupEnd{State: state, Repeat: true}
	if operation := found[why]; operation != nil {
		end.Code, end.Detail = operation.Code, operation.Detail
	}
	for _, step := range []Step{StepPost, StepWithdraw, StepDeposit, StepRefund} {
		if operation := found[step]; operation != nil {
			end.At = operation.At // of the last
		}
	}
	return end, true
}

// tell tells the batch what has become of the rows. A batch that is not there is none to be told: whoever sends the same
// batch again learns the rows' ends.
func (c *chunk) tell(ctx workflow.Context) {
	report := BatchChunkReport{Chunk: c.number, Counts: c.counts()}
	for i := range c.ends {
		if c.ends[i].State == StateRunning && len(report.Going) < BatchGoingMax {
			report.Going = append(report.Going, c.transfers[i].ID)
		}
	}
	err := workflow.SignalExternalWorkflow(ctx, BatchWorkflowID(c.batch), "", BatchChunkSignal, report).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("batch not told", "batch", c.batch, "chunk", c.number, "error", err)
	}
}

// counts counts the rows by their ends.
func (c *chunk) counts() BatchCounts {
	counts := BatchCounts{Rows: len(c.ends), Arrived: []AssetAmount{}}
	sums := make(map[ledger.Asset]ledger.Amount)
	var assets []ledger.Asset // in the order in which they came, unlike the map's
	for i := range c.ends {
		end := &c.ends[i]
		counts.count(end)
		if end.State != StateCompleted {
			continue
		}
		asset := c.parsed[i].Asset
		sum, seen := sums[asset]
		if !seen {
			assets = append(assets, asset)
		}
		// A sum that no amount can hold stays as it is: the batch's totals have been added up before.
		if sum, ok := sum.Add(c.parsed[i].Amount); ok {
			sums[asset] = sum
		}
	}
	for _, asset := range assets {
		counts.Arrived = append(counts.Arrived, AssetAmount{Asset: asset.String(), Amount: sums[asset].Format(asset)})
	}
	return counts
}

func (c *BatchCounts) count(end *GroupEnd) {
	if end.Repeat {
		c.Repeats++
	}
	switch end.State { //nolint:exhaustive // the others are a payout's
	case StateCompleted:
		c.Completed++
	case StateRejected:
		c.Rejected++
	case StateFailed:
		c.Failed++
	case StateCompensated:
		c.Compensated++
	case StateCancelled:
		c.Cancelled++
	case StateDiscarded:
		c.Discarded++
	case StateRunning, StateParked:
		c.Running++
	default:
		if end.Error == ErrorKeyConflict {
			c.Conflicts++
		} else {
			c.Invalid++
		}
	}
}

// result is the ends as they are now.
func (c *chunk) result() BatchChunkResult {
	result := BatchChunkResult{Ends: []BatchEnd{}}
	places := make(map[GroupEnd]int)
	for i, end := range c.ends {
		if !end.settled() {
			continue
		}
		place, seen := places[end]
		if !seen {
			place = len(result.Ends)
			places[end] = place
			result.Ends = append(result.Ends, BatchEnd{GroupEnd: end})
		}
		result.Ends[place].Rows = append(result.Ends[place].Rows, i)
	}
	return result
}
