package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/ledger"
	"payonce/ledger/postgres"
)

// verify returns what Verify reports, findings as "check subject".
func verify(t testing.TB, all ...*books) (findings []string, transit []postgres.InTransit, summary postgres.Summary) {
	t.Helper()
	ledgers := make([]*postgres.Ledger, len(all))
	for i, b := range all {
		ledgers[i] = b.Ledger
	}
	var details []string
	summary, err := postgres.Verify(t.Context(), ledgers, postgres.Report{
		Finding: func(f postgres.Finding) {
			findings = append(findings, fmt.Sprintf("%s %s: %s", f.Ledger, f.Check, f.Subject))
			details = append(details, f.String())
		},
		InTransit: func(i postgres.InTransit) { transit = append(transit, i) },
	})
	require.NoError(t, err)
	require.Len(t, findings, int(summary.Findings))
	t.Log(strings.Join(details, "\n"))
	slices.Sort(findings)
	return findings, transit, summary
}

// pair is two ledgers with an account each: us/alice has 100, eu/bob nothing.
func pair(t testing.TB) (us, eu *books) {
	t.Helper()
	us, eu = openBooksNamed(t, "us"), openBooksNamed(t, "eu")
	us.fund(t, "alice", "100")
	eu.fund(t, "bob", "0")
	return us, eu
}

func TestVerify(t *testing.T) {
	t.Parallel()
	us, eu := pair(t)
	send := func(id, howMuch string) (w, d ledger.Operation) {
		w = withdraw("transfer/"+id+"/withdraw", "alice", "eu/bob", howMuch)
		us.apply(t, w)
		return w, deposit("transfer/"+id+"/deposit", "us/alice", "bob", howMuch)
	}
	_, arrived := send("arrived", "10")
	eu.apply(t, arrived)
	returned, given := send("returned", "20")
	_, err := eu.Resolve(t.Context(), seal(given))
	require.NoError(t, err)
	us.apply(t, refund("transfer/returned/refund", returned, "20"))
	_, _ = send("transit", "3")
	partly, _ := send("transit/partly", "5") // a transfer ID that begins like another
	us.apply(t, refund("transfer/transit/partly/refund", partly, "1"))
	us.refuse(t, withdraw("transfer/refused/withdraw", "alice", "eu/bob", "1000"), ledger.CodeInsufficientFunds)
	us.apply(t, withdraw("transfer/far/withdraw", "alice", "jp/carol", "7"))
	us.refuse(t, withdraw("transfer/never/withdraw", "nobody", "mars/dave", "7"), ledger.CodeAccountUnknown)
	us.apply(t, post("transfer/local/post", "alice", "world", "1"))

	findings, transit, summary := verify(t, us, eu)
	require.Empty(t, findings)
	slices.SortFunc(transit, func(a, b postgres.InTransit) int { return strings.Compare(a.Transfer, b.Transfer) })
	require.Len(t, transit, 2)
	first, err := us.Operation(t.Context(), "transfer/transit/withdraw")
	require.NoError(t, err)
	require.Equal(t, postgres.InTransit{
		Transfer: "transfer/transit", Key: "transfer/transit/withdraw", From: ledger.AccountRef{Ledger: "us", Name: "alice"},
		To: ledger.AccountRef{Ledger: "eu", Name: "bob"}, Asset: usd, Amount: amount("3"), Since: first.Outcome.At,
	}, transit[0])
	require.Equal(t, "transfer/transit/partly", transit[1].Transfer)
	require.Equal(t, amount("4"), transit[1].Amount)
	require.Equal(t, []postgres.TransitTotal{{From: "us", To: "eu", Asset: usd, Amount: amount("7"), Transfers: 2}}, summary.InTransit)
	require.Equal(t, []string{"jp"}, summary.NotChecked)
	require.Len(t, summary.Ledgers, 2)
	require.Equal(t, "us", summary.Ledgers[0].Ledger)
	require.Equal(t, int64(11), summary.Ledgers[0].Operations)
	require.Equal(t, int64(18), summary.Ledgers[0].Entries)
	require.Equal(t, int64(5), summary.Ledgers[0].Accounts)
	require.WithinDuration(t, time.Now(), summary.Ledgers[0].SnapshotAt, time.Minute)

	t.Run("one ledger alone", func(t *testing.T) {
		findings, transit, summary := verify(t, us)
		require.Empty(t, findings)
		require.Empty(t, transit, "whether it arrived is not known")
		require.Equal(t, []string{"eu", "jp"}, summary.NotChecked)
	})
	t.Run("the other ledger alone", func(t *testing.T) {
		findings, _, summary := verify(t, eu)
		require.Empty(t, findings)
		require.Equal(t, []string{"us"}, summary.NotChecked)
	})
	t.Run("a ledger twice", func(t *testing.T) {
		_, err := postgres.Verify(t.Context(), []*postgres.Ledger{us.Ledger, us.Ledger}, postgres.Report{})
		var invalid *ledger.InvalidError
		require.ErrorAs(t, err, &invalid)
	})
	t.Run("no ledger", func(t *testing.T) {
		summary, err := postgres.Verify(t.Context(), nil, postgres.Report{})
		require.NoError(t, err)
		require.Equal(t, postgres.Summary{}, summary)
	})
}

