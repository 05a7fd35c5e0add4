// Package transfers is the Go client of payonce: it starts transfers, waits for their ends and asks where they stand. The
// command line is built on it, and services use it beside their own Temporal client:
//
//	payments := transfers.New(temporalClient, transfers.Options{})
//	result, err := payments.Transfer(ctx, workflows.TransferInput{
//		ID: "rent-1", From: "us/alice", To: "eu/bob", Amount: "10.00", Asset: "USD",
//	})
//
// The promise: however often Start or Transfer is called with one ID, by however many processes, the money moves once,
// and every caller learns the same end. A call with the ID of another request is an error that says so, never a silent
// success.
//
// What it does not promise: to make up an ID. Only the caller knows that two calls are one payment; the ID is chosen
// before the first attempt and kept for every retry. Nor that an error means that no money moves: what has been started
// goes on without its caller. Only a TransferResult tells the end.
package transfers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"payonce/ledger"
	"payonce/workflows"
)

// How often the server is asked: whether a transfer is parked, less often the longer it takes, and again after it did not
// answer.
const (
	intervalLookFirst = time.Second
	intervalLookMax   = 5 * time.Second
	intervalRetry     = 500 * time.Millisecond
)

// Options are the settings of a Client. The zero value is good.
type Options struct {
	// DataConverter is the one of the Temporal client, if it has one of its own: the requests of earlier starts are read
	// with it. Nil is the SDK's default.
	DataConverter converter.DataConverter
	// EagerStart has a worker in the same process run a new transfer at once, without a way through the task queue. That
	// worker must have been made with the same Temporal client.
	EagerStart bool
	// Group has concurrent calls of Transfer share workflows; nil: each transfer is a workflow of its own.
	Group *GroupOptions
}

// Client starts transfers. It may be used by several goroutines at once, and needs no closing of its own.
type Client struct {
	temporal  client.Client
	converter converter.DataConverter
	eager     bool
	groups    *gatherer // nil: none
}

// New returns a Client that uses c, which stays the caller's to close.
func New(c client.Client, options Options) *Client {
	if options.DataConverter == nil {
		options.DataConverter = converter.GetDefaultDataConverter()
	}
	made := &Client{temporal: c, converter: options.DataConverter, eager: options.EagerStart}
	if options.Group != nil {
		made.groups = newGatherer(made, *options.Group)
	}
	return made
}

// Handle is a transfer that was started, now or before. It is for one goroutine at a time.
type Handle struct {
	ID    string
	RunID string // of the workflow's run
	// Attached: the transfer had been started before, with the same request.
	Attached bool

	client  *Client
	request workflows.TransferInput
}

// Start starts a transfer, or attaches to the one that was started with the same ID before, running or ended. It does not
// wait for the end. While the server can't be reached it tries again until the context ends.
//
// Errors: *ledger.InvalidError for a malformed request, before anything is sent. ErrDifferentRequest if the ID is another
// request's; nothing moved. *PendingError if the context ended first: the transfer may have been started or not, and the
// same call tells.
//
// A transfer whose workflow failed, was terminated or timed out is started again, and goes on from where it stopped.
func (c *Client) Start(ctx context.Context, in workflows.TransferInput) (*Handle, error) {
	parsed, err := workflows.ParseTransfer(in)
	if err != nil {
		return nil, err
	}
	for {
		handle, err := c.startOnce(ctx, in, parsed)
		switch {
		case err == nil:
			return handle, nil
		case ctx.Err() != nil && mayPass(err):
			return nil, &PendingError{Status: unknownStatus(in, "Temporal did not answer: the transfer may or may not have been started"), Cause: context.Cause(ctx)}
		case !mayPass(err):
			return nil, err
		}
		// When the context ends, the next start fails at once, and its error is told above.
		_ = pause(ctx, intervalRetry)
	}
}

func (c *Client) startOnce(ctx context.Context, in workflows.TransferInput, parsed workflows.ParsedTransfer) (*Handle, error) {
	handle := &Handle{ID: in.ID, client: c, request: in}
	var err error
	handle.RunID, handle.Attached, err = c.startWorkflow(ctx, start{
		id: in.ID, workflowID: workflows.TransferWorkflowID(in.ID), workflow: workflows.TransferWorkflow, summary: parsed.String(), input: in,
	})
	if err == nil && handle.Attached {
		err = c.mustBeSame(ctx, in, handle.RunID)
	}
	return handle, err
}

