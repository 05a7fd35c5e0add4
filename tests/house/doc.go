// Package house holds the tests of how the code is laid out: which package may import which, and where SQL may stand.
// They look at the sources and run none of them.
package house
