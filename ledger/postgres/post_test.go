package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/ledger"
)

func TestPost(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "20")
	b.open(t, "bob")

	o := post("transfer/t1/post", "alice", "bob", "10")
	o.Memo, o.Metadata = "rent", map[string]string{"order": "7", "naïve": "\"'\\\n"}
	first := b.apply(t, o)
	require.False(t, first.Repeat)
	require.Equal(t, o.Key, first.Key)
	require.WithinDuration(t, time.Now(), first.At, time.Minute)
	require.Equal(t, first.At, first.At.Truncate(time.Microsecond).UTC())

	t.Run("a repeat returns the original and changes nothing", func(t *testing.T) {
		again, err := b.Post(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, repeated(first), again)
		b.has(t, "alice", "10.00")
		b.has(t, "bob", "10.00")
	})
	t.Run("memo and metadata are not part of what the money does", func(t *testing.T) {
		other := o
		other.Memo, other.Metadata = "other", nil
		again, err := b.Post(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, repeated(first), again)
	})
	t.Run("case 12: stripe-ruby#503: the same key for another amount is a conflict", func(t *testing.T) {
		_, err := b.Post(t.Context(), post("transfer/t1/post", "alice", "bob", "1"))
		require.ErrorIs(t, err, ledger.ErrKeyConflict)
		_, err = b.Post(t.Context(), post("transfer/t1/post", "bob", "alice", "10"))
		require.ErrorIs(t, err, ledger.ErrKeyConflict)
		b.has(t, "alice", "10.00")
	})
	t.Run("the record", func(t *testing.T) {
		record, err := b.Operation(t.Context(), o.Key)
		require.NoError(t, err)
		require.Equal(t, o, record.Operation)
		require.Equal(t, o.RequestHash(), record.RequestHash)
		require.Equal(t, repeated(first), record.Outcome)
		require.Positive(t, record.ID)
	})
	t.Run("no outcome yet", func(t *testing.T) {
		_, err := b.Operation(t.Context(), "transfer/t2/post")
		require.ErrorIs(t, err, ledger.ErrOperationUnknown)
	})
	t.Run("malformed", func(t *testing.T) {
		_, err := b.Post(t.Context(), post("", "alice", "bob", "1"))
		var invalid *ledger.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "key", invalid.Field)
	})
	sound(t, b)
}

// case 2: midaz#709, tigerbeetle PR#2335: a refusal is recorded under its key, and a new attempt is a new key.
func TestRefusalUsesUpItsKey(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "5")
	b.open(t, "bob")
	first := b.refuse(t, post("k1", "alice", "bob", "10"), ledger.CodeInsufficientFunds)
	b.apply(t, post("top up", "world", "alice", "100"))
	again, err := b.Post(t.Context(), post("k1", "alice", "bob", "10"))
	require.NoError(t, err)
	require.Equal(t, repeated(first), again)
	_, err = b.Post(t.Context(), post("k1", "alice", "bob", "9"))
	require.ErrorIs(t, err, ledger.ErrKeyConflict)
	b.apply(t, post("k2", "alice", "bob", "10"))
	sound(t, b)
}

