package faults

import (
	"testing"

	"payonce/internal/pgtest"
	"payonce/tests/harness"
)

// ledgers is the setting of a worker that finds its ledgers elsewhere than the world's workers do.
func ledgers(us, eu string) string { return "LEDGERS=us=" + us + ",eu=" + eu }

// patientURL is a ledger's URL whose sessions wait longer than the worker lets them: for a write that is on its way,
// whatever has become of its sender, and for a machine that is busy.
func patientURL(w *harness.World, ledgerName string) string {
	return w.LedgerURL(ledgerName) + "&connect_timeout=60&lock_timeout=600000&statement_timeout=600000&idle_in_transaction_session_timeout=600000"
}

// startFaulty starts a worker with faults whose sessions are patient, if the configuration says no other. What an attempt is
// answered is then about its fault, and not about the machine.
func startFaulty(t *testing.T, w *harness.World, c harness.FaultConfig) *harness.FaultWorker {
	t.Helper()
	c.Env = append([]string{ledgers(patientURL(w, "us"), patientURL(w, "eu"))}, c.Env...)
	return w.StartFaultWorker(t, c)
}

// begins fits the message by which a write begins.
func begins(m pgtest.Message) bool {
	return !m.FromServer && m.Statement == "begin isolation level read committed read write"
}

// commits fits the message by which a write asks for COMMIT.
func commits(m pgtest.Message) bool { return !m.FromServer && m.Statement == "commit" }

// hasCommitted fits the server's word that a write is committed.
func hasCommitted(m pgtest.Message) bool { return m.FromServer && m.Tag == "COMMIT" }