// start is a transfer or a payout to start.
type start struct {
	id         string // the client's
	workflowID string
	workflow   string // its type
	summary    string
	input      any
}

// startWorkflow starts a workflow, or names the run that was started with its ID before.
func (c *Client) startWorkflow(ctx context.Context, s start) (runID string, attached bool, err error) {
	run, err := c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:        s.workflowID,
		TaskQueue: workflows.TaskQueue,
		// Both policies and the error together tell a new transfer from one that is running and from one that has ended:
		// the SDK by itself returns the earlier run without a word.
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		EnableEagerStart:                         c.eager,
		StaticSummary:                            s.summary,
		// No search attributes: the workflow writes them with its end, or when it takes longer than a moment. Here they made
		// transfers slower, and every other client would have to set them too.
		// No time-out and no retry policy for the workflow: both would skip the way back of money that has left.
	}, s.workflow, s.input)
	if err == nil {
		return run.GetRunID(), false, nil
	}
	if started, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		return started.RunId, true, nil
	}
	return "", false, err
}

// mustBeSame compares a request with the one that a run was started with.
func (c *Client) mustBeSame(ctx context.Context, in workflows.TransferInput, runID string) error {
	known, err := c.requestOf(ctx, in.ID, runID)
	if isNotFound(err) {
		// The run was deleted since the server named it.
		return errRunGone
	}
	if err != nil {
		return err
	}
	if !in.SameRequest(known) {
		return &DifferentRequestError{Asked: in, Known: &known}
	}
	return nil
}

// Request returns the request that the transfer was started with, as long as Temporal keeps its history. The error is
// ErrUnknown if it does not.
func (c *Client) Request(ctx context.Context, id string) (workflows.TransferInput, error) {
	in, err := c.requestOf(ctx, id, "")
	if isNotFound(err) {
		return in, &UnknownError{ID: id}
	}
	return in, err
}

// requestOf reads the request from the first event of a run's history, where nobody can change it.
func (c *Client) requestOf(ctx context.Context, id, runID string) (workflows.TransferInput, error) {
	return inputOf[workflows.TransferInput](ctx, c, workflows.TransferWorkflow, workflows.TransferWorkflowID(id), runID)
}

func inputOf[In any](ctx context.Context, c *Client, workflow, workflowID, runID string) (In, error) {
	var in In
	history := c.temporal.GetWorkflowHistory(ctx, workflowID, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	event, err := history.Next()
	if err != nil {
		return in, err
	}
	start := event.GetWorkflowExecutionStartedEventAttributes()
	if name := start.GetWorkflowType().GetName(); name != workflow {
		return in, fmt.Errorf("the workflow %q is a %s, not a %s", workflowID, name, workflow)
	}
	if len(start.GetInput().GetPayloads()) != 1 {
		return in, fmt.Errorf("the workflow %q was not started with one input", workflowID)
	}
	if err := c.converter.FromPayloads(start.GetInput(), &in); err != nil {
		return in, fmt.Errorf("read the request of the workflow %q: %w", workflowID, err)
	}
	return in, nil
}

// Transfer starts a transfer or attaches to it, and waits for its end: Start and Wait in one call, with the errors of
// both. It may be called again with the same request at any time, and then returns the same result. Concurrent calls share
// workflows if Options.Group says so.
func (c *Client) Transfer(ctx context.Context, in workflows.TransferInput) (workflows.TransferResult, error) {
	if c.groups == nil {
		return c.transferAlone(ctx, in)
	}
	parsed, err := workflows.ParseTransfer(in)
	if err != nil {
		return workflows.TransferResult{}, err
	}
	if parsed.From.Ledger != parsed.To.Ledger || len(in.Notify) > 0 {
		return c.transferAlone(ctx, in)
	}
	return c.groups.transfer(ctx, in, parsed)
}

func (c *Client) transferAlone(ctx context.Context, in workflows.TransferInput) (workflows.TransferResult, error) {
	handle, err := c.Start(ctx, in)
	if err != nil {
		return workflows.TransferResult{}, err
	}
	return handle.Wait(ctx)
}

// Decide tells a parked transfer what a person has decided, and returns where it stands once it is taken up. A repeat of
// the same decision about the same parking is carried out once. A decision that the transfer refuses, because it is not
// parked or no longer where the decision thinks, or because somebody else has decided, is an error of type
// workflows.ErrorDecisionRefused. ErrUnknown if there is no such transfer, ErrEnded if its workflow is closed.
func (c *Client) Decide(ctx context.Context, id string, decision workflows.Decision) (workflows.TransferStatus, error) {
	var status workflows.TransferStatus
	if err := checkID(id); err != nil {
		return status, err
	}
	err := c.decide(ctx, workflows.TransferWorkflowID(id), decision, &status)
	return status, c.explainGone(ctx, transferName(id), err)
}

func (c *Client) decide(ctx context.Context, workflowID string, decision workflows.Decision, status any) error {
	handle, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID:   workflowID,
		UpdateName:   workflows.DecideUpdate,
		UpdateID:     decision.UpdateID(),
		Args:         []any{decision},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, status)
	}
	return err
}

