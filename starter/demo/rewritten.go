package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/internal/faultworker/fault"
	"payonce/workflows"
)

// payments is how many A's money comes in, so that its statement is read in two pages, between which there is a moment to be
// killed; each is of cent.
const (
	payments = 2_000
	cent     = "0.01"
)

func statementRewritten() *scenario {
	point := fault.Point{Kind: fault.KindEntries, Moment: fault.Before}
	return &scenario{
		name:  "statement-rewritten",
		title: "the worker dies while it writes A's statement",
		stake: "A file for an accountant. A part of it would be worse than none, and whoever writes it again must not write another one.",
		moral: "one whole file, byte for byte what an undisturbed run writes",
		want: expectation{
			a: amount, b: amount,
			ends:     map[string]int{string(workflows.StateCompleted): 1},
			faults:   []expectedFault{{point, fault.ActionKill, 1}},
			met:      firstTime(),
			recorded: bothApplied(),
			entries:  payments,
		},
		options: func(o *workflows.Options) {
			// A's money comes in posts of a thousand at once.
			o.Fast.TimeoutStartToClose, o.Forward.TimeoutStartToClose = 10*time.Second, 10*time.Second
		},
		play: func(ctx context.Context, p *play) (err error) {
			if p.statements, err = os.MkdirTemp("", "payonce-demo-"); err != nil {
				return err
			}
			defer os.RemoveAll(p.statements)
			return p.playStatement(ctx, fault.Fault{Point: point, Action: fault.ActionKill, Key: nameOf(p.a), Skip: 1})
		},
	}
}

// playStatement has the statement written, by a worker that a fault kills and another one, and then again.
func (p *play) playStatement(ctx context.Context, kill fault.Fault) error {
	first, err := p.startWorker(ctx, kill)
	if err != nil {
		return err
	}
	if err := p.setUpByCents(ctx); err != nil {
		return err
	}
	if err := p.pay(ctx).wait(); err != nil {
		return err
	}
	in, err := p.statementBefore(ctx)
	if err != nil {
		return err
	}
	p.tell("client", WhatClient, "asks for the statement of what A had before that: %d entries", payments)
	written, err := p.startStatement(ctx, in, "first")
	if err != nil {
		return err
	}
	if err := p.awaitKilled(ctx, first); err != nil {
		return err
	}
	if err := p.lookAtFolder(); err != nil {
		return err
	}
	if _, err := p.startWorker(ctx); err != nil {
		return err
	}
	path, err := p.readStatement(ctx, written)
	if err != nil {
		return err
	}
	p.tell("demo", WhatSetting, "takes the file away, and has it written once more, undisturbed")
	if err := os.Remove(path); err != nil {
		return err
	}
	if written, err = p.startStatement(ctx, in, "again"); err != nil {
		return err
	}
	_, err = p.readStatement(ctx, written)
	return err
}

// setUpByCents opens A and B, and gives A its money in many payments.
func (p *play) setUpByCents(ctx context.Context) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	for begin := 0; begin < payments; begin += workflows.GroupMax {
		var in workflows.GroupInput
		for i := range workflows.GroupMax {
			in.Transfers = append(in.Transfers, workflows.TransferInput{
				ID: fmt.Sprintf("%s-funds-%d", p.transferID, begin+i), From: LedgerSource + "/" + world, To: p.a, Amount: cent, Asset: asset,
			})
		}
		run, err := hasty{p.config.Temporal}.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: workflows.GroupWorkflowID(fmt.Sprintf("%s-%d", p.transferID, begin)), TaskQueue: workflows.TaskQueue,
		}, workflows.TransferGroupWorkflow, in)
		if err != nil {
			return fmt.Errorf("fund A: %w", err)
		}
		var result workflows.GroupResult
		if err := run.Get(ctx, &result); err != nil {
			return fmt.Errorf("fund A: %w", err)
		}
		for _, end := range result.Ends {
			if end.State != workflows.StateCompleted {
				return fmt.Errorf("fund A: %s%s", end.State, end.Error)
			}
		}
	}
	return p.begin(ctx)
}

// statementBefore is the statement of all that A had before it paid. That period is over, because something has come after it.
func (p *play) statementBefore(ctx context.Context) (workflows.StatementInput, error) {
	key := workflows.StepKey(workflows.TransferWorkflowID(p.transferID), workflows.StepWithdraw)
	list, err := ask[activities.OperationList](ctx, p, workflows.OperationListWorkflow, activities.OperationListInput{Keys: []string{key}})
	if err != nil {
		return workflows.StatementInput{}, err
	}
	if len(list.Operations) != 1 {
		return workflows.StatementInput{}, errors.New("the payment is not recorded")
	}
	to := list.Operations[0].At
	from := to.Add(-24 * time.Hour)
	return workflows.StatementInput{Account: p.a, From: &from, To: &to}, nil
}

func (p *play) startStatement(ctx context.Context, in workflows.StatementInput, name string) (client.WorkflowRun, error) {
	return hasty{p.config.Temporal}.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "statement/" + p.transferID + "/" + name, TaskQueue: workflows.TaskQueue,
	}, workflows.StatementWriteWorkflow, in)
}

// lookAtFolder notes what the killed worker has left: a part, under another name, and no statement.
func (p *play) lookAtFolder() error {
	var part int64
	whole := false
	err := filepath.WalkDir(p.statements, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if entry.Name()[0] != '.' {
			whole = true
			return nil
		}
		info, err := entry.Info()
		if err == nil {
			part = info.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	if whole {
		return errors.New("there is a statement, though its worker was killed while it wrote")
	}
	p.tell("folder", WhatBooks, "no statement; what was written of it, %d bytes, has another name", part)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.part = part
	return nil
}

// readStatement waits until a statement is written, and notes what is in the file.
func (p *play) readStatement(ctx context.Context, written client.WorkflowRun) (path string, err error) {
	_, stop := p.watch(ctx, written.GetID(), written.GetRunID())
	defer stop()
	var file activities.StatementFile
	if err := written.Get(ctx, &file); err != nil {
		return "", err
	}
	text, err := os.ReadFile(file.Path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	// The header, the opening and the closing balance are no entries.
	seen := seenFile{digest: hex.EncodeToString(sum[:]), entries: bytes.Count(text, []byte("\r\n")) - 3}
	p.tell("folder", WhatBooks, "%s: %d bytes, %d entries, SHA-256 %s…", filepath.Base(file.Path), len(text), seen.entries, seen.digest[:16])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.files = append(p.seen.files, seen)
	return file.Path, nil
}
