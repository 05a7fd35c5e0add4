// Package ledger is the rules of a double-entry ledger whose operations happen once, however often they are asked
// for.
//
// The promise: an operation has a key, its outcome is recorded under that key together with its effect, and asking
// again returns the recorded outcome and changes nothing. An outcome is final: applied, refused for a business
// reason, or sealed, which means that the key will never apply. Money is neither made nor lost: every leg gives one
// account exactly what it takes from another, and a balance is the sum of its account's entries.
//
// What it does not promise: that two different keys are not the same payment. Only the client knows that, so the
// client names the operation before its first attempt and keeps the name for every retry.
//
// The package is pure: it computes on values in memory and reads no clock, network or disk. Package ledger/postgres
// keeps the books in PostgreSQL and decides with the Book of this package.
package ledger
