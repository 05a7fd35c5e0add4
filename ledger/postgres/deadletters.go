package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// What is as of a later moment replaces what was written before; a repeat, and a write that arrives late, change nothing. A
// letter that a person has closed after its transfer's end stays closed: another run of that transfer meets the same
// end, and says nothing new.
const putDeadLetterSQL = `
insert into dead_letters as d (key, transfer, step, state, parked, run, parking, ended, error, error_type, causes,
	attempts, first_at, last_at, place, account, asset, amount, from_account, to_account, memo, metadata, choices,
	resolution, as_of)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::json, $12, $13, $14, $15, $16, $17, $18::text::numeric, $19, $20,
	$21, nullif($22::text, '')::jsonb, $23, $24, $25)
on conflict on constraint dead_letters_key_key do update
set transfer = excluded.transfer, step = excluded.step, state = excluded.state, parked = excluded.parked,
	run = excluded.run, parking = excluded.parking, ended = excluded.ended, error = excluded.error,
	error_type = excluded.error_type, causes = excluded.causes, attempts = excluded.attempts,
	first_at = least(d.first_at, excluded.first_at), last_at = excluded.last_at, place = excluded.place,
	account = excluded.account, asset = excluded.asset, amount = excluded.amount, from_account = excluded.from_account,
	to_account = excluded.to_account, memo = excluded.memo, metadata = excluded.metadata, choices = excluded.choices,
	resolution = excluded.resolution, as_of = excluded.as_of, version = d.version + 1
where excluded.as_of > d.as_of
	and not (d.state = 'closed' and d.ended <> '' and excluded.state = 'open' and excluded.ended <> '')`

// A statement of its own, whose snapshot has the letter, whoever has inserted it.
const putDeadLetterActionSQL = `
insert into dead_letter_actions (dead_letter_id, action, decided_by, reason, update_id, run, as_of, state, error, error_type,
	attempts, place, account, resolution)
select id, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
from dead_letters
where key = $1
on conflict do nothing`

// DeadLetterPut writes a dead letter by its key: an absolute write, of which the one that is as of the latest moment stands.
// What it does is added to the letter's actions, once. Level 1.
func (l *Ledger) DeadLetterPut(ctx context.Context, letter ledger.DeadLetter) error {
	if err := letter.Validate(); err != nil {
		return err
	}
	d := &letter
	d.Error = ledger.ClipError(d.Error, ledger.ErrorBytesMax)
	d.ErrorType, d.Resolution = ledger.ClipNote(d.ErrorType), ledger.ClipNote(d.Resolution)
	causes, err := json.Marshal(append([]ledger.ErrorCause{}, ledger.ClipCauses(d.Causes)...))
	if err != nil {
		return err
	}
	if d.Choices == nil {
		d.Choices = []string{} // null is for what is not known
	}
	action, decision := ledger.ActionSetAside, ledger.Decision{}
	switch {
	case d.Decision != nil:
		action, decision = d.Decision.Action, *d.Decision
	case d.State == ledger.DeadLetterClosed:
		action = ledger.ActionEnd
	}
	actionError := d.Error
	if action != ledger.ActionSetAside {
		actionError = "" // it is that of the action before
	}
	return l.withConn(ctx, "put dead letter", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := transact(ctx, conn, func(ctx context.Context) (bool, error) {
			batch := begin(ctx)
			batch.Queue(putDeadLetterSQL, d.Key, d.Transfer, d.Step, d.State, d.Parked, d.Run, d.Parking, d.Ended,
				d.Error, d.ErrorType, string(causes), d.Attempts, d.FirstAt, d.LastAt, d.Place, d.Account, d.Asset.String(),
				d.Amount.String(), d.From, d.To, d.Memo, encodeMetadata(d.Metadata), d.Choices, d.Resolution, d.AsOf)
			batch.Queue(putDeadLetterActionSQL, d.Key, action, decision.By, decision.Reason, decision.ID, d.Run, d.AsOf, d.State,
				actionError, d.ErrorType, d.Attempts, d.Place, d.Account, d.Resolution)
			return commit(ctx, conn, batch)
		})
		return err
	})
}

