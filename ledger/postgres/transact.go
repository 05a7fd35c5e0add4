package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// rerunsMax bounds how often one database transaction is run again.
	rerunsMax = 10
	// The pause before a rerun is random, up to this; it doubles each time.
	rerunPauseFirst = 2 * time.Millisecond
	rerunPauseMax   = 250 * time.Millisecond
)

const beginSQL = `begin isolation level read committed read write`

const limitTimeSQL = `select set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true)`

// transact runs a database transaction until it has an end other than a rerun. run is one attempt; it returns an error
// as the driver gave it, and whether COMMIT was sent, as judge wants them. The error of transact is translated.
func transact(ctx context.Context, conn *pgx.Conn, run func(context.Context) (commitSent bool, err error)) (verdict, error) {
	pauseMax := rerunPauseFirst
	for reruns := 0; ; reruns++ {
		commitSent, err := run(ctx)
		if err == nil {
			return verdictApplied, nil
		}
		verdict := judge(err, commitSent)
		if verdict != verdictUnknown {
			rollback(ctx, conn)
		}
		if verdict != verdictRerun {
			return verdict, verdict.wrap(err)
		}
		if reruns == rerunsMax {
			return verdictFailed, fmt.Errorf("given up after %d reruns: %w", rerunsMax, err)
		}
		if err := pause(ctx, rand.N(pauseMax)); err != nil { //nolint:gosec // it need not be unpredictable
			return verdictFailed, err
		}
		pauseMax = min(2*pauseMax, rerunPauseMax)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin starts a batch that begins a database transaction. The server is to give up before the caller does, so that no
// attempt keeps its locks when nobody waits for it, and so that its answer, which is certain, comes before the
// deadline, after which nothing is. The session's own time-outs hold when they are shorter.
func begin(ctx context.Context) *pgx.Batch {
	batch := &pgx.Batch{}
	batch.Queue(beginSQL)
	if deadline, ok := ctx.Deadline(); ok {
		remaining := time.Until(deadline)
		statement, lock := remaining/10*8, remaining/10*5
		if statement < TimeoutStatement {
			batch.Queue(limitTimeSQL, milliseconds(statement), milliseconds(min(lock, TimeoutLock)))
		}
	}
	return batch
}

// commit sends batch with COMMIT behind it, in one round trip. From the moment of sending an error is unknown, unless it
// is the server's answer to a statement before COMMIT: commitSent is false then.
func commit(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch) (commitSent bool, err error) {
	statements := batch.QueuedQueries
	batch.Queue("commit")
	results := conn.SendBatch(ctx, batch)
	defer func() { _ = results.Close() }()
	for _, statement := range statements {
		if statement.Fn != nil {
			err = statement.Fn(results)
		} else {
			_, err = results.Exec()
		}
		if err != nil {
			return !answered(err), err
		}
	}
	tag, err := results.Exec()
	if err == nil && tag.String() != "COMMIT" {
		return false, errCommitRolledBack
	}
	return true, err
}

// rollback ends a database transaction that did not commit. It does not use the caller's context, which may be the
// reason. When it fails, the pool closes the connection and the server rolls back.
func rollback(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutRollback)
	defer cancel()
	_, _ = conn.Exec(ctx, "rollback")
}
