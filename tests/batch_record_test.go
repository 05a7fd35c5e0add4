package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/starter/batch"
	"payonce/starter/transfers"
	"payonce/tests/harness"
	"payonce/workflows"
)

const recordedHeader = "id,from,to,amount,asset,memo\n"

// recordedRows are of one ledger, so that they are a chunk: two that complete, one that is rejected.
const recordedRows = recordedHeader + "row-1,us/alice,us/carol,1,USD,\nrow-2,us/alice,us/carol,2,USD,a memo\nrow-3,us/alice,us/carol,1000,USD,\n"

// recordedAbroad are between two ledgers: one that completes, one that comes back, and one that was made before.
const recordedAbroad = recordedHeader + "recorded,us/alice,eu/bob,10,USD,\nrow-4,us/alice,eu/bob,1,USD,\nrow-5,us/alice,eu/nobody,1,USD,\n"

// recordedBatchID is the ID of the batch that rows are.
func recordedBatchID(rows string) string {
	file, err := batch.Read(context.Background(), strings.NewReader(rows), batch.Options{})
	if err != nil {
		panic(err)
	}
	defer file.Close()
	return file.ID
}

// submitRecorded submits rows as a batch, two rows a chunk if they are halved.
func submitRecorded(rows string, chunkRows int) func(*testing.T, *recorder) {
	return func(t *testing.T, s *recorder) {
		t.Helper()
		if s.in.ID != "" {
			s.AwaitEnd(t, s.in.ID)
		}
		file, err := batch.Read(t.Context(), strings.NewReader(rows), batch.Options{ChunkRows: chunkRows})
		require.NoError(t, err)
		defer file.Close()
		require.Empty(t, file.Bad)
		_, err = s.Transfers.SubmitBatch(harness.Within(t, patience), file, transfers.BatchOptions{})
		require.NoError(t, err)
	}
}

// batchRecordings are the ways of a batch and of its chunks.
func batchRecordings() []recording {
	return []recording{
		{name: "batch", workflow: workflows.BatchWorkflowID(recordedBatchID(recordedRows)), during: submitRecorded(recordedRows, 2)},
		{name: "batch-chunk", workflow: workflows.BatchChunkWorkflowID(recordedBatchID(recordedRows), 0), during: submitRecorded(recordedRows, 0)},
		{
			name: "batch-chunk-troubled", workflow: workflows.BatchChunkWorkflowID(recordedBatchID(recordedRows), 0),
			faults: []string{"post/before=fail:always;transfer=row-1", "post/after=drop;transfer=row-2"}, during: submitRecorded(recordedRows, 0),
		},
		{
			name: "batch-chunk-between", in: recordedBetween, workflow: workflows.BatchChunkWorkflowID(recordedBatchID(recordedAbroad), 0),
			during: submitRecorded(recordedAbroad, 0),
		},
	}
}
