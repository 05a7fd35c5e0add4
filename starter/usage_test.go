package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"payonce/ledger"
	"payonce/workflows"
)

// Each of these is wrong before anything is sent: the address is one that nobody listens on.
func TestWrongUsage(t *testing.T) {
	transfer := func(change ...string) []string {
		args := []string{"transfer", "--id", "t1", "--from", "us/alice", "--to", "eu/bob", "--amount", "10.00", "--asset", "USD"}
		return append(args, change...) // the last of two flags wins
	}
	for _, row := range []struct {
		name string
		args []string
		want string
	}{
		{"no command", nil, "starter needs a command"},
		{"unknown command", []string{"trnsfer"}, `has no command "trnsfer"; is it transfer?`},
		{"unknown flag", []string{"status", "t1", "--bogus"}, "unknown flag: --bogus"},
		{"unknown output", []string{"status", "t1", "--output", "xml"}, "choose text or json"},
		{"unknown help topic", []string{"help", "nonsense"}, "no help about"},
		{"unknown shell", []string{"completion", "nosh"}, `has no command "nosh"`},

		{"transfer without an ID", []string{"transfer", "--from", "a", "--to", "b", "--amount", "1", "--asset", "USD"}, "keep it for every retry"},
		{"ID with a blank", transfer("--id", "t1 "), "id: it begins or ends with a blank"},
		{"ID with a control character", transfer("--id", "t\x01"), "id: it contains U+0001"},
		{"ID too long", transfer("--id", strings.Repeat("x", 201)), "id: it has 201 bytes"},
		{"no source", transfer("--from", ""), "from: an account is required"},
		{"transit account", transfer("--to", "eu/transit:us"), "to: accounts named transit:…, rail:… and settled:… are the ledger's own"},
		{"to itself", transfer("--to", "us/alice"), "to: us/alice is also the account to pay from"},
		{"case 44: JPY has no decimals", transfer("--asset", "JPY", "--amount", "80.5"), `"80.5" has 1 decimal digits; JPY/0 has 0`},
		{"case 46: KWD has three decimals", transfer("--asset", "KWD", "--amount", "1.2345"), `"1.2345" has 4 decimal digits; KWD/3 has 3`},
		{"too many decimals", transfer("--amount", "10.001"), `amount: "10.001" has 3 decimal digits; USD/2 has 2`},
		{"case 48: too many digits", transfer("--amount", strings.Repeat("9", 37)), "has more than 38 digits"},
		{"case 50: negative amount", transfer("--amount", "-10.00"), "is not a plain decimal number"},
		{"case 50: negative amount, =", transfer("--amount=-10.00"), "is not a plain decimal number"},
		{"exponent", transfer("--amount", "1e3"), "is not a plain decimal number"},
		{"grouping", transfer("--amount", "1,000.00"), "is not a plain decimal number"},
		{"nothing", transfer("--amount", "0.00"), "amount: it must be above zero"},
		{"case 55: no asset", transfer("--asset", ""), "asset: an asset is required"},
		{"case 55: unknown asset", transfer("--asset", "POINTS"), "is not an ISO 4217 code"},
		{"metadata without =", transfer("--metadata", "invoice"), `metadata: "invoice" is not KEY=VALUE`},
		{"metadata twice", transfer("--metadata", "a=1", "--metadata", "a=2"), `metadata: "a" is there twice`},
		{"positional argument", transfer("now"), "unknown command \"now\""},
		{"--wait false, in two words", transfer("--wait", "false"), "unknown command \"false\""},
		{"no time to wait", transfer("--timeout", "0s"), "--timeout: 0s is not above zero"},

		{"status without an ID", []string{"status"}, "accepts 1 arg(s)"},
		{"status of two", []string{"status", "t1", "t2"}, "accepts 1 arg(s)"},
		{"status of no ID", []string{"status", ""}, "id: it is required"},

		{"a part that the bench has not", []string{"bench", "moon"}, `invalid argument "moon"`},
		{"account without a command", []string{"account"}, "starter account needs a command"},
		{"account opened without an asset", []string{"account", "open", "us/alice"}, "asset: an asset is required"},
		{"transit account opened", []string{"account", "open", "us/transit:eu", "--asset", "USD"}, "opened by the ledger itself"},
		{"malformed account", []string{"account", "open", "us/al ice", "--asset", "USD"}, "does not name an account"},
		{"malformed ledger", []string{"account", "open", "US/alice", "--asset", "USD"}, "does not name a ledger"},
		{"malformed floor", []string{"account", "open", "us/alice", "--asset", "USD", "--floor", "low"}, `floor: `},
		{"floor with too many decimals", []string{"account", "open", "us/alice", "--asset", "USD", "--floor", "-0.001"}, `floor: `},
		{"floor above ceiling", []string{"account", "open", "us/alice", "--asset", "USD", "--floor", "2", "--ceiling", "1"}, "floor: "},
		{"nothing to set", []string{"account", "set", "us/alice"}, "nothing to set"},
		{"malformed status", []string{"account", "set", "us/alice", "--status", "gone"}, `status: "gone" is not open, frozen or closed`},
		{"malformed limit to set", []string{"account", "set", "us/alice", "--ceiling", "1e3"}, "ceiling: "},
		{"malformed moment", []string{"account", "show", "us/alice", "--at", "yesterday"}, `at: "yesterday" is not a time`},
		{"malformed day", []string{"account", "statement", "us/alice", "--from", "2026-02-30"}, `from: "2026-02-30" is not a time`},
		{"a file without a period", []string{"account", "statement", "us/alice", "--from", "2026-09-01", "--out", "x"}, "to: a file needs a period"},
		{"a file in no format", []string{"account", "statement", "us/alice", "--out", "x", "--format", "pdf"}, `format: "pdf" is not csv or camt053`},
		{"a part of a file", []string{"account", "statement", "us/alice", "--out", "x", "--limit", "2"}, "limit: a file has all entries"},
		{"a format without a file", []string{"account", "statement", "us/alice", "--format", "csv"}, "format: it is that of a file"},
		{"negative limit", []string{"account", "statement", "us/alice", "--limit", "-1"}, "limit: -1 is below 0"},
		{"malformed ledger to list", []string{"account", "list", "EU"}, "does not name a ledger"},
		{"two ledgers to list", []string{"account", "list", "us", "--ledger", "eu"}, `"us" and "eu": name one`},

		{"malformed state of dead letters", []string{"deadletter", "list", "--state", "some"}, `state: "some" is not open, parked, closed or all`},
		{"malformed step of dead letters", []string{"deadletter", "list", "--step", "pay"}, `step: "pay" is not a step`},
		{"malformed place of dead letters", []string{"deadletter", "list", "--place", "moon"}, `place: "moon" is not unknown`},
		{"malformed age of dead letters", []string{"deadletter", "list", "--older-than", "a week"}, `older-than: "a week" is not a time`},
		{"negative age of dead letters", []string{"deadletter", "list", "--newer-than", "-7d"}, `newer-than: "-7d" is not a time`},
		{"negative limit of dead letters", []string{"deadletter", "list", "--limit", "-1"}, "limit: -1 is below 0"},
		{"nobody decides", []string{"deadletter", "retry", "t1"}, "by: "},
		{"no reason to discard", []string{"deadletter", "discard", "t1", "--by", "ann"}, "reason: "},
		{"no dead letter to decide about", []string{"deadletter", "retry", "--by", "ann"}, "name one dead letter"},
		{"one and all", []string{"deadletter", "retry", "t1", "--all", "--by", "ann"}, `"t1": name one dead letter, or --all`},
		{"a filter for one", []string{"deadletter", "retry", "t1", "--step", "refund", "--by", "ann"}, "step: --step is about --all"},
		{"a dry run of one", []string{"deadletter", "retry", "t1", "--dry-run", "--by", "ann"}, "dry-run: --dry-run is about --all"},
		{"no rate", []string{"deadletter", "retry", "--all", "--rate", "0", "--by", "ann"}, "rate: 0 is not above 0"},
		{"all are not discarded", []string{"deadletter", "discard", "--all", "--by", "ann", "--reason", "x"}, "unknown flag: --all"},
		{"no dead letter named", []string{"deadletter", "show"}, "accepts 1 arg(s)"},
		{"malformed ledger of a dead letter", []string{"deadletter", "show", "t1", "--ledger", "EU"}, "does not name a ledger"},

		{"malformed ledger for dev", []string{"dev", "--ledgers", "us,EU"}, "ledgers: \"EU\" does not name a ledger"},
		{"a ledger twice for dev", []string{"dev", "--ledgers", "us,us"}, `ledgers: "us" is there twice`},
		{"no ledger for dev", []string{"dev", "--ledgers", ""}, "ledgers: "},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := starterAt(t, nowhere, row.args...)
			require.Equal(t, exitUsage, got.code, got.stderr)
			require.Contains(t, got.stderr, row.want)
			require.True(t, strings.HasPrefix(got.stderr, "starter: "), got.stderr)
			require.Empty(t, got.stdout)

			got = starterAt(t, nowhere, append(row.args, "--output=json")...)
			if strings.Contains(row.name, "output") {
				return // its last --output is not wrong
			}
			require.Equal(t, exitUsage, got.code, got.stderr)
			var document failure
			require.NoError(t, json.Unmarshal([]byte(got.stdout), &document), got.stdout)
			require.Equal(t, exitUsage, document.ExitCode)
			require.Contains(t, document.Error, row.want)
		})
	}
}

