// Package faults has one named test for each way in which a step of a transfer can come to be run twice, or to be run after
// it was given up. Each provokes it for real, on real processes, servers and connections.
//
// The promise: a test fails if its fault did not strike. Each looks for evidence of that where it can't be made up: in what
// a worker announced before it was hit, in the history that the server wrote, in what a proxy let pass and what it lost. It
// then looks at the result of the transfer, at every entry on both accounts with SQL of its own, and, when the world is
// taken down, at the books as a whole, with SQL and with `worker verify`.
//
// What it does not promise: combinations. Each test has one fault, at a moment that is chosen.
package faults
