package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/internal/httprail"
	"payonce/ledger"
	"payonce/workflows"
)

// timeoutHint bounds the passing on of a callback; its rail sends it again otherwise.
const timeoutHint = 10 * time.Second

// callback takes a rail's word that something has become of a payout, and has the rail itself asked what. The answer is 204
// when that is certain to happen. Whatever is not signed by the rail is answered with 401, and what is no callback with 400;
// a payout that nobody knows with 404. 503 asks for it again.
func (s *server) callback(w http.ResponseWriter, r *http.Request) {
	rail := s.rail(r.PathValue("name"))
	if rail == nil {
		http.Error(w, "no such rail", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, httprail.CallbackBytesMax+1))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	callback, err := rail.ReadCallback(r.Header, body)
	if err == nil {
		err = ledger.CheckID("reference", callback.Reference, workflows.TransferIDBytesMax)
	}
	switch {
	case errors.Is(err, httprail.ErrCallbackRefused):
		s.log.Warn("a callback was refused", "rail", r.PathValue("name"), "from", r.RemoteAddr, "error", err)
		http.Error(w, "the signature is missing, wrong or too old", http.StatusUnauthorized)
		return
	case err != nil:
		s.log.Warn("a callback can't be read", "rail", r.PathValue("name"), "error", err)
		http.Error(w, "no callback of the contract", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeoutHint)
	defer cancel()
	err = s.hint(ctx, callback.Reference, callback.EventID)
	application, failed := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case failed && application.Type() == activities.ErrorOperationUnknown:
		s.log.Warn("a callback is about a payout that no ledger here knows", "rail", r.PathValue("name"), "reference", callback.Reference)
		http.Error(w, "no such payout", http.StatusNotFound)
	default:
		s.log.Error("a callback could not be passed on", "rail", r.PathValue("name"), "reference", callback.Reference, "error", err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}

var errNotConnected = errors.New("the worker has not reached Temporal yet")

// hint has a payout's rail asked. One that is open is told directly; any other costs a short workflow.
func (s *server) hint(ctx context.Context, payout, eventID string) error {
	temporal := s.temporal.Load()
	if temporal == nil {
		return errNotConnected
	}
	c := *temporal
	err := c.SignalWorkflow(ctx, workflows.PayoutWorkflowID(payout), "", workflows.PayoutHintSignal, nil)
	if _, closed := errors.AsType[*serviceerror.NotFound](err); !closed {
		return err
	}
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       "payout-hint/" + payout + "/" + eventID,
		TaskQueue:                workflows.TaskQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowExecutionTimeout: time.Minute,
		StaticSummary:            "a callback about " + payout,
	}, workflows.PayoutHintWorkflow, workflows.PayoutHintInput{ID: payout})
	if err != nil {
		return err
	}
	return run.Get(ctx, nil)
}
