package demo

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTimeline(t *testing.T) {
	t.Parallel()
	s := &scenario{
		name: "power-cut", title: "the lights go out", stake: "Nobody sees the money.", moral: "paid by candle light",
		want: expectation{a: "10.00", b: "10.00"},
	}
	var out bytes.Buffer
	timeline := NewTimeline(&out, false)
	timeline.begin(2, 8, s)
	timeline.event(&Event{AtMS: 9, Who: "demo", What: WhatSetting, Text: "worker 1 is ready"})
	timeline.event(&Event{
		AtMS: 61_234, Who: "worker 1", What: WhatFault,
		Text: "says something that is much longer than a line of a terminal that has a hundred columns,\nover lines \x1b[31mof its own",
	})
	timeline.end(s, &ScenarioReport{OK: true, Balances: map[string]string{"A": "10.00", "B": "10.00"}})
	timeline.end(s, &ScenarioReport{Balances: map[string]string{"A": "10.00"}, Problems: []string{"B has nothing known, and must have 10.00"}})
	timeline.beginVerify()
	timeline.finish(&Report{
		OK: false, ElapsedMS: 12_499, Scenarios: []ScenarioReport{{OK: true}, {OK: false}},
		Verify: &VerifyReport{OK: false, ExitCode: 1, text: "us: 1 account\nThe books are wrong."},
	})
	require.Equal(t, `
2/8  power-cut: the lights go out
     Nobody sees the money.

       0.00 s  demo         worker 1 is ready
      61.23 s  worker 1     says something that is much longer than a line of a terminal that has a
                            hundred columns, over lines [31mof its own

     A 10.00   B 10.00   ✓ paid by candle light

     A 10.00   B nothing known   ✗ must be: A 10.00   B 10.00
     ✗ B has nothing known, and must have 10.00

And the books: worker verify
     us: 1 account
     The books are wrong.
     ✗ exit code 1

✗ 1 of 2 scenarios ended as they must, in 12 s.
`, out.String())
}

func TestTimelineInColour(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	NewTimeline(&out, true).event(&Event{Who: "worker 1", What: WhatFault, Text: "is KILLED"})
	require.Contains(t, out.String(), "\x1b[31mis KILLED\x1b[0m")
}

// Everything that is always the same fits a terminal of a hundred columns.
func TestScenariosFit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	timeline := NewTimeline(&out, false)
	timeline.head()
	for i, s := range scenarios() {
		timeline.begin(i+1, len(scenarios()), s)
		timeline.end(s, &ScenarioReport{OK: true, Balances: map[string]string{"A": s.want.a, "B": s.want.b}})
	}
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), columnsMax, line)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                        {""},
		"short":                   {"short"},
		"ten chars and more":      {"ten chars", "and more"},
		"exactly 10 chars":        {"exactly 10", "chars"},
		"averyveryverylongword x": {"averyveryverylongword", "x"},
		"A 20.00   B 0.00":        {"A 20.00", "B 0.00"},
		"ü ö ä ü ö ä":             {"ü ö ä ü ö", "ä"},
	} {
		require.Equal(t, want, wrap(text, 10), text)
	}
}
