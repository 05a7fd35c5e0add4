package postgres

import (
	"context"
	"database/sql"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"payonce/ledger"
)

// What the tests of package postgres_test see of the inside.

// FateOf is what judge and wrap make of an error: the sentinel of package ledger, "rerun", "rejected" or "failed".
func FateOf(err error, commitSent bool) any {
	switch judge(err, commitSent) {
	case verdictUnavailable:
		return ledger.ErrUnavailable
	case verdictUnknown:
		return ledger.ErrUnknownOutcome
	case verdictRerun:
		return "rerun"
	case verdictRejected:
		return "rejected"
	case verdictApplied, verdictFailed:
	}
	return "failed"
}

// RegisterArrays makes types use the codec of this package.
var RegisterArrays = registerArrays

// SetTurnMax sets how long a group holds up those who share an account with it.
func (l *Ledger) SetTurnMax(d time.Duration) {
	l.groups.turns.mu.Lock()
	defer l.groups.turns.mu.Unlock()
	l.groups.turns.turnMax = d
}

// RerunsMax is how often a database transaction is run again.
const RerunsMax = rerunsMax

// The statements of a batch, to find them in the traffic.
const (
	LockAccountsSQL     = lockAccountsSQL
	KnownOperationsSQL  = knownOperationsSQL
	InsertOperationsSQL = insertOperationsSQL
	SealSQL             = sealSQL
)

// MigrateTo brings a database to an earlier version of the schema.
func MigrateTo(ctx context.Context, url string, version int64) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	return migrateTo(ctx, db, version)
}

func migrateTo(ctx context.Context, db *sql.DB, version int64) error {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(schemaTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return err
}
