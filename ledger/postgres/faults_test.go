package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"payonce/internal/pgtest"
	"payonce/ledger"
	"payonce/ledger/postgres"
)

// case 25: activerecord-jdbc-adapter PR#1216: the connection dies at COMMIT.
func TestCutAtCommit(t *testing.T) {
	t.Parallel()
	committed := func(m pgtest.Message) bool { return m.FromServer && m.Tag == "COMMIT" }
	type call func(l *postgres.Ledger, ctx context.Context, o ledger.Operation) (ledger.Outcome, error)
	calls := map[string]call{
		"post": (*postgres.Ledger).Post,
		"resolve": func(l *postgres.Ledger, ctx context.Context, o ledger.Operation) (ledger.Outcome, error) {
			return l.Resolve(ctx, seal(o))
		},
	}
	for name, ask := range calls {
		for place, test := range map[string]struct {
			cut     func(pgtest.Message) bool
			applied bool
		}{
			"before the server has it": {runs("commit"), false},
			"before its answer":        {committed, true},
		} {
			t.Run(name+" "+place, func(t *testing.T) {
				t.Parallel()
				b := openBooks(t)
				b.fund(t, "alice", "20")
				b.open(t, "bob")
				l, proxy := b.through(t)
				_, err := ask(l, t.Context(), post("warm", "alice", "bob", "1")) // connects and prepares
				require.NoError(t, err)

				proxy.CutBefore(test.cut)
				o := post("k", "alice", "bob", "10")
				_, err = ask(l, t.Context(), o)
				require.ErrorIs(t, err, ledger.ErrUnknownOutcome)
				require.NotErrorIs(t, err, ledger.ErrUnavailable)

				again, err := ask(l, t.Context(), o)
				require.NoError(t, err, "the key tells")
				require.Equal(t, test.applied, again.Repeat)
				sound(t, b)
			})
		}
	}
}

// case 40: blnk#240: cut between any two messages, before or after the server has the next one; then ask again.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	w := withdraw("t/withdraw", "alice", "eu/bob", "10")
	steps := map[string][]ledger.Operation{
		"post":     {post("k", "alice", "bob", "10")},
		"withdraw": {w}, // opens its transit account first
		"batch":    {post("k1", "alice", "bob", "10"), w, post("k2", "bob", "alice", "1000"), refund("t/refund", w, "10")},
	}
	for name, operations := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBooks(t)
			l, proxy := b.through(t)
			b.open(t, "world", unlimited)
			for cutAt := 1; ; cutAt++ {
				// Each round has keys and accounts of its own.
				round := func(s string) string { return fmt.Sprintf("%s-%d", s, cutAt) }
				b.open(t, round("alice"))
				b.open(t, round("bob"))
				b.apply(t, post(round("fund"), "world", round("alice"), "20"))
				batch := make([]ledger.Operation, len(operations))
				for i, o := range operations {
					o.Legs = append([]ledger.Leg(nil), o.Legs...)
					o.Key = ledger.Key(strings.Replace(string(o.Key), "/", "-"+round("")+"/", 1) + round(""))
					if o.Reverses != "" {
						o.Reverses = batch[1].Key
					}
					for _, account := range []*string{&o.Legs[0].From, &o.Legs[0].To} {
						if *account == "alice" || *account == "bob" {
							*account = round(*account)
						}
						*account = strings.Replace(*account, "transit:eu", "transit:"+round("eu"), 1)
					}
					o.Counterparty = strings.Replace(o.Counterparty, "eu", round("eu"), 1)
					batch[i] = o
				}
				// Connected and prepared, so that every round sees the same messages.
				_, err := l.PostBatch(t.Context(), []ledger.Operation{post("warm", round("alice"), "world", "1000")})
				if err != nil {
					require.ErrorIs(t, err, ledger.ErrKeyConflict)
				}

				seen, wasCut := 0, false
				proxy.CutBefore(func(pgtest.Message) bool {
					seen++
					wasCut = seen == cutAt
					return wasCut
				})
				_, err = l.PostBatch(t.Context(), batch)
				proxy.CutBefore(nil)
				if !wasCut {
					require.NoError(t, err)
					require.Greater(t, cutAt, 20, "there were messages to cut between")
					break
				}
				if err != nil {
					unknown, unavailable := errors.Is(err, ledger.ErrUnknownOutcome), errors.Is(err, ledger.ErrUnavailable)
					require.NotEqual(t, unknown, unavailable, "%v", err)
					_, err := b.Operation(t.Context(), batch[0].Key)
					if unavailable {
						require.ErrorIs(t, err, ledger.ErrOperationUnknown, "not applied, for sure")
					}
				}
				results, err := l.PostBatch(t.Context(), batch)
				for errors.Is(err, ledger.ErrUnavailable) { // the pool still has a dead connection
					results, err = l.PostBatch(t.Context(), batch)
				}
				require.NoError(t, err)
				again, err := b.PostBatch(t.Context(), batch)
				require.NoError(t, err)
				for i := range results {
					require.NoError(t, results[i].Err)
					require.Equal(t, repeated(results[i].Outcome), again[i].Outcome)
				}
			}
			sound(t, b)
		})
	}
}

