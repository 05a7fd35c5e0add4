package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// workerRights are all the rights that a worker has on the ledger's tables. Entries, operations and the actions on dead
// letters can be added and read, and nothing else. Of an account neither the name nor the asset ever changes.
var workerRights = []string{
	"select, insert on operations, entries, dead_letter_actions",
	"select, insert, update (balance, version, entry_at, floor, ceiling, status, metadata) on accounts",
	"select, insert, update on dead_letters",
	"select on " + schemaTable,
	"usage on sequence accounts_id_seq, operations_id_seq, dead_letters_id_seq, dead_letter_actions_id_seq",
	"execute on function account_version_before (bigint, timestamptz)",
	"usage on schema public",
}

// workerObjects are what a worker may have rights on.
var workerObjects = []string{
	"accounts, operations, entries, dead_letters, dead_letter_actions, " + schemaTable,
	"sequence accounts_id_seq, operations_id_seq, dead_letters_id_seq, dead_letter_actions_id_seq, " + schemaTable + "_id_seq",
	"schema public",
}

const roleSQL = `
select rolsuper, exists (select from pg_class where relnamespace = 'public'::regnamespace and relowner = pg_roles.oid)
from pg_roles
where rolname = $1`

// grant gives role the worker's rights and takes every other one away, in one database transaction: a running worker
// never has less.
func grant(ctx context.Context, config *pgx.ConnConfig, role string) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutRollback)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var superuser, owner bool
		if err := tx.QueryRow(ctx, roleSQL, role).Scan(&superuser, &owner); err != nil {
			return fmt.Errorf("there is no such role: %w", err)
		}
		if superuser || owner {
			return fmt.Errorf("the role is a superuser or owns the tables, so nothing can be denied to it: " +
				"workers log in as another role than the one that migrates")
		}
		quoted := pgx.Identifier{role}.Sanitize()
		for _, object := range workerObjects {
			if _, err := tx.Exec(ctx, "revoke all on "+object+" from "+quoted); err != nil {
				return err
			}
		}
		for _, rights := range workerRights {
			if _, err := tx.Exec(ctx, "grant "+rights+" to "+quoted); err != nil {
				return err
			}
		}
		return nil
	})
}
