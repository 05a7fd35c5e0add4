package fault_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"payonce/internal/faultworker/fault"
)

var (
	withdrawAfter = fault.Point{Kind: fault.KindWithdraw, Moment: fault.After}
	depositBefore = fault.Point{Kind: fault.KindDeposit, Moment: fault.Before}
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]fault.Fault{
		"withdraw/after=kill":                                         {Point: withdrawAfter, Action: fault.ActionKill},
		"withdraw/after=drop:3":                                       {Point: withdrawAfter, Action: fault.ActionDrop, Times: 3},
		"deposit/before=fail:always;transfer=poison-1":                {Point: depositBefore, Action: fault.ActionFail, Always: true, Transfer: "poison-1"},
		"deposit/before=fail;error=unavailable;skip=2":                {Point: depositBefore, Action: fault.ActionFail, Error: fault.ErrorUnavailable, Skip: 2},
		"deposit/before=block;for=1.5s;key=transfer/a/b":              {Point: depositBefore, Action: fault.ActionBlock, For: fault.Duration(1500 * time.Millisecond), Key: "transfer/a/b"},
		"deposit/before=freeze;keep-polls":                            {Point: depositBefore, Action: fault.ActionFreeze, KeepPolls: true},
		"deposit/before=panic;transfer=a=b":                           {Point: depositBefore, Action: fault.ActionPanic, Transfer: "a=b"},
		`{"point":"deposit/before","action":"kill","transfer":"a;b"}`: {Point: depositBefore, Action: fault.ActionKill, Transfer: "a;b"},
		"resolve/before=kill":                                         {Point: fault.Point{Kind: fault.KindResolve, Moment: fault.Before}, Action: fault.ActionKill},
		"post/after=kill":                                             {Point: fault.Point{Kind: fault.KindPost, Moment: fault.After}, Action: fault.ActionKill},
		"refund/after=kill":                                           {Point: fault.Point{Kind: fault.KindRefund, Moment: fault.After}, Action: fault.ActionKill},
		"naive-deposit/after=drop":                                    {Point: fault.Point{Kind: fault.KindNaiveDeposit, Moment: fault.After}, Action: fault.ActionDrop},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			got, err := fault.Parse(text)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "must begin with POINT=ACTION",
		"withdraw/after":                      "must begin with POINT=ACTION",
		"withdraw=kill":                       "is not a point",
		"withdraw/during=kill":                "is not a point",
		"transfer/after=kill":                 "is not a point",
		"withdraw/after=explode":              "is not an action",
		"withdraw/after=kill:0":               "not a number of times",
		"withdraw/after=kill:often":           "not a number of times",
		"withdraw/before=drop":                "only an answer can be dropped",
		"withdraw/after=kill;for=1s":          "for is about block",
		"withdraw/after=block;for=soon":       "invalid duration",
		"withdraw/after=block;for=-1s":        "not below zero",
		"withdraw/after=kill;error=unknown":   "error is about fail",
		"withdraw/after=fail;error=bad":       "is not unavailable or unknown",
		"withdraw/after=kill;keep-polls":      "keep-polls is about freeze",
		"withdraw/after=kill;skip=some":       "is not a number",
		"withdraw/after=kill;colour=red":      "is not transfer, key",
		"{":                                   "unexpected EOF",
		`{"point":"withdraw/after"}`:          "is not an action",
		`{"action":"kill"}`:                   "is not a point",
		`{"point":"withdraw/after","time":1}`: "unknown field",
		`{"point":"deposit/before","action":"kill","times":2,"always":true}`: "not both",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := fault.Parse(text)
			require.ErrorContains(t, err, want)
		})
	}
}

// What String writes, Parse reads, whatever is in the names.
func TestStringIsParsed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := fault.Fault{
			Point:    rapid.SampledFrom([]fault.Point{withdrawAfter, depositBefore}).Draw(t, "point"),
			Action:   rapid.SampledFrom([]fault.Action{fault.ActionKill, fault.ActionPanic, fault.ActionBlock}).Draw(t, "action"),
			Times:    rapid.IntRange(0, 5).Draw(t, "times"),
			Skip:     rapid.IntRange(0, 5).Draw(t, "skip"),
			Transfer: strings.ToValidUTF8(rapid.String().Draw(t, "transfer"), ""),
			Key:      strings.ToValidUTF8(rapid.String().Draw(t, "key"), ""),
		}
		if want.Action == fault.ActionBlock {
			want.For = fault.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "for"))
		}
		got, err := fault.Parse(want.String())
		if err != nil || got != want {
			t.Fatalf("%s: got %+v, %v", want.String(), got, err)
		}
	})
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fault string
		point fault.Point
		key   string
		want  bool
	}{
		"any key":                     {"deposit/before=kill", depositBefore, "transfer/a/deposit", true},
		"another point":               {"deposit/before=kill", withdrawAfter, "transfer/a/withdraw", false},
		"its transfer":                {"deposit/before=kill;transfer=a", depositBefore, "transfer/a/deposit", true},
		"another transfer":            {"deposit/before=kill;transfer=a", depositBefore, "transfer/ab/deposit", false},
		"a transfer that it ends":     {"deposit/before=kill;transfer=a", depositBefore, "transfer/b/transfer/a/deposit", false},
		"a transfer with a slash":     {"deposit/before=kill;transfer=a/b", depositBefore, "transfer/a/b/deposit", true},
		"its key":                     {"deposit/before=kill;key=transfer/a/deposit", depositBefore, "transfer/a/deposit", true},
		"another key":                 {"deposit/before=kill;key=transfer/a/deposit", depositBefore, "transfer/b/deposit", false},
		"its transfer, another's key": {"deposit/before=kill;transfer=a;key=transfer/b/deposit", depositBefore, "transfer/b/deposit", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := fault.Parse(row.fault)
			require.NoError(t, err)
			require.Equal(t, row.want, f.Matches(row.point, row.key))
		})
	}
}

// An announcement is what a reader in another language sees.
func TestEventIsPlainJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(fault.Event{
		Event: fault.EventFault, At: time.Unix(0, 0).UTC(), PID: 7, Point: withdrawAfter, Key: "transfer/a/withdraw",
		Attempt: 1, Local: true, Action: fault.ActionKill, Strike: 1,
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"event":"fault","at":"1970-01-01T00:00:00Z","pid":7,"point":"withdraw/after","key":"transfer/a/withdraw",`+
		`"attempt":1,"local":true,"action":"kill","strike":1}`, string(text))

	text, err = json.Marshal(fault.Event{Event: fault.EventReady, At: time.Unix(0, 0).UTC(), PID: 7})
	require.NoError(t, err)
	require.JSONEq(t, `{"event":"ready","at":"1970-01-01T00:00:00Z","pid":7}`, string(text))
}
