package serve

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestCheckSearchAttributes(t *testing.T) {
	const keyword, text = enums.INDEXED_VALUE_TYPE_KEYWORD, enums.INDEXED_VALUE_TYPE_TEXT
	type found = map[string]enums.IndexedValueType

	require.NoError(t, checkSearchAttributes("money", found{"PayonceState": keyword, "PayonceTransferID": keyword, "Other": text}))

	err := checkSearchAttributes("money", found{"PayonceState": keyword})
	var missing *missingError
	require.ErrorAs(t, err, &missing)
	assert.EqualError(t, err, `the namespace "money" has no search attribute PayonceTransferID; make it with: `+
		`temporal operator search-attribute create --namespace money --name PayonceTransferID --type Keyword`)

	err = checkSearchAttributes("money", nil)
	assert.EqualError(t, err, `the namespace "money" has no search attribute PayonceState, PayonceTransferID; make it with: `+
		`temporal operator search-attribute create --namespace money --name PayonceState --type Keyword --name PayonceTransferID --type Keyword`)

	err = checkSearchAttributes("money", found{"PayonceState": text, "PayonceTransferID": keyword})
	require.ErrorContains(t, err, "the search attribute PayonceState of namespace \"money\" has the type Text, and must have Keyword")
	assert.NotErrorAs(t, err, &missing, "waiting does not help")
}

func TestIsOutage(t *testing.T) {
	for _, err := range []error{
		serviceerror.NewUnavailable("connection refused"), serviceerror.NewDeadlineExceeded(""), context.DeadlineExceeded,
		serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, ""),
	} {
		assert.True(t, isOutage(fmt.Errorf("failed reaching server: %w", err)), "%v", err)
	}
	for _, err := range []error{
		serviceerror.NewPermissionDenied("", ""), serviceerror.NewInvalidArgument(""), status.Error(codes.Unauthenticated, ""),
	} {
		assert.False(t, isOutage(fmt.Errorf("failed reaching server: %w", err)), "%v", err)
	}
}

func TestNamespaceError(t *testing.T) {
	var missing *missingError
	for _, err := range []error{serviceerror.NewNamespaceNotFound("money"), serviceerror.NewNotFound("Namespace money is not found.")} {
		require.ErrorAs(t, namespaceError("money", err), &missing)
		assert.Equal(t, "temporal operator namespace create --namespace money", missing.command)
	}
	denied := serviceerror.NewPermissionDenied("no", "")
	err := namespaceError("money", denied)
	require.ErrorIs(t, err, denied)
	require.NotErrorAs(t, err, &missing)
}
