package transfers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"payonce/workflows"
)

const (
	// chunksAtOnce is how many chunks of a batch are under way at once: while one is posted, others are on their way.
	chunksAtOnce = 4
	// timeoutQuery bounds a query, which is asked again.
	timeoutQuery = 5 * time.Second
)

// Rows are what a batch consists of. *batch.File of package starter/batch is one.
type Rows interface {
	// Batch says what the batch is. Its ID, and what each chunk consists of, follow from the rows alone.
	Batch() workflows.BatchInput
	// Divide divides the rows into chunks otherwise: as the batch was begun.
	Divide(rows, bytes int)
	// Chunk returns the rows of a chunk, from 0. It may be called by several goroutines at once.
	Chunk(n int) ([]workflows.TransferInput, error)
}

// BatchStatus is where a batch stands.
type BatchStatus struct {
	workflows.BatchStatus

	// Result is set when the batch has ended.
	Result *workflows.BatchResult
	// Closed is set when its workflow was closed without an end. The same rows, submitted again, go on from there.
	Closed enums.WorkflowExecutionStatus
	// Going are rows that have not ended and were tried, some of them if there are many.
	Going []Status
}

// Counts are what has become of the rows so far.
func (s *BatchStatus) Counts() workflows.BatchCounts {
	if s.Result != nil {
		return s.Result.Counts
	}
	return s.Progress.Now()
}

// BatchUnknownError says that Temporal knows no batch with the ID. It is ErrUnknown.
type BatchUnknownError struct{ ID string }

func (e *BatchUnknownError) Error() string {
	return fmt.Sprintf("there is no batch %q: either there never was, or Temporal has forgotten it; to submit its file again is safe, and tells each row's end", e.ID)
}

// Is makes errors.Is(err, ErrUnknown) true.
func (e *BatchUnknownError) Is(target error) bool { return target == ErrUnknown }

// BatchPendingError says that the wait is over and the batch is not. The same call again goes on from there.
type BatchPendingError struct {
	ID string
	// Sent: all rows are with Temporal. Otherwise the rest is sent by the same call.
	Sent bool
	// Cause is why the wait is over: the context's error, or nil when all rows that have not ended wait for a person.
	Cause error
}

func (e *BatchPendingError) Error() string {
	switch {
	case !e.Sent:
		return fmt.Sprintf("batch %s is not sent to its end; what was sent goes on by itself: submit the same rows again", e.ID)
	case e.Cause == nil:
		return fmt.Sprintf("all rows of batch %s have ended, but those that wait for a person", e.ID)
	default:
		return fmt.Sprintf("batch %s has not ended; it goes on by itself", e.ID)
	}
}

func (e *BatchPendingError) Unwrap() error { return e.Cause }

// BatchOptions say how a batch is submitted.
type BatchOptions struct {
	// NoWait returns when all rows are with Temporal.
	NoWait bool
	// Attached, if it is set, is told whether the batch had been submitted before.
	Attached func(attached bool)
	// Tried, if it is set, is told how many rows have been tried, whenever that changes.
	Tried func(rows int)
}

// SubmitBatch has rows carried out, once however often and by how many they are submitted, and waits for the ends of all of
// them. Only some chunks are on their way at once. It tells where the batch stands also with a *BatchPendingError.
func (c *Client) SubmitBatch(ctx context.Context, rows Rows, options BatchOptions) (BatchStatus, error) {
	s := &submission{client: c, rows: rows, options: options, batch: rows.Batch(), told: make(chan struct{})}
	if options.Attached == nil {
		s.options.Attached = func(bool) {}
	}
	if options.Tried == nil {
		s.options.Tried = func(int) {}
	}
	status, sent, err := s.submit(ctx)
	if err == nil || status.Result != nil {
		return status, err
	}
	if ctx.Err() == nil || !mayPass(err) {
		return status, err
	}
	lookCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutLook)
	defer cancel()
	if now, errLook := c.BatchStatus(lookCtx, s.batch.ID); errLook == nil {
		status = now
	}
	return status, &BatchPendingError{ID: s.batch.ID, Sent: sent, Cause: context.Cause(ctx)}
}

