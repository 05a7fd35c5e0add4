package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestRunNeedsTheNamespace starts workers whose namespace is missing, or lacks what transfers need.
func TestRunNeedsTheNamespace(t *testing.T) {
	t.Parallel()
	stack := stackOf(t)
	b := newBank(t, stack, "namespace")
	service, operator := b.temporal.WorkflowService(), b.temporal.OperatorService()
	bare, young := b.name+"-bare", b.name+"-young"
	register := func(t *testing.T, namespace string) {
		t.Helper()
		_, err := service.RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
			Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
		})
		require.NoError(t, err)
	}

	t.Run("no namespace", func(t *testing.T) {
		t.Parallel()
		code, _, stderr := runWorker(t, environment(stack, "TEMPORAL_NAMESPACE=nowhere"), "run")
		assert.Equal(t, exitError, code)
		assert.Contains(t, stderr, `there is no namespace "nowhere"; make it with: temporal operator namespace create --namespace nowhere`)
	})

	t.Run("no search attributes", func(t *testing.T) {
		t.Parallel()
		register(t, bare)
		code, _, stderr := runWorker(t, environment(stack, "TEMPORAL_NAMESPACE="+bare), "run")
		assert.Equal(t, exitError, code)
		assert.Contains(t, stderr, `the namespace "`+bare+`" has no search attribute PayonceState, PayonceTransferID; make it with: `+
			`temporal operator search-attribute create --namespace `+bare+` --name PayonceState --type Keyword --name PayonceTransferID --type Keyword`)
	})

	t.Run("made while the worker waits", func(t *testing.T) {
		t.Parallel()
		p := startWorker(t, environment(stack, "TEMPORAL_NAMESPACE="+young))
		p.awaitLog(t, "waiting, in case it has only just been made")
		register(t, young)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := operator.AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
				Namespace: young,
				SearchAttributes: map[string]enums.IndexedValueType{
					"PayonceState": enums.INDEXED_VALUE_TYPE_KEYWORD, "PayonceTransferID": enums.INDEXED_VALUE_TYPE_KEYWORD,
				},
			})
			assert.NoError(c, err)
		}, patience, 200*time.Millisecond)
		p.awaitLog(t, `"msg":"serving"`)
		assert.Equal(t, exitOK, p.stop(t))
	})
}
