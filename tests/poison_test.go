package tests

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"payonce/activities"
	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/tests/harness"
	"payonce/workflows"
)

// attemptsShort are those of a forward step with harness.ShortOptions: fast and durable.
func attemptsShort() int {
	options := harness.ShortOptions()
	return int(options.Fast.AttemptsMax + options.Forward.AttemptsMax)
}

// requireCompensated checks what is left of a transfer whose deposit was poison, and returns its dead letter.
func requireCompensated(t *testing.T, w *harness.World, in workflows.TransferInput) activities.DeadLetterStory {
	t.Helper()
	require.Equal(t, workflows.StateCompensated, w.AwaitEnd(t, in.ID).State)
	require.Equal(t, []string{"us withdraw applied", "us refund applied", "eu deposit sealed attempts_exhausted"}, w.Steps(t, in.ID))
	require.Equal(t, []string{"20.00", "0.00"}, w.Balances(t, in.From, in.To))
	story := asReached(deadLetterStory(t, w.CLI(t, "deadletter", "show", in.ID)))
	require.Equal(t, []any{"transfer/" + in.ID + "/deposit", ledger.DeadLetterOpen, "compensated"}, []any{story.Key, story.State, story.Ended})
	require.Equal(t, []any{ledger.PlaceSource, in.From, "13.00", "USD/2"}, []any{story.Place, story.Account, story.Amount, story.Asset})
	require.Equal(t, []string{"retry", "discard"}, story.Choices)
	require.Equal(t, []string{"set-aside"}, actionsOf(&story))
	require.True(t, story.LastAt.After(story.FirstAt))
	return story
}

func poisonWorld(t *testing.T, faults ...string) (*harness.World, workflows.TransferInput) {
	t.Helper()
	w := harness.New(t, harness.Config{})
	w.StartFaultWorker(t, harness.FaultConfig{Faults: faults, Options: unhurried})
	return w, workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "13", Asset: "USD"}
}

// Poison: a panic in an activity costs its transfer's attempts, and the worker nothing.
func TestPoisonPanic(t *testing.T) {
	t.Parallel()
	w, in := poisonWorld(t, "deposit/before=panic:always;transfer=rent")
	w.Start(t, in)
	story := requireCompensated(t, w, in)
	require.Equal(t, activities.ErrorPanic, story.ErrorType)
	require.Contains(t, story.Error, "panic: fault at deposit/before")
	require.Equal(t, attemptsShort(), story.Attempts)

	other := in
	other.ID = "after"
	require.Equal(t, workflows.StateCompleted, w.Transfer(t, other).State, "the same worker goes on")
}

// Poison: a constraint of the database that this payment violates.
func TestPoisonConstraint(t *testing.T) {
	t.Parallel()
	w, in := poisonWorld(t)
	w.Exec(t, "eu", `alter table entries add constraint unlucky_check check (amount <> 1300) not valid`)
	w.Start(t, in)
	story := requireCompensated(t, w, in)
	require.Equal(t, activities.ErrorLedger, story.ErrorType)
	require.Contains(t, story.Error, `violates check constraint "unlucky_check" (SQLSTATE 23514)`)
	require.Equal(t, "*pgconn.PgError", story.Causes[len(story.Causes)-1].Type, "the chain of its causes, with their types")
	require.Equal(t, attemptsShort(), story.Attempts)

	other := in
	other.ID, other.Amount = "lucky", "7"
	require.Equal(t, workflows.StateCompleted, w.Transfer(t, other).State, "it is this payment's fault alone")
}

// Poison: the books of the payee's account contradict themselves, so that a wall stands before every write to it.
func TestPoisonInvariant(t *testing.T) {
	t.Parallel()
	w, in := poisonWorld(t)
	name := strings.TrimPrefix(in.To, "eu/")
	w.Plant(t, "eu", `insert into entries (account_id, version, operation_id, leg, amount, balance) select id, 1, 999999, 1, 5, 5 from accounts where name = $1`, name)
	w.Start(t, in)
	story := requireCompensated(t, w, in)
	require.Contains(t, story.Error, "entries_pkey")
	require.Equal(t, attemptsShort(), story.Attempts)
	w.Plant(t, "eu", `delete from entries where operation_id = 999999`)
}

