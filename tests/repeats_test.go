package tests

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"pgregory.net/rapid"

	"payonce/activities"
	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/tests/harness"
)

// Whatever writes "make the world look like this" may be repeated, without a key: opening an account, setting its status,
// floor, ceiling and metadata, recording a dead letter, deciding about one, writing a statement's file. For any of these, in any
// order and among payments: each repeated, at once and later among the others, leaves the world as it is when each runs once;
// and repeated when all is over, not a byte of the tables or the files changes.
//
// What a repeat can't survive is another write of the same setting in between: the last one stands, whoever is late. Such
// repeats are left out.
func TestAbsoluteWritesMayBeRepeated(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Config{Ledgers: []string{"us"}})
	books, err := postgres.Open(t.Context(), postgres.Config{Name: "us", URL: w.LedgerURL("us"), ConnsMax: 4})
	require.NoError(t, err)
	t.Cleanup(books.Close)
	acts := activities.New(map[string]activities.Ledger{"us": books})
	acts.StatementsDir = t.TempDir()
	var number atomic.Int64
	stageOf := func(rt *rapid.T, name string) *stage {
		s := &stage{w: w, t: t, rt: rt, books: books, acts: acts, prefix: fmt.Sprintf("w%d%s.", number.Add(1), name)}
		s.setUp()
		return s
	}
	repeated := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		plan, finale := drawPlan(rt)
		once := stageOf(rt, "once")
		for i := range plan {
			plan[i].failed = once.run(&plan[i].absoluteWrite)
		}
		often := stageOf(rt, "often")
		for i := range plan {
			often.runFirst(&plan[i])
			for _, earlier := range plan[i].then {
				if plan.stands(earlier, i) {
					often.repeat(&plan[earlier])
					repeated[plan[earlier].kind]++
				}
			}
		}
		require.Equal(rt, once.world(), often.world())

		whole, world, files := often.everything(), often.world(), often.files()
		for _, i := range finale {
			if plan.stands(i, len(plan)-1) {
				often.repeat(&plan[i])
				repeated[plan[i].kind]++
			}
		}
		require.Equal(rt, world, often.world()) // says what differs, if it is one of these
		require.Equal(rt, whole, often.everything())
		require.Equal(rt, files, often.files())
	})
	t.Logf("repeated: %v", repeated)
	for _, kind := range []string{"open", "set", "letter", "decision", "statement", "post"} {
		require.NotZero(t, repeated[kind], "no %s was repeated: nothing was proved", kind)
	}
}

// absoluteWrite is one activity with its input.
type absoluteWrite struct {
	kind string
	// settings are what it writes and another write may write otherwise: "s1 floor".
	settings []string
	do       func(s *stage) error
}

// planned is a write and how it is repeated.
type planned struct {
	absoluteWrite

	copies int   // how often it runs when its turn comes
	atOnce bool  // they run at the same time
	then   []int // the earlier ones that are repeated after it
	failed error // when it ran once
}

type plan []planned

// stands says whether a write had an effect that no other has taken over up to a place of the plan.
func (p plan) stands(i, upTo int) bool {
	if p[i].failed != nil {
		return false
	}
	for later := i + 1; later <= upTo; later++ {
		same := func(setting string) bool { return slices.Contains(p[i].settings, setting) }
		if p[later].failed == nil && slices.ContainsFunc(p[later].settings, same) {
			return false
		}
	}
	return true
}

// drawPlan draws a plan, and which of it is repeated when all is over.
func drawPlan(rt *rapid.T) (p plan, finale []int) {
	for i := range rapid.IntRange(1, 12).Draw(rt, "writes") {
		label := fmt.Sprintf("write %d ", i)
		p = append(p, planned{
			absoluteWrite: drawWrite(rt, label, i),
			copies:        rapid.IntRange(1, 3).Draw(rt, label+"copies"),
			atOnce:        rapid.Bool().Draw(rt, label+"at once"),
			then:          rapid.SliceOfN(rapid.IntRange(0, i), 0, 3).Draw(rt, label+"then"),
		})
	}
	return p, rapid.SliceOfN(rapid.IntRange(0, len(p)-1), len(p), 2*len(p)).Draw(rt, "finale")
}