func TestPostBatch(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	b.open(t, "bob")
	b.open(t, "carol", in(jpy))
	known := b.apply(t, post("known", "alice", "bob", "1"))

	// case 1: formancehq/stack PR#1633: the same key twice in one call.
	twoLegs := post("legs", "alice", "bob", "1")
	twoLegs.Legs = append(twoLegs.Legs, post("", "bob", "alice", "0.50").Legs[0])
	results, err := b.PostBatch(t.Context(), []ledger.Operation{
		0: post("a", "alice", "bob", "10"),
		1: post("", "alice", "bob", "10"),
		2: post("known", "alice", "bob", "1"),
		3: post("known", "alice", "bob", "2"),
		4: post("b", "alice", "bob", "1000"),
		5: post("a", "alice", "bob", "10"),
		6: post("a", "alice", "bob", "11"),
		7: post("c", "alice", "nobody", "1"),
		8: post("d", "alice", "carol", "1"),
		9: twoLegs,
		// The order of a batch counts: bob has this only because of what came before.
		10: post("e", "bob", "alice", "11.50"),
	})
	require.NoError(t, err)
	require.Len(t, results, 11)
	require.Equal(t, ledger.OutcomeApplied, results[0].Outcome.State)
	require.ErrorContains(t, results[1].Err, "key")
	require.Equal(t, ledger.Result{Outcome: repeated(known)}, results[2])
	require.ErrorIs(t, results[3].Err, ledger.ErrKeyConflict)
	require.Equal(t, ledger.CodeInsufficientFunds, results[4].Outcome.Code)
	require.Equal(t, ledger.Result{Outcome: repeated(results[0].Outcome)}, results[5])
	require.ErrorIs(t, results[6].Err, ledger.ErrKeyConflict)
	require.Equal(t, ledger.CodeAccountUnknown, results[7].Outcome.Code)
	require.Equal(t, ledger.CodeAssetMismatch, results[8].Outcome.Code)
	require.Equal(t, ledger.OutcomeApplied, results[9].Outcome.State)
	require.Equal(t, ledger.OutcomeApplied, results[10].Outcome.State)
	b.has(t, "alice", "100.00")
	b.has(t, "bob", "0.00")
	sound(t, b)

	t.Run("empty", func(t *testing.T) {
		results, err := b.PostBatch(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, results)
	})
	t.Run("nothing valid", func(t *testing.T) {
		results, err := b.PostBatch(t.Context(), []ledger.Operation{post("", "alice", "bob", "1")})
		require.NoError(t, err)
		require.Error(t, results[0].Err)
	})
	t.Run("nothing new", func(t *testing.T) {
		again, err := b.PostBatch(t.Context(), []ledger.Operation{post("known", "alice", "bob", "1"), post("a", "alice", "bob", "10")})
		require.NoError(t, err)
		require.Equal(t, repeated(known), again[0].Outcome)
		require.Equal(t, repeated(results[0].Outcome), again[1].Outcome)
	})
}

// A transfer begins with its post or its withdraw. An ID that is used again for another request gets only one of them,
// also when both are asked for at once, on accounts that don't meet.
func TestPostAndWithdrawOfOneTransfer(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	b.fund(t, "carol", "100")
	b.open(t, "bob")
	for round := range 20 {
		id := fmt.Sprintf("transfer/東京 %d/", round)
		both := [2]ledger.Operation{post(id+"post", "alice", "bob", "1"), withdraw(id+"withdraw", "carol", "eu/bob", "1")}
		var outcomes [2]ledger.Outcome
		var errs [2]error
		atOnce(2, func(i int) {
			if round%3 == 2 && i == 0 {
				outcomes[i], errs[i] = b.Resolve(t.Context(), seal(both[i]))
			} else {
				outcomes[i], errs[i] = b.Post(t.Context(), both[i])
			}
		})
		first := 0
		if errs[0] != nil {
			first = 1
		}
		require.NoError(t, errs[first])
		require.False(t, outcomes[first].Repeat)
		require.ErrorIs(t, errs[1-first], ledger.ErrKeyConflict)
		_, err := b.Resolve(t.Context(), seal(both[1-first]))
		require.ErrorIs(t, err, ledger.ErrKeyConflict)
		_, err = b.Operation(t.Context(), both[1-first].Key)
		require.ErrorIs(t, err, ledger.ErrOperationUnknown)
		again, err := b.Resolve(t.Context(), seal(both[first]))
		require.NoError(t, err)
		require.Equal(t, repeated(outcomes[first]), again)
	}
	// The database draws the same line as Go.
	owner := b.owner(t)
	for _, key := range []ledger.Key{"a/post", "a/withdraw", "withdraw", "/withdraw", "a/withdraw/b", "東/withdraw", "a/Withdraw", "a/withdraw "} {
		var claim string
		require.NoError(t, owner.QueryRow(t.Context(), "select operation_claim($1)", key).Scan(&claim))
		require.Equal(t, string(key.Claim()), claim)
	}
	results, err := b.PostBatch(t.Context(), []ledger.Operation{
		post("transfer/batch/post", "alice", "bob", "1"), withdraw("transfer/batch/withdraw", "carol", "eu/bob", "1"),
	})
	require.NoError(t, err)
	require.Equal(t, ledger.OutcomeApplied, results[0].Outcome.State)
	require.ErrorIs(t, results[1].Err, ledger.ErrKeyConflict)
	sound(t, b)
}

// case 33: blnk#181.
func TestSixthOfFiveIsRefused(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "5000")
	b.open(t, "bob")
	var applied, refused atomic.Int64
	atOnce(6, func(i int) {
		outcome, err := b.Post(t.Context(), post(fmt.Sprint("k", i), "alice", "bob", "1000"))
		switch {
		case assert.NoError(t, err) && outcome.State == ledger.OutcomeApplied:
			applied.Add(1)
		case outcome.Code == ledger.CodeInsufficientFunds:
			refused.Add(1)
		}
	})
	require.Equal(t, []int64{5, 1}, []int64{applied.Load(), refused.Load()})
	b.has(t, "alice", "0.00")
	sound(t, b)
}

