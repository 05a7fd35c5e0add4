// Package workflows says what happens and in which order. contract.go holds every name, ID, input and result that the
// outside sees; options.go every time-out and retry policy; transfer.go reads as the table of the transfer protocol.
//
// The promise: a transfer ends once, as what it says: completed, rejected, failed, compensated or cancelled. However
// often it is started, retried, reset, terminated and started again, each of its steps meets its own key in the ledger
// and the outcome that is recorded there.
//
// What it does not promise: that a transfer ends soon. While a ledger is down, or when even cleaning up does not succeed,
// it stays open and says where the money is.
package workflows
