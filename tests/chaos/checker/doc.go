// Package checker audits what is left of a round of transfers: the books of each ledger, the histories of the workflows,
// and what clients were told. It knows the tables, the contract that the outside sees, and the protocol, and it uses nothing
// of the product's code: a fault of the product must not hide itself.
//
// ReadLedger and ReadRuns gather the evidence, Check judges it, and Story tells what is known about a violation. Check
// reads and asks nothing, so that it can be tried on evidence that was made up.
//
// The promise: what Check finds is wrong, whatever caused it. What it does not promise: that nothing is wrong when it finds
// nothing. It sees what was recorded, once everything has settled; what each rule can find is proved with planted faults.
package checker
