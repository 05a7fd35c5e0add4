package reconcile

import "payonce/ledger/postgres"

// keep is the first thing to do when books are wrong: what is found is evidence.
const keep = "Keep a copy of the database as it is before anything is changed. "

// BookAdvice says what to do about what a check of the books has found. None of these can come from payonce's own work
// unless it has a defect or was bypassed, so all begin with finding out what did it.
func BookAdvice(check postgres.Check) string {
	switch check {
	case postgres.CheckAssetSum:
		return keep + "Money was made or lost: stop this ledger's workers, and look for the entry that did it among the other findings."
	case postgres.CheckEntryChain:
		return keep + "An entry was lost, invented or changed: compare the account's entries with those of a backup."
	case postgres.CheckAccountBalance:
		return keep + "If the account's entries have no finding of their own, they are right and the account's row is wrong: somebody wrote to it."
	case postgres.CheckAccountLimit:
		return keep + "The balance or a limit was written past payonce; if the limit is what is wrong: starter account set."
	case postgres.CheckOperationHash, postgres.CheckOperationForm:
		return keep + "The operation was changed after it was recorded, and a repeat of it is a conflict now: compare it with a backup."
	case postgres.CheckOperationEntries:
		return keep + "An operation and its entries don't agree: compare both with a backup. What moved wrongly is put right by a new transfer."
	case postgres.CheckReversal:
		return keep + "More was given back than was taken: find who was paid twice. What moved wrongly is put right by a new transfer."
	case postgres.CheckTransfer:
		return keep + "The two ledgers don't agree about a transfer: see its history (starter status), and which of them was restored or written to."
	case postgres.CheckTransit:
		return keep + "The transit account holds other money than the transfers put there: an operation on it is missing, or is of no transfer."
	case postgres.CheckPayout:
		return keep + "The steps of a payout don't agree, or a rail's account holds other money than its payouts have put there: compare it with the rail's own books."
	default:
		return keep
	}
}

// Advice says what to do about a transfer about which the books and its workflow don't agree.
func (f *Finding) Advice() string {
	const forged = "A workflow ends with what its steps answered, so an answer was forged (temporal activity complete), or the books were " +
		"changed or restored: find out which, and tell whoever was told the end. "
	switch {
	case f.Check == CheckUnfinished:
		return "Its workflow was ended from outside. Asked for again with the same ID, it goes on from where it stopped."
	case f.Command != "":
		return forged + "The command runs its steps again under their keys: what the books have stays, and what they lack is done."
	default:
		return forged + "Don't run it again: it could then pay what it was said not to."
	}
}
