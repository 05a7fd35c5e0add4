package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	var text strings.Builder
	require.NoError(t, table{
		head:   []string{"ACCOUNT", "BALANCE", "NOTE"},
		rows:   [][]string{{"us/alice", "10.00", "ä\nb"}, {"us/bob", "-1,234.50", "\x1b[31mred"}, {"x", "0", ""}},
		right:  []int{1},
		indent: "  ",
	}.write(&text))
	require.Equal(t, strings.Join([]string{
		"  ACCOUNT     BALANCE  NOTE",
		"  us/alice      10.00  ä b",
		"  us/bob    -1,234.50  [31mred",
		"  x                 0",
		"",
	}, "\n"), text.String())
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a b  c", oneLine("a\nb\t\x07\x1b c\n\n"))
}

func TestWantsJSON(t *testing.T) {
	for _, args := range [][]string{{"--output=json"}, {"x", "--output", "json", "y"}} {
		require.True(t, wantsJSON(args), args)
	}
	for _, args := range [][]string{nil, {"--output"}, {"--output", "text"}, {"json"}, {"json", "--output"}} {
		require.False(t, wantsJSON(args), args)
	}
}

func TestPrefixWriter(t *testing.T) {
	var text strings.Builder
	w := &prefixWriter{w: &text, prefix: "worker: "}
	for _, part := range []string{"on", "e\ntwo\nth", "ree", "\n", "unfinished"} {
		n, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.Equal(t, "worker: one\nworker: two\nworker: three\n", text.String())
}
