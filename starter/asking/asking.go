// Package asking has a worker answer a question about its ledgers: it runs one of the short workflows of the contract
// (AccountShow, OperationList, …) and returns the result. So the one who asks needs no database password.
//
// It promises that asking is safe to repeat: every question is a read or an absolute write (level 1). It does not promise
// that an answer that did not come in time means that nothing was done.
package asking

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"payonce/starter/diagnosis"
	"payonce/workflows"
)

const (
	timeoutDefault = 30 * time.Second
	// timeoutGrace is how long a question outlives the one who asks, who looks meanwhile why there was no answer.
	timeoutGrace = 10 * time.Second
	// pauseRepeat is before a question is asked again whose start had no answer.
	pauseRepeat = 100 * time.Millisecond
	// timeoutDiagnosis bounds that look.
	timeoutDiagnosis = 3 * time.Second
)

// Question is what is asked.
type Question struct {
	Workflow string // its type: workflows.AccountShowWorkflow
	Name     string // for the workflow's ID and summary: "account-show/us/alice"
	Input    any
	// Observe, if it is set, is called when the question is asked, with the workflow's ID, and what it returns when the
	// wait is over.
	Observe func(ctx context.Context, workflowID string) (stop func())
}

// UnansweredError says that no answer came before the context ended, and why that may be.
type UnansweredError struct {
	Name    string
	Reasons []string
	Cause   error // the context's, or the server's
}

func (e *UnansweredError) Error() string {
	text := e.Name + ": no answer"
	if len(e.Reasons) > 0 {
		return text + ": " + strings.Join(e.Reasons, "; ")
	}
	return fmt.Sprintf("%s: %v", text, e.Cause)
}

func (e *UnansweredError) Unwrap() error { return e.Cause }

// Run asks a question and waits for the answer until the context ends, or half a minute if it has no deadline. A
// question that failed is an error with a *temporal.ApplicationError in it; its type is one of those of package
// activities. No answer is an *UnansweredError.
func Run[Answer any](ctx context.Context, c client.Client, q Question) (Answer, error) {
	var answer Answer
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeoutDefault)
		defer cancel()
	}
	deadline, _ := ctx.Deadline()
	id := q.Name + "/" + uuid.NewString()
	run, err := start(ctx, c, client.StartWorkflowOptions{
		ID:                       id,
		TaskQueue:                workflows.TaskQueue,
		WorkflowExecutionTimeout: (time.Until(deadline) + timeoutGrace).Round(time.Second),
		StaticSummary:            q.Name,
	}, q)
	if err == nil {
		err = wait(ctx, run, q, &answer)
	}
	if err != nil && (ctx.Err() != nil || isTimeout(err)) {
		err = unanswered(ctx, c, q.Name, id, err)
	}
	return answer, err
}

// isTimeout says whether nobody answered in time: the server can notice that before our context does, and the workflow
// has a time-out of its own.
func isTimeout(err error) bool {
	var deadline *serviceerror.DeadlineExceeded
	var timeout *temporal.TimeoutError
	return errors.As(err, &deadline) || errors.As(err, &timeout) || errors.Is(err, context.DeadlineExceeded)
}

// start asks the question. The SDK gives up a call after 10 s, also when there is more time: so it is asked again then, under
// the same ID, and one that did arrive is the one that is waited for.
func start(ctx context.Context, c client.Client, options client.StartWorkflowOptions, q Question) (client.WorkflowRun, error) {
	for {
		run, err := c.ExecuteWorkflow(ctx, options, q.Workflow, q.Input)
		if err == nil || !isTimeout(err) {
			return run, err
		}
		// Somebody between may say so at once.
		select {
		case <-time.After(pauseRepeat):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func wait(ctx context.Context, run client.WorkflowRun, q Question, answer any) error {
	if q.Observe != nil {
		stop := q.Observe(ctx, run.GetID())
		defer stop()
	}
	return run.Get(ctx, answer)
}

// unanswered looks why there was no answer, and withdraws the question: nobody waits for it any more.
func unanswered(ctx context.Context, c client.Client, name, workflowID string, cause error) error {
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutDiagnosis)
	defer cancel()
	reasons := diagnosis.Workflow(ctx, c, workflowID, "")
	// Its own time-out ends it if this does not.
	_ = c.TerminateWorkflow(ctx, workflowID, "", "the caller does not wait any longer")
	return &UnansweredError{Name: name, Reasons: reasons, Cause: cause}
}
