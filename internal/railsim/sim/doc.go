// Package sim is a payment rail that fails on purpose, for development, the demo and tests.
//
// It answers the contract of docs/rails.md under /v1, and control calls under /sim: plans say what happens to which payout,
// and the books tell what really happened, above all how often money was sent. The wire is written here once more, from the
// contract alone and without any code of payonce, so that the two sides check each other: what payonce sends wrong is
// refused here.
//
// The promise is in the books: a payout is in them before any answer to its request, and money that was sent stays there,
// whatever the plan did to the answer. They are kept in memory and end with the process. Money is never real, and nothing
// here is meant to be reached from outside: the control calls ask for no password.
package sim