func TestNobodyListens(t *testing.T) {
	got := starterAt(t, nowhere, "status", "t1", "--output", "json")
	require.Equal(t, exitPending, got.code)
	require.Contains(t, got.stderr, "no answer from Temporal at "+nowhere)
}

func TestUnknownNamespace(t *testing.T) {
	got := starter(t, "status", "t1", "--namespace", "nobodys")
	require.Equal(t, exitUsage, got.code, got.stderr)
	require.Contains(t, got.stderr, "nobodys")
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help"}, {"help", "transfer"}, {"transfer", "--help"}, {"help", "exit-codes"}, {"exit-codes"}, {"--version"}} {
		got := starterAt(t, nowhere, args...)
		require.Equal(t, exitDone, got.code, args)
		require.NotEmpty(t, got.stdout, args)
		require.Empty(t, got.stderr, args)
	}
	help := starterAt(t, nowhere, "help", "exit-codes").stdout
	for code := range exitDifferent + 1 {
		require.Contains(t, help, fmt.Sprintf("\n  %d  %s", code, exitCodes[code].meaning))
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := starterAt(t, nowhere, "completion", shell)
		require.Equal(t, exitDone, got.code)
		require.Contains(t, got.stdout, "starter")
	}
	for _, row := range []struct {
		args []string
		want []string
	}{
		{[]string{"status", "t1", "--output", ""}, []string{"text", "json"}},
		{[]string{"account", "set", "us/alice", "--status", ""}, []string{"open", "frozen", "closed"}},
		{[]string{"deadletter", "list", "--state", ""}, []string{"open", "parked", "closed", "all"}},
		{[]string{"deadletter", "retry", "--place", ""}, []string{"unknown", "source", "transit", "destination"}},
		{[]string{"account", ""}, []string{"list", "open", "set", "show", "statement"}},
		{[]string{"status", ""}, nil},
	} {
		got := starterWithin(t.Context(), append([]string{"__complete"}, row.args...)...)
		require.Equal(t, exitDone, got.code)
		lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
		var words []string
		for _, line := range lines[:len(lines)-1] {
			word, _, _ := strings.Cut(line, "\t")
			words = append(words, word)
		}
		require.Equal(t, row.want, words, row.args)
		require.Equal(t, ":4", lines[len(lines)-1], "no files")
	}
}

