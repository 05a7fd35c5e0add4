package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/ledger"
)

// Check names a promise that Verify checks.
type Check string

// The promises.
const (
	CheckAssetSum         Check = "asset-sum"         // of each asset, all entries sum to zero
	CheckEntryChain       Check = "entry-chain"       // versions are gapless from 1, balances add up, times don't fall
	CheckAccountBalance   Check = "account-balance"   // an account is the sum of its entries, and as its last entry left it
	CheckAccountLimit     Check = "account-limit"     // a balance is within its floor and ceiling
	CheckOperationForm    Check = "operation-form"    // what is recorded is a valid operation
	CheckOperationHash    Check = "operation-hash"    // the request hash is that of what is recorded
	CheckOperationEntries Check = "operation-entries" // applied: exactly the entries of its legs; otherwise: none
	CheckReversal         Check = "reversal"          // reversals reverse what applied, and no more than that
	CheckTransfer         Check = "transfer"          // what left one ledger arrived on the other, once, or came back
	CheckTransit          Check = "transit"           // transit accounts hold what transfers have put there
	CheckPayout           Check = "payout"            // what was reserved was settled or went back, once; a rail's accounts hold what payouts have put there
)

// Finding is one broken promise.
type Finding struct {
	Ledger  string // where it shows
	Check   Check
	Subject string // an account, a key, a transfer or an asset
	Detail  string
}

// String is the finding in one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", f.Ledger, f.Check, f.Subject, f.Detail)
}

// InTransit is money that has left its source and neither arrived nor come back. That is information and no fault: the
// transfer may be running, parked, or terminated; starting it again finishes it.
type InTransit struct {
	Transfer string     // the workflow ID: the withdraw's key without its last segment
	Key      ledger.Key // of the withdraw
	From     ledger.AccountRef
	To       ledger.AccountRef
	Asset    ledger.Asset
	Amount   ledger.Amount
	Since    time.Time
}

// Reserved is money that is kept for a payout whose rail has not said for good what has become of it. That is information and
// no fault.
type Reserved struct {
	Payout  string     // the workflow ID: the reserve's key without its last segment
	Key     ledger.Key // of the reserve
	From    ledger.AccountRef
	Account ledger.AccountRef // the rail's
	Asset   ledger.Asset
	Amount  ledger.Amount
	Since   time.Time
}

// Report receives what Verify sees, when it sees it, one call at a time. Each function may be nil.
type Report struct {
	Finding   func(Finding)
	InTransit func(InTransit)
	Reserved  func(Reserved)
	// Transfer is called for each transfer, and each payout, in the order of their workflow IDs, after the ledgers have been checked, with what
	// the snapshots have of it. They are not of one moment: what one of them lacks may have been there already. An error ends
	// the verification.
	Transfer func(transfer string, records []Record) error
}

// LedgerSummary says what was read of one ledger.
type LedgerSummary struct {
	Ledger     string
	SnapshotAt time.Time // on the ledger's own clock: what had committed then was checked
	Accounts   int64
	Operations int64
	Entries    int64
}

// TransitTotal is what is in transit from one ledger to another in one asset.
type TransitTotal struct {
	From, To  string // ledgers
	Asset     ledger.Asset
	Amount    ledger.Amount
	Transfers int64
}

// ReservedTotal is what is reserved for payouts to one rail in one asset.
type ReservedTotal struct {
	Account ledger.AccountRef // the rail's
	Asset   ledger.Asset
	Amount  ledger.Amount
	Payouts int64
}

// Summary is what Verify read, and how much it reported.
type Summary struct {
	Ledgers   []LedgerSummary // in the order given
	Findings  int64
	InTransit []TransitTotal  // sorted by ledgers and asset
	Reserved  []ReservedTotal // sorted by account and asset
	// NotChecked are ledgers that money has gone to or come from and that were not given: whether it arrived there is not
	// known. Sorted.
	NotChecked []string
}

// Verify reads the books of the given ledgers and reports every promise that they break. It changes nothing and locks
// nothing, so it may run beside workers. Each ledger is read in one snapshot, by connections of Verify's own, and held
// against itself; then the ledgers are held against each other. Everything is streamed and sorted by the database, so
// memory does not grow with the books.
//
// An error means that the books could not be read to the end, not that they are wrong.
//
// A snapshot keeps PostgreSQL from cleaning up behind running workers; a Verify that takes hours is best run on a
// restored backup.
func Verify(ctx context.Context, ledgers []*Ledger, report Report) (Summary, error) {
	v := &verification{report: report, audits: make([]*audit, 0, len(ledgers)), transit: make(map[transitKey]*TransitTotal), rails: make(map[railKey]*ReservedTotal)}
	defer v.close(ctx)
	for _, l := range ledgers {
		if v.audit(l.name) != nil {
			return Summary{}, &ledger.InvalidError{Field: "ledgers", Reason: fmt.Sprintf("%q is given twice", l.name)}
		}
		a, err := v.open(ctx, l)
		if err != nil {
			return Summary{}, fmt.Errorf("verify ledger %s: %w", l.name, translate(err))
		}
		v.audits = append(v.audits, a)
	}
	if err := v.checkBooks(ctx); err != nil {
		return Summary{}, err
	}
	if err := v.checkTransfers(ctx); err != nil {
		return Summary{}, err
	}
	if err := v.readTransfers(ctx); err != nil {
		return Summary{}, err
	}
	return v.summary(), nil
}