// The letter is closed only as it was when the decision was taken, and only if its transfer has ended. A letter that says
// that it is parked is taken at the word of who knows how its transfer ended: the run that it is of was closed by force.
const decideDeadLetterSQL = `
with decided as (
	update dead_letters d
	set state = 'closed', parked = false, choices = '{}', resolution = $8, version = d.version + 1,
		ended = case when d.parked then $7 else d.ended end,
		place = case
			when not d.parked or $7 in ('discarded', 'delivered') then d.place
			when $7 = 'completed' then 'destination'
			else 'source'
		end,
		account = case
			when not d.parked or $7 in ('discarded', 'delivered') then d.account
			when $7 = 'completed' then d.to_account
			else d.from_account
		end
	where key = $1 and version = $2 and state = 'open' and $3 = any (choices) and ((parked and $7 <> '') or ended <> '')
	returning d.id, d.as_of, d.state, d.error_type, d.attempts, d.place, d.account, d.resolution
)
insert into dead_letter_actions (dead_letter_id, action, decided_by, reason, update_id, run, as_of, state, error, error_type,
	attempts, place, account, resolution)
select id, $3, $4, $5, $6, '', as_of, state, '', error_type, attempts, place, account, resolution
from decided`

// DeadLetterDecide closes an open dead letter of a transfer that has ended, by a person's decision. Asked again with the
// same decision's ID it returns the record as it is. Otherwise a letter that was changed since, or that somebody else has
// closed, is ledger.ErrDecisionRefused, with the record that says who did what. Level 1: the decision's ID is its key.
func (l *Ledger) DeadLetterDecide(ctx context.Context, decision ledger.DeadLetterDecision) (ledger.DeadLetterRecord, error) {
	var record ledger.DeadLetterRecord
	if err := decision.Validate(); err != nil {
		return record, err
	}
	err := l.withConn(ctx, "decide about dead letter", func(ctx context.Context, conn *pgx.Conn) error {
		var r *deadLetterResult
		_, err := transact(ctx, conn, func(ctx context.Context) (bool, error) {
			batch := begin(ctx)
			batch.Queue(decideDeadLetterSQL, decision.Key, decision.Version, decision.Action, decision.By, decision.Reason,
				decision.ID, decision.Ended, ledger.ClipNote(decision.Resolution))
			r = queueDeadLetter(batch, decision.Key)
			return commit(ctx, conn, batch)
		})
		if err == nil {
			record, err = r.read()
		}
		return err
	})
	if err != nil {
		return record, err
	}
	for i := range record.Actions {
		if record.Actions[i].UpdateID == decision.ID {
			return record, nil
		}
	}
	return record, fmt.Errorf("%w: %s", ledger.ErrDecisionRefused, whyRefused(&record, decision.Version))
}

func whyRefused(r *ledger.DeadLetterRecord, version int64) string {
	letter := &r.Letter
	switch last := r.Decided(); {
	case letter.State == ledger.DeadLetterClosed && last != nil:
		text := fmt.Sprintf("%s decided to %s on %s", last.By, last.Action, last.At.Format(time.RFC3339))
		if last.Reason != "" {
			text += " (" + last.Reason + ")"
		}
		return text
	case letter.State == ledger.DeadLetterClosed:
		return "it is closed: " + letter.Resolution
	case letter.Version != version:
		return fmt.Sprintf("it is at version %d, and the decision is about version %d: look again", letter.Version, version)
	case letter.Ended == "":
		return "its transfer has not ended"
	default:
		return fmt.Sprintf("the transfer has ended as %s: choose %s", letter.Ended, strings.Join(letter.Choices, " or "))
	}
}

const (
	deadLetterColumns = `id, key, transfer, step, state, parked, run, parking, ended, error_type, attempts, first_at, last_at,
	place, account, asset, amount::text, from_account, to_account, choices, resolution, as_of, version`

	deadLetterSQL = `select error, causes, memo, metadata, ` + deadLetterColumns + ` from dead_letters where key = $1`

	deadLetterActionsSQL = `
select at, action, decided_by, reason, update_id, run, state, error_type,
	case when octet_length(error) <= $3 then error else left(error, $3 / 4) || ' …' end, attempts, place, account, resolution,
	count(*) over ()
from dead_letter_actions
where dead_letter_id = (select id from dead_letters where key = $1)
order by id desc
limit $2`
)

// actionsMax bounds what is read of a letter's actions, so that it fits into one answer together with the letter.
const actionsMax = 100

// deadLetterResult takes the rows of a letter and its actions.
type deadLetterResult struct {
	key     ledger.Key
	letters []ledger.DeadLetter
	actions []ledger.DeadLetterAction
	count   int // of all actions
}

func queueDeadLetter(batch *pgx.Batch, key ledger.Key) *deadLetterResult {
	r := &deadLetterResult{key: key}
	batch.Queue(deadLetterSQL, key).Query(func(rows pgx.Rows) (err error) {
		r.letters, err = pgx.CollectRows(rows, scanDeadLetter)
		return err
	})
	batch.Queue(deadLetterActionsSQL, key, actionsMax, ledger.ErrorBriefBytesMax).Query(func(rows pgx.Rows) (err error) {
		r.actions, err = pgx.CollectRows(rows, r.scanAction)
		return err
	})
	return r
}

