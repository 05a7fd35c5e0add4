// Package host runs a worker with faults: the same workflows, activities and ledgers as the worker program, and between the
// activities and a ledger something that kills, freezes or holds up the process, or loses an answer, at the point and the
// number of times that its flags say.
//
// The promise: nothing of the worker itself is changed to make that possible, so that what survives here survives there.
// What is different stands in this folder: time-outs that flags set, what [plan] does around a ledger's writes, and what
// [polls] does to the requests for work.
//
// Each fault is announced on standard output, as one JSON line, before it strikes; package fault has the words. The log
// goes to standard error. Settings are those of the worker, from the environment.
package host
