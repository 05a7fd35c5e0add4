package serve

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
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