// case 34: hyperswitch#13182.
func TestTwoRefundsAtOnce(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	w := withdraw("t/withdraw", "alice", "eu/bob", "100")
	b.apply(t, w)
	var codes [2]ledger.Code
	atOnce(2, func(i int) {
		outcome, err := b.Post(t.Context(), refund(fmt.Sprint("t/refund", i), w, "60"))
		assert.NoError(t, err)
		codes[i] = outcome.Code
	})
	slices.Sort(codes[:])
	require.Equal(t, [2]ledger.Code{"", ledger.CodeReversalExceeds}, codes)
	b.has(t, "alice", "60.00")
	b.has(t, "transit:eu", "40.00")
	sound(t, b)
}

// case 85: blnk#374; case 32: Monzo, 30 May 2019: a reversal is a linked operation of its own.
func TestRefund(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	w := withdraw("t/withdraw", "alice", "eu/bob", "100")
	withdrawn := b.apply(t, w)
	r := refund("t/refund", w, "100")
	first := b.apply(t, r)

	again, err := b.Post(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, repeated(first), again)
	b.has(t, "alice", "100.00")
	b.has(t, "transit:eu", "0.00")

	record, err := b.Operation(t.Context(), "t/refund")
	require.NoError(t, err)
	require.Equal(t, w.Key, record.Operation.Reverses)
	record, err = b.Operation(t.Context(), w.Key)
	require.NoError(t, err)
	require.Equal(t, repeated(withdrawn), record.Outcome, "the original is as it was")
	entries, err := b.Entries(t.Context(), ledger.EntriesPage{Account: "alice", Limit: 10})
	require.NoError(t, err)
	require.Len(t, entries, 3)

	b.refuse(t, refund("other/refund", w, "0.01"), ledger.CodeReversalExceeds)
	refused := withdraw("t2/withdraw", "alice", "eu/bob", "1000")
	b.refuse(t, refused, ledger.CodeInsufficientFunds)
	b.refuse(t, refund("t2/refund", refused, "1000"), ledger.CodeReversalUnknown)
	b.refuse(t, refund("t3/refund", withdraw("t3/withdraw", "alice", "jp/bob", "1"), "1"), ledger.CodeReversalUnknown)
	sound(t, b)
}

func TestReversalBlocked(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	w := withdraw("t/withdraw", "alice", "eu/bob", "100")
	b.apply(t, w)
	_, err := b.AccountSet(t.Context(), "alice", ledger.AccountChange{Ceiling: &ledger.Limit{Amount: amount("99")}})
	require.NoError(t, err)
	_, err = b.Post(t.Context(), refund("t/refund", w, "100"))
	require.ErrorIs(t, err, ledger.ErrReversalBlocked)
	_, err = b.Operation(t.Context(), "t/refund")
	require.ErrorIs(t, err, ledger.ErrOperationUnknown, "it is not refused for good")
	_, err = b.AccountSet(t.Context(), "alice", ledger.AccountChange{Ceiling: &ledger.Limit{None: true}})
	require.NoError(t, err)
	b.apply(t, refund("t/refund", w, "100"))
	sound(t, b)
}

func TestTakesMoneyBackWhenClosed(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "100")
	w := withdraw("t/withdraw", "alice", "eu/bob", "100")
	b.apply(t, w)
	closed := ledger.AccountClosed
	_, err := b.AccountSet(t.Context(), "alice", ledger.AccountChange{Status: &closed})
	require.NoError(t, err)
	b.apply(t, refund("t/refund", w, "100"))
	b.has(t, "alice", "100.00")
	b.refuse(t, post("k", "alice", "world", "1"), ledger.CodeAccountClosed)
	sound(t, b)
}

