// Package demo is the worked failure: A has 20, B has 0, A sends 10, and something breaks. Each scenario breaks it in one
// way, on real worker processes, a real Temporal server and real PostgreSQL, and tells what happened in a timeline.
//
// The promise: nothing in a timeline was written before it was seen. What a retry met is what a ledger answered it, what
// broke is what the broken process announced before it broke, and a scenario is right only if the balances, the ends that
// clients were told, the recorded outcomes and the faults are those that it must have. [judge] decides that, and nothing
// else does.
//
// What it does not promise: to be a test of everything. It shows nine ways; tests/ has the others.
package demo