// The server ends a session in the middle of a database transaction: nothing was committed, and it is known.
func TestSessionEndedByTheServer(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "20")
	b.open(t, "bob")
	owner := b.owner(t)
	lock := b.owner(t)
	for _, place := range []string{"while it waits for a lock", "while it inserts"} {
		t.Run(place, func(t *testing.T) {
			exec(t, lock, "begin")
			o := post("k "+place, "alice", "bob", "10")
			if place == "while it inserts" {
				hash := o.RequestHash()
				exec(t, lock, `insert into operations (key, kind, request_hash, state, code, legs, memo, at)
					values ($1, 'post', $2, 'refused', 'x', '[]', '', now())`, o.Key, hash[:])
			} else {
				exec(t, lock, "select from accounts where name = 'bob' for update")
			}
			done := make(chan error)
			go func() {
				_, err := b.Post(t.Context(), o)
				done <- err
			}()
			// In one statement: the session that waits now may not do so a moment later, when another one of the ledger does.
			waitFor(t, owner, `(select count(*) filter (where pg_terminate_backend(pid)) = 1 from pg_stat_activity
				where datname = current_database() and wait_event_type = 'Lock')`)
			err := <-done
			require.ErrorIs(t, err, ledger.ErrUnavailable)
			require.NotErrorIs(t, err, ledger.ErrUnknownOutcome, "the server said so before it came to COMMIT")
			exec(t, lock, "rollback")
			b.apply(t, o)
		})
	}
	sound(t, b)
}

// case 83: formancehq/ledger#1684: what fails at the second write leaves nothing of the first.
func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"operations", "entries", "accounts"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			b := openBooks(t)
			b.fund(t, "alice", "20")
			b.open(t, "bob")
			owner := b.owner(t)
			exec(t, owner, `create function fail() returns trigger language plpgsql as $$ begin raise exception 'planted'; end $$`)
			exec(t, owner, `create trigger planted after insert or update on `+table+` for each statement execute function fail()`)
			_, err := b.Post(t.Context(), post("k", "alice", "bob", "10"))
			require.ErrorContains(t, err, "planted")
			for _, sentinel := range []error{ledger.ErrUnavailable, ledger.ErrUnknownOutcome} {
				require.NotErrorIs(t, err, sentinel)
			}
			_, err = b.Operation(t.Context(), "k")
			require.ErrorIs(t, err, ledger.ErrOperationUnknown)
			require.Equal(t, 2, queryInt(t, owner, "select count(*) from entries"))
			exec(t, owner, `drop trigger planted on `+table)
			b.apply(t, post("k", "alice", "bob", "10"))
			sound(t, b)
		})
	}
}

// case 38: jackc/pgx#780: a serialization error at COMMIT.
func TestRerun(t *testing.T) {
	t.Parallel()
	plant := func(t *testing.T, b *books, state string, times int) {
		owner := b.owner(t)
		exec(t, owner, `create sequence failures`)
		exec(t, owner, `grant usage on sequence failures to public`)
		exec(t, owner, fmt.Sprintf(`create function fail() returns trigger language plpgsql as $$
			begin
				if nextval('failures') <= %d then raise exception 'planted' using errcode = '%s'; end if;
				return null;
			end $$`, times, state))
		exec(t, owner, `create constraint trigger planted after insert on operations deferrable initially deferred
			for each row execute function fail()`)
	}
	for _, state := range []string{"40001", "40P01"} {
		t.Run(state+" passes", func(t *testing.T) {
			t.Parallel()
			b := openBooks(t)
			b.fund(t, "alice", "20")
			b.open(t, "bob")
			plant(t, b, state, 3)
			outcome := b.apply(t, post("k", "alice", "bob", "10"))
			require.False(t, outcome.Repeat)
			require.Equal(t, 5, queryInt(t, b.owner(t), "select nextval('failures')"))
			resolved, err := b.Resolve(t.Context(), seal(post("k2", "alice", "bob", "10")))
			require.NoError(t, err)
			require.Equal(t, ledger.OutcomeSealed, resolved.State)
			sound(t, b)
		})
		t.Run(state+" does not pass", func(t *testing.T) {
			t.Parallel()
			b := openBooks(t)
			b.fund(t, "alice", "20")
			b.open(t, "bob")
			plant(t, b, state, 1_000_000)
			_, err := b.Post(t.Context(), post("k", "alice", "bob", "10"))
			require.ErrorContains(t, err, state)
			require.NotErrorIs(t, err, ledger.ErrUnavailable)
			require.NotErrorIs(t, err, ledger.ErrUnknownOutcome)
			require.Equal(t, postgres.RerunsMax+2, queryInt(t, b.owner(t), "select nextval('failures')"), "reruns are bounded")
			b.has(t, "alice", "20.00")
		})
	}
}