// case 35: own-pay#180: there is no row to lock yet.
func TestFiftyFirstRequestsAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		operation ledger.Operation
		state     ledger.OutcomeState
	}{
		"between accounts":                             {post("new", "alice", "bob", "1"), ledger.OutcomeApplied},
		"without an account":                           {post("new", "nobody", "no-one", "1"), ledger.OutcomeRefused},
		"into a transit account that is not there yet": {withdraw("new", "alice", "eu/bob", "1"), ledger.OutcomeApplied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBooks(t)
			b.fund(t, "alice", "100")
			b.open(t, "bob")
			outcomes := make([]ledger.Outcome, 50)
			atOnce(50, func(i int) {
				var err error
				outcomes[i], err = b.Post(t.Context(), test.operation)
				assert.NoError(t, err)
			})
			var firsts int
			for _, o := range outcomes {
				if !o.Repeat {
					firsts++
				}
				require.Equal(t, test.state, o.State)
				require.Equal(t, repeated(outcomes[0]), repeated(o))
			}
			require.Equal(t, 1, firsts)
			sound(t, b)
		})
	}
	t.Run("with contents that differ, on accounts that don't meet", func(t *testing.T) {
		t.Parallel()
		b := openBooks(t)
		for i := range 25 {
			b.open(t, fmt.Sprint("from", i), unlimited)
			b.open(t, fmt.Sprint("to", i))
		}
		var firsts, repeats, conflicts atomic.Int64
		atOnce(50, func(i int) {
			outcome, err := b.Post(t.Context(), post("new", fmt.Sprint("from", i%25), fmt.Sprint("to", i%25), "1"))
			switch {
			case err != nil:
				assert.ErrorIs(t, err, ledger.ErrKeyConflict)
				conflicts.Add(1)
			case outcome.Repeat:
				repeats.Add(1)
			default:
				firsts.Add(1)
			}
		})
		require.Equal(t, []int64{1, 1, 48}, []int64{firsts.Load(), repeats.Load(), conflicts.Load()})
		sound(t, b)
	})
}

// case 37: five-bells-ledger#323.
func TestBothWaysAtOnce(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		b.fund(t, name, "1000")
	}
	var operations []ledger.Operation
	for i := range 1_000 {
		from, to := names[i%4], names[(i+1+i/4%3)%4]
		operations = append(operations, post(fmt.Sprint("k", i), from, to, "1"))
	}
	rand.Shuffle(len(operations), func(i, j int) { operations[i], operations[j] = operations[j], operations[i] })
	// Everything twice, by two sets of workers, in batches and singly.
	var applied atomic.Int64
	atOnce(16, func(worker int) {
		size := []int{1, 7, 50, 100}[worker%4]
		part := operations[worker/2*125 : worker/2*125+125]
		for batch := range slices.Chunk(part, size) {
			results, err := b.PostBatch(t.Context(), batch)
			if !assert.NoError(t, err) {
				return
			}
			for _, r := range results {
				if assert.NoError(t, r.Err) && assert.Equal(t, ledger.OutcomeApplied, r.Outcome.State) && !r.Outcome.Repeat {
					applied.Add(1)
				}
			}
		}
	})
	require.Equal(t, int64(1_000), applied.Load())
	require.Equal(t, int64(1_004), sound(t, b).Ledgers[0].Operations)
}

// case 39: cockroachdb/examples-go#101.
func TestHotAccount(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "payer", "10000")
	for i := range 16 {
		b.open(t, fmt.Sprint("payee", i))
	}
	const each = 40
	atOnce(16, func(worker int) {
		for i := range each {
			o := post(fmt.Sprintf("k%d-%d", worker, i), "payer", fmt.Sprint("payee", worker), "1")
			outcome, err := b.Post(t.Context(), o)
			if !assert.NoError(t, err) || !assert.Equal(t, ledger.OutcomeApplied, outcome.State) {
				return
			}
		}
	})
	b.has(t, "payer", "9360.00")
	b.has(t, "payee3", "40.00")
	sound(t, b)
}