func drawWrite(rt *rapid.T, label string, i int) absoluteWrite {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, label+what) }
	kind := pick("kind", "open", "set", "set", "set", "letter", "letter", "decision", "statement", "post")
	account := pick("account", "s0", "s1", "n0", "n1")
	switch kind {
	case "open":
		floor := pick("floor", "", "none")
		return absoluteWrite{kind, nil, func(s *stage) error {
			return s.execute(s.acts.AccountOpen, activities.AccountOpenInput{Account: s.account(account), Asset: "USD", Floor: floor})
		}}
	case "set":
		in := activities.AccountSetInput{
			Floor: pick("floor", "", "", "0", "none", "-5.00", "10.00"), Ceiling: pick("ceiling", "", "", "none", "45.00"),
			Status: pick("status", "", "", "open", "frozen", "closed"),
		}
		if value := pick("metadata", "", "", "a", "b"); value != "" {
			in.Metadata = map[string]string{"holder": value}
		}
		var settings []string
		for setting, set := range map[string]bool{
			"floor": in.Floor != "", "ceiling": in.Ceiling != "", "status": in.Status != "", "metadata": in.Metadata != nil,
		} {
			if set {
				settings = append(settings, account+" "+setting)
			}
		}
		return absoluteWrite{kind, settings, func(s *stage) error {
			in := in
			in.Account = s.account(account)
			return s.execute(s.acts.AccountSet, in)
		}}
	case "letter":
		number, moment := rapid.IntRange(0, 1).Draw(rt, label+"number"), rapid.IntRange(0, 4).Draw(rt, label+"moment")
		return absoluteWrite{kind, nil, func(s *stage) error { return s.execute(s.acts.DeadLetterRecord, s.letter(number, moment)) }}
	case "decision":
		number, version := rapid.IntRange(0, 1).Draw(rt, label+"number"), rapid.Int64Range(1, 3).Draw(rt, label+"version")
		return absoluteWrite{kind, nil, func(s *stage) error {
			return s.execute(s.acts.DeadLetterDecide, activities.DeadLetterDecideInput{
				Ledger: "us", Key: s.letter(number, 0).Key, Version: version, Resolution: "it was paid in cash",
				Decision: activities.DecisionView{ID: fmt.Sprintf("decision-%d", i), Action: "discard", By: "ann", Reason: "a test"},
			})
		}}
	case "statement":
		account, format := pick("of", "s0", "s1"), pick("format", "csv", "camt053")
		return absoluteWrite{kind, nil, func(s *stage) error {
			return s.execute(s.acts.StatementWrite, activities.StatementWriteInput{
				AccountPeriodInput: activities.AccountPeriodInput{Account: s.account(account), From: s.to.Add(-time.Hour), To: s.to}, Format: format,
			})
		}}
	default: // a payment, which needs its key
		to := pick("to", "s2", "n0")
		return absoluteWrite{kind, nil, func(s *stage) error {
			return s.execute(s.acts.Post, activities.StepInput{
				Ledger: "us", Key: "transfer/" + s.prefix + fmt.Sprint(i) + "/post", From: s.prefix + "s1", To: s.prefix + to, Amount: "3.00", Asset: "USD/2",
			})
		}}
	}
}

// stage is a set of accounts and keys of their own, in the one ledger, on which a plan is carried out.
type stage struct {
	w      *harness.World
	t      *testing.T
	rt     *rapid.T
	books  *postgres.Ledger
	acts   *activities.Activities
	prefix string
	to     time.Time // the end of the statements' period
}

func (s *stage) account(name string) string { return "us/" + s.prefix + name }

// setUp opens accounts that have two entries each, the second at the end of the period of the statements, and sets two
// transfers aside.
func (s *stage) setUp() {
	for name, floor := range map[string]string{"world": "none", "s0": "0", "s1": "0", "s2": "0"} {
		require.NoError(s.rt, s.execute(s.acts.AccountOpen, activities.AccountOpenInput{Account: s.account(name), Asset: "USD", Floor: floor}))
	}
	for number := range 2 {
		require.NoError(s.rt, s.execute(s.acts.DeadLetterRecord, s.letter(number, 0)))
	}
	for round := range 2 {
		var operations []ledger.Operation
		for _, name := range []string{"s0", "s1", "s2"} {
			operations = append(operations, ledger.Operation{
				Key: ledger.Key(fmt.Sprintf("transfer/%sfund-%s-%d/post", s.prefix, name, round)), Kind: ledger.KindPost,
				Legs: []ledger.Leg{{From: s.prefix + "world", To: s.prefix + name, Asset: usd(), Amount: ledger.AmountFromUnits(2_000)}},
			})
		}
		results, err := s.books.PostBatch(s.t.Context(), operations)
		require.NoError(s.rt, err)
		for _, result := range results {
			require.Equal(s.rt, ledger.OutcomeApplied, result.Outcome.State)
			s.to = result.Outcome.At
		}
	}
}

func usd() ledger.Asset {
	asset, err := ledger.ParseAsset("USD")
	if err != nil {
		panic(err)
	}
	return asset
}

// letter is the dead letter of a transfer as of a moment: open, and closed, in turn.
func (s *stage) letter(number, moment int) activities.DeadLetterView {
	transfer := fmt.Sprintf("%slost-%d", s.prefix, number)
	at := time.Date(2026, 10, 1, 12, moment, 0, 0, time.UTC)
	letter := activities.DeadLetterView{
		Ledger: "us", Key: "transfer/" + transfer + "/post", Transfer: transfer, Step: "post", State: ledger.DeadLetterOpen, Run: "run",
		Ended: "failed", Error: "the ledger is on fire", ErrorType: activities.ErrorLedger, Attempts: 10 + moment, FirstAt: at, LastAt: at, AsOf: at,
		Place: ledger.PlaceSource, Account: s.account("s0"), Asset: "USD/2", Amount: "1.00", From: s.account("s0"), To: s.account("s1"),
		Choices: []string{"retry", "discard"}, Resolution: "the transfer ended as failed",
	}
	if moment%2 == 1 {
		letter.State, letter.Choices, letter.Resolution = ledger.DeadLetterClosed, nil, "it was seen to"
	}
	return letter
}