// submission is one call of SubmitBatch.
type submission struct {
	client  *Client
	rows    Rows
	options BatchOptions
	batch   workflows.BatchInput

	mu       sync.Mutex
	progress workflows.BatchProgress
	told     chan struct{} // closed, and made anew, when progress has changed
	tried    int           // rows
}

func (s *submission) submit(ctx context.Context) (status BatchStatus, sent bool, err error) {
	status.Batch = s.batch
	attached, err := s.start(ctx)
	if err != nil {
		return status, false, err
	}
	s.options.Attached(attached)
	if attached {
		if status, err = s.client.batchStatus(ctx, s.batch.ID); err != nil || status.Result != nil {
			return status, true, err
		}
		s.rows.Divide(status.Batch.ChunkRows, status.Batch.ChunkBytes)
		s.batch, s.progress = s.rows.Batch(), status.Progress
		if s.batch.Chunks != status.Batch.Chunks || s.batch.Rows != status.Batch.Rows {
			return status, false, fmt.Errorf("batch %s was begun with %d rows in %d chunks, and not %d in %d: its ID is not that of its rows",
				s.batch.ID, status.Batch.Rows, status.Batch.Chunks, s.batch.Rows, s.batch.Chunks)
		}
	}
	watchCtx, stop := context.WithCancel(ctx)
	defer stop()
	go s.watch(watchCtx)
	if err := s.sendAll(ctx); err != nil {
		return status, false, err
	}
	if s.options.NoWait {
		status, err = s.client.BatchStatus(ctx, s.batch.ID)
		return status, true, err
	}
	status, err = s.await(ctx)
	return status, true, err
}

// start starts the batch's workflow, or says that it is there.
func (s *submission) start(ctx context.Context) (attached bool, err error) {
	for {
		_, err := s.client.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID:                                       workflows.BatchWorkflowID(s.batch.ID),
			TaskQueue:                                workflows.TaskQueue,
			WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
			WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
			WorkflowExecutionErrorWhenAlreadyStarted: true,
			StaticSummary:                            fmt.Sprintf("%d rows", s.batch.Rows),
		}, workflows.BatchWorkflow, s.batch)
		var started *serviceerror.WorkflowExecutionAlreadyStarted
		switch {
		case err == nil:
			return false, nil
		case errors.As(err, &started):
			return true, nil
		case ctx.Err() != nil || !mayPass(err):
			return false, err
		}
		if err := pause(ctx, intervalRetry); err != nil {
			return false, err
		}
	}
}

// sendAll starts the chunks, some at once, and returns when each has been tried.
func (s *submission) sendAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var sending sync.WaitGroup
	for range min(chunksAtOnce, s.batch.Chunks) {
		sending.Go(func() {
			for n := range next {
				if err := s.send(ctx, n); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for n := range s.batch.Chunks {
		select {
		case next <- n:
		case <-ctx.Done():
		}
	}
	close(next)
	sending.Wait()
	return context.Cause(ctx)
}

// send has a chunk carried out, and returns when all of its rows have been tried.
func (s *submission) send(ctx context.Context, n int) error {
	transfers, err := s.rows.Chunk(n)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			s.count(len(transfers))
		}
	}()
	if s.wasTried(n) {
		return nil
	}
	in := workflows.BatchChunkInput{Batch: s.batch.ID, Chunk: n, Transfers: transfers}
	reuse := enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
	for {
		var ended bool
		ended, err = s.sendOnce(ctx, in, reuse)
		var execution *temporal.WorkflowExecutionError
		var application *temporal.ApplicationError
		switch {
		case err == nil && !ended:
			return nil
		case err == nil:
			// It had ended before. Its batch has been told, unless there was no batch then.
			var status BatchStatus
			if status, err = s.client.batchStatus(ctx, s.batch.ID); err != nil {
				return err
			}
			if status.Result != nil || status.Progress.HasEnded(n) {
				return nil
			}
			reuse = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
			continue
		case errors.As(err, &execution) && !errors.As(err, &application):
			// Somebody has terminated it. The batch asks for it, so it goes on from where it stopped.
		case ctx.Err() != nil || !mayPass(err):
			return err
		}
		if err = pause(ctx, intervalRetry); err != nil {
			return err
		}
	}
}

// sendOnce starts a chunk, or attaches to it, and waits until it has ended or all of its rows have been tried. ended: it was there
// already, and had ended.
func (s *submission) sendOnce(ctx context.Context, in workflows.BatchChunkInput, reuse enums.WorkflowIdReusePolicy) (ended bool, err error) {
	run, err := s.client.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       workflows.BatchChunkWorkflowID(in.Batch, in.Chunk),
		TaskQueue:                                workflows.TaskQueue,
		WorkflowIDReusePolicy:                    reuse,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		EnableEagerStart:                         s.client.eager,
		StaticSummary:                            fmt.Sprintf("%d rows", len(in.Transfers)),
	}, workflows.BatchChunkWorkflow, in)
	if _, started := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); started {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- run.Get(waitCtx, nil) }()
	for {
		s.mu.Lock()
		tried, told := s.progress.Tried(in.Chunk), s.told
		s.mu.Unlock()
		if tried {
			return false, nil
		}
		select {
		case err := <-closed:
			return false, err
		case <-told:
		}
	}
}

