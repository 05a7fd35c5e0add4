package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// PostBatch carries operations out in order, each once for its key, in one database transaction of two round trips.
// The results have the order of the operations; one that is malformed, in conflict or refused spoils no other. Level 2.
//
// An error means that no operation has a new outcome, or, for ledger.ErrUnknownOutcome, that all or none have. When
// PostgreSQL rejects the data of some operation, which a bug can cause, a damaged page, or a trigger of somebody's own, the
// batch is carried out in parts until that operation is alone: then every error is in the results, and PostBatch itself
// returns none.
//
// Throughput rises with the size of the batch up to some thousand operations; so does the time for which the accounts
// are locked. Batches that share accounts are slower at once than one after the other.
func (l *Ledger) PostBatch(ctx context.Context, operations []ledger.Operation) ([]ledger.Result, error) {
	results := make([]ledger.Result, len(operations))
	items := make([]item, 0, len(operations))
	for i := range operations {
		if err := operations[i].Validate(); err != nil {
			results[i].Err = err
			continue
		}
		items = append(items, item{operation: &operations[i], hash: operations[i].RequestHash(), result: &results[i]})
	}
	if len(items) == 0 {
		return results, nil
	}
	err := l.withConn(ctx, "post", func(ctx context.Context, conn *pgx.Conn) error {
		return postItems(ctx, conn, items, locking{})
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// item is one valid operation and where its result goes.
type item struct {
	operation *ledger.Operation
	hash      ledger.RequestHash
	result    *ledger.Result
	// enter is asked once the locks are held whether the operation is still wanted; nil: it is. From then on it may be
	// carried out.
	enter func() bool
}

// locking is how a posting takes the locks of its accounts. The zero value waits for each as long as the session and the
// caller's deadline allow.
type locking struct {
	// wait bounds the wait for one account, if it is not zero.
	wait time.Duration
	// skip leaves operations out that touch an account which somebody else holds. Their result is a *heldError.
	skip bool
}

// heldError says that an operation was left out because of an account.
type heldError struct{ account accountName }

// errLeft says that an operation was left out because nobody waits for it any more.
var errLeft = errors.New("the caller has left")

func (e *heldError) Error() string { return "another session holds the account " + e.account.name }

// postItems carries items out: all in one database transaction, or, if it is rejected for the data of some, in parts.
func postItems(ctx context.Context, conn *pgx.Conn, items []item, how locking) error {
	verdict, err := postPart(ctx, conn, items, how)
	if verdict != verdictRejected {
		return err
	}
	postParts(ctx, conn, items, how, err)
	return nil
}

// postParts carries out what was rejected as a whole, in halves, until what is at fault is alone.
func postParts(ctx context.Context, conn *pgx.Conn, items []item, how locking, rejection error) {
	if len(items) == 1 {
		items[0].result.Err = rejection
		return
	}
	middle := len(items) / 2
	for _, part := range [2][]item{items[:middle], items[middle:]} {
		switch verdict, err := postPart(ctx, conn, part, how); {
		case verdict == verdictRejected:
			postParts(ctx, conn, part, how, err)
		case err != nil:
			for _, item := range part {
				item.result.Err = err
			}
		}
	}
}

// postPart runs the database transaction for items.
func postPart(ctx context.Context, conn *pgx.Conn, items []item, how locking) (verdict, error) {
	p := posting{conn: conn, items: items, locking: how}
	return transact(ctx, conn, p.run)
}

// posting is the database transaction of a batch.
type posting struct {
	conn    *pgx.Conn
	items   []item
	locking locking
}

// run is one attempt. It sets the items' results when it succeeds.
func (p *posting) run(ctx context.Context) (commitSent bool, err error) {
	needs := needsOf(p.items)
	found, err := p.lockAndLook(ctx, &needs)
	if err != nil {
		return false, err
	}
	if missing := missingOwn(needs.own, found); len(missing) > 0 {
		rollback(ctx, p.conn)
		if err := openOwn(ctx, p.conn, missing); err != nil {
			return false, err
		}
		return false, errOwnOpened
	}
	book, err := found.book(len(p.items))
	if err != nil {
		return false, err
	}
	results := make([]ledger.Result, len(p.items))
	for i := range p.items {
		if held := found.heldOf(p.items[i].operation); held != nil {
			results[i].Err = held
			continue
		}
		if enter := p.items[i].enter; enter != nil && !enter() {
			results[i].Err = errLeft
			continue
		}
		results[i] = book.Decide(p.items[i].operation, p.items[i].hash)
	}
	if len(book.Decided()) == 0 {
		// Nothing is new, so there is nothing to commit, and no answer to lose.
		rollback(ctx, p.conn)
	} else if commitSent, err = p.writeAndCommit(ctx, book, found.operationIDs); err != nil {
		return commitSent, err
	}
	for i := range p.items {
		*p.items[i].result = results[i]
	}
	return commitSent, nil
}

// errOwnOpened: an account of the ledger's own was needed for the first time, and is there now.
var errOwnOpened = errors.New("an account of the ledger's own was opened; run again")

// Accounts are locked in one order, by what never changes, so two batches can't wait for each other: the ledger's own
// last, since everything between two ledgers, and to a rail, goes through them, and would wait with whoever waits for
// another account. The lock is the one that an update takes. An account is found by its name alone, in whatever asset it
// is; one of the ledger's own by both.
//
// It is a join and not "name = any ($1)" because of what follows a wait: PostgreSQL then checks the condition again on
// the changed row, for every row that changed, and comparing each with a thousand names costs more than the batch.
const lockAccountsSQL = `
select a.id, a.name, a.asset, a.balance::text, a.version, a.floor::text, a.ceiling::text, a.status, a.entry_at
from unnest($1::text[], $2::text[]) as needed (name, asset)
join accounts a on a.name = needed.name and needed.asset in ('', a.asset)
order by needed.asset <> '', a.id
for no key update of a`

const lockFreeAccountsSQL = lockAccountsSQL + ` skip locked`

// What is there and was not locked is held by somebody.
const accountNamesSQL = `
select a.name, case when needed.asset <> '' then a.asset else '' end
from unnest($1::text[], $2::text[]) as needed (name, asset)
join accounts a on a.name = needed.name and needed.asset in ('', a.asset)`

// The wait for accounts is bounded, and nothing after it.
const (
	boundWaitSQL   = `select set_config('payonce.lock_timeout', current_setting('lock_timeout'), true), set_config('lock_timeout', $1, true)`
	unboundWaitSQL = `select set_config('lock_timeout', current_setting('payonce.lock_timeout'), true)`
)

// A statement of its own: its snapshot is taken after the locks are held, so it sees what committed while this
// database transaction waited for them.
const knownOperationsSQL = `
select key, request_hash, state, coalesce(code, ''), coalesce(detail, ''), at
from operations
where operation_claim(key) = any ($1)`

const reversibleOperationsSQL = `
select key, legs
from operations
where operation_claim(key) = any ($1) and state = 'applied'`

const reversalsSQL = `
select reverses, legs
from operations
where reverses = any ($1) and state = 'applied'`

// The clock is read after the locks are held, so that times rise with versions on every account. The numbers are for the
// new operations; those of repeats stay unused.
const clockSQL = `
select clock_timestamp(), array(select nextval('operations_id_seq') from generate_series(1, $1::int))`

// found is what the first round trip brings.
type found struct {
	now          time.Time
	operationIDs []int64
	accounts     []*ledger.Account
	held         map[accountName]struct{}
	known        []knownOperation
	reversible   []keyLegs
	reversals    []keyLegs
}

type knownOperation struct {
	hash    ledger.RequestHash
	outcome ledger.Outcome
}

type keyLegs struct {
	key  ledger.Key
	legs []ledger.Leg
}

// lockAndLook is the first round trip.
func (p *posting) lockAndLook(ctx context.Context, needs *needs) (*found, error) {
	var f found
	batch := begin(ctx)
	if p.locking.wait > 0 {
		batch.Queue(boundWaitSQL, milliseconds(p.locking.wait))
	}
	if p.locking.skip {
		batch.Queue(lockFreeAccountsSQL, needs.names, needs.assets).Query(f.scanAccounts)
		batch.Queue(accountNamesSQL, needs.names, needs.assets).Query(f.scanHeld)
	} else {
		batch.Queue(lockAccountsSQL, needs.names, needs.assets).Query(f.scanAccounts)
	}
	if p.locking.wait > 0 {
		batch.Queue(unboundWaitSQL)
	}
	batch.Queue(knownOperationsSQL, needs.claims).Query(f.scanKnown)
	if len(needs.reversed) > 0 {
		batch.Queue(reversibleOperationsSQL, needs.reversedClaims).Query(func(rows pgx.Rows) (err error) {
			f.reversible, err = scanKeyLegs(rows)
			return err
		})
		batch.Queue(reversalsSQL, needs.reversed).Query(func(rows pgx.Rows) (err error) {
			f.reversals, err = scanKeyLegs(rows)
			return err
		})
	}
	batch.Queue(clockSQL, len(p.items)).QueryRow(func(row pgx.Row) error { return row.Scan(&f.now, &f.operationIDs) })
	return &f, p.conn.SendBatch(ctx, batch).Close()
}

// needs is what a batch asks of the database.
type needs struct {
	claims         []string // of the operations' keys
	names          []string // of accounts, each once
	assets         []string // of the ledger's own account at the same index; "" for any other account
	reversed       []string
	reversedClaims []string      // at the same index
	own            []accountName // accounts of the ledger's own
}

type accountName struct {
	name  string
	asset ledger.Asset // zero but for the ledger's own
}

func needsOf(items []item) needs {
	n := needs{claims: make([]string, 0, len(items))}
	seen := make(map[accountName]struct{}, 2*len(items))
	for _, item := range items {
		n.claims = append(n.claims, string(item.operation.Key.Claim()))
		if item.operation.Reverses != "" {
			n.reversed = append(n.reversed, string(item.operation.Reverses))
			n.reversedClaims = append(n.reversedClaims, string(item.operation.Reverses.Claim()))
		}
		for i := range item.operation.Legs {
			leg := &item.operation.Legs[i]
			for _, account := range accountsOf(leg) {
				if _, ok := seen[account]; ok {
					continue
				}
				seen[account] = struct{}{}
				n.names = append(n.names, account.name)
				n.assets = append(n.assets, account.asset.String())
				if ledger.IsOwn(account.name) {
					n.own = append(n.own, account)
				}
			}
		}
	}
	return n
}

// accountsOf are the two accounts of a leg.
func accountsOf(leg *ledger.Leg) [2]accountName {
	accounts := [2]accountName{{name: leg.From}, {name: leg.To}}
	for i := range accounts {
		if ledger.IsOwn(accounts[i].name) {
			accounts[i].asset = leg.Asset
		}
	}
	return accounts
}

func (f *found) scanAccounts(rows pgx.Rows) error {
	for rows.Next() {
		var a ledger.Account
		var asset, balance string
		var floor, ceiling *string
		var entryAt *time.Time
		if err := rows.Scan(&a.ID, &a.Name, &asset, &balance, &a.Version, &floor, &ceiling, &a.Status, &entryAt); err != nil {
			return err
		}
		if err := fillAccount(&a, asset, balance, floor, ceiling, entryAt); err != nil {
			return err
		}
		f.accounts = append(f.accounts, &a)
	}
	return rows.Err()
}

// scanHeld comes after scanAccounts.
func (f *found) scanHeld(rows pgx.Rows) error {
	f.held = make(map[accountName]struct{})
	for rows.Next() {
		var name, asset string
		if err := rows.Scan(&name, &asset); err != nil {
			return err
		}
		account := accountName{name: name}
		if asset != "" {
			var err error
			if account.asset, err = ledger.ParseAsset(asset); err != nil {
				return err
			}
		}
		f.held[account] = struct{}{}
	}
	for _, a := range f.accounts {
		account := accountName{name: a.Name}
		if ledger.IsOwn(a.Name) {
			account.asset = a.Asset
		}
		delete(f.held, account)
	}
	return rows.Err()
}

// heldOf is the error of an operation that touches an account that somebody holds, or nil.
func (f *found) heldOf(operation *ledger.Operation) error {
	if len(f.held) == 0 {
		return nil
	}
	for i := range operation.Legs {
		for _, account := range accountsOf(&operation.Legs[i]) {
			if _, held := f.held[account]; held {
				return &heldError{account: account}
			}
		}
	}
	return nil
}

func (f *found) scanKnown(rows pgx.Rows) error {
	for rows.Next() {
		var k knownOperation
		var hash []byte
		o := &k.outcome
		if err := rows.Scan(&o.Key, &hash, &o.State, &o.Code, &o.Detail, &o.At); err != nil {
			return err
		}
		copy(k.hash[:], hash)
		o.At = o.At.UTC()
		f.known = append(f.known, k)
	}
	return rows.Err()
}

func scanKeyLegs(rows pgx.Rows) ([]keyLegs, error) {
	var all []keyLegs
	for rows.Next() {
		var one keyLegs
		var legs []byte
		if err := rows.Scan(&one.key, &legs); err != nil {
			return nil, err
		}
		var err error
		if one.legs, err = decodeLegs(legs); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// book puts what was found into a Book for about so many operations.
func (f *found) book(operations int) (*ledger.Book, error) {
	book := ledger.NewBook(f.now.UTC(), operations)
	for _, account := range f.accounts {
		book.AddAccount(account)
	}
	for i := range f.known {
		book.AddRecord(f.known[i].hash, f.known[i].outcome)
	}
	for _, original := range f.reversible {
		book.AddReversible(original.key, original.legs)
	}
	for _, reversal := range f.reversals {
		if err := book.AddReversal(reversal.key, reversal.legs); err != nil {
			return nil, err
		}
	}
	return book, nil
}

// missingOwn is what of needed is not there.
func missingOwn(needed []accountName, found *found) []accountName {
	if len(needed) == 0 {
		return nil
	}
	there := make(map[accountName]bool, len(needed))
	for _, a := range found.accounts {
		if ledger.IsOwn(a.Name) {
			there[accountName{name: a.Name, asset: a.Asset}] = true
		}
	}
	var missing []accountName
	for _, n := range needed {
		if _, held := found.held[n]; !there[n] && !held {
			missing = append(missing, n)
		}
	}
	return missing
}

// Where money is on its way there may be less than nothing of it: it arrives at one end before or after it leaves the other.
// What is kept for a rail is never less than nothing.
const openOwnSQL = `
insert into accounts (name, asset, floor)
select name, asset, case when name like 'transit:%' then null else 0 end
from unnest($1::text[], $2::text[]) as needed (name, asset)
order by name, asset
on conflict do nothing`

// openOwn opens accounts of the ledger's own in a database transaction of their own: opened within the batch's, two batches
// that need the same one would wait for each other while they hold locks.
func openOwn(ctx context.Context, conn *pgx.Conn, accounts []accountName) error {
	names, assets := make([]string, len(accounts)), make([]string, len(accounts))
	for i, a := range accounts {
		names[i], assets[i] = a.name, a.asset.String()
	}
	_, err := conn.Exec(ctx, openOwnSQL, names, assets)
	return err
}

const insertOperationsSQL = `
insert into operations
	(id, key, kind, request_hash, state, code, detail, reverses, counterparty, legs, memo, metadata, at)
select
	id, key, kind, request_hash, state, nullif(code, ''), nullif(detail, ''), nullif(reverses, ''), nullif(counterparty, ''),
	legs::json, memo, nullif(metadata, '')::jsonb, $13
from unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
	$10::text[], $11::text[], $12::text[])
	as new (id, key, kind, request_hash, state, code, detail, reverses, counterparty, legs, memo, metadata)`

const insertEntriesSQL = `
insert into entries (account_id, version, operation_id, leg, amount, balance)
select account_id, version, operation_id, leg, amount::numeric, balance::numeric
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::text[], $6::text[])
	as new (account_id, version, operation_id, leg, amount, balance)`

const updateAccountsSQL = `
update accounts
set balance = new.balance::numeric, version = new.version, entry_at = $4
from unnest($1::bigint[], $2::text[], $3::bigint[]) as new (id, balance, version)
where accounts.id = new.id`

// writeAndCommit is the second round trip.
func (p *posting) writeAndCommit(ctx context.Context, book *ledger.Book, operationIDs []int64) (commitSent bool, err error) {
	batch := &pgx.Batch{}
	at := queueOperations(batch, book.Decided(), operationIDs)
	if len(book.Entries()) > 0 {
		queueEntries(batch, book, operationIDs)
		queueBalances(batch, book.Touched(), at)
	}
	return commit(ctx, p.conn, batch)
}