// The checker itself: every fault that is planted is found, where it was planted.
func TestVerifyFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		us, eu string // SQL as a superuser who has switched the walls off
		want   []string
	}{
		"a balance without entries": {
			us:   `update accounts set balance = balance + 1 where name = 'alice'`,
			want: []string{"us account-balance: alice USD/2", "us account-balance: alice USD/2"},
		},
		"a version too many": {
			us:   `update accounts set version = version + 1 where name = 'alice'`,
			want: []string{"us account-balance: alice USD/2", "us account-balance: alice USD/2", "us account-balance: alice USD/2"},
		},
		"the time of the last entry": {
			us:   `update accounts set entry_at = entry_at + interval '1 s' where name = 'alice'`,
			want: []string{"us account-balance: alice USD/2"},
		},
		"an entry's amount": {
			us: `update entries set amount = amount - 1 where account_id = 2 and version = 2`,
			want: []string{
				"us account-balance: alice USD/2", "us asset-sum: USD/2", "us entry-chain: alice USD/2 version 2",
				"us operation-entries: transfer/t1/withdraw",
			},
		},
		"an entry's balance": {
			us:   `update entries set balance = balance + 1 where account_id = 2 and version = 2`,
			want: []string{"us entry-chain: alice USD/2 version 2", "us entry-chain: alice USD/2 version 3"},
		},
		"a lost entry": {
			us: `delete from entries where account_id = 2 and version = 2`,
			want: []string{
				"us account-balance: alice USD/2", "us account-balance: alice USD/2", "us asset-sum: USD/2",
				"us entry-chain: alice USD/2 version 3", "us operation-entries: transfer/t1/withdraw",
			},
		},
		"a lost last entry": {
			us: `delete from entries where account_id = 2 and version = 3`,
			want: []string{
				"us account-balance: alice USD/2", "us account-balance: alice USD/2", "us account-balance: alice USD/2",
				"us account-balance: alice USD/2", "us asset-sum: USD/2", "us operation-entries: transfer/t2/withdraw",
			},
		},
		"an invented entry": {
			us: `insert into entries select 2, 4, id, 1, 100, 7100 from operations where key = 'transfer/t2/withdraw'`,
			want: []string{
				"us account-balance: alice USD/2", "us account-balance: alice USD/2", "us asset-sum: USD/2",
				"us operation-entries: transfer/t2/withdraw",
			},
		},
		"entries of no operation": {
			us:   `delete from operations where key = 'transfer/t3/post'`,
			want: []string{"us account-balance: carol USD/2", "us operation-entries: operation 5"},
		},
		"entries of no account": {
			us:   `delete from accounts where name = 'carol'`,
			want: []string{"us asset-sum: USD/2", "us entry-chain: account 3 version 1", "us operation-entries: transfer/t3/post"},
		},
		"an operation without entries": {
			us: `insert into operations (key, kind, request_hash, state, legs, memo, at)
				select 'transfer/t4/post', kind, request_hash, state, legs, memo, at from operations where key = 'transfer/t3/post'`,
			want: []string{"us operation-entries: transfer/t4/post"},
		},
		"a refused operation with entries": {
			us:   `update operations set state = 'refused', code = 'x' where key = 'transfer/t3/post'`,
			want: []string{"us operation-entries: transfer/t3/post"},
		},
		"entries swapped between accounts": {
			us: `update entries set account_id = 3, version = 2 where account_id = 2 and version = 3`,
			want: []string{
				"us account-balance: alice USD/2", "us account-balance: alice USD/2", "us account-balance: alice USD/2",
				"us account-balance: alice USD/2", "us account-balance: carol USD/2", "us account-balance: carol USD/2",
				"us entry-chain: carol USD/2 version 2", "us operation-entries: transfer/t2/withdraw",
			},
		},
		"entries with another leg": {
			us:   `update entries set leg = 2 where account_id = 2 and version = 3`,
			want: []string{"us operation-entries: transfer/t2/withdraw"},
		},
		"an operation's legs": {
			us:   `update operations set legs = jsonb_set(legs::jsonb, '{0,amount}', '"1001"') where key = 'transfer/t3/post'`,
			want: []string{"us operation-entries: transfer/t3/post", "us operation-hash: transfer/t3/post"},
		},
		"an operation's counterparty": {
			us:   `update operations set counterparty = 'eu/mallory' where key = 'transfer/t1/withdraw'`,
			want: []string{"eu transfer: transfer/t1", "us operation-hash: transfer/t1/withdraw"},
		},
		"an operation's hash": {
			us:   `update operations set request_hash = sha256('x') where key = 'transfer/t3/post'`,
			want: []string{"us operation-hash: transfer/t3/post"},
		},
		"an operation's form": {
			us:   `update operations set legs = '[{"from": 1}]' where key = 'transfer/t3/post'`,
			want: []string{"us operation-form: transfer/t3/post"},
		},
		"an operation's time": {
			us:   `update operations set at = '2020-01-01' where key = 'transfer/t2/withdraw'`,
			want: []string{"us account-balance: alice USD/2", "us account-balance: transit:eu USD/2", "us entry-chain: alice USD/2 version 3", "us entry-chain: transit:eu USD/2 version 2"},
		},
		"below the floor": {
			us:   `alter table accounts drop constraint accounts_floor_check; update accounts set floor = balance + 1 where name = 'alice'`,
			want: []string{"us account-limit: alice USD/2"},
		},
		"above the ceiling": {
			us:   `alter table accounts drop constraint accounts_ceiling_check; update accounts set ceiling = balance - 1 where name = 'alice'`,
			want: []string{"us account-limit: alice USD/2"},
		},
		"a refund of what did not apply": {
			us:   `update operations set reverses = 'transfer/none/withdraw' where key = 'transfer/t2/refund'`,
			want: []string{"us operation-hash: transfer/t2/refund", "us reversal: transfer/t2/refund"},
		},
		"refunds of more than the whole": {
			us: `update operations set legs = jsonb_set(legs::jsonb, '{0,amount}', '"1"') where key = 'transfer/t2/withdraw'`,
			want: []string{
				"us operation-entries: transfer/t2/withdraw", "us operation-hash: transfer/t2/withdraw", "us reversal: transfer/t2/refund",
				"us transit: transit:eu USD/2",
			},
		},
		"a deposit that was never sent": {
			us: `delete from entries where operation_id = (select id from operations where key = 'transfer/t1/withdraw');
				delete from operations where key = 'transfer/t1/withdraw';
				update entries set version = version - 1, balance = balance + 1000 where account_id = 2 and version > 2;
				update accounts set version = version - 1, balance = balance + 1000 where name = 'alice'`,
			want: []string{"eu transfer: transfer/t1"},
		},
		"a deposit twice": {
			eu: `update operations set kind = 'deposit', counterparty = 'us/alice', legs = (select legs from operations where key = 'transfer/t1/deposit'),
				key = 'transfer/t1/deposit-2' where key = 'transfer/t9/post'`,
			want: []string{"eu transfer: transfer/t1"},
		},
		"a deposit and a refund": {
			us:   `update operations set reverses = 'transfer/t1/withdraw' where key = 'transfer/t2/refund'`,
			want: []string{"us transfer: transfer/t1"},
		},
		"a deposit of another amount": {
			eu:   `update operations set legs = jsonb_set(legs::jsonb, '{0,amount}', '"999"') where key = 'transfer/t1/deposit'`,
			want: []string{"eu transfer: transfer/t1"},
		},
		"a deposit to another account": {
			eu:   `update operations set legs = jsonb_set(legs::jsonb, '{0,to}', '"world"') where key = 'transfer/t1/deposit'`,
			want: []string{"eu transfer: transfer/t1"},
		},
		"a deposit from another account": {
			eu:   `update operations set counterparty = 'us/mallory' where key = 'transfer/t1/deposit'`,
			want: []string{"eu transfer: transfer/t1"},
		},
		"money in transit that no transfer put there": {
			us:   `update operations set kind = 'post', counterparty = null where key = 'transfer/t2/withdraw'`,
			want: []string{"us transit: transit:eu USD/2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// alice is account 2 and carol account 3 of us.
			us, eu := pair(t)
			us.open(t, "carol")
			us.apply(t, withdraw("transfer/t1/withdraw", "alice", "eu/bob", "10"))
			t2 := withdraw("transfer/t2/withdraw", "alice", "eu/bob", "20")
			us.apply(t, t2)
			us.apply(t, post("transfer/t3/post", "world", "carol", "10"))
			eu.apply(t, deposit("transfer/t1/deposit", "us/alice", "bob", "10"))
			eu.apply(t, post("transfer/t9/post", "world", "bob", "10"))
			if strings.Contains(test.us, "t2/refund") || strings.Contains(strings.Join(test.want, " "), "t2/refund") {
				us.apply(t, refund("transfer/t2/refund", t2, "5"))
			}
			sound(t, us, eu)
			for b, sql := range map[*books]string{us: test.us, eu: test.eu} {
				owner := b.owner(t)
				exec(t, owner, "set session_replication_role = replica")
				for statement := range strings.SplitSeq(sql, ";") {
					exec(t, owner, statement)
				}
			}
			findings, _, _ := verify(t, us, eu)
			for _, want := range test.want {
				require.Contains(t, findings, want)
			}
			if len(findings) > len(test.want) {
				t.Logf("and more: %q", findings)
			}
		})
	}
}

