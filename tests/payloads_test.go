package tests

import (
	"go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// payloads are all payloads in a message, at any depth.
func payloads(message protoreflect.Message) []*common.Payload {
	if payload, ok := message.Interface().(*common.Payload); ok {
		return []*common.Payload{payload}
	}
	var all []*common.Payload
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, value protoreflect.Value) bool {
				all = append(all, payloads(value.Message())...)
				return true
			})
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				all = append(all, payloads(value.List().Get(i).Message())...)
			}
		case !field.IsMap() && field.Message() != nil:
			all = append(all, payloads(value.Message())...)
		}
		return true
	})
	return all
}
