package reconcile

import (
	"maps"
	"slices"
	"strings"

	"payonce/workflows"
)

// transferCommand is the command line that asks for a transfer again.
func transferCommand(in workflows.TransferInput) string {
	words := []string{
		"starter", "transfer", "--id", in.ID, "--from", in.From, "--to", in.To, "--amount", in.Amount, "--asset", in.Asset,
	}
	return commandLine(append(words, notes(in.Memo, in.Metadata)...))
}

// payoutCommand is the command line that asks for a payout again.
func payoutCommand(in workflows.PayoutInput) string {
	words := []string{"starter", "payout", "--id", in.ID, "--from", in.From, "--rail", in.Rail, "--amount", in.Amount, "--asset", in.Asset}
	for _, name := range slices.Sorted(maps.Keys(in.Payee)) {
		words = append(words, "--payee", name+"="+in.Payee[name])
	}
	words = append(words, notes(in.Memo, in.Metadata)...)
	for _, name := range in.Notify {
		words = append(words, "--notify", name)
	}
	return commandLine(words)
}

func notes(memo string, metadata map[string]string) (words []string) {
	if memo != "" {
		words = append(words, "--memo", memo)
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		words = append(words, "--metadata", key+"="+metadata[key])
	}
	return words
}

// resetCommand is the command line that has a workflow which ended run again from its start. Its steps meet their keys: what
// the books have is not done again, and what they have not is.
func resetCommand(namespace, workflowID string) string {
	return commandLine([]string{
		"temporal", "workflow", "reset", "--namespace", namespace, "--workflow-id", workflowID, "--type", "FirstWorkflowTask",
		"--reason", "reconcile",
	})
}

// commandLine makes words a line for a POSIX shell.
func commandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		if word == "" || strings.Trim(word, plainBytes) != "" {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

const plainBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=+,@-"
