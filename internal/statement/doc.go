// Package statement writes what an account had and what came and went in a time that is over, as a file for an accountant:
// CSV, or the ISO 20022 message camt.053.
//
// The promise: the file of an account and a period is always at the same path and always has the same bytes, whoever writes
// it and however often (level 1). It is replaced as a whole: whoever looks finds the file that was there or the new one,
// also when a writer is killed. A file whose entries don't lead from its opening to its closing balance is never there.
//
// What it does not promise: that the period is over, which the ledger says (ledger.Period); and that two accounts whose names
// differ only in upper and lower case have two files, on a file system that takes the two for the same.
package statement
