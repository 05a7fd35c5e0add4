package activities

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"payonce/ledger"
)

// DeadLetterView is a step set aside, as it is recorded in a ledger and shown.
type DeadLetterView struct {
	Ledger   string                 `json:"ledger"` // where it is recorded: the transfer's source
	Key      string                 `json:"key"`
	Transfer string                 `json:"transfer"`
	Step     string                 `json:"step"`
	State    ledger.DeadLetterState `json:"state"`
	// Parked: the transfer waits for a decision, which names Run and Parking.
	Parked  bool   `json:"parked"`
	Run     string `json:"run"` // of the transfer's workflow
	Parking int    `json:"parking,omitempty"`
	// Ended is how the transfer ended; "" while it has not.
	Ended string `json:"ended,omitempty"`

	// Error is cut in a list, and whole in a DeadLetterStory. Causes, Memo and Metadata are in the latter alone.
	Error     string              `json:"error"`
	ErrorType string              `json:"error_type"`
	Causes    []ledger.ErrorCause `json:"causes,omitempty"`
	Attempts  int                 `json:"attempts"`
	FirstAt   time.Time           `json:"first_at"`
	LastAt    time.Time           `json:"last_at"`

	// Place and Account are where the money is.
	Place   ledger.Place `json:"place"`
	Account string       `json:"account"`
	Asset   string       `json:"asset"`
	Amount  string       `json:"amount"`

	// What was asked for.
	From     string            `json:"from"`
	To       string            `json:"to"`
	Memo     string            `json:"memo,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`

	// Choices are the decisions that a person can take now.
	Choices    []string `json:"choices"`
	Resolution string   `json:"resolution,omitempty"`
	// Decision is written together with the letter; it is among the actions afterwards.
	Decision *DecisionView `json:"decision,omitempty"`
	AsOf     time.Time     `json:"as_of"`
	// Version is how often the letter was written. A decision about a transfer that has ended names it.
	Version int64 `json:"version"`
	// Cursor is the letter's place in a list: DeadLetterListInput.Cursor for what comes after it.
	Cursor string `json:"cursor,omitempty"`
}

