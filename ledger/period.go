package ledger

import (
	"fmt"
	"time"
)

// PeriodMargin is how long a period must be over by the ledger's clock, on an account that has no entry after it. It is
// more than a clock that is kept in step is ever set back, also when another server takes over.
const PeriodMargin = time.Minute

// PeriodQuery asks for what an account had at the two ends of a time that is over.
type PeriodQuery struct {
	Account string // within its ledger
	Asset   Asset  // zero, unless Account is a transit account that has several
	// From and To bound the entries' time, From included and To not. Both are whole microseconds, as entries' times are.
	From, To time.Time
}

// Validate says whether the period can be asked for, whether it is over or not. The error is an *InvalidError.
func (q *PeriodQuery) Validate() error {
	if err := CheckAccountName("account", q.Account); err != nil {
		return err
	}
	for _, bound := range []struct {
		field string
		at    time.Time
	}{{"from", q.From}, {"to", q.To}} {
		switch {
		case bound.at.IsZero():
			return invalid(bound.field, "it is required: 2006-01-02T15:04:05Z, or a date")
		case !bound.at.Equal(bound.at.Truncate(time.Microsecond)):
			return invalid(bound.field, "%s is no whole number of microseconds, as the times of entries are", bound.at.Format(time.RFC3339Nano))
		case bound.at.UTC().Year() < 1 || bound.at.UTC().Year() > 9999:
			return invalid(bound.field, "the year %d is not from 1 to 9999", bound.at.UTC().Year())
		}
	}
	if !q.From.Before(q.To) {
		return invalid("to", "%s is not after %s", q.To.UTC().Format(time.RFC3339Nano), q.From.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// Finished says whether no entry can be added to the period any more. now is the ledger's clock, read while the account
// is locked, and entryAt the time of the account's last entry: whoever writes an entry later locks the account first, and
// gives it a time that is not before either of the two. The first could be set back, so it must be past the end by
// PeriodMargin; the second can't. The error is ErrPeriodUnfinished.
func (q *PeriodQuery) Finished(now, entryAt time.Time) error {
	if !entryAt.Before(q.To) || !now.Before(q.To.Add(PeriodMargin)) {
		return nil
	}
	return fmt.Errorf("%w: to %s; it is when %s has passed, and the ledger's clock says %s", ErrPeriodUnfinished,
		q.To.UTC().Format(time.RFC3339Nano), q.To.Add(PeriodMargin).UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339))
}

// Period is what an account had at the two ends of a time that is over. It never changes.
type Period struct {
	PeriodQuery // with the asset

	Opening, Closing Amount
	// VersionBefore is the version of the last entry before the period; 0 for none. The period's own entries are the
	// next ones.
	VersionBefore int64
	Entries       int64 // their number
}
