package workflows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"payonce/ledger"
)

// encodingJSON is how Temporal's SDKs mark a payload that is JSON.
const encodingJSON = "json/plain"

// decodeTransfer reads a transfer's input, and decodePayout a payout's. The error is a *ledger.InvalidError.
func decodeTransfer(request converter.RawValue) (TransferInput, error) {
	return decodeStrictly[TransferInput](request, transferFields)
}

func decodePayout(request converter.RawValue) (PayoutInput, error) {
	return decodeStrictly[PayoutInput](request, payoutFields)
}

// decodeStrictly reads one JSON object with no other fields than those named, each at most once and spelt exactly. What
// encoding/json lets pass – a misspelt field, one that is there twice – could be money that its sender did not mean. The error
// is a *ledger.InvalidError.
//
// It is a function of the payload alone; the checker does not know that of encoding/json.
//
//workflowcheck:ignore
func decodeStrictly[In any](request converter.RawValue, fields []string) (input In, err error) {
	data, err := jsonOf(request)
	if err != nil {
		return input, err
	}
	if err := checkFields(data, fields); err != nil {
		return input, err
	}
	err = json.Unmarshal(data, &input)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field != "":
		want := "a string in quotes"
		if wrongType.Type.Kind() == reflect.Slice {
			want = "a list of strings"
		}
		return input, &ledger.InvalidError{Field: wrongType.Field, Reason: "it is a JSON " + wrongType.Value + ", and must be " + want}
	case err != nil:
		return input, &ledger.InvalidError{Field: "input", Reason: err.Error()}
	}
	return input, nil
}

// jsonOf is the JSON of a payload. The error is a *ledger.InvalidError.
func jsonOf(input converter.RawValue) ([]byte, error) {
	payload := input.Payload()
	if payload == nil {
		return nil, &ledger.InvalidError{Field: "input", Reason: "it is required: one JSON object"}
	}
	if encoding := string(payload.GetMetadata()[converter.MetadataEncoding]); encoding != encodingJSON {
		return nil, &ledger.InvalidError{Field: "input", Reason: fmt.Sprintf("it must be JSON (%s), not %q", encodingJSON, encoding)}
	}
	return payload.GetData(), nil
}

// decode reads any other input. The SDK would do the same, but has been seen to tell of a payload that it
// can't read in a text that no failure can hold: the task failed then, again and again. The error is a
// *ledger.InvalidError.
//
//workflowcheck:ignore
func decode[In any](input converter.RawValue) (in In, err error) {
	data, err := jsonOf(input)
	if err == nil && json.Unmarshal(data, &in) != nil {
		err = &ledger.InvalidError{Field: "input", Reason: fmt.Sprintf("it is not the JSON of %T", in)}
	}
	return in, err
}

// decoding is a workflow that decodes its input itself.
func decoding[In, Out any](run func(workflow.Context, In) (Out, error)) func(workflow.Context, converter.RawValue) (Out, error) {
	return func(ctx workflow.Context, input converter.RawValue) (Out, error) {
		in, err := decode[In](input)
		if err != nil {
			var none Out
			return none, invalidInput(err)
		}
		return run(ctx, in)
	}
}

// decodingOnly is decoding for a workflow without a result.
func decodingOnly[In any](run func(workflow.Context, In) error) func(workflow.Context, converter.RawValue) (struct{}, error) {
	return decoding(func(ctx workflow.Context, in In) (struct{}, error) { return struct{}{}, run(ctx, in) })
}

// checkFields says whether data is a JSON object with some of these fields, each once, and no others.
func checkFields(data []byte, fields []string) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return &ledger.InvalidError{Field: "input", Reason: "it must be one JSON object"}
	}
	seen := make(map[string]bool)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return &ledger.InvalidError{Field: "input", Reason: err.Error()}
		}
		name, _ := token.(string)
		if !slices.Contains(fields, name) {
			last := len(fields) - 1
			return &ledger.InvalidError{Field: "input", Reason: fmt.Sprintf("there is no field %q: the fields are %s and %s", name,
				strings.Join(fields[:last], ", "), fields[last])}
		}
		if seen[name] {
			return &ledger.InvalidError{Field: name, Reason: "it is there twice"}
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return &ledger.InvalidError{Field: "input", Reason: err.Error()}
		}
	}
	return nil
}
