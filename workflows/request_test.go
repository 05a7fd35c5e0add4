package workflows

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"payonce/ledger"
)

func payload(encoding string, data []byte) converter.RawValue {
	return converter.NewRawValue(&common.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)}, Data: data})
}

// FuzzDecodeTransfer reads inputs as any client may send them: whatever it is, it is a request that is well formed and the
// same as itself, or an error of the input.
func FuzzDecodeTransfer(f *testing.F) {
	f.Add([]byte(`{"id":"rent-1","from":"us/alice","to":"eu/bob","amount":"10.00","asset":"USD"}`))
	f.Add([]byte(`{"id":"a","from":"alice","to":"bob","amount":"80","asset":"JPY","memo":"☂","metadata":{"a":"b"}}`))
	f.Add([]byte(`{"id":"a","id":"b","from":"alice","to":"bob","amount":"80","asset":"JPY"}`))
	f.Add([]byte(`{"ID":"a","amount":1e2,"metadata":{"a":1}}`))
	f.Add([]byte("{\"id\":\"\xff\\ud800\\u0000\",\"from\":null} trailing"))
	f.Add([]byte(`[[[[{"id":`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := decodeTransfer(payload(encodingJSON, data))
		var invalid *ledger.InvalidError
		if err != nil {
			require.ErrorAs(t, err, &invalid)
			require.NotEmpty(t, invalid.Field)
			return
		}
		encoded, err := json.Marshal(in)
		require.NoError(t, err)
		again, err := decodeTransfer(payload(encodingJSON, encoded))
		require.NoError(t, err)
		if len(in.Metadata) == 0 {
			in.Metadata = nil // an empty one is left out
		}
		require.Equal(t, in, again)

		parsed, err := ParseTransfer(in)
		if err != nil {
			require.ErrorAs(t, err, &invalid)
			require.False(t, in.SameRequest(in), "a malformed request is never the same as another")
			return
		}
		require.True(t, in.SameRequest(in))
		canonical := TransferInput{
			ID: in.ID, From: parsed.From.String(), To: parsed.To.String(), Amount: parsed.Amount.Format(parsed.Asset), Asset: parsed.Asset.String(),
		}
		require.True(t, in.SameRequest(canonical), "however it is written")
		require.True(t, canonical.SameRequest(in))
		for _, other := range []func(*TransferInput){
			func(o *TransferInput) { o.ID += "x" },
			func(o *TransferInput) { o.From, o.To = o.To, o.From },
			func(o *TransferInput) { o.Asset = "X" + o.Asset },
			func(o *TransferInput) { o.Amount = "1" + o.Amount },
		} {
			changed := canonical
			other(&changed)
			require.False(t, in.SameRequest(changed), "%+v", changed)
		}
	})
}

// Only JSON is read, however much something else looks like it.
func TestDecodeTransferEncoding(t *testing.T) {
	t.Parallel()
	document := []byte(`{"id":"a"}`)
	_, err := decodeTransfer(payload("binary/plain", document))
	require.ErrorContains(t, err, "must be JSON")
	_, err = decodeTransfer(converter.RawValue{})
	require.ErrorContains(t, err, "required")
	in, err := decodeTransfer(payload(encodingJSON, document))
	require.NoError(t, err)
	require.Equal(t, "a", in.ID)
	_, err = decodeTransfer(payload(encodingJSON, []byte(strings.Repeat(`{"metadata":`, 20_000))))
	require.Error(t, err)
}