// verification is one run of Verify.
type verification struct {
	audits  []*audit
	transit map[transitKey]*TransitTotal
	rails   map[railKey]*ReservedTotal

	mu       sync.Mutex // guards report and findings
	report   Report
	findings int64
}

type transitKey struct {
	from, to string
	asset    ledger.Asset
}

type railKey struct {
	account ledger.AccountRef
	asset   ledger.Asset
}

// audit is the reading of one ledger, in one snapshot.
type audit struct {
	*verification
	ledger  *Ledger
	conn    *pgx.Conn
	summary LedgerSummary
	// balances are the ledger's own accounts as the snapshot has them, less what transfers and payouts account for. One for
	// each other ledger, or rail, and asset.
	balances map[accountName]ledger.Amount
}

// A verification takes as long as it takes, waits between its statements, and reads whole tables.
const auditBeginSQL = `
begin isolation level repeatable read read only;
set local statement_timeout = 0;
set local idle_in_transaction_session_timeout = 0;
set local plan_cache_mode = auto;
set local enable_seqscan = on;
set local enable_hashjoin = on;
set local enable_mergejoin = on;
set local enable_material = on`

// The first statement that reads takes the snapshot.
const auditSnapshotSQL = `
select clock_timestamp(), (select count(*) from accounts), (select count(*) from operations), (select count(*) from entries)`

// open takes the snapshot of a ledger.
func (v *verification) open(ctx context.Context, l *Ledger) (_ *audit, err error) {
	a := &audit{verification: v, ledger: l, summary: LedgerSummary{Ledger: l.name}, balances: make(map[accountName]ledger.Amount)}
	// Not from the pool: its connections are for work, and for looking up what looks wrong.
	if a.conn, err = pgx.ConnectConfig(ctx, l.pool.Config().ConnConfig); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.close(ctx)
		}
	}()
	if _, err = a.conn.Exec(ctx, auditBeginSQL); err != nil {
		return nil, err
	}
	s := &a.summary
	err = a.conn.QueryRow(ctx, auditSnapshotSQL).Scan(&s.SnapshotAt, &s.Accounts, &s.Operations, &s.Entries)
	s.SnapshotAt = s.SnapshotAt.UTC()
	return a, err
}

func (v *verification) close(ctx context.Context) {
	for _, a := range v.audits {
		a.close(ctx)
	}
}

func (a *audit) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutRollback)
	defer cancel()
	_ = a.conn.Close(ctx)
}

// audit finds the audit of a ledger, or nil.
func (v *verification) audit(name string) *audit {
	for _, a := range v.audits {
		if a.ledger.name == name {
			return a
		}
	}
	return nil
}

// checkBooks holds every ledger against itself, all at once.
func (v *verification) checkBooks(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(v.audits))
	var checking sync.WaitGroup
	for i, a := range v.audits {
		checking.Go(func() {
			if err := a.checkBooks(ctx); err != nil {
				errs[i] = fmt.Errorf("verify ledger %s: %w", a.ledger.name, translate(err))
				cancel()
			}
		})
	}
	checking.Wait()
	return errors.Join(errs...)
}

func (v *verification) found(f Finding) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.findings++
	if v.report.Finding != nil {
		v.report.Finding(f)
	}
}

func (a *audit) found(check Check, subject, format string, args ...any) {
	a.verification.found(Finding{Ledger: a.ledger.name, Check: check, Subject: subject, Detail: fmt.Sprintf(format, args...)})
}

func (v *verification) inTransit(t InTransit) {
	key := transitKey{from: t.From.Ledger, to: t.To.Ledger, asset: t.Asset}
	total := v.transit[key]
	if total == nil {
		total = &TransitTotal{From: key.from, To: key.to, Asset: key.asset}
		v.transit[key] = total
	}
	total.Transfers++
	// A sum of more digits than an amount has is cut off; each of its parts is reported.
	total.Amount, _ = total.Amount.Add(t.Amount)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.report.InTransit != nil {
		v.report.InTransit(t)
	}
}

func (v *verification) reserved(r Reserved) {
	key := railKey{account: r.Account, asset: r.Asset}
	total := v.rails[key]
	if total == nil {
		total = &ReservedTotal{Account: r.Account, Asset: r.Asset}
		v.rails[key] = total
	}
	total.Payouts++
	total.Amount, _ = total.Amount.Add(r.Amount)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.report.Reserved != nil {
		v.report.Reserved(r)
	}
}

func (v *verification) summary() Summary {
	var s Summary
	notChecked := make(map[string]bool)
	for _, a := range v.audits {
		s.Ledgers = append(s.Ledgers, a.summary)
		for account := range a.balances {
			if other := ledger.TransitLedger(account.name); other != "" && v.audit(other) == nil {
				notChecked[other] = true
			}
		}
	}
	for other := range notChecked {
		s.NotChecked = append(s.NotChecked, other)
	}
	slices.Sort(s.NotChecked)
	for _, total := range v.transit {
		s.InTransit = append(s.InTransit, *total)
	}
	slices.SortFunc(s.InTransit, func(a, b TransitTotal) int {
		return strings.Compare(a.From+"/"+a.To+"/"+a.Asset.String(), b.From+"/"+b.To+"/"+b.Asset.String())
	})
	for _, total := range v.rails {
		s.Reserved = append(s.Reserved, *total)
	}
	slices.SortFunc(s.Reserved, func(a, b ReservedTotal) int {
		return strings.Compare(a.Account.String()+"/"+a.Asset.String(), b.Account.String()+"/"+b.Asset.String())
	})
	s.Findings = v.findings
	return s
}
