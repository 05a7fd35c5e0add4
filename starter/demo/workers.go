package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"payonce/internal/faultworker/fault"
	"payonce/internal/faultworker/process"
)

// actor is a worker process with a name in the timeline.
type actor struct {
	*process.Worker

	name string
	log  tail
}

// startWorker starts a worker with faults, and returns when it takes work.
func (p *play) startWorker(ctx context.Context, faults ...fault.Fault) (*actor, error) {
	w := &actor{name: fmt.Sprintf("worker %d", len(p.workers)+1)}
	options := quick()
	if p.scenario.options != nil {
		p.scenario.options(&options)
	}
	env := slices.Concat(p.config.Env, p.env)
	if p.rail != nil {
		env = append(env, p.rail.env...)
	}
	if p.scenario.want.keyless {
		env = append(env, process.EnvNaiveDatabaseURL+"="+p.config.NaiveDatabaseURL)
	}
	if p.statements != "" {
		env = append(env, "PAYONCE_STATEMENTS_DIR="+p.statements)
	}
	var err error
	w.Worker, err = process.Start(process.Config{
		Binary: p.config.FaultWorker, Env: env, Faults: faults, Options: options, Log: &w.log,
		OnEvent: func(e fault.Event) { p.heard(w.name, e) },
	})
	if err != nil {
		return nil, err
	}
	p.workers = append(p.workers, w)
	if err := w.AwaitReady(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	p.tell("demo", WhatSetting, "%s (process %d) is ready", w.name, w.PID)
	return w, nil
}

// awaitKilled waits until a worker is gone, by a signal of its own.
func (p *play) awaitKilled(ctx context.Context, w *actor) error {
	state, err := w.AwaitEnd(ctx)
	if err != nil {
		return fmt.Errorf("%s was not killed: %w", w.name, err)
	}
	p.tell("demo", WhatSetting, "%s (process %d) is gone: %s", w.name, w.PID, state)
	if state != "signal: killed" {
		return fmt.Errorf("%s ended otherwise: %s", w.name, state)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.killed = append(p.seen.killed, w.PID)
	return nil
}

// stopWorkers ends all workers, frozen or not.
func (p *play) stopWorkers(ctx context.Context) error {
	var errs []error
	for _, w := range p.workers {
		errs = append(errs, w.Stop(ctx))
	}
	return errors.Join(errs...)
}

// showLogs writes the last lines of the workers' logs.
func (p *play) showLogs() {
	for _, w := range p.workers {
		if text := w.log.String(); text != "" {
			fmt.Fprintf(p.config.Log, "the last lines of the log of %s, in %s:\n%s\n", w.name, p.scenario.name, text)
		}
	}
}