// Verify beside running workers finds nothing wrong, though the ledgers' snapshots are not of one moment.
func TestVerifyWhileTransfersRun(t *testing.T) {
	t.Parallel()
	us, eu := pair(t)
	eu.open(t, "rich", unlimited)
	us.open(t, "poor")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	var done atomic.Int64
	for worker := range 4 {
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("transfer/%d-%d", worker, i)
				source, destination := us, eu
				w, d := withdraw(id+"/withdraw", "world", "eu/bob", "1"), deposit(id+"/deposit", "us/world", "bob", "1")
				if worker%2 == 1 {
					source, destination = eu, us
					w, d = withdraw(id+"/withdraw", "rich", "us/poor", "1"), deposit(id+"/deposit", "eu/rich", "poor", "1")
				}
				if _, err := source.Post(t.Context(), w); !assert.NoError(t, err) {
					return
				}
				var err error
				if i%3 == 0 {
					if _, err = destination.Resolve(t.Context(), seal(d)); err == nil {
						_, err = source.Post(t.Context(), refund(id+"/refund", w, "1"))
					}
				} else {
					_, err = destination.Post(t.Context(), d)
				}
				if !assert.NoError(t, err) {
					return
				}
				done.Add(1)
			}
		})
	}
	for done.Load() < 20 {
		runtime.Gosched()
	}
	for round := range 6 {
		all := []*books{us, eu}
		if round%2 == 1 {
			slices.Reverse(all)
		}
		sound(t, all...)
	}
	cancel()
	running.Wait()
	findings, transit, _ := verify(t, us, eu)
	require.Empty(t, findings)
	require.Empty(t, transit)
}

