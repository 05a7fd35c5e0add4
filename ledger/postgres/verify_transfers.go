package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// The ledgers' snapshots are not of one moment, so what looks wrong may only be young: a deposit in a later snapshot whose
// withdraw the earlier one of the other ledger has not. An operation that has applied stays so and never changes, so a
// snapshot can't show anything that is untrue later; it can only lack what committed after it. Two kinds of suspicion
// rest on a lack:
//
//   - A deposit without its withdraw. A withdraw commits before its deposit is asked for, so looked for now, after the
//     deposit was seen, it is there if it ever was.
//   - A withdraw without its deposit or refund: money in transit, which is no fault, but may be over by now.
//
// Both are looked up again in the ledgers' current state before they are reported. Everything else rests on what is
// there, and needs no second look.
//
// The sum of what is in transit between two ledgers is held against their transit accounts within the snapshots, whatever
// moment each is of: on both sides an operation is in the snapshot exactly when its entries are.

// movement is an applied operation of a transfer between two ledgers, or of a payout.
type movement struct {
	transfer string // or the payout
	ledger   string
	key      ledger.Key
	kind     ledger.Kind
	at       time.Time
	other    ledger.AccountRef // on the other ledger; none for a payout
	legs     []ledger.Leg
}

func (m *movement) transferID() string { return m.transfer }

// transferExpression is the workflow ID that an operation belongs to: its key without the last segment. A refund belongs
// to what it reverses, whatever its own key is.
const transferExpression = `regexp_replace(coalesce(reverses, key), '/[^/]*$', '') collate "C"`

const movementColumns = transferExpression + ` as transfer, key, kind, at, counterparty, legs`

const movementsSQL = `
select ` + movementColumns + `
from operations
where kind <> 'post' and state = 'applied'
order by transfer, id`

// The key's range holds every step of the transfer, and '/' is followed by '0' in collation "C".
const movementsOfTransferSQL = `
select ` + movementColumns + `
from operations
where ((operation_claim(key) >= $1 || '/' and operation_claim(key) < $1 || '0') or (reverses >= $1 || '/' and reverses < $1 || '0') or operation_claim(key) = $1 or reverses = $1)
	and kind in ('withdraw', 'deposit', 'refund') and state = 'applied' and ` + transferExpression + ` = $1
order by id
limit $2`

// movementsMax bounds what is held of one transfer. Three belong to a whole one; partial refunds make more.
const movementsMax = 200

func (a *audit) scanMovement(row pgx.CollectableRow) (movement, error) {
	m := movement{ledger: a.ledger.name}
	var other string
	var legs []byte
	if err := row.Scan(&m.transfer, &m.key, &m.kind, &m.at, &other, &legs); err != nil {
		return m, err
	}
	m.at = m.at.UTC()
	// A malformed one has been reported by checkOperations; that of a payout is no account.
	m.other, _ = ledger.ParseAccountRef("counterparty", other)
	m.legs = legsOrNone(legs)
	return m, nil
}

// checkTransfers holds the ledgers against each other: their streams are merged by transfer.
func (v *verification) checkTransfers(ctx context.Context) error {
	for _, a := range v.audits {
		if err := a.readOwn(ctx); err != nil {
			return fmt.Errorf("verify transfers of ledger %s: %w", a.ledger.name, translate(err))
		}
	}
	var t *transferAudit
	scan := func(a *audit, row pgx.CollectableRow) (*movement, error) {
		m, err := a.scanMovement(row)
		return &m, err
	}
	add := func(a *audit, m *movement) {
		if t == nil {
			t = &transferAudit{verification: v, id: m.transfer}
		}
		a.accountFor(m)
		t.add(*m)
	}
	done := func() error {
		err := t.check(ctx)
		t = nil
		return err
	}
	if err := byTransfer(ctx, v, movementsSQL, scan, add, done); err != nil {
		return err
	}
	for _, a := range v.audits {
		a.checkOwn()
	}
	return nil
}

// stream is what one ledger's snapshot has of transfers, ordered by transfer.
type stream[T interface{ transferID() string }] struct {
	audit *audit
	rows  pgx.Rows
	scan  func(*audit, pgx.CollectableRow) (T, error)
	head  *T // nil at the end
}

func (s *stream[T]) next() error {
	s.head = nil
	if !s.rows.Next() {
		return s.rows.Err()
	}
	head, err := s.scan(s.audit, s.rows)
	s.head = &head
	return err
}

