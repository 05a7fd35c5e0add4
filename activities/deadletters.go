package activities

import (
	"context"
	"time"

	"payonce/ledger"
)

// DeadLetterView is a step set aside, as it is recorded in a ledger and shown.
type DeadLetterView struct {
	Ledger     string                 `json:"ledger"` // where to record it: the transfer's source
	Key        string                 `json:"key"`
	Transfer   string                 `json:"transfer"`
	Step       string                 `json:"step"`
	State      ledger.DeadLetterState `json:"state"`
	Parked     bool                   `json:"parked"`
	Error      string                 `json:"error"`
	Attempts   int                    `json:"attempts"`
	FirstAt    time.Time              `json:"first_at"`
	LastAt     time.Time              `json:"last_at"`
	Place      ledger.Place           `json:"place"`
	Account    string                 `json:"account"`
	Asset      string                 `json:"asset"`
	Amount     string                 `json:"amount"`
	Choices    []string               `json:"choices"`
	Resolution string                 `json:"resolution,omitempty"`
}

// DeadLetterRecord writes a dead letter. Level 1: an absolute write by its natural name, the step's key.
func (a *Activities) DeadLetterRecord(ctx context.Context, in DeadLetterView) error {
	books, err := a.ledger(in.Ledger)
	if err != nil {
		return err
	}
	asset, err := ledger.ParseAsset(in.Asset)
	if err != nil {
		return errInvalid(err)
	}
	amount, err := ledger.ParseAmount(in.Amount, asset)
	if err != nil {
		return errInvalid(err)
	}
	return toTemporal(ctx, "record the dead letter of "+in.Key, books.DeadLetterPut(ctx, ledger.DeadLetter{
		Key: ledger.Key(in.Key), Transfer: in.Transfer, Step: in.Step, State: in.State, Parked: in.Parked,
		Error: in.Error, Attempts: in.Attempts, FirstAt: in.FirstAt, LastAt: in.LastAt,
		Place: in.Place, Account: in.Account, Asset: asset, Amount: amount, Choices: in.Choices, Resolution: in.Resolution,
	}))
}

// DeadLetterListInput asks for the dead letters of a ledger, newest first.
type DeadLetterListInput struct {
	Ledger string                 `json:"ledger"`
	Key    string                 `json:"key,omitempty"`   // only this one
	State  ledger.DeadLetterState `json:"state,omitempty"` // only those in this state
	Limit  int                    `json:"limit,omitempty"` // 0 is 100; at most ledger.PageSizeMax
}

// DeadLetterList is what a ledger has set aside.
type DeadLetterList struct {
	DeadLetters []DeadLetterView `json:"dead_letters"`
}

// DeadLetterList reads dead letters. Level 1: a read.
func (a *Activities) DeadLetterList(ctx context.Context, in DeadLetterListInput) (DeadLetterList, error) {
	books, err := a.ledger(in.Ledger)
	if err != nil {
		return DeadLetterList{}, err
	}
	limit, err := pageLimit(in.Limit)
	if err != nil {
		return DeadLetterList{}, errInvalid(err)
	}
	letters, err := books.DeadLetters(ctx, ledger.DeadLettersPage{Key: ledger.Key(in.Key), State: in.State, Limit: limit})
	if err != nil {
		return DeadLetterList{}, toTemporal(ctx, "list the dead letters of "+in.Ledger, err)
	}
	list := DeadLetterList{DeadLetters: make([]DeadLetterView, len(letters))}
	for i := range letters {
		l := &letters[i]
		list.DeadLetters[i] = DeadLetterView{
			Ledger: in.Ledger, Key: string(l.Key), Transfer: l.Transfer, Step: l.Step, State: l.State, Parked: l.Parked,
			Error: l.Error, Attempts: l.Attempts, FirstAt: l.FirstAt, LastAt: l.LastAt, Place: l.Place, Account: l.Account,
			Asset: l.Asset.String(), Amount: l.Amount.Format(l.Asset), Choices: l.Choices, Resolution: l.Resolution,
		}
	}
	return list, nil
}