func (s *submission) wasTried(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress.Tried(n)
}

func (s *submission) count(rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried += rows
	s.options.Tried(s.tried)
}

// watch asks the batch now and then which chunks have been tried.
func (s *submission) watch(ctx context.Context) {
	for pause(ctx, intervalLookFirst) == nil {
		progress, err := s.client.queryBatch(ctx, s.batch.ID)
		if err != nil {
			// It is asked again; chunks that end tell themselves.
			continue
		}
		s.mu.Lock()
		s.progress = progress.Progress
		close(s.told)
		s.told = make(chan struct{})
		s.mu.Unlock()
	}
}

// await waits for the end of the batch, all of whose rows have been tried; or until those that are left wait for a person.
func (s *submission) await(ctx context.Context) (BatchStatus, error) {
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := make(chan error, 1)
	wait := func() {
		closed <- s.client.temporal.GetWorkflow(waitCtx, workflows.BatchWorkflowID(s.batch.ID), "").Get(waitCtx, nil)
	}
	go wait()
	ticks := time.NewTicker(intervalLookMax)
	defer ticks.Stop()
	for {
		select {
		case err := <-closed:
			if err != nil && mayPass(err) && ctx.Err() == nil {
				if err := pause(ctx, intervalRetry); err != nil {
					return BatchStatus{}, err
				}
				go wait()
				continue
			}
			if ctx.Err() != nil {
				return BatchStatus{}, ctx.Err()
			}
			status, err := s.client.batchStatus(ctx, s.batch.ID)
			if err == nil && status.Result == nil {
				err = &BatchPendingError{ID: s.batch.ID, Sent: true, Cause: fmt.Errorf("its workflow is %s", status.Closed)}
			}
			return status, err
		case <-ticks.C:
			status, err := s.client.BatchStatus(ctx, s.batch.ID)
			if err == nil && status.waitsForPeople() {
				return status, &BatchPendingError{ID: s.batch.ID, Sent: true}
			}
		}
	}
}

// waitsForPeople says whether all rows that have not ended are parked.
func (s *BatchStatus) waitsForPeople() bool {
	if s.Result != nil || s.Counts().Rows != s.Batch.Rows || len(s.Going) != s.Counts().Running {
		return false
	}
	for i := range s.Going {
		if s.Going[i].State != workflows.StateParked {
			return false
		}
	}
	return len(s.Going) > 0
}

// BatchStatus tells where a batch stands, and where its rows do that have been tried and have not ended. ErrUnknown if Temporal
// knows no such batch.
func (c *Client) BatchStatus(ctx context.Context, id string) (BatchStatus, error) {
	status, err := c.batchStatus(ctx, id)
	if err != nil || status.Result != nil {
		return status, err
	}
	for i := range status.Progress.Going {
		for _, row := range status.Progress.Going[i].Going {
			if len(status.Going) == workflows.BatchGoingMax {
				return status, nil
			}
			one, err := c.running(ctx, row, "", false)
			if err != nil {
				one = unknownStatus(workflows.TransferInput{ID: row}, "it could not be asked: "+err.Error())
			}
			if one.Ended() {
				continue
			}
			status.Going = append(status.Going, one)
		}
	}
	return status, nil
}

