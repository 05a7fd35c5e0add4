package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"no-key", "never-started", "reply-lost", "partly-applied", "client-retries", "other-content", "poison", "late-attempt",
		"statement-rewritten", "payout-reply-lost", "webhook-duplicate",
	}, Names())
	require.NoError(t, CheckNames(nil))
	require.NoError(t, CheckNames(Names()))
	require.ErrorContains(t, CheckNames([]string{"no-key", "no-kye"}), `there is no scenario "no-kye": there are no-key, `)
}

func TestChooseKeepsTheOrder(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range choose([]string{"poison", "no-key", "poison"}) {
		names = append(names, s.name)
	}
	require.Equal(t, []string{"no-key", "poison"}, names)
	require.Len(t, choose(nil), 11)
}

// The demo is right only if each part of it is.
func TestReportIsRightAsAWhole(t *testing.T) {
	t.Parallel()
	right := &VerifyReport{OK: true}
	for name, row := range map[string]struct {
		report Report
		want   bool
	}{
		"all right":       {Report{Scenarios: []ScenarioReport{{OK: true}, {OK: true}}, Verify: right}, true},
		"one wrong":       {Report{Scenarios: []ScenarioReport{{OK: true}, {OK: false}}, Verify: right}, false},
		"wrong books":     {Report{Scenarios: []ScenarioReport{{OK: true}}, Verify: &VerifyReport{}}, false},
		"books unchecked": {Report{Scenarios: []ScenarioReport{{OK: true}}}, false},
		"nothing played":  {Report{Verify: right}, false},
	} {
		row.report.finish()
		require.Equal(t, row.want, row.report.OK, name)
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Report{
		OK: true, ElapsedMS: 5,
		Scenarios: []ScenarioReport{{
			Name: "n", Title: "t", OK: true, Balances: map[string]string{"A": "1.00", "B": "2.00"}, Expected: map[string]string{"A": "1.00", "B": "2.00"},
			Events: []Event{{AtMS: 3, Who: "client", What: WhatClient, Text: "asks"}}, Problems: []string{},
		}},
		Verify: &VerifyReport{OK: true, Report: json.RawMessage(`{"ok":true}`), text: "for people"},
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"ok":true,"scenarios":[{"name":"n","title":"t","ok":true,"balances":{"A":"1.00","B":"2.00"},"expected":{"A":"1.00","B":"2.00"},`+
		`"events":[{"at_ms":3,"who":"client","what":"client","text":"asks"}],"problems":[]}],"verify":{"ok":true,"exit_code":0,"report":{"ok":true}},"elapsed_ms":5}`, string(text))
}

func TestTailKeepsWholeLines(t *testing.T) {
	t.Parallel()
	var log tail
	for i := range 2_000 {
		_, err := fmt.Fprintf(&log, "line %d\n", i)
		require.NoError(t, err)
	}
	lines := strings.Split(log.String(), "\n")
	require.Equal(t, "line 1999", lines[len(lines)-1])
	require.True(t, strings.HasPrefix(lines[0], "line "), lines[0])
	require.LessOrEqual(t, len(log.String()), tailBytesMax)
}
