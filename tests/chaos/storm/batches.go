package storm

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"payonce/starter/batch"
	"payonce/starter/transfers"
	"payonce/tests/chaos/checker"
	"payonce/workflows"
)

// bundle is a batch file: some of its transfers are sent singly as well, at any moment, and the others are in it alone.
type bundle struct {
	rows []workflows.TransferInput
	// after is how many transfers of the storm are sent before it.
	after int
	// copies is how many clients submit it at once.
	copies int
	// program: a starter process submits it first, and is killed after a time.
	program   bool
	killAfter time.Duration
	// terminate: its workflow is terminated after a time, or one of its chunks.
	terminate bool
	blowAfter time.Duration
}

const (
	// bundleSingly is how many rows of a batch, in percent, are sent singly as well.
	bundleSingly         = 50
	rowsLeast, rowsMost  = 4, 16
	bundleProgram        = 50
	bundleTerminate      = 60
	bundleCopiesMost     = 2
	bundleKill, bundleBy = 50 * time.Millisecond, 900 * time.Millisecond
)

// bundles are n batches beside a storm.
func (d *drawing) bundles(n int, storm []*errand) []*bundle {
	var list []*bundle
	for range n {
		b := &bundle{
			after: d.random.IntN(len(storm)), copies: 1 + d.random.IntN(bundleCopiesMost), program: d.random.IntN(100) < bundleProgram,
			killAfter: between(d.random, bundleKill, bundleBy), terminate: d.random.IntN(100) < bundleTerminate,
			blowAfter: between(d.random, 0, bundleBy),
		}
		taken := make(map[string]bool) // no ID twice in a file
		for range rowsLeast + d.random.IntN(rowsMost-rowsLeast+1) {
			// Those that are sent singly are close to it in time.
			near := storm[min(b.after+d.random.IntN(2*rowsMost), len(storm)-1)].request
			if d.random.IntN(100) >= bundleSingly {
				near = d.draw(pickWeighted(d.random, d.kinds())).request
			}
			if !taken[near.ID] {
				taken[near.ID] = true
				b.rows = append(b.rows, near)
			}
		}
		list = append(list, b)
	}
	return list
}

// file is the batch as people send it.
func (b *bundle) file() string {
	var text strings.Builder
	out := csv.NewWriter(&text)
	// A strings.Builder has no error to give.
	_ = out.Write([]string{"id", "from", "to", "amount", "asset", "memo"})
	for _, in := range b.rows {
		_ = out.Write([]string{in.ID, in.From, in.To, in.Amount, in.Asset, in.Memo})
	}
	out.Flush()
	return text.String()
}

// submit has a batch submitted until everybody who did is told the end of each row.
func (r *round) submit(ctx context.Context, b *bundle) {
	r.record.struck(FaultBatch)
	for _, in := range b.rows {
		r.noteChoking(in)
	}
	file := r.read(ctx, b)
	if file == nil {
		return
	}
	defer file.Close()
	name := b.rows[0].ID
	random := stream(r.config.Seed, name+" batch")
	var all sync.WaitGroup
	if b.terminate {
		blows := stream(r.config.Seed, name+" batch blow")
		all.Go(func() { r.terminateBatch(ctx, b, file.ID, blows) })
	}
	if b.program && r.world.config.Starter != "" {
		r.runBatchProgram(ctx, b, file, random)
	}
	for i := range b.copies {
		random := stream(r.config.Seed, fmt.Sprint(name, " batch ", i))
		k := pick(random, r.world.clients)
		all.Go(func() { r.insistOnBatch(ctx, k, random, b) })
	}
	all.Wait()
}

// read reads a batch's file, as the starter does.
func (r *round) read(ctx context.Context, b *bundle) *batch.File {
	file, err := batch.Read(ctx, strings.NewReader(b.file()), batch.Options{})
	if err != nil || file.BadRows > 0 {
		if ctx.Err() == nil {
			r.fail(fmt.Errorf("a batch file can't be read: %w", err))
		}
		return nil
	}
	return file
}