// Poison: a payload that a worker can't decode, here one of another make.
func TestPoisonPayload(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	here := w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried})
	in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: w.Account(t, "eu", ""), Amount: "13", Asset: "USD"}
	require.NoError(t, here.Stop(t.Context()))
	w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried, Ledgers: []string{"us"}})
	books, err := postgres.Open(t.Context(), postgres.Config{Name: "eu", URL: w.LedgerURL("eu"), ConnsMax: 4})
	require.NoError(t, err)
	defer books.Close()
	strange := worker.New(w.Temporal, workflows.LedgerTaskQueue("eu"), worker.Options{DisableWorkflowWorker: true})
	acts := activities.New(map[string]activities.Ledger{"eu": books})
	strange.RegisterActivityWithOptions(acts.Resolve, activity.RegisterOptions{Name: "Resolve"})
	strange.RegisterActivityWithOptions(acts.AccountShow, activity.RegisterOptions{Name: "AccountShow"})
	strange.RegisterActivityWithOptions(func(context.Context, []int) error { return nil }, activity.RegisterOptions{Name: "Deposit"})
	require.NoError(t, strange.Start())
	defer strange.Stop()

	w.Start(t, in)
	story := requireCompensated(t, w, in)
	require.Contains(t, story.Error, "unable to decode")
	require.EqualValues(t, harness.ShortOptions().Forward.AttemptsMax, story.Attempts)
}

// Poison: what can't ever succeed costs one attempt. A deposit's key that belongs to other content is in nobody's power, so
// the transfer waits for a person, who gives the money back.
func TestPoisonConflict(t *testing.T) {
	t.Parallel()
	// One ID used for two payments of two ledgers: the books must tell of it.
	w := harness.New(t, harness.Config{Ledgers: []string{"us", "eu", "gb"}, BooksMayBeWrong: true})
	w.StartFaultWorker(t, harness.FaultConfig{Options: unhurried})
	payee := w.Account(t, "eu", "")
	first := workflows.TransferInput{ID: "rent", From: w.Account(t, "gb", "20.00"), To: payee, Amount: "7", Asset: "USD"}
	require.Equal(t, workflows.StateCompleted, w.Transfer(t, first).State)
	w.Forget(t, workflows.TransferWorkflowID("rent"))

	in := workflows.TransferInput{ID: "rent", From: w.Account(t, "us", "20.00"), To: payee, Amount: "13", Asset: "USD"}
	w.Start(t, in)
	parking := w.AwaitParked(t, in.ID, 1).Parking
	require.Equal(t, []any{workflows.StepDeposit, ledger.PlaceTransit}, []any{parking.Step, parking.Place})
	var story activities.DeadLetterStory
	harness.Eventually(t, "the dead letter is written", func() bool {
		result := w.CLI(t, "deadletter", "show", in.ID)
		if result.Code == exitDone {
			story = deadLetterStory(t, result)
		}
		return result.Code == exitDone
	})
	require.Equal(t, []any{activities.ErrorKeyConflict, 1}, []any{story.ErrorType, story.Attempts})
	require.Equal(t, exitDone, w.CLI(t, "deadletter", "compensate", in.ID, "--by", "carol").Code)
	require.Equal(t, workflows.StateCompensated, w.AwaitEnd(t, in.ID).State)
	require.Equal(t, []string{"20.00", "7.00"}, w.Balances(t, in.From, payee))
	code, _ := w.Verify(t)
	require.Equal(t, 1, code)
}

