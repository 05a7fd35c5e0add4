package postgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"payonce/ledger/postgres"
)

// The codec of batches writes what pgx writes.
func TestArraysAreEncodedAsPgxDoes(t *testing.T) {
	t.Parallel()
	for _, value := range []any{
		[]string{"a", "", "naïve", "\"\\,{}", "NULL"},
		[]string{""},
		[]string{},
		[]string(nil),
		[]int64{0, 1, -1, 1<<63 - 1, -1 << 63},
		[]int64{},
		[]int64(nil),
		[]int16{0, 100, -1},
		[]int16{},
		[]int16(nil),
		[][]byte{{}, {0}, {1, 2, 255}},
		[][]byte{},
		[][]byte(nil),
		[]int32{1},
		[]*string{nil},
		[]fmt.Stringer(nil),
		[2]string{"a", "b"},
		[][]string{{"a"}, {"b"}},
	} {
		// What a map has encoded before can change what else it can encode.
		theirs, ours := pgtype.NewMap(), pgtype.NewMap()
		postgres.RegisterArrays(ours)
		for _, oid := range []uint32{pgtype.TextArrayOID, pgtype.ByteaArrayOID, pgtype.Int8ArrayOID, pgtype.Int2ArrayOID} {
			for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
				want, wantErr := theirs.Encode(oid, format, value, []byte("before"))
				got, gotErr := ours.Encode(oid, format, value, []byte("before"))
				require.Equal(t, wantErr == nil, gotErr == nil, "%T as %d: %v", value, oid, gotErr)
				require.Equal(t, want, got, "%T as %d", value, oid)
			}
		}
	}
}