// One operation that the database rejects, for a bug of ours or by a trigger of somebody's own, does not take its neighbours along.
func TestRejectedAlone(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	b.open(t, "bob")
	owner := b.owner(t)
	exec(t, owner, `alter table operations add constraint planted check (memo <> 'bad 3')`)
	exec(t, owner, `
		create function refuse_planted() returns trigger language plpgsql as $$ begin raise exception 'planted'; end $$;
		create trigger refuse before insert on operations for each row when (new.memo = 'bad 8') execute function refuse_planted()`)
	var operations []ledger.Operation
	for i := range 10 {
		o := post(fmt.Sprint("k", i), "alice", "bob", "1")
		o.Memo = fmt.Sprint("bad ", i)
		operations = append(operations, o)
	}
	results, err := b.PostBatch(t.Context(), operations)
	require.NoError(t, err)
	for i, r := range results {
		if i == 3 || i == 8 {
			require.ErrorContains(t, r.Err, "planted")
			require.NotErrorIs(t, r.Err, ledger.ErrUnavailable)
			continue
		}
		require.NoError(t, r.Err)
		require.Equal(t, ledger.OutcomeApplied, r.Outcome.State)
		require.False(t, r.Outcome.Repeat)
		require.Equal(t, operations[i].Key, r.Outcome.Key)
	}
	b.has(t, "bob", "8.00")
	_, err = b.Post(t.Context(), operations[3])
	require.ErrorContains(t, err, "planted")
	exec(t, owner, `alter table operations drop constraint planted; drop trigger refuse on operations`)
	b.apply(t, operations[3])
	b.apply(t, operations[8])
	sound(t, b)
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	const password = "s3cret-pass"
	never := func(t *testing.T, err error) {
		t.Helper()
		require.NotErrorIs(t, err, ledger.ErrUnknownOutcome)
		require.NotContains(t, err.Error(), password)
		require.NotContains(t, err.Error(), "postgres://")
		require.NotContains(t, err.Error(), "\n")
	}
	all := map[string]func(l *postgres.Ledger, ctx context.Context) error{
		"post": func(l *postgres.Ledger, ctx context.Context) error {
			_, err := l.Post(ctx, post("k", "a", "b", "1"))
			return err
		},
		"resolve": func(l *postgres.Ledger, ctx context.Context) error {
			_, err := l.Resolve(ctx, seal(post("k", "a", "b", "1")))
			return err
		},
		"read":    func(l *postgres.Ledger, ctx context.Context) error { _, err := l.Operation(ctx, "k"); return err },
		"account": func(l *postgres.Ledger, ctx context.Context) error { _, err := l.Account(ctx, "a", usd); return err },
		"open": func(l *postgres.Ledger, ctx context.Context) error {
			_, err := l.AccountOpen(ctx, ledger.NewAccount("a", usd))
			return err
		},
		"set": func(l *postgres.Ledger, ctx context.Context) error {
			_, err := l.AccountSet(ctx, "a", ledger.AccountChange{})
			return err
		},
		"ping":   (*postgres.Ledger).Ping,
		"schema": (*postgres.Ledger).CheckSchema,
		"verify": func(l *postgres.Ledger, ctx context.Context) error {
			_, err := postgres.Verify(ctx, []*postgres.Ledger{l}, postgres.Report{})
			return err
		},
	}
	check := func(t *testing.T, l *postgres.Ledger) {
		t.Helper()
		for name, ask := range all {
			err := ask(l, t.Context())
			require.ErrorIs(t, err, ledger.ErrUnavailable, name)
			never(t, err)
		}
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		check(t, openLedger(t, "us", "postgres://payonce:"+password+"@127.0.0.1:1/payonce"))
		err := postgres.Migrate(t.Context(), "postgres://payonce:"+password+"@127.0.0.1:1/payonce", postgres.MigrateOptions{})
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		never(t, err)
	})
	t.Run("unknown host", func(t *testing.T) {
		t.Parallel()
		check(t, openLedger(t, "us", "postgres://payonce:"+password+"@nowhere.invalid/payonce?sslmode=disable"))
	})
	t.Run("wrong password", func(t *testing.T) {
		t.Parallel()
		db := pgtest.NewDatabase(t)
		check(t, openLedger(t, "us", strings.Replace(db.WorkerURL, "payonce-test-worker@", password+"@", 1)))
	})
	t.Run("no such database", func(t *testing.T) {
		t.Parallel()
		db := pgtest.NewDatabase(t)
		check(t, openLedger(t, "us", strings.Replace(db.WorkerURL, db.Name, "gone", 1)))
	})
	t.Run("rights taken away", func(t *testing.T) {
		t.Parallel()
		b := openBooks(t)
		exec(t, b.owner(t), "revoke all on accounts, operations, entries from "+pgtest.WorkerRole())
		_, err := b.Post(t.Context(), post("k", "a", "b", "1"))
		require.ErrorIs(t, err, ledger.ErrUnavailable)
	})
	t.Run("case 42: saleor#19812: only a standby", func(t *testing.T) {
		t.Parallel()
		db := pgtest.NewDatabase(t)
		exec(t, connect(t, db.OwnerURL), "alter database "+db.Name+" set default_transaction_read_only = on")
		check(t, openLedger(t, "us", db.WorkerURL))
	})
	t.Run("case 42: a primary that became a standby", func(t *testing.T) {
		t.Parallel()
		b := openBooks(t)
		b.fund(t, "alice", "20")
		exec(t, b.owner(t), `create function fail() returns trigger language plpgsql as $$ begin raise exception 'planted' using errcode = '25006'; end $$`)
		exec(t, b.owner(t), `create trigger planted before insert on operations for each statement execute function fail()`)
		_, err := b.Post(t.Context(), post("k", "alice", "world", "1"))
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		never(t, err)
	})
	t.Run("no connection in time", func(t *testing.T) {
		t.Parallel()
		b := openBooks(t)
		b.fund(t, "alice", "20")
		b.open(t, "bob", unlimited)
		b.open(t, "carol")
		l, err := postgres.Open(t.Context(), postgres.Config{Name: "us", URL: patient(t, b.WorkerURL), ConnsMax: 1, TimeoutAcquire: 50 * time.Millisecond})
		require.NoError(t, err)
		t.Cleanup(l.Close)
		owner := b.owner(t)
		exec(t, owner, "begin")
		exec(t, owner, "select from accounts where name = 'alice' for update")
		done := make(chan error)
		go func() {
			// A batch keeps its connection while it waits. A busy machine may need longer than that to connect.
			_, err := l.PostBatch(t.Context(), []ledger.Operation{post("k", "alice", "world", "1")})
			for errors.Is(err, ledger.ErrUnavailable) {
				_, err = l.PostBatch(t.Context(), []ledger.Operation{post("k", "alice", "world", "1")})
			}
			done <- err
		}()
		waitFor(t, owner, blocked(1))
		_, err = l.Post(t.Context(), post("k2", "bob", "carol", "1"))
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		never(t, err)
		exec(t, owner, "commit")
		require.NoError(t, <-done)
	})
	t.Run("a network that swallows everything", func(t *testing.T) {
		t.Parallel()
		b := openBooks(t)
		b.fund(t, "alice", "20")
		l, proxy := b.through(t)
		require.NoError(t, l.Ping(t.Context()))
		for _, test := range []struct {
			before string
			want   error
		}{
			{postgres.KnownOperationsSQL, ledger.ErrUnavailable},
			{postgres.InsertOperationsSQL, ledger.ErrUnknownOutcome},
		} {
			require.NoError(t, l.Ping(t.Context()))
			reached, release := proxy.HoldBefore(runs(test.before))
			ctx, expire := newExpiringContext(t.Context())
			done := make(chan error)
			go func() {
				_, err := l.Post(ctx, post("k"+test.want.Error(), "alice", "world", "1"))
				done <- err
			}()
			<-reached
			expire()
			err := <-done
			release()
			require.ErrorIs(t, err, test.want)
		}
		sound(t, b)
	})
	t.Run("a server that crashed and came back", func(t *testing.T) {
		t.Parallel()
		b := openBooks(t)
		b.fund(t, "alice", "20")
		owner := b.owner(t)
		exec(t, owner, `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
		o := post("k", "alice", "world", "1")
		outcome, err := b.Post(t.Context(), o)
		for errors.Is(err, ledger.ErrUnavailable) {
			outcome, err = b.Post(t.Context(), o)
		}
		require.NoError(t, err)
		require.Equal(t, ledger.OutcomeApplied, outcome.State)
	})
}
