// Package postgres keeps the books of a ledger in PostgreSQL.
//
// The promise is package ledger's: an operation's key, its entries and the balances commit in one database
// transaction, so that they are all there or none is; asking again returns what is recorded. An error says what is
// known: ledger.ErrUnavailable and every other error mean that nothing was committed, except ledger.ErrUnknownOutcome,
// which means that COMMIT was sent and its answer did not arrive.
//
// What is decided is decided by ledger.Book, in Go, while the accounts are locked. The database repeats the rules that
// keep money from being made or lost as constraints and triggers: they give no answers, they are the wall that a bug
// meets.
//
// Every method may be called concurrently. It talks to the primary only, with durable commits, in sessions of its own
// settings: connect directly or through a pooler in session mode.
package postgres