// byTransfer runs a query, which orders by transfer, on every snapshot. It calls add for each row and done after the last one
// of each transfer, from whichever ledgers they are.
func byTransfer[T interface{ transferID() string }](
	ctx context.Context, v *verification, sql string, scan func(*audit, pgx.CollectableRow) (T, error),
	add func(*audit, T), done func() error,
) error {
	fail := func(a *audit, err error) error {
		return fmt.Errorf("verify transfers of ledger %s: %w", a.ledger.name, translate(err))
	}
	var streams []*stream[T]
	defer func() {
		for _, s := range streams {
			s.rows.Close()
		}
	}()
	for _, a := range v.audits {
		rows, err := a.conn.Query(ctx, sql)
		if err != nil {
			return fail(a, err)
		}
		s := &stream[T]{audit: a, rows: rows, scan: scan}
		streams = append(streams, s)
		if err := s.next(); err != nil {
			return fail(a, err)
		}
	}
	for {
		id, more := firstTransfer(streams)
		if !more {
			return nil
		}
		for _, s := range streams {
			for s.head != nil && (*s.head).transferID() == id {
				add(s.audit, *s.head)
				if err := s.next(); err != nil {
					return fail(s.audit, err)
				}
			}
		}
		if err := done(); err != nil {
			return err
		}
	}
}

func firstTransfer[T interface{ transferID() string }](streams []*stream[T]) (first string, more bool) {
	for _, s := range streams {
		if s.head == nil {
			continue
		}
		if id := (*s.head).transferID(); !more || id < first {
			first, more = id, true
		}
	}
	return first, more
}

const ownAccountsSQL = `
select name, asset, balance::text
from accounts
where (name like 'transit:%' or name like 'rail:%' or name like 'settled:%') and version > 0`

func (a *audit) readOwn(ctx context.Context) error {
	return a.each(ctx, ownAccountsSQL, func(rows pgx.Rows) error {
		var account accountName
		var asset, balance string
		err := rows.Scan(&account.name, &asset, &balance)
		if err != nil {
			return err
		}
		if account.asset, err = ledger.ParseAsset(asset); err != nil {
			return err
		}
		a.balances[account], err = parseUnits("accounts.balance", balance)
		return err
	})
}

// accountFor takes what a movement has put into the ledger's own accounts off their balances.
func (a *audit) accountFor(m *movement) {
	for i := range m.legs {
		leg := &m.legs[i]
		if from := (accountName{name: leg.From, asset: leg.Asset}); ledger.IsOwn(leg.From) {
			a.balances[from], _ = a.balances[from].Add(leg.Amount)
		}
		if to := (accountName{name: leg.To, asset: leg.Asset}); ledger.IsOwn(leg.To) {
			a.balances[to], _ = a.balances[to].Sub(leg.Amount)
		}
	}
}

// checkOwn sees that transfers and payouts account for all that the ledger's own accounts hold.
func (a *audit) checkOwn() {
	for account, left := range a.balances {
		if left.Sign() == 0 {
			continue
		}
		check, what := CheckTransit, "transfer"
		if !ledger.IsTransit(account.name) {
			check, what = CheckPayout, "payout"
		}
		a.found(check, account.name+" "+account.asset.String(), "it holds %s that no %s has put there", left.Format(account.asset), what)
	}
}

// transferAudit is the movements of one transfer, on all ledgers, or of one payout.
type transferAudit struct {
	*verification
	id        string
	movements []movement
	tooMany   bool
}

func (t *transferAudit) add(m movement) {
	for i := range t.movements {
		if t.movements[i].ledger == m.ledger && t.movements[i].key == m.key {
			return
		}
	}
	if len(t.movements) == movementsMax {
		t.tooMany = true
		return
	}
	t.movements = append(t.movements, m)
}

// of returns the movements of a kind.
func (t *transferAudit) of(kind ledger.Kind) []*movement {
	var some []*movement
	for i := range t.movements {
		if t.movements[i].kind == kind {
			some = append(some, &t.movements[i])
		}
	}
	return some
}

func (t *transferAudit) found(m *movement, format string, args ...any) {
	t.verification.found(Finding{Ledger: m.ledger, Check: CheckTransfer, Subject: t.id, Detail: fmt.Sprintf(format, args...)})
}

func (t *transferAudit) check(ctx context.Context) error {
	if t.tooMany {
		t.found(&t.movements[0], "it has more than %d steps", movementsMax)
		return nil
	}
	if t.movements[0].kind.IsPayout() {
		t.judgePayout()
		return nil
	}
	withdraws, deposits := t.of(ledger.KindWithdraw), t.of(ledger.KindDeposit)
	if len(withdraws) == 0 && len(deposits) > 0 {
		if source := t.audit(deposits[0].other.Ledger); source == nil {
			return nil // it is in Summary.NotChecked
		} else if err := t.lookAgain(ctx, source); err != nil {
			return err
		}
	}
	if len(withdraws) == 1 && len(deposits) == 0 {
		destination := t.audit(withdraws[0].other.Ledger)
		if destination == nil {
			return nil // it is in Summary.NotChecked
		}
		// The destination first: a refund follows a deposit that was sealed or refused, so a source without a refund now
		// says nothing about a destination looked at earlier.
		for _, a := range []*audit{destination, t.audit(withdraws[0].ledger)} {
			if err := t.lookAgain(ctx, a); err != nil {
				return err
			}
		}
	}
	t.judge()
	return nil
}