// case 84: formancehq/ledger#767, #565.
func TestOpenAndPostAtOnce(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.open(t, "world", unlimited)
	const accounts = 12
	name := func(i int) string { return fmt.Sprint("a", i%accounts) }
	atOnce(16, func(worker int) {
		// Half of the workers go up, the other half down.
		for step := range accounts {
			i := step
			if worker%2 == 1 {
				i = accounts - 1 - step
			}
			a := ledger.NewAccount(name(i), usd)
			a.Floor = nil
			_, err := b.AccountOpen(t.Context(), a)
			assert.NoError(t, err)
			outcome, err := b.Post(t.Context(), post(fmt.Sprintf("k%d-%d", worker, i), name(i), name(i+1), "1"))
			assert.NoError(t, err)
			if outcome.State == ledger.OutcomeRefused {
				assert.Equal(t, ledger.CodeAccountUnknown, outcome.Code)
			}
			outcome, err = b.Post(t.Context(), withdraw(fmt.Sprintf("w%d-%d/withdraw", worker, i), name(i), fmt.Sprintf("l%d/bob", i), "1"))
			assert.NoError(t, err)
			assert.Equal(t, ledger.OutcomeApplied, outcome.State)
		}
	})
	accountsFound, err := b.Accounts(t.Context(), ledger.AccountsPage{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, accountsFound, 1+2*accounts)
	sound(t, b)
}

func TestAmountsAreExact(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	points := mustAsset("POINTS/0")
	b.open(t, "mint", unlimited, in(points))
	b.open(t, "vault", in(points))
	most := "99999999999999999999999999999999999999"
	move := func(key, units string) ledger.Operation {
		a, err := ledger.ParseAmount(units, points)
		require.NoError(t, err)
		return ledger.Operation{Key: ledger.Key(key), Kind: ledger.KindPost, Legs: []ledger.Leg{{From: "mint", To: "vault", Asset: points, Amount: a}}}
	}
	// case 48: numscript PR#156.
	for i, units := range []string{"9007199254740993", "9223372036854775807", "1"} {
		b.apply(t, move(fmt.Sprint("k", i), units))
	}
	b.has(t, "vault", "9232379236109516801")
	b.has(t, "mint", "-9232379236109516801")
	b.apply(t, move("rest", "99999999999999999990767620763890483198"))
	b.has(t, "vault", most)
	b.refuse(t, move("one too many", "1"), ledger.CodeBalanceOverflow)
	entries, err := b.Entries(t.Context(), ledger.EntriesPage{Account: "mint", Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "-"+most, entries[3].Balance.String())
	record, err := b.Operation(t.Context(), "rest")
	require.NoError(t, err)
	require.Equal(t, "99999999999999999990767620763890483198", record.Operation.Legs[0].Amount.String())
	sound(t, b)
}

func TestManyLegs(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.open(t, "world", unlimited)
	o := ledger.Operation{Key: ledger.Key(strings.Repeat("k", ledger.KeyBytesMax)), Kind: ledger.KindPost}
	for i := range ledger.LegsMax / 2 {
		name := fmt.Sprintf("%s%d", strings.Repeat("a", 100), i)
		b.open(t, name)
		o.Legs = append(o.Legs, post("", "world", name, "10").Legs[0], post("", name, "world", "9").Legs[0])
	}
	b.apply(t, o)
	record, err := b.Operation(t.Context(), o.Key)
	require.NoError(t, err)
	require.Equal(t, o, record.Operation)
	entries, err := b.Entries(t.Context(), ledger.EntriesPage{Account: "world", Limit: 1000})
	require.NoError(t, err)
	require.Len(t, entries, ledger.LegsMax)
	for i, e := range entries {
		require.Equal(t, i+1, e.Leg)
		other := o.Legs[i].To
		if i%2 == 1 {
			other = o.Legs[i].From
		}
		require.Equal(t, other, e.Other)
	}
	b.has(t, "world", "-50.00")
	sound(t, b)
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.fund(t, "alice", "10")
	b.open(t, "bob")

	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := b.Post(ctx, post("k1", "alice", "bob", "1"))
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ledger.ErrUnknownOutcome)
		require.NotErrorIs(t, err, ledger.ErrUnavailable)
	})
	t.Run("while it waits for a lock", func(t *testing.T) {
		owner := b.owner(t)
		exec(t, owner, "begin")
		exec(t, owner, "select from accounts where name = 'bob' for update")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		go func() {
			_, err := b.Post(ctx, post("k2", "alice", "bob", "1"))
			done <- err
		}()
		waitFor(t, owner, blocked(1))
		cancel()
		err := <-done
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ledger.ErrUnknownOutcome, "COMMIT was not sent")
		exec(t, owner, "commit")
	})
	t.Run("an answer before the deadline", func(t *testing.T) {
		owner := b.owner(t)
		exec(t, owner, "begin")
		exec(t, owner, "select from accounts where name = 'bob' for update")
		// The context does not end: whoever answers because of its deadline has answered before it.
		_, err := b.Post(deadlineContext{t.Context(), time.Now().Add(8 * time.Second)}, post("k3", "alice", "bob", "1"))
		require.ErrorContains(t, err, "another session holds the account bob")
		require.NotErrorIs(t, err, ledger.ErrUnavailable, "a lock is no outage")
		exec(t, owner, "commit")
	})
	b.apply(t, post("k3", "alice", "bob", "1"))
	b.has(t, "bob", "1.00")
	sound(t, b)
}
