package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// What was written later replaces what was written before; a repeat that arrives late, after the letter has been closed
// or the step has failed again, changes nothing. Every change, and nothing else, adds an action.
const putDeadLetterSQL = `
with put as (
	insert into dead_letters as d (key, transfer, step, state, parked, error, attempts, first_at, last_at,
		place, account, asset, amount, choices, resolution)
	values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13::text::numeric, $14, $15)
	on conflict on constraint dead_letters_key_key do update
	set transfer = excluded.transfer, step = excluded.step, state = excluded.state, parked = excluded.parked,
		error = excluded.error, attempts = excluded.attempts, first_at = excluded.first_at, last_at = excluded.last_at,
		place = excluded.place, account = excluded.account, asset = excluded.asset, amount = excluded.amount,
		choices = excluded.choices, resolution = excluded.resolution
	where (excluded.last_at, excluded.state = 'closed') >= (d.last_at, d.state = 'closed')
		and (excluded.transfer, excluded.step, excluded.state, excluded.parked, excluded.error, excluded.attempts,
				excluded.first_at, excluded.last_at, excluded.place, excluded.account, excluded.asset, excluded.amount,
				excluded.choices, excluded.resolution)
			is distinct from
			(d.transfer, d.step, d.state, d.parked, d.error, d.attempts,
				d.first_at, d.last_at, d.place, d.account, d.asset, d.amount,
				d.choices, d.resolution)
	returning id, state, parked, error, attempts, last_at, place, account, amount, resolution
)
insert into dead_letter_actions (dead_letter_id, state, parked, error, attempts, last_at, place, account, amount, resolution)
select id, state, parked, error, attempts, last_at, place, account, amount, resolution
from put`

// DeadLetterPut writes a dead letter by its key: an absolute write, of which the one with the later last attempt stands.
// A letter that is closed is opened again only by a later failure. Level 1.
func (l *Ledger) DeadLetterPut(ctx context.Context, letter ledger.DeadLetter) error {
	if err := letter.Validate(); err != nil {
		return err
	}
	choices := letter.Choices
	if choices == nil {
		choices = []string{} // null is for what is not known
	}
	return l.withConn(ctx, "put dead letter", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := transact(ctx, conn, func(ctx context.Context) (bool, error) {
			batch := begin(ctx)
			batch.Queue(putDeadLetterSQL, letter.Key, letter.Transfer, letter.Step, letter.State, letter.Parked,
				ledger.ClipError(letter.Error), letter.Attempts, letter.FirstAt, letter.LastAt,
				letter.Place, letter.Account, letter.Asset.String(), letter.Amount.String(), choices,
				ledger.ClipNote(letter.Resolution))
			return commit(ctx, conn, batch)
		})
		return err
	})
}

const deadLettersSQL = `
select key, transfer, step, state, parked, error, attempts, first_at, last_at, place, account, asset, amount::text,
	choices, resolution
from dead_letters
where $1 in ('', key) and $2 in ('', state)
order by last_at desc, id desc
limit $3`

// DeadLetters reads dead letters, newest first. Level 1.
func (l *Ledger) DeadLetters(ctx context.Context, page ledger.DeadLettersPage) ([]ledger.DeadLetter, error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, err
	}
	var letters []ledger.DeadLetter
	err := l.withConn(ctx, "list dead letters", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, deadLettersSQL, page.Key, page.State, page.Limit)
		if err == nil {
			letters, err = pgx.CollectRows(rows, scanDeadLetter)
		}
		return translate(err)
	})
	return letters, err
}

func scanDeadLetter(row pgx.CollectableRow) (ledger.DeadLetter, error) {
	var d ledger.DeadLetter
	var firstAt, lastAt time.Time
	var asset, amount string
	err := row.Scan(&d.Key, &d.Transfer, &d.Step, &d.State, &d.Parked, &d.Error, &d.Attempts, &firstAt, &lastAt,
		&d.Place, &d.Account, &asset, &amount, &d.Choices, &d.Resolution)
	if err != nil {
		return ledger.DeadLetter{}, err
	}
	d.FirstAt, d.LastAt = firstAt.UTC(), lastAt.UTC()
	if d.Asset, err = ledger.ParseAsset(asset); err != nil {
		return ledger.DeadLetter{}, fmt.Errorf("dead_letters.asset: %w", err)
	}
	d.Amount, err = parseUnits("dead_letters.amount", amount)
	return d, err
}
