package tests

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/tests/harness"
)

// cases are what went wrong elsewhere and touches what payonce has: public reports, by the numbers under which the tests name
// them. That of holds (28) comes with what it is about.
var cases = map[string]string{
	"1":   "the same key twice in one batch: one posts, the other is a repeat, the rest is untouched",
	"2":   "a refusal uses its key up, and is repeated",
	"3":   "no key is an error; sameness is never inferred from the content",
	"5":   "the command line needs an ID; the same command again finds the same transfer",
	"7":   "keys live as long as the ledger",
	"8":   "forgotten by Temporal and started again: no second debit, and the original result",
	"12":  "the same key with other content is a conflict of its own, and the original stays",
	"13":  "a duplicate of something unfinished is told that it is pending",
	"14":  "a crash right after the claim of a key: a rerun finishes",
	"18":  "unknown is not failed; time alone never makes it so",
	"20":  "a transfer undoes only what its own keys did",
	"21":  "cancelled at any step, the books close",
	"22":  "terminated in transit and started again it finishes; until then verify says whose money it is",
	"23":  "reset to before the withdraw: no second debit",
	"24":  "an attempt that was given up and goes on is refused",
	"25":  "the connection is cut at COMMIT: unknown, then the key tells",
	"32":  "a reversal is a linked operation of its own, never a deletion",
	"33":  "six at once from the money of five: the sixth is refused",
	"34":  "two paybacks of 60 on 100: one is refused",
	"35":  "fifty first requests with one key at once: one applies",
	"37":  "both ways between two accounts at once: no deadlock reaches a caller",
	"38":  "a serialization error at COMMIT: the whole database transaction runs again, a bounded number of times",
	"39":  "one hot account: a bounded slow-down, nothing set aside",
	"40":  "killed between any two statements: balances are the sums of the entries",
	"42":  "money decisions read the primary only",
	"44":  "JPY 80 is 80 units; 80.5 is refused",
	"46":  "KWD 1.234 is exact",
	"48":  "amounts above 2^53 are exact, or refused",
	"50":  "negative amounts are refused at the edge and by the database",
	"55":  "mismatched or blank currencies are refused",
	"56":  "an optional cap per transfer and per batch",
	"57":  "the same file again, renamed or with other line ends: nothing is paid twice",
	"59":  "killed and started again, a batch goes on, each row once",
	"63":  "rows that look alike are flagged, never dropped",
	"67":  "every batch ends with a summary of each row",
	"68":  "a large batch meets no limit of a history or a payload",
	"69":  "exit codes tell of failed rows",
	"75":  "outages pause, rows are isolated, nothing starves",
	"76":  "a retry finishes the steps that are missing, once",
	"80c": "entries and operations are append-only, also for the worker's role",
	"81":  "one attempt for what can't succeed, however it is wrapped",
	"82":  "a compensation that fails parks, and says where the money is",
	"83":  "rolled back at the second write, nothing remains",
	"84":  "accounts opened and posted to at once, both ways",
	"85":  "a refund has its own key; a repeat changes nothing",
}

var (
	// caseNames is a mention of cases in a test: "Case 8", "cases 7 and 8", "case 80c: …".
	caseNames = regexp.MustCompile(`(?i)\bcases? ([0-9]+[a-z]?(?:(?:,| and|, and) [0-9]+[a-z]?)*)\b`)
	caseName  = regexp.MustCompile(`[0-9]+[a-z]?`)
	// between two cases may stand where they come from, and the end of a comment's line; and code may switch on a number.
	between = regexp.MustCompile(`\s*\([^()"]*\)|\n\s*//|(?m:^\s*case [^"\n]*:$)`)
)

// casesIn are the cases that a file of tests names.
func casesIn(text string) map[string]bool {
	named := make(map[string]bool)
	for _, mention := range caseNames.FindAllStringSubmatch(between.ReplaceAllString(text, ""), -1) {
		for _, name := range caseName.FindAllString(mention[1], -1) {
			named[name] = true
		}
	}
	return named
}

// Each case has a test that names it, somewhere in the repository.
func TestEachCaseHasATest(t *testing.T) {
	t.Parallel()
	root, err := harness.Root()
	require.NoError(t, err)
	missing := maps.Clone(cases)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || entry.Name() == "cases_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		for name := range casesIn(string(text)) {
			delete(missing, name)
		}
		return err
	})
	require.NoError(t, err)
	require.Empty(t, missing, "no test names these")
}

func TestCasesIn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"// Case 8 (temporalio/sdk-go#220, #1857): forgotten.":     {"8"},
		"// Cases 7 (a#1) and 8 (b#2): keys.\nfunc X()":            {"7", "8"},
		"// Words. Case\n// 80c: append-only":                      {"80c"},
		"\t// Cases 1, 2 (x), and 12, at once":                     {"1", "12", "2"},
		`t.Run("case 33: six at once", f)`:                         {"33"},
		"switch { case 8: }":                                       {"8"}, // code that switches on a number is not told apart
		"// In any case 8 of them; Cases of this kind; case80c; 7": {"8"},
	} {
		require.Equal(t, want, slices.Sorted(maps.Keys(casesIn(text))), text)
	}
}
