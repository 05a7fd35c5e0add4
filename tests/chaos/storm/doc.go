// Package storm runs rounds of transfers on real servers while everything around them fails: worker processes are killed,
// frozen and cut off, PostgreSQL and Temporal are killed and started again, workflows are terminated, reset, cancelled and
// deleted, clients are killed and send everything again.
//
// What happens is drawn from a seed: which transfers, what is done to each, which faults strike, at which number of
// transfers, at whom and for how long. Each subject has a stream of its own, so that a change of one leaves the others as
// they were. Real processes answer when they like, so the same seed gives the same attack and not the same interleaving.
//
// A round ends with calm: all faults stop, everything has to settle, and everything that clients asked for is asked once
// more. What is left is evidence for package checker, which judges it.
//
// The promise: a fault is counted when it has really struck. What it does not promise: that the faults of a round are those
// that were drawn. One that finds nothing to strike, such as a transfer that has ended before it could be terminated, is
// left out.
package storm
