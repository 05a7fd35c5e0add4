package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"payonce/ledger"
)

// The constraints that code relies on. Every other one is a wall that only a bug meets.
const constraintKey = "operations_key_key"

// verdict says what an error means for the database transaction that it ended.
type verdict int

const (
	verdictApplied     verdict = iota // no error
	verdictFailed                     // not applied; of no kind that matters
	verdictUnavailable                // not applied; nothing could have been
	verdictUnknown                    // COMMIT was sent and its answer did not arrive
	verdictRerun                      // not applied; the same database transaction may succeed when run again
	verdictRejected                   // not applied; the data of some operation may be at fault
)

// judge is the one place that knows what PostgreSQL's and the driver's errors mean, by SQLSTATE and constraint name.
// commitSent says that the server may have begun to commit when the error arose: COMMIT, or a statement that commits by
// itself, was sent, and every statement before it had succeeded or its answer was not read.
func judge(err error, commitSent bool) verdict {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok && !errors.Is(err, context.Canceled) {
		return verdictUnavailable // whatever the reason: it hits every operation alike
	}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return judgeDriver(err, commitSent)
	}
	if commitSent && pgErr.SeverityUnlocalized != "ERROR" {
		// The server broke the session off. An ERROR rolls back; this may have come after the commit.
		return verdictUnknown
	}
	switch pgErr.Code {
	case "40001", // serialization_failure
		"40P01", // deadlock_detected
		"0A000", // feature_not_supported: a prepared statement's result type changed under it
		"26000": // invalid_sql_statement_name: a prepared statement was lost
		return verdictRerun
	case "23505": // unique_violation
		if pgErr.ConstraintName == constraintKey {
			// Somebody recorded the key after we had looked: the next look finds it.
			return verdictRerun
		}
	case "57P01", // admin_shutdown
		"57P02", // crash_shutdown
		"57P03", // cannot_connect_now
		"25006", // read_only_sql_transaction: it was the primary once
		"3D000", // invalid_catalog_name
		"42501", // insufficient_privilege: credentials, like class 28
		"42P01": // undefined_table: not migrated, or another database
		return verdictUnavailable
	}
	switch pgErr.Code[:min(2, len(pgErr.Code))] {
	case "08", // connection_exception
		"28", // invalid_authorization_specification
		"53": // insufficient_resources
		return verdictUnavailable
	}
	if pgErr.SeverityUnlocalized == "ERROR" && isOfData(pgErr.Code) {
		return verdictRejected
	}
	return verdictFailed
}

// isOfData says whether an error can be about one operation and not another: what the database says of the data that it is
// given, or that it has, what somebody's own trigger says (raise exception is P0001), and what goes wrong within it.
func isOfData(code string) bool {
	switch code[:min(2, len(code))] {
	case "21", // cardinality_violation
		"22",             // data_exception
		"23",             // integrity_constraint_violation
		"27",             // triggered_data_change_violation
		"2F", "38", "39", // of functions: sql_routine_exception, external_routine_exception, …_invocation_exception
		"44", // with_check_option_violation
		"54", // program_limit_exceeded
		"P0", // plpgsql_error
		"XX": // internal_error, such as a damaged page
		return true
	default:
		return false
	}
}

// judgeDriver judges errors that are no answer of the server.
func judgeDriver(err error, commitSent bool) verdict {
	_, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errOwnOpened):
		return verdictRerun
	case commitSent && !pgconn.SafeToRetry(err):
		return verdictUnknown
	case errors.Is(err, context.Canceled):
		return verdictFailed
	case errors.Is(err, context.DeadlineExceeded), network:
		// A deadline that passes without an answer: the server's own time-outs are set below it, so if the server could be
		// reached it would have answered.
		return verdictUnavailable
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, pgconn.ErrConnClosed):
		return verdictUnavailable
	default:
		return verdictFailed
	}
}

// answered says whether err is an answer of the server, to the statement whose result was being read.
func answered(err error) bool {
	_, ok := errors.AsType[*pgconn.PgError](err)
	return ok
}

// errCommitRolledBack: COMMIT was answered with ROLLBACK.
var errCommitRolledBack = errors.New("the database rolled back instead of committing")

// translate turns an error that arose before anything could be committed into one of package ledger's, if it is one.
func translate(err error) error {
	if err == nil {
		return nil
	}
	return judge(err, false).wrap(err)
}

func (v verdict) wrap(err error) error {
	err = withoutConnString(err)
	switch v {
	case verdictUnavailable:
		return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	case verdictUnknown:
		return fmt.Errorf("%w: %w", ledger.ErrUnknownOutcome, err)
	case verdictApplied, verdictFailed, verdictRerun, verdictRejected:
	}
	return err
}

// withoutConnString drops the driver's wrapping that repeats parts of the connection string. What is left names the
// host, the port and the reason.
func withoutConnString(err error) error {
	if _, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		return errors.New(reasonURL)
	}
	if connectErr, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		inner := connectErr.Unwrap()
		return &oneLineError{text: strings.ReplaceAll(inner.Error(), "\n", "; "), err: inner}
	}
	return err
}

// oneLineError is an error whose text is laid out in one line.
type oneLineError struct {
	text string
	err  error
}

func (e *oneLineError) Error() string { return e.text }
func (e *oneLineError) Unwrap() error { return e.err }
