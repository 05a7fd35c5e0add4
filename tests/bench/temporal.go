package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"

	"payonce/starter/transfers"
	"payonce/workflows"
)

const (
	// callersAlone is at how many callers the throughput of a workflow for each transfer is measured. Latency is that of one.
	callersAlone = 32
	callersMost  = 1_024
)

// temporal measures transfers through Temporal: alone, against the template's shape, and in groups; with client and worker in
// one process, and apart.
func (b *bench) temporal(ctx context.Context) error {
	if err := b.world.emptyBooks(ctx); err != nil {
		return err
	}
	c, err := b.world.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	stop, err := b.world.startWorker(ctx, c, registerTemplate)
	if err != nil {
		return err
	}
	err = b.inOneProcess(ctx, c)
	stop()
	if err != nil {
		return err
	}
	apart, err := b.world.startWorkerApart(ctx, b.stderr)
	if err != nil {
		return err
	}
	template, err := b.world.startTemplateApart(ctx, b.stderr)
	if err != nil {
		return err
	}
	if err := b.apart(ctx, c); err != nil {
		return err
	}
	return errors.Join(apart.stop(), template.stop())
}

func (b *bench) inOneProcess(ctx context.Context, c client.Client) error {
	alone := transfers.New(c, transfers.Options{EagerStart: true})
	grouped := transfers.New(c, transfers.Options{EagerStart: true, Group: &transfers.GroupOptions{}})
	template := templateClient{c: c, queue: workflows.TaskQueue, eager: true}
	rounds := []*measurement{
		{name: "one process, alone", callers: callersAlone, call: transfer(alone)},
		{name: "one process, template", callers: callersAlone, call: template.transfer},
		{name: "one process, alone, one caller", callers: 1, call: transfer(alone)},
		{name: "one process, template, one caller", callers: 1, call: template.transfer},
		{name: "one process, grouped, 256 callers", callers: callersMany, call: transfer(grouped)},
		{name: "one process, grouped, 1,024 callers", callers: callersMost, call: transfer(grouped)},
		{name: "one process, floor", callers: callersAlone, call: template.floor},
	}
	if err := b.inTurn(ctx, rounds); err != nil {
		return err
	}
	r := &b.results.Temporal
	r.Single, r.Template = rounds[0].rate(), rounds[1].rate()
	r.SingleP50, r.TemplateP50 = rounds[2].p50(), rounds[3].p50()
	r.Grouped256, r.Grouped256P50, r.Grouped256P99 = rounds[4].rate(), rounds[4].p50(), rounds[4].p99()
	r.Grouped1024, r.Grouped1024P50 = rounds[5].rate(), rounds[5].p50()
	r.Floor = rounds[6].rate()
	events, err := b.countEvents(ctx, c, alone)
	if err != nil {
		return err
	}
	r.EventsPerTransfer = events
	return nil
}

func (b *bench) apart(ctx context.Context, c client.Client) error {
	alone := transfers.New(c, transfers.Options{})
	grouped := transfers.New(c, transfers.Options{Group: &transfers.GroupOptions{}})
	template := templateClient{c: c, queue: templateQueue}
	// The first answers say that the workers are there.
	for _, call := range []func(context.Context, int64) error{transfer(alone), template.transfer} {
		if err := call(ctx, 0); err != nil {
			return err
		}
	}
	rounds := []*measurement{
		{name: "apart, alone", callers: callersAlone, call: transfer(alone)},
		{name: "apart, template", callers: callersAlone, call: template.transfer},
		{name: "apart, alone, one caller", callers: 1, call: transfer(alone)},
		{name: "apart, template, one caller", callers: 1, call: template.transfer},
		{name: "apart, grouped, 256 callers", callers: callersMany, call: transfer(grouped)},
		{name: "apart, grouped, 1,024 callers", callers: callersMost, call: transfer(grouped)},
		{name: "apart, floor", callers: callersAlone, call: template.floor},
	}
	if err := b.inTurn(ctx, rounds); err != nil {
		return err
	}
	r := &b.results.Temporal
	r.SingleApart, r.TemplateApart = rounds[0].rate(), rounds[1].rate()
	r.SingleApartP50, r.TemplateApartP50 = rounds[2].p50(), rounds[3].p50()
	r.Grouped256Apart, r.Grouped256ApartP50 = rounds[4].rate(), rounds[4].p50()
	r.Grouped1024Apart = rounds[5].rate()
	r.FloorApart = rounds[6].rate()
	return nil
}

// measurement is one load that is measured several times, in turn with others.
type measurement struct {
	name    string
	callers int
	call    func(ctx context.Context, n int64) error

	got []measured
}

func (b *bench) inTurn(ctx context.Context, rounds []*measurement) error {
	for range b.runs {
		for _, m := range rounds {
			if !b.match.MatchString(m.name) {
				continue
			}
			got, err := load(ctx, m.callers, b.while, m.call)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			m.got = append(m.got, got)
		}
	}
	for _, m := range rounds {
		if len(m.got) == 0 {
			continue
		}
		b.say("temporal: %s: %.0f/s, p50 %.1f ms, p99 %.1f ms", m.name, m.rate(), m.p50(), m.p99())
	}
	return nil
}

func (m *measurement) of(value func(measured) float64) float64 {
	var all []float64
	for _, got := range m.got {
		all = append(all, value(got))
	}
	return median(all)
}

func (m *measurement) rate() float64 { return m.of(func(m measured) float64 { return m.PerSecond }) }

func (m *measurement) p50() float64 {
	return m.of(func(m measured) float64 { return milliseconds(m.P50) })
}

func (m *measurement) p99() float64 {
	return m.of(func(m measured) float64 { return milliseconds(m.P99) })
}

var transferNumber atomic.Int64

// transfer calls a client with a new transfer each time.
func transfer(c *transfers.Client) func(ctx context.Context, _ int64) error {
	return func(ctx context.Context, _ int64) error {
		result, err := c.Transfer(ctx, request(runName, transferNumber.Add(1)))
		if err == nil && result.State != workflows.StateCompleted {
			err = fmt.Errorf("%+v", result)
		}
		return err
	}
}

// runName makes the IDs of this run its own.
var runName = "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)

// templateClient starts workflows that are not payonce's, as the template's starter does.
type templateClient struct {
	c     client.Client
	queue string
	eager bool
}

func (t templateClient) transfer(ctx context.Context, _ int64) error {
	return t.run(ctx, templateWorkflow)
}

func (t templateClient) floor(ctx context.Context, _ int64) error { return t.run(ctx, floorWorkflow) }

func (t templateClient) run(ctx context.Context, name string) error {
	run, err := t.c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "template/" + uuid.NewString(), TaskQueue: t.queue, EnableEagerStart: t.eager,
	}, name, transferNumber.Add(1))
	if err != nil {
		return err
	}
	return run.Get(ctx, nil)
}

// countEvents is how many events the history of one transfer has, and in how many steps the server went from one state to the
// next.
func (b *bench) countEvents(ctx context.Context, c client.Client, alone *transfers.Client) (int64, error) {
	in := request(runName, transferNumber.Add(1))
	if _, err := alone.Transfer(ctx, in); err != nil {
		return 0, err
	}
	description, err := c.DescribeWorkflow(ctx, workflows.TransferWorkflowID(in.ID), "")
	if err != nil {
		return 0, err
	}
	info := description.RawResponse.GetWorkflowExecutionInfo()
	b.results.Temporal.StateTransitions = info.GetStateTransitionCount()
	return info.GetHistoryLength(), nil
}