func (c *Client) batchStatus(ctx context.Context, id string) (status BatchStatus, err error) {
	workflowID := workflows.BatchWorkflowID(id)
	description, err := c.temporal.DescribeWorkflow(ctx, workflowID, "")
	if isNotFound(err) {
		return status, &BatchUnknownError{ID: id}
	}
	if err != nil {
		return status, err
	}
	if name := description.WorkflowType.Name; name != workflows.BatchWorkflow {
		return status, fmt.Errorf("the workflow %q is a %s, not a %s", workflowID, name, workflows.BatchWorkflow)
	}
	switch description.Status {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		status.Result = &workflows.BatchResult{}
		return status, c.temporal.GetWorkflow(ctx, workflowID, "").Get(ctx, status.Result)
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
	default:
		status.Closed = description.Status
	}
	for {
		status.BatchStatus, err = c.queryBatch(ctx, id)
		if err == nil || ctx.Err() != nil || !mayPass(err) {
			return status, err
		}
		if err := pause(ctx, intervalRetry); err != nil {
			return status, err
		}
	}
}

// queryBatch asks a batch where it stands.
func (c *Client) queryBatch(ctx context.Context, id string) (status workflows.BatchStatus, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutQuery)
	defer cancel()
	answer, err := c.temporal.QueryWorkflow(ctx, workflows.BatchWorkflowID(id), "", workflows.BatchStatusQuery)
	if err != nil {
		return status, err
	}
	return status, answer.Get(&status)
}

// BatchRow is a row of a batch, and what has become of it.
type BatchRow struct {
	Request workflows.TransferInput
	End     workflows.GroupEnd
}

// BatchReport tells what has become of each row of a batch, by its chunks. Chunks that Temporal does not know, because they were
// not sent or are forgotten, are told to missing.
func (c *Client) BatchReport(ctx context.Context, status *BatchStatus, id string, row func(BatchRow) error, missing func(chunk int) error) error {
	chunks := status.Batch.Chunks
	if status.Result != nil {
		chunks = status.Result.Chunks
	}
	for n := range chunks {
		request, result, err := c.batchChunk(ctx, workflows.BatchChunkWorkflowID(id, n))
		if isNotFound(err) {
			if err := missing(n); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("chunk %d: %w", n, err)
		}
		ends := result.InOrder()
		for i, in := range request.Transfers {
			end := workflows.GroupEnd{State: workflows.StateRunning}
			if i < len(ends) && (ends[i].State != "" || ends[i].Error != "") {
				end = ends[i]
			}
			if err := row(BatchRow{Request: in, End: end}); err != nil {
				return err
			}
		}
	}
	return nil
}

// batchChunk reads the rows of a chunk and their ends, as far as there are any.
func (c *Client) batchChunk(ctx context.Context, workflowID string) (request workflows.BatchChunkInput, result workflows.BatchChunkResult, err error) {
	description, err := c.temporal.DescribeWorkflow(ctx, workflowID, "")
	if err != nil {
		return request, result, err
	}
	runID := description.WorkflowExecution.RunID
	event, err := c.temporal.GetWorkflowHistory(ctx, workflowID, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
	if err != nil {
		return request, result, err
	}
	if err := c.converter.FromPayloads(event.GetWorkflowExecutionStartedEventAttributes().GetInput(), &request); err != nil {
		return request, result, err
	}
	if description.Status == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		return request, result, c.temporal.GetWorkflow(ctx, workflowID, runID).Get(ctx, &result)
	}
	queryCtx, cancel := context.WithTimeout(ctx, timeoutQuery)
	defer cancel()
	answer, err := c.temporal.QueryWorkflow(queryCtx, workflowID, runID, workflows.BatchChunkQuery)
	if err != nil {
		return request, result, err
	}
	return request, result, answer.Get(&result)
}
