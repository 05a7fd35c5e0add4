package faults

import (
	"payonce/internal/pgtest"
	"payonce/tests/harness"
)

// ledgers is the setting of a worker that finds its ledgers elsewhere than the world's workers do.
func ledgers(us, eu string) string { return "LEDGERS=us=" + us + ",eu=" + eu }

// patientURL is a ledger's URL whose sessions wait longer than the worker lets them: for a write that is on its way,
// whatever has become of its sender.
func patientURL(w *harness.World, ledgerName string) string {
	return w.LedgerURL(ledgerName) + "&lock_timeout=60000&statement_timeout=60000&idle_in_transaction_session_timeout=60000"
}

// begins fits the message by which a write begins.
func begins(m pgtest.Message) bool {
	return !m.FromServer && m.Statement == "begin isolation level read committed read write"
}

// commits fits the message by which a write asks for COMMIT.
func commits(m pgtest.Message) bool { return !m.FromServer && m.Statement == "commit" }

// hasCommitted fits the server's word that a write is committed.
func hasCommitted(m pgtest.Message) bool { return m.FromServer && m.Tag == "COMMIT" }
