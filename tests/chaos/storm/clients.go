package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"payonce/starter/transfers"
	"payonce/tests/chaos/checker"
	"payonce/workflows"
)

const (
	// A client gives a call up after a while, and makes it again. One in four has little patience.
	hasteLeast, hasteMost       = 1500 * time.Millisecond, 4 * time.Second
	patienceLeast, patienceMost = 10 * time.Second, 30 * time.Second
	againLeast, againMost       = 20 * time.Millisecond, 250 * time.Millisecond
	// timeoutBlow bounds how long somebody tries to do something to a transfer that may have ended meanwhile.
	timeoutBlow = 4 * time.Second
)

// carryOut sends a transfer until everybody who sent it is told its end, while something is done to it.
func (r *round) carryOut(ctx context.Context, e *errand) {
	random := stream(r.config.Seed, e.request.ID)
	if pause(ctx, e.delay) != nil {
		return
	}
	if e.kind == KindPoison {
		r.record.struck(FaultPoison)
	}
	r.noteChoking(e.request)
	if e.prompt {
		r.record.mustBePrompt(e.request.ID, r.config.Prompt)
	}
	var all sync.WaitGroup
	if e.follow != nil {
		all.Go(func() { r.carryOut(ctx, e.follow) })
	}
	if e.blow != "" {
		blows := stream(r.config.Seed, e.request.ID+" blow")
		all.Go(func() {
			r.strikeWorkflow(ctx, blowOn{
				name: e.blow, after: e.blowAfter, workflowID: workflows.TransferWorkflowID(e.request.ID), trouble: e.request.ID,
			}, blows)
		})
	}
	if e.program {
		r.runProgram(ctx, e, random)
	}
	if e.copies > 1 {
		r.record.struck(FaultSendTwice)
	}
	for i := range e.copies {
		random := stream(r.config.Seed, fmt.Sprint(e.request.ID, i))
		k := pick(random, r.world.clients)
		all.Go(func() { r.insist(ctx, k, random, e.request, false) })
	}
	all.Wait()
	if anew := stream(r.config.Seed, e.request.ID+" anew"); anew.IntN(100) < r.config.Mix.Anew {
		r.makeAnew(ctx, e.request, anew)
	}
	// Temporal may have forgotten the transfer by now: then only the ledger can tell the two requests apart.
	requests := []*workflows.TransferInput{e.other}
	if e.forget && r.forget(ctx, e) {
		requests = []*workflows.TransferInput{&e.request, e.other}
		if e.otherFirst {
			slices.Reverse(requests)
		}
	}
	for _, in := range requests {
		if in == nil {
			continue
		}
		if in == e.other {
			r.record.struck(FaultOther)
		}
		r.insist(ctx, pick(random, r.world.clients), random, *in, false)
	}
}

// noteChoking notes a transfer on which the database chokes.
func (r *round) noteChoking(in workflows.TransferInput) {
	if touches(in, cursed) || touches(in, flaky) {
		r.record.trouble(in.ID, "the database chokes on it")
	}
}

// touches says whether a transfer takes from an account of a name, or gives to it.
func touches(in workflows.TransferInput, name string) bool {
	return strings.HasSuffix(in.From, "/"+name) || strings.HasSuffix(in.To, "/"+name)
}

// insist makes a call again and again until it is told an end.
func (r *round) insist(ctx context.Context, k *clerk, random *rand.Rand, in workflows.TransferInput, repeat bool) {
	for ctx.Err() == nil {
		patience := between(random, patienceLeast, patienceMost)
		if random.IntN(4) == 0 {
			patience = between(random, hasteLeast, hasteMost)
		}
		callCtx, cancel := context.WithTimeout(ctx, patience)
		call := checker.Call{Client: k.name, Request: requestOf(in), Called: time.Now(), Repeat: repeat}
		result, err := k.transfers.Transfer(callCtx, in)
		cancel()
		call.Returned = time.Now()
		call.Told, call.Note = told(in, result, err)
		r.record.call(call)
		if call.Told != "" {
			return
		}
		var pending *transfers.PendingError
		if errors.As(err, &pending) && pending.Status.Parking != nil {
			r.decide(ctx, k, in, pending.Status.Parking)
		}
		_ = pause(ctx, between(random, againLeast, againMost))
	}
}

