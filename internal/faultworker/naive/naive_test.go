package naive_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"payonce/internal/faultworker/naive"
)

// steps count what is done, and lose the first reply of each step.
type steps struct{ withdrawn, deposited []naive.Change }

func (s *steps) Withdraw(_ context.Context, change naive.Change) error {
	s.withdrawn = append(s.withdrawn, change)
	return lost(len(s.withdrawn))
}

func (s *steps) Deposit(_ context.Context, change naive.Change) error {
	s.deposited = append(s.deposited, change)
	return lost(len(s.deposited))
}

func lost(times int) error {
	if times == 1 {
		return errors.New("the reply is lost")
	}
	return nil
}

func (s *steps) Open(context.Context, []naive.Account) error { return nil }

func (s *steps) Show(_ context.Context, names []string) ([]naive.Account, error) {
	return []naive.Account{{Name: names[0], Asset: "USD/2", Balance: "1.00"}}, nil
}

func environment(s naive.Steps) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	// A busy machine is no deadlock.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	naive.Register(env, s)
	return env
}

// Being retried, it pays twice: that is what it is for.
func TestLostRepliesPayTwice(t *testing.T) {
	t.Parallel()
	s := &steps{}
	env := environment(s)
	env.ExecuteWorkflow(naive.TransferWorkflow, naive.Transfer{From: "a", To: "b", Amount: "10.00", Asset: "USD/2"})
	require.NoError(t, env.GetWorkflowError())
	withdraw, deposit := naive.Change{Account: "a", Amount: "10.00", Asset: "USD/2"}, naive.Change{Account: "b", Amount: "10.00", Asset: "USD/2"}
	require.Equal(t, []naive.Change{withdraw, withdraw}, s.withdrawn)
	require.Equal(t, []naive.Change{deposit, deposit}, s.deposited)
}

func TestShow(t *testing.T) {
	t.Parallel()
	env := environment(&steps{})
	env.ExecuteWorkflow(naive.ShowWorkflow, []string{"a"})
	require.NoError(t, env.GetWorkflowError())
	var accounts []naive.Account
	require.NoError(t, env.GetWorkflowResult(&accounts))
	require.Equal(t, []naive.Account{{Name: "a", Asset: "USD/2", Balance: "1.00"}}, accounts)
}
