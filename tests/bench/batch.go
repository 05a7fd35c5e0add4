package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"payonce/ledger"
	"payonce/workflows"
)

// batchRows is how many rows the files have.
const batchRows = 100_000

// batch measures batch files: from the file to its finished summary, by the starter program and a worker of its own.
func (b *bench) batch(ctx context.Context) (err error) {
	if err := b.world.emptyBooks(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "payonce-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	apart, err := b.world.startWorkerApart(ctx, b.stderr)
	if err != nil {
		return err
	}
	peak := watchMemoryOf(ctx, apart.pid())
	// What the first batch meets for the first time, such as an empty cache, is not what is measured.
	if _, _, err := b.submit(ctx, dir, "warm", workflows.GroupMax); err != nil {
		return err
	}
	var rates, memory []float64
	for run := range b.runs {
		took, most, err := b.submit(ctx, dir, fmt.Sprintf("batch-%d", run), batchRows)
		if err != nil {
			return err
		}
		rates, memory = append(rates, batchRows/took.Seconds()), append(memory, most)
	}
	r := &b.results.Batch
	r.Rows, r.RowsPerSecond, r.ClientPeakMB, r.WorkerPeakMB = batchRows, median(rates), median(memory), peak()
	b.say("batch: %d rows: %.0f/s from the file to its summary; at most %.0f MB of the worker, %.0f MB of the starter",
		r.Rows, r.RowsPerSecond, r.WorkerPeakMB, r.ClientPeakMB)
	return apart.stop()
}

// submit has a new file submitted, and returns how long that took and the most memory that the starter had.
func (b *bench) submit(ctx context.Context, dir, name string, rows int) (took time.Duration, peakMB float64, err error) {
	path := filepath.Join(dir, name+".csv")
	total, err := writeBatch(path, runName+"-"+name, rows)
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(b.world.bin, "starter"), "batch", "submit", path, fmt.Sprintf("--count=%d", rows), "--total="+total)
	cmd.Env = append(os.Environ(), b.world.stack.Env()...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	peak := watchMemoryOf(ctx, cmd.Process.Pid)
	err = cmd.Wait()
	took = time.Since(begun)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w: %s", name, err, stderr.String())
	}
	return took, peak(), os.Remove(path)
}

// writeBatch writes a batch file of new transfers, and returns their total, "20.00 USD".
func writeBatch(path, prefix string, rows int) (total string, err error) {
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	fmt.Fprintln(out, "id,from,to,amount,asset")
	var sum ledger.Amount
	var asset ledger.Asset
	for n := range rows {
		in := request(prefix, int64(n))
		parsed, err := workflows.ParseTransfer(in)
		if err != nil {
			return "", err
		}
		asset = parsed.Asset
		sum, _ = sum.Add(parsed.Amount)
		fmt.Fprintf(out, "%s,%s,%s,%s,%s\n", in.ID, in.From, in.To, in.Amount, in.Asset)
	}
	if err := out.Flush(); err != nil {
		return "", err
	}
	return sum.Format(asset) + " " + asset.String(), file.Close()
}
