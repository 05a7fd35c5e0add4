package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"payonce/internal/serve"
)

// settingsHelp explains the variables that a command reads.
func settingsHelp(command string) string {
	var b strings.Builder
	b.WriteString("Settings, from the environment; a flag wins over its variable:\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, v := range serve.Variables() {
		if !reads(command, v) {
			continue
		}
		name, meaning := v.Name, plain(v.Meaning)
		if v.Prefix {
			name += "…"
		}
		if v.Default != "" {
			meaning += " (default: " + plain(v.Default) + ")"
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\n", name, meaning)
	}
	_ = w.Flush()
	return strings.TrimRight(b.String(), "\n")
}

func reads(command string, v serve.Variable) bool { return slices.Contains(v.Commands, command) }

// plain takes the marks of Markdown out of a text.
func plain(s string) string { return strings.ReplaceAll(s, "`", "") }

// indent lays out an error of several lines.
func indent(err error) string {
	return "  " + strings.ReplaceAll(err.Error(), "\n", "\n  ")
}
