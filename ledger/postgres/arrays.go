package postgres

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// A batch travels as arrays, some ten thousand elements for a thousand operations. pgx's own codec puts each element into
// an interface, which takes longer than it takes to decide the batch, while the accounts are locked. arrayCodec encodes
// the slices that batches are made of directly, to the same bytes, and leaves everything else to pgx.
type arrayCodec struct {
	pgtype.Codec
}

// registerArrays makes a connection's types use arrayCodec.
func registerArrays(types *pgtype.Map) {
	for _, oid := range []uint32{pgtype.TextArrayOID, pgtype.ByteaArrayOID, pgtype.Int8ArrayOID, pgtype.Int2ArrayOID} {
		if t, ok := types.TypeForOID(oid); ok {
			types.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: arrayCodec{t.Codec}})
		}
	}
}

// PlanEncode implements pgtype.Codec.
func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case []string:
			if oid == pgtype.TextArrayOID {
				return &arrayPlan[string]{oid: pgtype.TextOID, size: func(s string) int { return len(s) }, add: func(buf []byte, s string) []byte {
					return append(binary.BigEndian.AppendUint32(buf, length(len(s))), s...)
				}}
			}
		case [][]byte:
			if oid == pgtype.ByteaArrayOID {
				return &arrayPlan[[]byte]{oid: pgtype.ByteaOID, size: func(b []byte) int { return len(b) }, add: func(buf []byte, b []byte) []byte {
					return append(binary.BigEndian.AppendUint32(buf, length(len(b))), b...)
				}}
			}
		case []int64:
			if oid == pgtype.Int8ArrayOID {
				return &arrayPlan[int64]{oid: pgtype.Int8OID, size: func(int64) int { return 8 }, add: func(buf []byte, n int64) []byte {
					return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(buf, 8), uint64(n)) //nolint:gosec // its bits
				}}
			}
		case []int16:
			if oid == pgtype.Int2ArrayOID {
				return &arrayPlan[int16]{oid: pgtype.Int2OID, size: func(int16) int { return 2 }, add: func(buf []byte, n int16) []byte {
					return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(buf, 2), uint16(n)) //nolint:gosec // its bits
				}}
			}
		}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// arrayPlan encodes a slice as an array of one dimension without nulls; a nil slice is null.
type arrayPlan[T any] struct {
	oid  uint32 // of an element
	size func(element T) int
	add  func(buf []byte, element T) []byte
}

// Encode implements pgtype.EncodePlan.
func (p *arrayPlan[T]) Encode(value any, buf []byte) ([]byte, error) {
	slice, ok := value.([]T)
	if !ok || slice == nil {
		return nil, nil
	}
	const lengthSize, headerSize = 4, 20
	size := headerSize
	for _, element := range slice {
		size += lengthSize + p.size(element)
	}
	buf = slices.Grow(buf, size)
	buf = binary.BigEndian.AppendUint32(buf, 1) // dimension
	buf = binary.BigEndian.AppendUint32(buf, 0) // no nulls
	buf = binary.BigEndian.AppendUint32(buf, p.oid)
	buf = binary.BigEndian.AppendUint32(buf, length(len(slice)))
	buf = binary.BigEndian.AppendUint32(buf, 1) // where the index begins
	for _, element := range slice {
		buf = p.add(buf, element)
	}
	return buf, nil
}

func length(n int) uint32 { return uint32(n) } //nolint:gosec // PostgreSQL takes no message of 2 GiB