// execute runs an activity as a worker does. A refusal is the error.
func (s *stage) execute(activity, in any) error {
	suite := new(testsuite.WorkflowTestSuite)
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(s.acts)
	_, err := env.ExecuteActivity(activity, in)
	return err
}

// run carries a write out. Its error is a refusal: the world is not as the write assumes.
func (s *stage) run(write *absoluteWrite) error {
	err := write.do(s)
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		refusals := []string{activities.ErrorAccountConflict, activities.ErrorAccountUnknown, activities.ErrorDeadLetterUnknown, activities.ErrorDecisionRefused}
		require.Contains(s.rt, refusals, application.Type(), "%s: %v", write.kind, err)
		return err
	}
	require.NoError(s.rt, err, write.kind)
	return nil
}

// runFirst carries a write out when its turn comes, as often as it is planned: each time it ends as it did when it ran once.
func (s *stage) runFirst(p *planned) {
	errs := make([]error, p.copies)
	if p.atOnce {
		var running sync.WaitGroup
		for i := range errs {
			running.Go(func() { errs[i] = p.do(s) })
		}
		running.Wait()
	} else {
		for i := range errs {
			errs[i] = p.do(s)
		}
	}
	for _, err := range errs {
		require.Equal(s.rt, p.failed == nil, err == nil, "%s: once %v, often %v", p.kind, p.failed, err)
	}
}

// repeat carries a write out that stands. An account that was opened, and has other settings by now, is told of, and left.
func (s *stage) repeat(p *planned) {
	err := s.run(&p.absoluteWrite)
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok && p.kind == "open" && application.Type() == activities.ErrorAccountConflict {
		return
	}
	require.NoError(s.rt, err, p.kind)
}

// world is what a stage's rows say, but for numbers and times, which no two stages share.
func (s *stage) world() []string {
	rows := s.query(`
		(select 1, name, (to_jsonb(a) - '{id,opened_at,entry_at}'::text[])::text from accounts a where starts_with(name, $1))
		union all
		(select 2, key, (to_jsonb(o) - '{id,at,request_hash}'::text[])::text from operations o where starts_with(key, 'transfer/' || $1))
		union all
		(select 3, a.name || to_char(e.version, '0000'), o.key || (to_jsonb(e) - '{account_id,operation_id}'::text[])::text
		from entries e join accounts a on a.id = e.account_id join operations o on o.id = e.operation_id where starts_with(a.name, $1))
		union all
		(select 4, key, (to_jsonb(d) - '{id}'::text[])::text from dead_letters d where starts_with(transfer, $1))
		union all
		(select 5, d.key || to_char(row_number() over (order by x.id), '0000'), (to_jsonb(x) - '{id,dead_letter_id,at}'::text[])::text
		from dead_letter_actions x join dead_letters d on d.id = x.dead_letter_id where starts_with(d.transfer, $1))
		order by 1, 2`, s.prefix)
	for path := range s.files() {
		rows = append(rows, filepath.Dir(path)+filepath.Ext(path))
	}
	slices.Sort(rows)
	for i := range rows {
		rows[i] = strings.ReplaceAll(rows[i], s.prefix, "")
	}
	return rows
}

// everything is the digest of all rows of each table, with all that is in them, also of the other stages.
func (s *stage) everything() []string {
	return s.query(`
		select 1, 'accounts', md5(string_agg(a::text, e'\n' order by id)) from accounts a union all
		select 2, 'operations', md5(string_agg(o::text, e'\n' order by id)) from operations o union all
		select 3, 'entries', md5(string_agg(e::text, e'\n' order by account_id, version)) from entries e union all
		select 4, 'dead letters', md5(string_agg(d::text, e'\n' order by id)) from dead_letters d union all
		select 5, 'their actions', md5(string_agg(x::text, e'\n' order by id)) from dead_letter_actions x
		order by 1`)
}

func (s *stage) query(sql string, args ...any) []string {
	rows, err := s.w.DB(s.t, "us").Query(s.t.Context(), sql, args...)
	require.NoError(s.rt, err)
	defer rows.Close()
	var texts []string
	for rows.Next() {
		var table int
		var name, text string
		require.NoError(s.rt, rows.Scan(&table, &name, &text))
		texts = append(texts, fmt.Sprint(table, " ", name, " ", text))
	}
	require.NoError(s.rt, rows.Err())
	require.NotEmpty(s.rt, texts)
	return texts
}

// files are the stage's statements, by their paths.
func (s *stage) files() map[string]string {
	files := make(map[string]string)
	err := filepath.WalkDir(s.acts.StatementsDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(path, s.prefix) {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	require.NoError(s.rt, err)
	return files
}
