package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"payonce/ledger"
)

// The flags that several commands have, and how their values are read.

func assetFlag(cmd *cobra.Command, asset *string) {
	cmd.Flags().StringVar(asset, "asset", "", "for a transit account that has several")
}

func checkReading(account, asset string) error {
	if _, err := ledger.ParseAccountRef("account", account); err != nil {
		return err
	}
	if asset == "" {
		return nil
	}
	_, err := ledger.ParseAsset(asset)
	return err
}

// parseMoment reads a time or, for its first moment in UTC, a date. "" is nil.
func parseMoment(field, s string) (*time.Time, error) {
	if s == "" {
		return nil, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if moment, err := time.Parse(layout, s); err == nil {
			return &moment, nil
		}
	}
	return nil, usagef("%s: %q is not a time such as 2006-01-02T15:04:05Z or 2006-01-02", field, s)
}

func ledgerFlag(cmd *cobra.Command, ledgerName *string) {
	cmd.Flags().StringVar(ledgerName, "ledger", "", "the ledger (default "+ledger.DefaultLedger+")")
}

// chooseLedger takes a ledger's name from the argument or the flag.
func chooseLedger(args []string, flag string) (string, error) {
	name := ledger.DefaultLedger
	switch {
	case len(args) > 0 && flag != "" && args[0] != flag:
		return "", usagef("ledger: %q and %q: name one", args[0], flag)
	case len(args) > 0:
		name = args[0]
	case flag != "":
		name = flag
	}
	return name, ledger.CheckLedgerName("ledger", name)
}

func metadataFlag(flags *pflag.FlagSet, values *[]string) {
	flags.StringArrayVar(values, "metadata", nil, "KEY=VALUE to keep; may be given several times")
}

func notifyFlag(flags *pflag.FlagSet, names *[]string) {
	flags.StringArrayVar(names, "notify", nil, "an endpoint of the workers' NOTIFY to be told of the end, whatever it is; may be given several times")
}

// parseMetadata reads KEY=VALUE pairs. None are nil.
func parseMetadata(pairs []string) (map[string]string, error) {
	metadata, err := parsePairs("metadata", pairs)
	if err != nil {
		return nil, err
	}
	return metadata, ledger.CheckNotes("", metadata)
}

// parsePairs reads the KEY=VALUE pairs of a flag. None are nil.
func parsePairs(flag string, pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	values := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usagef("%s: %q is not KEY=VALUE", flag, pair)
		}
		if _, twice := values[key]; twice {
			return nil, usagef("%s: %q is there twice", flag, key)
		}
		values[key] = value
	}
	return values, nil
}

// timeoutFlag adds --timeout to a command.
func timeoutFlag(cmd *cobra.Command, timeout *time.Duration, standard time.Duration) {
	cmd.Flags().DurationVar(timeout, "timeout", standard, "how long to wait for the answer")
}

const (
	timeoutTransfer = time.Minute
	timeoutAccount  = 30 * time.Second
)