// DecisionView is a person's word about a dead letter.
type DecisionView struct {
	ID     string `json:"id"` // the update's
	Action string `json:"action"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// DeadLetterRecord writes a dead letter. Level 1: an absolute write by its natural name, the step's key.
func (a *Activities) DeadLetterRecord(ctx context.Context, in DeadLetterView) (err error) {
	defer finish(ctx, "record the dead letter of "+in.Key, &err)
	books, err := a.ledger(in.Ledger)
	if err != nil {
		return err
	}
	letter, err := in.letter()
	if err != nil {
		return errInvalid(err)
	}
	return books.DeadLetterPut(ctx, letter)
}

func (in *DeadLetterView) letter() (ledger.DeadLetter, error) {
	asset, err := ledger.ParseAsset(in.Asset)
	if err != nil {
		return ledger.DeadLetter{}, err
	}
	amount, err := ledger.ParseAmount(in.Amount, asset)
	if err != nil {
		return ledger.DeadLetter{}, err
	}
	letter := ledger.DeadLetter{
		Key: ledger.Key(in.Key), Transfer: in.Transfer, Step: in.Step, State: in.State, Parked: in.Parked, Run: in.Run,
		Parking: in.Parking, Ended: in.Ended, Error: ledger.KeepError(in.Error, ledger.ErrorBytesMax), ErrorType: in.ErrorType, Causes: in.Causes,
		Attempts: in.Attempts, FirstAt: in.FirstAt, LastAt: in.LastAt, Place: in.Place, Account: in.Account, Asset: asset,
		Amount: amount, From: in.From, To: in.To, Memo: in.Memo, Metadata: in.Metadata, Choices: in.Choices,
		Resolution: in.Resolution, AsOf: in.AsOf,
	}
	if in.Decision != nil {
		letter.Decision = &ledger.Decision{ID: in.Decision.ID, Action: in.Decision.Action, By: in.Decision.By, Reason: in.Decision.Reason}
	}
	return letter, nil
}

func deadLetterView(ledgerName string, l *ledger.DeadLetter) DeadLetterView {
	return DeadLetterView{
		Ledger: ledgerName, Key: string(l.Key), Transfer: l.Transfer, Step: l.Step, State: l.State, Parked: l.Parked, Run: l.Run,
		Parking: l.Parking, Ended: l.Ended, Error: l.Error, ErrorType: l.ErrorType, Causes: l.Causes, Attempts: l.Attempts,
		FirstAt: l.FirstAt, LastAt: l.LastAt, Place: l.Place, Account: l.Account, Asset: l.Asset.String(),
		Amount: l.Amount.Format(l.Asset), From: l.From, To: l.To, Memo: l.Memo, Metadata: l.Metadata, Choices: l.Choices,
		Resolution: l.Resolution, AsOf: l.AsOf, Version: l.Version,
		Cursor: encodeCursor(ledger.DeadLetterCursor{LastAt: l.LastAt, ID: l.ID}),
	}
}

// DeadLetterListInput asks for dead letters of a ledger, newest first. What is empty does not filter.
type DeadLetterListInput struct {
	Ledger   string                 `json:"ledger"`
	State    ledger.DeadLetterState `json:"state,omitempty"`
	Parked   bool                   `json:"parked,omitempty"` // only those that wait for a decision
	Transfer string                 `json:"transfer,omitempty"`
	Step     string                 `json:"step,omitempty"`
	Place    ledger.Place           `json:"place,omitempty"`
	Error    string                 `json:"error,omitempty"`  // a part of the error's text, in any case, or its whole type
	Since    *time.Time             `json:"since,omitempty"`  // the last attempt was then or later
	Until    *time.Time             `json:"until,omitempty"`  // the last attempt was before
	Cursor   string                 `json:"cursor,omitempty"` // DeadLetterList.Next of the page before, or a letter's Cursor
	Limit    int                    `json:"limit,omitempty"`  // 0 is DeadLetterPageMax, which is also the most
}

// DeadLetterPageMax bounds a page of dead letters, so that it fits into one answer.
const DeadLetterPageMax = 200

// DeadLetterList is a page of what a ledger has set aside.
type DeadLetterList struct {
	DeadLetters []DeadLetterView `json:"dead_letters"`
	Next        string           `json:"next,omitempty"` // "": there is no more
}

// DeadLetterList reads a page of dead letters. Level 1: a read.
func (a *Activities) DeadLetterList(ctx context.Context, in DeadLetterListInput) (DeadLetterList, error) {
	books, err := a.ledger(in.Ledger)
	if err != nil {
		return DeadLetterList{}, err
	}
	page, err := in.page()
	if err != nil {
		return DeadLetterList{}, errInvalid(err)
	}
	letters, err := books.DeadLetters(ctx, page)
	if err != nil {
		return DeadLetterList{}, toTemporal(ctx, "list the dead letters of "+in.Ledger, err)
	}
	list := DeadLetterList{DeadLetters: make([]DeadLetterView, len(letters))}
	for i := range letters {
		list.DeadLetters[i] = deadLetterView(in.Ledger, &letters[i])
	}
	if len(letters) == page.Limit {
		list.Next = list.DeadLetters[len(letters)-1].Cursor
	}
	return list, nil
}

func (in *DeadLetterListInput) page() (ledger.DeadLettersPage, error) {
	page := ledger.DeadLettersPage{
		State: in.State, Parked: in.Parked, Transfer: in.Transfer, Step: in.Step, Place: in.Place, Error: in.Error,
		Limit: in.Limit, Brief: true,
	}
	if in.Since != nil {
		page.Since = *in.Since
	}
	if in.Until != nil {
		page.Until = *in.Until
	}
	if page.Limit == 0 {
		page.Limit = DeadLetterPageMax
	}
	if page.Limit < 0 || page.Limit > DeadLetterPageMax {
		return page, &ledger.InvalidError{Field: "limit", Reason: fmt.Sprintf("it must be from 1 to %d", DeadLetterPageMax)}
	}
	if in.Cursor != "" {
		after, err := decodeCursor(in.Cursor)
		if err != nil {
			return page, err
		}
		page.After = &after
	}
	return page, nil
}

// encodeCursor writes a place in the list as one word.
func encodeCursor(c ledger.DeadLetterCursor) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.LastAt.Format(time.RFC3339Nano) + " " + strconv.FormatInt(c.ID, 10)))
}

func decodeCursor(s string) (c ledger.DeadLetterCursor, err error) {
	text, err := base64.RawURLEncoding.DecodeString(s)
	at, id, _ := strings.Cut(string(text), " ")
	if err == nil {
		c.LastAt, err = time.Parse(time.RFC3339Nano, at)
	}
	if err == nil {
		c.ID, err = strconv.ParseInt(id, 10, 64)
	}
	if err != nil {
		return c, &ledger.InvalidError{Field: "cursor", Reason: "it is not one that a list has given"}
	}
	return c, nil
}

// DeadLetterShowInput asks for one dead letter.
type DeadLetterShowInput struct {
	Ledger string `json:"ledger"`
	Key    string `json:"key"`
}

// DeadLetterStory is a dead letter, whole, with all that happened to it, oldest first.
type DeadLetterStory struct {
	DeadLetterView

	Actions []DeadLetterActionView `json:"actions"`
	// ActionsLeftOut is how many older actions there are.
	ActionsLeftOut int `json:"actions_left_out,omitempty"`
}

// DeadLetterActionView is one thing that happened to a dead letter, and what the letter said then.
type DeadLetterActionView struct {
	At        time.Time    `json:"at"` // the ledger's clock
	Action    string       `json:"action"`
	By        string       `json:"by,omitempty"` // "": no person
	Reason    string       `json:"reason,omitempty"`
	UpdateID  string       `json:"update_id,omitempty"`
	Run       string       `json:"run,omitempty"`
	ErrorType string       `json:"error_type,omitempty"`
	Error     string       `json:"error,omitempty"` // cut
	Attempts  int          `json:"attempts"`
	Place     ledger.Place `json:"place"`
	Account   string       `json:"account"`
	Detail    string       `json:"detail,omitempty"` // the letter's resolution
}

// DeadLetterShow reads a dead letter. Level 1: a read.
func (a *Activities) DeadLetterShow(ctx context.Context, in DeadLetterShowInput) (DeadLetterStory, error) {
	books, err := a.ledger(in.Ledger)
	if err != nil {
		return DeadLetterStory{}, err
	}
	record, err := books.DeadLetter(ctx, ledger.Key(in.Key))
	if err != nil {
		return DeadLetterStory{}, toTemporal(ctx, "show the dead letter of "+in.Key, err)
	}
	return deadLetterStory(in.Ledger, &record), nil
}

func deadLetterStory(ledgerName string, record *ledger.DeadLetterRecord) DeadLetterStory {
	story := DeadLetterStory{
		DeadLetterView: deadLetterView(ledgerName, &record.Letter),
		Actions:        make([]DeadLetterActionView, len(record.Actions)), ActionsLeftOut: record.ActionsLeftOut,
	}
	for i := range record.Actions {
		action := &record.Actions[i]
		story.Actions[i] = DeadLetterActionView{
			At: action.At, Action: action.Action, By: action.By, Reason: action.Reason, UpdateID: action.UpdateID, Run: action.Run,
			ErrorType: action.ErrorType, Error: action.Error, Attempts: action.Attempts, Place: action.Place, Account: action.Account,
			Detail: action.Resolution,
		}
	}
	return story
}

// DeadLetterDecideInput is a decision about a dead letter of a transfer that has ended.
type DeadLetterDecideInput struct {
	Ledger     string       `json:"ledger"`
	Key        string       `json:"key"`
	Version    int64        `json:"version"` // DeadLetterView.Version that it is about
	Decision   DecisionView `json:"decision"`
	Ended      string       `json:"ended,omitempty"` // how the transfer ended, when the letter still says that it is parked
	Resolution string       `json:"resolution"`
}

// DeadLetterDecide records a decision and closes the letter. Level 1: recorded again under the same ID it is the same one.
func (a *Activities) DeadLetterDecide(ctx context.Context, in DeadLetterDecideInput) (_ DeadLetterStory, err error) {
	defer finish(ctx, "decide about "+in.Key, &err)
	books, err := a.ledger(in.Ledger)
	if err != nil {
		return DeadLetterStory{}, err
	}
	record, err := books.DeadLetterDecide(ctx, ledger.DeadLetterDecision{
		Decision: ledger.Decision{ID: in.Decision.ID, Action: in.Decision.Action, By: in.Decision.By, Reason: in.Decision.Reason},
		Key:      ledger.Key(in.Key), Version: in.Version, Ended: in.Ended, Resolution: in.Resolution,
	})
	if err != nil {
		return DeadLetterStory{}, err
	}
	return deadLetterStory(in.Ledger, &record), nil
}