// insistOnBatch submits a batch again and again until it has ended, and notes what was told of its rows.
func (r *round) insistOnBatch(ctx context.Context, k *clerk, random *rand.Rand, b *bundle) {
	begun := time.Now()
	note := "the round was over"
	for ctx.Err() == nil {
		ends, err := r.submitOnce(ctx, k, between(random, patienceLeast, patienceMost), b)
		if err == nil {
			r.recordRows(k.name+" in a batch", begun, ends)
			return
		}
		note = err.Error()
		_ = pause(ctx, between(random, againLeast, againMost))
	}
	for _, in := range b.rows {
		r.record.call(checker.Call{Client: k.name + " in a batch", Request: requestOf(in), Called: begun, Returned: time.Now(), Note: note})
	}
}

// submitOnce submits a batch and waits for its end. An error says that it has none yet, as far as this client can tell.
func (r *round) submitOnce(ctx context.Context, k *clerk, patience time.Duration, b *bundle) (ends []transfers.BatchRow, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	file := r.read(ctx, b)
	if file == nil {
		return nil, context.Cause(ctx)
	}
	defer file.Close()
	status, err := k.transfers.SubmitBatch(ctx, file, transfers.BatchOptions{})
	for i := range status.Going {
		if going := &status.Going[i]; going.Parking != nil {
			r.decide(ctx, k, going.Request, going.Parking)
		}
	}
	if err != nil {
		return nil, err
	}
	missing := errors.New("a chunk is unknown")
	err = k.transfers.BatchReport(ctx, &status, file.ID, func(row transfers.BatchRow) error {
		ends = append(ends, row)
		return nil
	}, func(int) error { return missing })
	return ends, err
}

// recordRows notes what a client was told of the rows of a batch.
func (r *round) recordRows(client string, begun time.Time, ends []transfers.BatchRow) {
	for _, row := range ends {
		call := checker.Call{Client: client, Request: requestOf(row.Request), Called: begun, Returned: time.Now(), Note: row.End.Detail}
		switch {
		case row.End.Error == workflows.ErrorKeyConflict:
			call.Told = checker.EndConflict
		case row.End.Error != "":
			call.Told = row.End.Error // the checker knows no such end
		default:
			call.Told = string(row.End.State) // nor "running", now that the batch has ended
		}
		r.record.call(call)
	}
}

// terminateBatch terminates the workflow of a batch, or of its first chunk, once it has been started.
func (r *round) terminateBatch(ctx context.Context, b *bundle, id string, random *rand.Rand) {
	workflowID := pick(random, []string{workflows.BatchWorkflowID(id), workflows.BatchChunkWorkflowID(id, 0)})
	if pause(ctx, b.blowAfter) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutBlow)
	defer cancel()
	err := retry(ctx, func() (bool, error) {
		err := r.namespaced.TerminateWorkflow(ctx, workflowID, "", "chaos")
		// It has not been started yet, or it has ended: only the first may pass.
		return err == nil || isAbsent(err) && r.exists(ctx, workflowID), err
	})
	if err == nil {
		r.record.struck(FaultTerminateBatch)
	}
}

// runBatchProgram submits a batch with the starter program, and kills it after a time.
func (r *round) runBatchProgram(ctx context.Context, b *bundle, file *batch.File, random *rand.Rand) {
	args := []string{"--output=json", "batch", "submit", "-", fmt.Sprintf("--count=%d", file.Rows)}
	for _, total := range file.Totals {
		args = append(args, "--total="+total.Amount+" "+total.Asset)
	}
	k := pick(random, r.world.clients)
	begun := time.Now()
	code, stdout := r.runStarter(ctx, k, strings.NewReader(b.file()), b.killAfter, args...)
	for _, in := range b.rows {
		// What it says of rows is for people; that it has asked for them counts.
		r.record.call(checker.Call{
			Client: "starter on " + k.name + ", in a batch", Request: requestOf(in), Called: begun, Returned: time.Now(),
			Note: fmt.Sprintf("exit code %d: %s", code, bytes.TrimSpace(stdout)),
		})
	}
}
