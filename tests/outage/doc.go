// Package outage holds what an outage of a ledger must not do to transfers under way: nothing is dead-lettered, no attempt
// is used up, another ledger's transfers go on, and when the ledger is back all of them end soon, without a stampede. They are
// a package of their own because they need the machine: beside other tests their times would say nothing.
package outage
