// Package reconcile verifies the books of the ledgers and holds them against Temporal's workflows, both ways: each transfer
// and payout that a workflow has ended against its operations, and each operation against a workflow.
//
// The promise: what is reported is so. The list of workflows that Temporal searches in is eventually consistent, and the
// snapshots of the ledgers are older than the answers of Temporal, so both only raise a suspicion. It is reported when the
// workflow itself, asked before and after the ledgers' current state was read, is the same run and says what the books do
// not. A transfer that runs, or has moved on meanwhile, is not reported. Memory grows neither with the books nor with the
// workflows: both are read in pages.
//
// Not promised: that nothing is missed. A workflow that the list does not have yet is seen by the next run. Temporal forgets
// a workflow after its retention, so that a transfer whose workflow is not there is no fault if its books are complete: it
// is counted. And what a workflow says is compared by its state alone, not by its amount: that is bound to the key by the
// request's hash.
//
// Nothing is changed, but that on request a transfer with money in transit, or a payout with money reserved, and no workflow
// that moves it on is started again: the same workflow with the same request. Level 2, by its steps' keys: it may be asked for
// any number of times, also at once.
package reconcile