// Poison: an input that no workflow can decode ends as a failed workflow that says so, and never as a task that fails for ever.
func TestPoisonInput(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	w.StartWorker(t, harness.WorkerConfig{})
	garbage := make([]byte, 1000)
	random := rand.NewChaCha8([32]byte{4})
	_, err := random.Read(garbage)
	require.NoError(t, err)
	as := func(encoding string, data []byte) *common.Payload {
		return &common.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: data}
	}
	valid := []byte(`{"id":"x","from":"us/a","to":"us/b","amount":"1","asset":"USD"}`)
	inputs := map[string]*common.Payloads{
		"no payloads":         nil,
		"no payload":          {},
		"an empty payload":    {Payloads: []*common.Payload{{}}},
		"garbage":             {Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": garbage[:20], "x": garbage}, Data: garbage}}},
		"garbage as JSON":     {Payloads: []*common.Payload{as("json/plain", garbage)}},
		"encrypted":           {Payloads: []*common.Payload{as("binary/encrypted", garbage)}},
		"protobuf":            {Payloads: []*common.Payload{as("binary/protobuf", garbage)}},
		"nil":                 {Payloads: []*common.Payload{as("binary/null", nil)}},
		"JSON null":           {Payloads: []*common.Payload{as("json/plain", []byte("null"))}},
		"JSON list":           {Payloads: []*common.Payload{as("json/plain", []byte("[1,2]"))}},
		"broken UTF-8":        {Payloads: []*common.Payload{as("json/plain", []byte("{\"id\":\"\xff\xfe\"}"))}},
		"half of it":          {Payloads: []*common.Payload{as("json/plain", valid[:30])}},
		"deep":                {Payloads: []*common.Payload{as("json/plain", []byte(strings.Repeat(`{"metadata":`, 20_000)))}},
		"two, the first void": {Payloads: []*common.Payload{as("binary/null", nil), as("json/plain", valid)}},
		"a megabyte":          {Payloads: []*common.Payload{as("json/plain", []byte(`{"id":"`+strings.Repeat("x", 1_000_000)+`"}`))}},
	}
	types := []string{
		workflows.TransferWorkflow, workflows.AccountOpenWorkflow, workflows.DeadLetterListWorkflow, workflows.DeadLetterDecideWorkflow,
	}
	for name, input := range inputs {
		for _, typ := range types {
			t.Run(typ+", "+name, func(t *testing.T) {
				t.Parallel()
				id := workflows.TransferWorkflowID(w.Unique("garbage"))
				_, err := w.Temporal.WorkflowService().StartWorkflowExecution(t.Context(), &workflowservice.StartWorkflowExecutionRequest{
					Namespace: w.Namespace, WorkflowId: id, WorkflowType: &common.WorkflowType{Name: typ}, Input: input,
					TaskQueue: &taskqueue.TaskQueue{Name: workflows.TaskQueue}, RequestId: id,
				})
				require.NoError(t, err)
				ctx := harness.Within(t, patience)
				err = w.Temporal.GetWorkflow(ctx, id, "").Get(ctx, nil)
				var failed *temporal.WorkflowExecutionError
				require.ErrorAs(t, err, &failed)
				var application *temporal.ApplicationError
				require.ErrorAs(t, err, &application)
				if typ != workflows.DeadLetterDecideWorkflow || name == "garbage" {
					require.Equal(t, workflows.ErrorInvalidInput, application.Type())
				}
				require.Less(t, len(application.Message()), 4_000)
				requireNoTaskFailed(t, w, id)
			})
		}
	}
}

// Poison: an update that is no decision is refused, and the parked transfer goes on waiting for one.
func TestPoisonUpdate(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{})
	in, _ := parkedRefund(t, w)
	garbage := []byte("\xff\xfe\x00 garbage")
	for name, input := range map[string]*common.Payloads{
		"nothing":         nil,
		"garbage":         {Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": garbage}, Data: garbage}}},
		"garbage as JSON": {Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: garbage}}},
		"no decision":     {Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`{"action":7}`)}}},
	} {
		var outcome *update.Outcome
		// The server waits for a while, and answers without an outcome then.
		harness.Eventually(t, name+" has an outcome", func() bool {
			answer, err := w.Temporal.WorkflowService().UpdateWorkflowExecution(harness.Within(t, patience), &workflowservice.UpdateWorkflowExecutionRequest{
				Namespace: w.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: workflows.TransferWorkflowID(in.ID)},
				WaitPolicy: &update.WaitPolicy{LifecycleStage: enums.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED},
				Request:    &update.Request{Meta: &update.Meta{UpdateId: name}, Input: &update.Input{Name: workflows.DecideUpdate, Args: input}},
			})
			require.NoError(t, err, name)
			outcome = answer.GetOutcome()
			return outcome != nil
		})
		require.Equal(t, workflows.ErrorDecisionRefused, outcome.GetFailure().GetApplicationFailureInfo().GetType(), name)
	}
	w.Set(t, activities.AccountSetInput{Account: in.From, Ceiling: "20"})
	require.Equal(t, exitDone, w.CLI(t, "deadletter", "retry", in.ID, "--by", "carol").Code)
	require.Equal(t, workflows.StateCompensated, w.AwaitEnd(t, in.ID).State)
}
