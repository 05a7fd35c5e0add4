// Package serve runs a worker: it opens the ledgers, watches their health, and polls Temporal's task queues for as long
// as its context lives. The worker binary and a test's own worker are the same but for what they pass in [Config].
//
// The promise: a ledger that can't be reached stops its own task queue and nothing else. Its tasks wait in Temporal
// instead of using up attempts, and are taken up gradually when the ledger is back. A worker that is told to stop
// finishes what it holds, within a limit, and says when it did not.
//
// What it does not promise: that no task meets a ledger that is down. A poll that is under way when a ledger goes away
// may still bring one, which is answered at once as an outage.
//
// Settings come from the environment: [Variables] lists them. What is secret in them is never printed.
package serve
