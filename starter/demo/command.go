package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"payonce/workflows"
)

// exitDifferent is the command line's exit code for an ID that belongs to a different request.
const exitDifferent = 6

// command has a client send a request with the command line, as a process of its own, and notes what it is told.
func (p *play) command(ctx context.Context, in workflows.TransferInput) error {
	args := []string{"transfer", "--id", in.ID, "--from", in.From, "--to", in.To, "--amount", in.Amount, "--asset", in.Asset}
	p.tell("client", WhatClient, "$ starter %s", p.short(strings.Join(args, " ")))
	command := exec.CommandContext(ctx, p.config.Starter, append(args, "--output", "json")...)
	// Like every client, it needs no database password.
	command.Env = slices.DeleteFunc(slices.Clone(p.config.Env), func(setting string) bool {
		return strings.HasPrefix(setting, "LEDGERS=") || strings.HasPrefix(setting, "MIGRATE_LEDGERS=")
	})
	command.WaitDelay = time.Second
	stdout, err := command.Output()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	var document struct {
		State workflows.State `json:"state"`
		Error string          `json:"error"`
	}
	if err := json.Unmarshal(stdout, &document); err != nil {
		return fmt.Errorf("starter transfer did not write JSON: %w", err)
	}
	code := command.ProcessState.ExitCode()
	p.tell("client", WhatClient, "exit code %d: %s", code, p.short(string(document.State)+document.Error))
	e := end{told: string(document.State)}
	switch {
	case code == exitDifferent:
		e.told = endDifferent
	case document.Error != "":
		e.told = fmt.Sprintf("exit code %d", code)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.ends = append(p.seen.ends, e)
	return nil
}