// lookAgain adds what the ledger's current state has of the transfer.
func (t *transferAudit) lookAgain(ctx context.Context, a *audit) error {
	err := a.ledger.withConn(ctx, "verify transfer", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, movementsOfTransferSQL, t.id, movementsMax)
		if err != nil {
			return translate(err)
		}
		again, err := pgx.CollectRows(rows, a.scanMovement)
		for _, m := range again {
			t.add(m)
		}
		return translate(err)
	})
	return err
}

// judge says what is wrong with the transfer, or what of it is in transit.
func (t *transferAudit) judge() {
	withdraws, deposits, refunds := t.of(ledger.KindWithdraw), t.of(ledger.KindDeposit), t.of(ledger.KindRefund)
	switch {
	case len(withdraws) == 0:
		for _, deposit := range deposits {
			t.found(deposit, "%q paid in what %s never sent", deposit.key, deposit.other.Ledger)
		}
		return // a refund without its withdraw is reported by checkReversals
	case len(withdraws) > 1:
		t.found(withdraws[1], "it was taken twice, by %q and %q", withdraws[0].key, withdraws[1].key)
		return
	case len(deposits) > 1:
		t.found(deposits[1], "it was paid in twice, by %q and %q", deposits[0].key, deposits[1].key)
		return
	}
	withdraw := withdraws[0]
	left := withdraw.total()
	for _, refund := range refunds {
		left = left.less(refund.total())
	}
	if len(deposits) == 0 {
		for asset, amount := range left {
			if amount.Sign() > 0 {
				t.inTransit(InTransit{
					Transfer: t.id, Key: withdraw.key, From: withdraw.account(), To: withdraw.other,
					Asset: asset, Amount: amount, Since: withdraw.at,
				})
			}
		}
		return
	}
	deposit := deposits[0]
	switch {
	case len(refunds) > 0:
		t.found(refunds[0], "it was paid in by %q and given back by %q", deposit.key, refunds[0].key)
	case deposit.ledger != withdraw.other.Ledger || withdraw.ledger != deposit.other.Ledger:
		t.found(deposit, "it was sent from %s to %s and paid in on %s as from %s", withdraw.ledger, withdraw.other.Ledger,
			deposit.ledger, deposit.other.Ledger)
	case !deposit.pays(withdraw.other.Name) || !withdraw.takes(deposit.other.Name):
		t.found(deposit, "it was sent by %s to %s and paid in to %s as from %s", withdraw.account(), withdraw.other,
			deposit.account(), deposit.other)
	case !left.equal(deposit.total()):
		t.found(deposit, "%s was sent and %s paid in", left, deposit.total())
	}
}

// total is what the movement moved, by asset. A leg's amount that would not fit is cut off: the books have walls for that.
func (m *movement) total() totals {
	sum := make(totals, 1)
	for i := range m.legs {
		sum[m.legs[i].Asset], _ = sum[m.legs[i].Asset].Add(m.legs[i].Amount)
	}
	return sum
}

// account is the account on the movement's own ledger, of the first leg.
func (m *movement) account() ledger.AccountRef {
	ref := ledger.AccountRef{Ledger: m.ledger}
	if len(m.legs) > 0 {
		ref.Name = m.legs[0].To
		if m.kind == ledger.KindWithdraw || m.kind == ledger.KindReserve {
			ref.Name = m.legs[0].From
		}
	}
	return ref
}

// pays says whether the movement gives to the account.
func (m *movement) pays(name string) bool {
	for i := range m.legs {
		if m.legs[i].To == name {
			return true
		}
	}
	return false
}

// takes says whether the movement takes from the account.
func (m *movement) takes(name string) bool {
	for i := range m.legs {
		if m.legs[i].From == name {
			return true
		}
	}
	return false
}

// totals are amounts by asset.
type totals map[ledger.Asset]ledger.Amount

func (t totals) less(other totals) totals {
	for asset, amount := range other {
		t[asset], _ = t[asset].Sub(amount)
	}
	return t
}

func (t totals) equal(other totals) bool {
	for asset, amount := range t {
		if amount.Cmp(other[asset]) != 0 {
			return false
		}
	}
	for asset, amount := range other {
		if amount.Cmp(t[asset]) != 0 {
			return false
		}
	}
	return true
}

func (t totals) String() string {
	var parts []string
	for asset, amount := range t {
		parts = append(parts, amount.Format(asset)+" "+asset.String())
	}
	return strings.Join(parts, " and ")
}
