package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"payonce/ledger"
)

// batchGoingMax bounds the rows that a batch names of those that go on, so that it can always be handed on to its next run.
const batchGoingMax = 100

// Batch counts what becomes of the rows of a batch, as its chunks tell, and ends when all of them have ended. It moves no money.
//
// A chunk may tell more than once, also after it was started again: the first report of its end counts.
func (w *Workflows) Batch(ctx workflow.Context, in BatchInput) (BatchResult, error) {
	b, err := newBatch(ctx, in)
	if err != nil {
		return BatchResult{}, err
	}
	reports := workflow.GetSignalChannel(ctx, BatchChunkSignal)
	for b.ended < b.input.Chunks {
		var report BatchChunkReport
		if !b.takeWaiting(reports) {
			if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
				in.Progress = &b.progress
				return BatchResult{}, workflow.NewContinueAsNewError(ctx, BatchWorkflow, in)
			}
			received := false
			workflow.NewSelector(ctx).
				AddReceive(reports, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, &report); received = true }).
				AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).
				Select(ctx)
			if !received {
				return BatchResult{}, ctx.Err()
			}
			b.take(&report)
		}
		workflow.SetCurrentDetails(ctx, b.String())
	}
	return BatchResult{ID: in.ID, Totals: in.Totals, Alike: in.Alike, Chunks: in.Chunks, Counts: b.progress.Counts}, nil
}

// batch is one run of a Batch.
type batch struct {
	input    BatchInput
	progress BatchProgress
	ended    int // chunks
}

func newBatch(ctx workflow.Context, in BatchInput) (*batch, error) {
	if err := checkBatch(in, workflow.GetInfo(ctx).WorkflowExecution.ID); err != nil {
		return nil, invalidInput(err)
	}
	b := &batch{input: in, progress: BatchProgress{Ended: make([]byte, (in.Chunks+7)/8)}}
	b.progress.Counts.Arrived = []AssetAmount{}
	if in.Progress != nil {
		b.progress = *in.Progress
		for chunk := range in.Chunks {
			if b.progress.HasEnded(chunk) {
				b.ended++
			}
		}
	}
	b.input.Progress = nil
	return b, workflow.SetQueryHandlerWithOptions(ctx, BatchStatusQuery,
		func() (BatchStatus, error) { return BatchStatus{Batch: b.input, Progress: b.progress}, nil },
		workflow.QueryHandlerOptions{Description: "Where the batch stands."})
}

func checkBatch(in BatchInput, workflowID string) error {
	if err := ledger.CheckID("id", in.ID, BatchIDBytesMax); err != nil {
		return err
	}
	switch {
	case strings.Contains(in.ID, "/"):
		return &ledger.InvalidError{Field: "id", Reason: "it contains a /"}
	case workflowID != BatchWorkflowID(in.ID):
		return &ledger.InvalidError{Field: "id", Reason: fmt.Sprintf("the workflow ID of batch %q must be %q, not %q", in.ID, BatchWorkflowID(in.ID), workflowID)}
	case in.Rows < 1:
		return &ledger.InvalidError{Field: "rows", Reason: "there are none"}
	case in.Chunks < 1 || in.Chunks > BatchChunksMax:
		return &ledger.InvalidError{Field: "chunks", Reason: fmt.Sprintf("there are %d; a batch has 1 to %d", in.Chunks, BatchChunksMax)}
	case in.Progress != nil && len(in.Progress.Ended) != (in.Chunks+7)/8:
		return &ledger.InvalidError{Field: "progress", Reason: "it is not that of this batch"}
	}
	return nil
}

// HasEnded says whether all rows of a chunk have ended.
func (p *BatchProgress) HasEnded(chunk int) bool {
	return chunk/8 < len(p.Ended) && p.Ended[chunk/8]&(1<<(chunk%8)) != 0
}

// Tried says whether all rows of a chunk have been tried: it has ended, or what is left goes on without holding up others.
func (p *BatchProgress) Tried(chunk int) bool {
	if p.HasEnded(chunk) {
		return true
	}
	for i := range p.Going {
		if p.Going[i].Chunk == chunk {
			return true
		}
	}
	return false
}

// Now are the counts of all that has been told, also by chunks that have not ended.
func (p *BatchProgress) Now() BatchCounts {
	now := p.Counts
	for i := range p.Going {
		now.add(&p.Going[i].Counts)
	}
	return now
}

// takeWaiting takes all reports that have come, and says whether there were any.
func (b *batch) takeWaiting(reports workflow.ReceiveChannel) bool {
	for waiting := false; ; waiting = true {
		var report BatchChunkReport
		if !reports.ReceiveAsync(&report) {
			return waiting
		}
		b.take(&report)
	}
}

// take counts what a chunk tells. A report of a chunk that has ended, or that there is not, is left.
func (b *batch) take(report *BatchChunkReport) {
	p := &b.progress
	if report.Chunk < 0 || report.Chunk >= b.input.Chunks || p.HasEnded(report.Chunk) {
		return
	}
	var others []BatchChunkReport
	named := 0
	for _, going := range p.Going {
		if going.Chunk != report.Chunk {
			others = append(others, going)
			named += len(going.Going)
		}
	}
	p.Going = others
	if report.Counts.Running > 0 {
		report.Going = report.Going[:min(len(report.Going), max(batchGoingMax-named, 0))]
		p.Going = append(p.Going, *report)
		return
	}
	p.Ended[report.Chunk/8] |= 1 << (report.Chunk % 8)
	p.Counts.add(&report.Counts)
	b.ended++
}

// String tells a person how far it is.
func (b *batch) String() string {
	now := b.progress.Now()
	return fmt.Sprintf("%d of %d chunks have ended; %d of %d rows completed, %d have not, %d go on",
		b.ended, b.input.Chunks, now.Completed, b.input.Rows, now.Rows-now.Completed-now.Running, now.Running)
}

// add adds other's counts. The amounts are in the order in which their assets came.
func (c *BatchCounts) add(other *BatchCounts) {
	c.Rows += other.Rows
	c.Completed += other.Completed
	c.Rejected += other.Rejected
	c.Failed += other.Failed
	c.Compensated += other.Compensated
	c.Cancelled += other.Cancelled
	c.Discarded += other.Discarded
	c.Conflicts += other.Conflicts
	c.Invalid += other.Invalid
	c.Running += other.Running
	c.Repeats += other.Repeats
	for _, arrived := range other.Arrived {
		c.Arrived = addAmount(c.Arrived, arrived)
	}
}

// addAmount returns sums with an amount added to that of its asset; sums itself is not changed. What no amount can hold is left
// out, which no batch comes to whose totals could be added up.
func addAmount(sums []AssetAmount, more AssetAmount) []AssetAmount {
	sums = append([]AssetAmount{}, sums...)
	asset, err := ledger.ParseAsset(more.Asset)
	if err != nil {
		return sums
	}
	amount, err := ledger.ParseAmount(more.Amount, asset)
	if err != nil {
		return sums
	}
	for i := range sums {
		if sums[i].Asset != more.Asset {
			continue
		}
		before, err := ledger.ParseAmount(sums[i].Amount, asset)
		if sum, ok := before.Add(amount); err == nil && ok {
			sums[i].Amount = sum.Format(asset)
		}
		return sums
	}
	return append(sums, more)
}