func (r *deadLetterResult) read() (ledger.DeadLetterRecord, error) {
	if len(r.letters) == 0 {
		return ledger.DeadLetterRecord{}, fmt.Errorf("%w: %q", ledger.ErrDeadLetterUnknown, r.key)
	}
	record := ledger.DeadLetterRecord{Letter: r.letters[0], ActionsLeftOut: r.count - len(r.actions)}
	for _, action := range slices.Backward(r.actions) {
		record.Actions = append(record.Actions, action)
	}
	return record, nil
}

func (r *deadLetterResult) scanAction(row pgx.CollectableRow) (a ledger.DeadLetterAction, err error) {
	err = row.Scan(&a.At, &a.Action, &a.By, &a.Reason, &a.UpdateID, &a.Run, &a.State, &a.ErrorType, &a.Error, &a.Attempts,
		&a.Place, &a.Account, &a.Resolution, &r.count)
	a.At = a.At.UTC()
	return a, err
}

// DeadLetter reads a dead letter with its actions. Without one the error is ledger.ErrDeadLetterUnknown. Level 1.
func (l *Ledger) DeadLetter(ctx context.Context, key ledger.Key) (ledger.DeadLetterRecord, error) {
	var record ledger.DeadLetterRecord
	err := l.withConn(ctx, "read dead letter", func(ctx context.Context, conn *pgx.Conn) error {
		batch := &pgx.Batch{}
		r := queueDeadLetter(batch, key)
		if err := conn.SendBatch(ctx, batch).Close(); err != nil {
			return translate(err)
		}
		var err error
		record, err = r.read()
		return err
	})
	return record, err
}

const deadLettersSQL = `
select case when $13 and octet_length(error) > $14 then left(error, $14 / 4) || ' …' else error end,
	case when $13 then '[]'::json else causes end, case when $13 then '' else memo end, case when $13 then null else metadata end,
	` + deadLetterColumns + `
from dead_letters
where $1 in ('', state) and (parked or not $2) and $3 in ('', transfer) and $4 in ('', step) and $5 in ('', place)
	and ($6 = '' or error_type = $6 or position(lower($6) in lower(error)) > 0)
	and ($7::timestamptz is null or last_at >= $7) and ($8::timestamptz is null or last_at < $8)
	and (not $9 or (last_at, id) < ($10, $11))
order by last_at desc, id desc
limit $12`

// DeadLetters reads dead letters, newest first. Level 1.
func (l *Ledger) DeadLetters(ctx context.Context, page ledger.DeadLettersPage) ([]ledger.DeadLetter, error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, err
	}
	var after ledger.DeadLetterCursor
	if page.After != nil {
		after = *page.After
	}
	var letters []ledger.DeadLetter
	err := l.withConn(ctx, "list dead letters", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, deadLettersSQL, page.State, page.Parked, page.Transfer, page.Step, page.Place, page.Error,
			timeOrNull(page.Since), timeOrNull(page.Until), page.After != nil, after.LastAt, after.ID, page.Limit, page.Brief, ledger.ErrorBriefBytesMax)
		if err == nil {
			letters, err = pgx.CollectRows(rows, scanDeadLetter)
		}
		return translate(err)
	})
	return letters, err
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func scanDeadLetter(row pgx.CollectableRow) (ledger.DeadLetter, error) {
	var d ledger.DeadLetter
	var asset, amount string
	var causes, metadata []byte
	err := row.Scan(&d.Error, &causes, &d.Memo, &metadata, &d.ID, &d.Key, &d.Transfer, &d.Step, &d.State, &d.Parked, &d.Run, &d.Parking, &d.Ended,
		&d.ErrorType, &d.Attempts, &d.FirstAt, &d.LastAt, &d.Place, &d.Account, &asset, &amount, &d.From, &d.To,
		&d.Choices, &d.Resolution, &d.AsOf, &d.Version)
	if err != nil {
		return ledger.DeadLetter{}, err
	}
	d.FirstAt, d.LastAt, d.AsOf = d.FirstAt.UTC(), d.LastAt.UTC(), d.AsOf.UTC()
	if d.Asset, err = ledger.ParseAsset(asset); err != nil {
		return ledger.DeadLetter{}, fmt.Errorf("dead_letters.asset: %w", err)
	}
	if d.Amount, err = parseUnits("dead_letters.amount", amount); err != nil {
		return ledger.DeadLetter{}, err
	}
	if d.Metadata, err = decodeMetadata(metadata); err != nil {
		return ledger.DeadLetter{}, err
	}
	if err := json.Unmarshal(causes, &d.Causes); err != nil {
		return ledger.DeadLetter{}, errors.Join(errors.New("dead_letters.causes"), err)
	}
	return d, nil
}
