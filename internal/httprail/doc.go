// Package httprail speaks to a payment rail over HTTP, in the one contract of docs/rails.md.
//
// The promise: an answer is returned only if it is certainly the rail's word about this payout. Its status code is one that
// carries a payout, its body is one whole JSON object of the contract, and the reference in it is the one that was asked
// about; after a submit also the amount and the asset. Everything else is an *Error, whatever it looks like: a time-out, a
// 500, a page of a proxy, a bare 400. An error never says that a payout was not made.
//
// What it does not promise: it submits as often as it is told to, and does not know how long the rail keeps keys
// (Settings.KeysKept is for who calls it). No submit and no cancel is sent again here, so that attempts are counted in one
// place; a lookup may be, by Go's client, when a connection that it had kept breaks.
package httprail