// DecideEnded decides about a dead letter whose transfer has ended, and returns what came of it. A repeat of the same
// decision is carried out once; one that comes too late, or is about another version of the letter, is an error of type
// workflows.ErrorDecisionRefused that says who decided. When the context ends first, the decision stands, and is carried
// out when the ledger can be reached: the same call tells. ErrDifferentRequest if the ID of the transfer that was to be made
// anew is that of another request, which nobody but its client has chosen; nothing moved.
func (c *Client) DecideEnded(ctx context.Context, decision workflows.EndedDecision) (workflows.EndedDecided, error) {
	var decided workflows.EndedDecided
	if decision.Action == workflows.ActionRetry && decision.Notify == nil {
		// As long as Temporal keeps the old request; no ledger does.
		if in, err := c.Request(ctx, workflows.TransferOf(decision.Key)); err == nil {
			decision.Notify = in.Notify
		}
	}
	run, err := c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       decision.WorkflowID(),
		TaskQueue:                workflows.TaskQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            string(decision.Action) + " " + decision.Key,
	}, workflows.DeadLetterDecideWorkflow, decision)
	if err == nil {
		err = run.Get(ctx, &decided)
	}
	if err != nil || decided.Transfer == "" {
		return decided, err
	}
	letter := &decided.Letter
	return decided, c.mustBeSame(ctx, workflows.TransferInput{
		ID: decided.Transfer, From: letter.From, To: letter.To, Amount: letter.Amount, Asset: letter.Asset, Retries: letter.Transfer,
	}, "")
}

// Cancel asks a transfer to stop. It returns when the server has taken note; whether that was in time, its end tells:
// money that has left comes back or arrives, and a transfer that completes does so in spite of it. ErrUnknown if there is
// no such transfer, ErrEnded if it has ended.
func (c *Client) Cancel(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return c.cancel(ctx, transferName(id))
}

// name is what a transfer or a payout is called.
type name struct{ what, id, workflowID string }

func transferName(id string) name {
	return name{what: "transfer", id: id, workflowID: workflows.TransferWorkflowID(id)}
}

func payoutName(id string) name {
	return name{what: "payout", id: id, workflowID: workflows.PayoutWorkflowID(id)}
}

func (c *Client) cancel(ctx context.Context, n name) error {
	// The server takes it for a success to cancel what has ended.
	description, err := c.temporal.DescribeWorkflow(ctx, n.workflowID, "")
	if err == nil && description.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return fmt.Errorf("%s %q: %w", n.what, n.id, ErrEnded)
	}
	if err == nil {
		err = c.temporal.CancelWorkflow(ctx, n.workflowID, "")
	}
	return c.explainGone(ctx, n, err)
}

// explainGone tells what has ended from what there never was: the server's error is the same.
func (c *Client) explainGone(ctx context.Context, n name, err error) error {
	if !isNotFound(err) {
		return err
	}
	if _, err := c.temporal.DescribeWorkflow(ctx, n.workflowID, ""); err == nil {
		return fmt.Errorf("%s %q: %w", n.what, n.id, ErrEnded)
	}
	return &UnknownError{What: n.what, ID: n.id}
}

func checkID(id string) error { return ledger.CheckID("id", id, workflows.TransferIDBytesMax) }

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
