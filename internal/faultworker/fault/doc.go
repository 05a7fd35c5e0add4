// Package fault has the words in which a fault worker is told what to do to itself, and those in which it tells that it
// did. Whoever starts a fault worker uses it to write faults and to read announcements.
//
// The promise: a fault that strikes is announced before it does, so that its absence shows. What it does not promise: that
// a fault strikes at all. A point that is never reached is never announced, and who asked for the fault must look.
package fault