// FuzzTransferArgs reads command lines of transfer: any text gives a request that is well formed, or an error of the
// input, and never another one.
func FuzzTransferArgs(f *testing.F) {
	f.Add("--id\x00t1\x00--from\x00us/alice\x00--to\x00eu/bob\x00--amount\x0010.00\x00--asset\x00USD")
	f.Add("--id=t1\x00--from=alice\x00--to=bob\x00--amount=80\x00--asset=JPY\x00--metadata\x00a=b\x00--wait=false")
	f.Add("--id\x00t\xff\x00--from\x00us/\x00--to\x00/\x00--amount\x00-1.\x00--asset\x00USD/02")
	f.Add("--metadata\x00=\x00--timeout\x00-1s")
	f.Fuzz(func(t *testing.T, line string) {
		var flags transferFlags
		set := pflag.NewFlagSet("transfer", pflag.ContinueOnError)
		flags.register(set)
		if set.Parse(strings.Split(line, "\x00")) != nil {
			return
		}
		in, err := flags.request()
		if err != nil {
			require.Equal(t, exitUsage, exitOf(err), "%v", err)
			return
		}
		parsed, err := workflows.ParseTransfer(in)
		require.NoError(t, err)
		require.Equal(t, flags.input.ID, in.ID, "the ID is taken as it is")
		require.Positive(t, parsed.Amount.Sign())
		canonical := in
		canonical.From, canonical.To = parsed.From.String(), parsed.To.String()
		canonical.Amount, canonical.Asset = parsed.Amount.Format(parsed.Asset), parsed.Asset.String()
		require.True(t, in.SameRequest(canonical))
		require.NotEqual(t, ledger.Asset{}, parsed.Asset)
	})
}
