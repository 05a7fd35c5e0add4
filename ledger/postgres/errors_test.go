package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"payonce/ledger"
	"payonce/ledger/postgres"
)

// What each error means, and that no wrapping changes it.
func TestFates(t *testing.T) {
	t.Parallel()
	server := func(severity, code, constraint string) error {
		return &pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code, ConstraintName: constraint, Message: "said so"}
	}
	unavailable, unknown := ledger.ErrUnavailable, ledger.ErrUnknownOutcome
	for name, test := range map[string]struct {
		err          error
		before, sent any // the fate before COMMIT was sent, and after
	}{
		"serialization failure":  {server("ERROR", "40001", ""), "rerun", "rerun"},
		"deadlock":               {server("ERROR", "40P01", ""), "rerun", "rerun"},
		"the key":                {server("ERROR", "23505", "operations_key_key"), "rerun", "rerun"},
		"another unique":         {server("ERROR", "23505", "entries_pkey"), "rejected", "rejected"},
		"check":                  {server("ERROR", "23514", "accounts_floor_check"), "rejected", "rejected"},
		"wall":                   {server("ERROR", "23000", "entries_balanced_wall"), "rejected", "rejected"},
		"numeric out of range":   {server("ERROR", "22003", ""), "rejected", "rejected"},
		"index row too large":    {server("ERROR", "54000", ""), "rejected", "rejected"},
		"lock timeout":           {server("ERROR", "55P03", ""), "failed", "failed"},
		"statement timeout":      {server("ERROR", "57014", ""), "failed", "failed"},
		"syntax error":           {server("ERROR", "42601", ""), "failed", "failed"},
		"raised by a trigger":    {server("ERROR", "P0001", ""), "rejected", "rejected"},
		"damaged page":           {server("ERROR", "XX001", ""), "rejected", "rejected"},
		"damaged, and gone":      {server("FATAL", "XX000", ""), "failed", unknown},
		"frozen in transaction":  {server("FATAL", "25P03", ""), "failed", unknown},
		"shut down":              {server("FATAL", "57P01", ""), unavailable, unknown},
		"crash":                  {server("WARNING", "57P02", ""), unavailable, unknown},
		"starting up":            {server("FATAL", "57P03", ""), unavailable, unknown},
		"too many connections":   {server("FATAL", "53300", ""), unavailable, unknown},
		"disk full":              {server("ERROR", "53100", ""), unavailable, unavailable},
		"wrong password":         {server("FATAL", "28P01", ""), unavailable, unknown},
		"no rights":              {server("ERROR", "42501", ""), unavailable, unavailable},
		"read-only":              {server("ERROR", "25006", ""), unavailable, unavailable},
		"not migrated":           {server("ERROR", "42P01", ""), unavailable, unavailable},
		"connection failure":     {server("ERROR", "08006", ""), unavailable, unavailable},
		"no such database":       {server("FATAL", "3D000", ""), unavailable, unknown},
		"short code":             {server("ERROR", "", ""), "failed", "failed"},
		"end of file":            {io.ErrUnexpectedEOF, unavailable, unknown},
		"connection reset":       {&net.OpError{Op: "read", Err: errors.New("reset")}, unavailable, unknown},
		"deadline":               {context.DeadlineExceeded, unavailable, unknown},
		"cancelled":              {context.Canceled, "failed", unknown},
		"closed":                 {pgconn.ErrConnClosed, unavailable, unknown},
		"the driver's complaint": {errors.New("can't scan"), "failed", unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, err := range []error{test.err, fmt.Errorf("wrapped: %w", fmt.Errorf("twice: %w", test.err))} {
				require.Equal(t, test.before, postgres.FateOf(err, false))
				require.Equal(t, test.sent, postgres.FateOf(err, true))
			}
		})
	}
}
