package postgres

import "payonce/ledger"

// What the tests of package postgres_test see of the inside.

// FateOf is what judge and wrap make of an error: the sentinel of package ledger, "rerun", "rejected" or "failed".
func FateOf(err error, commitSent bool) any {
	switch judge(err, commitSent) {
	case verdictUnavailable:
		return ledger.ErrUnavailable
	case verdictUnknown:
		return ledger.ErrUnknownOutcome
	case verdictRerun:
		return "rerun"
	case verdictRejected:
		return "rejected"
	case verdictApplied, verdictFailed:
	}
	return "failed"
}

// RegisterArrays makes types use the codec of this package.
var RegisterArrays = registerArrays

// RerunsMax is how often a database transaction is run again.
const RerunsMax = rerunsMax

// The statements of a batch, to find them in the traffic.
const (
	LockAccountsSQL     = lockAccountsSQL
	KnownOperationsSQL  = knownOperationsSQL
	InsertOperationsSQL = insertOperationsSQL
	SealSQL             = sealSQL
)
