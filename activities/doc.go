// Package activities has one method for each step of a transfer, and for what the command line asks of a ledger. Each
// is safe to run again: its doc comment says at which of three levels.
//
//   - Level 1, an absolute write or a read: a repeat makes the world look the same. No key is needed.
//   - Level 2, an idempotence key that commits in the same database transaction as the effect: a repeat returns the
//     original outcome.
//   - Level 3, an effect outside any database transaction of ours: a repeat may happen, and carries the key along so that
//     the far side can tell.
//
// An activity returns a business refusal as an outcome. It returns an error only when it has no outcome to give; the
// table in errors.go says which errors Temporal retries.
package activities
