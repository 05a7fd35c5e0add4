package demo

import (
	"context"
	"errors"

	"go.temporal.io/sdk/client"

	"payonce/starter/transfers"
	"payonce/workflows"
)

// hasty is a Temporal client that gives the workflows that it starts the demo's time-out for workflow tasks.
type hasty struct{ client.Client }

func (h hasty) ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	options.WorkflowTaskTimeout = timeoutWorkflowTask
	return h.Client.ExecuteWorkflow(ctx, options, workflow, args...)
}

// request is what A sends in every scenario.
func (p *play) request() workflows.TransferInput {
	return workflows.TransferInput{ID: p.transferID, From: p.a, To: p.b, Amount: amount, Asset: asset}
}

// call is one call of a client.
type call struct{ result chan error }

// send has a client send a request; what it is told is told, and noted, when it comes.
func (p *play) send(ctx context.Context, who string, in workflows.TransferInput) *call {
	c := &call{result: make(chan error, 1)}
	go func() {
		handle, err := p.client.Start(ctx, in)
		if err != nil {
			c.result <- p.ended(who, workflows.TransferResult{}, false, err)
			return
		}
		var watched <-chan struct{}
		if !handle.Attached {
			var stop func()
			watched, stop = p.watch(ctx, workflows.TransferWorkflowID(in.ID), handle.RunID)
			defer stop()
		}
		result, err := handle.Wait(ctx)
		if err == nil && watched != nil {
			// What the history has comes before what the client is told.
			<-watched
		}
		c.result <- p.ended(who, result, handle.Attached, err)
	}()
	return c
}

// pay has the client send what the scenario is about.
func (p *play) pay(ctx context.Context) *call {
	in := p.request()
	p.tell("client", WhatClient, "sends %s from A to B, transfer %s", in.Amount, in.ID)
	return p.send(ctx, "client", in)
}

// wait waits for the call's end. The error is what is no end of a call.
func (c *call) wait() error { return <-c.result }

// ended notes what a call was told. Its error is what is no end of the call.
func (p *play) ended(who string, result workflows.TransferResult, attached bool, err error) error {
	e := end{told: string(result.State), attached: attached}
	switch {
	case errors.Is(err, transfers.ErrDifferentRequest):
		e.told = endDifferent
		p.tell(who, WhatClient, "is refused: %s", p.short(err.Error()))
	case err != nil:
		return err
	default:
		text := "is told: " + string(result.State)
		if attached {
			text += " (the transfer had been started before)"
		}
		if result.Code != "" {
			text += " (" + string(result.Code) + ")"
		}
		p.tell(who, WhatClient, "%s", text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.ends = append(p.seen.ends, e)
	return nil
}