// Memory does not grow with the books: 40,000 operations and their entries would take far more than the bound.
func TestVerifyMemory(t *testing.T) {
	us, eu := openBooksNamed(t, "us"), openBooksNamed(t, "eu")
	const transfers = 20_000
	for _, b := range []*books{us, eu} {
		b.open(t, "world", unlimited)
		for i := range 100 {
			b.open(t, fmt.Sprint("a", i), unlimited)
		}
	}
	var filling sync.WaitGroup
	for b, step := range map[*books]func(id string, from, to int) ledger.Operation{
		us: func(id string, from, to int) ledger.Operation {
			return withdraw(id+"/withdraw", fmt.Sprint("a", from), fmt.Sprint("eu/a", to), "1")
		},
		eu: func(id string, from, to int) ledger.Operation {
			return deposit(id+"/deposit", fmt.Sprint("us/a", from), fmt.Sprint("a", to), "1")
		},
	} {
		filling.Go(func() {
			random := rand.New(rand.NewPCG(1, 2)) // the same for both ledgers
			for first := 0; first < transfers; first += 2_000 {
				batch := []ledger.Operation{}
				for i := first; i < first+2_000; i++ {
					batch = append(batch, step(fmt.Sprint("transfer/t", i), random.IntN(100), random.IntN(100)))
				}
				_, err := b.PostBatch(t.Context(), batch)
				assert.NoError(t, err)
			}
		})
	}
	filling.Wait()

	// What the last collection has found to be in use: what was thrown away since says only how busy the machine is.
	heap := func() uint64 {
		runtime.GC()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		return live[0].Value.Uint64()
	}
	before := heap()
	var peak atomic.Uint64
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			peak.Store(max(peak.Load(), heap()))
			<-tick.C
		}
	})
	start := time.Now()
	summary := sound(t, us, eu)
	took := time.Since(start)
	cancel()
	watching.Wait()
	require.Equal(t, int64(transfers), summary.Ledgers[0].Operations)
	require.Empty(t, summary.InTransit)
	grown := int64(peak.Load()) - int64(before)
	t.Logf("%d operations in %v, heap %+d KiB", 2*transfers, took, grown/1024)
	require.Less(t, grown, int64(6<<20), "the heap grew")
}