// told is what a client makes of an answer: an end, or what it was told instead.
func told(in workflows.TransferInput, result workflows.TransferResult, err error) (end, note string) {
	switch {
	case errors.Is(err, transfers.ErrDifferentRequest):
		return checker.EndConflict, ""
	case err != nil:
		return "", err.Error()
	case result.ID != in.ID || result.From != in.From || result.To != in.To || result.Asset != in.Asset:
		// The checker knows no such end.
		return fmt.Sprintf("of another transfer: %+v", result), ""
	default:
		return string(result.State), result.Detail
	}
}

// decide decides about a parked transfer as an operator does: it makes room for what could not be taken back, and has the
// step tried again. Now and then it has the transfer taken back instead. The decision is sent twice, and is to be taken once.
func (r *round) decide(ctx context.Context, k *clerk, in workflows.TransferInput, p *workflows.Parking) {
	r.record.struck(FaultParked)
	r.record.trouble(in.ID, fmt.Sprintf("parked at %s", p.Step))
	ctx, cancel := context.WithTimeout(ctx, timeoutBlow)
	defer cancel()
	if p.Step == workflows.StepRefund {
		_ = r.liftCeiling(ctx, in.From)
	}
	decision := workflows.Decision{Action: workflows.ActionRetry, Parking: p.Number, Run: p.Run, By: "chaos"}
	switch n := stream(r.config.Seed, fmt.Sprint(in.ID, " decision ", p.Number)).IntN(100); {
	case n < r.config.Mix.Discard:
		decision.Action, decision.Reason, decision.SettledOutside = workflows.ActionDiscard, "settled by hand", true
		r.record.struck(FaultDiscard)
		r.record.discards(in.ID)
	case n >= 75:
		decision.Action = workflows.ActionCompensate
	}
	var all sync.WaitGroup
	for range 2 {
		// Refused, or not heard: the client will be told again that it is parked.
		all.Go(func() { _, _ = k.transfers.Decide(ctx, in.ID, decision) })
	}
	all.Wait()
}

// runProgram sends a transfer with the starter program, and kills it after a time.
func (r *round) runProgram(ctx context.Context, e *errand, random *rand.Rand) {
	if r.world.config.Starter == "" {
		return
	}
	k := pick(random, r.world.clients)
	in := e.request
	call := checker.Call{Client: "starter on " + k.name, Request: requestOf(in), Called: time.Now()}
	code, stdout := r.runStarter(ctx, k, nil, e.killAfter, "--output=json", "transfer", "--id="+in.ID, "--from="+in.From, "--to="+in.To,
		"--amount="+in.Amount, "--asset="+in.Asset, "--timeout=30s")
	call.Returned = time.Now()
	call.Told, call.Note = toldByProgram(code, stdout)
	r.record.call(call)
}

// runStarter runs the starter program as a client, and kills it after a time. The exit code is -1 if that came first.
func (r *round) runStarter(ctx context.Context, k *clerk, stdin io.Reader, killAfter time.Duration, args ...string) (code int, out []byte) {
	cmd := exec.CommandContext(ctx, r.world.config.Starter, args...)
	cmd.Env = append(basicEnv(), "TEMPORAL_ADDRESS="+k.link.address, "TEMPORAL_NAMESPACE="+r.world.namespace)
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout = stdin, &stdout
	cmd.SysProcAttr = childAttributes()
	// The kernel takes the thread that starts a process for its parent: it has to live as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		r.fail(fmt.Errorf("start the starter: %w", err))
		return -1, nil
	}
	timer := time.AfterFunc(killAfter, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	timer.Stop()
	code = cmd.ProcessState.ExitCode()
	if code == -1 {
		r.record.struck(FaultKillClient)
	}
	return code, stdout.Bytes()
}

// toldByProgram is what a run of the starter says, by its exit code and its document.
func toldByProgram(code int, stdout []byte) (end, note string) {
	const completed, rejected, failed, pending, different = 0, 3, 4, 5, 6
	switch code {
	case completed, rejected, failed, pending:
		var document struct {
			State string `json:"state"`
		}
		if err := json.Unmarshal(stdout, &document); err != nil {
			return fmt.Sprintf("exit code %d with %q", code, stdout), ""
		}
		if code == pending && document.State != checker.EndDiscarded {
			return "", string(stdout)
		}
		return document.State, ""
	case different:
		return checker.EndConflict, ""
	case -1:
		return "", "killed"
	default:
		return "", fmt.Sprintf("exit code %d: %s", code, stdout)
	}
}
