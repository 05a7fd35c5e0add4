package activities

import (
	"context"
	"time"

	"payonce/ledger"
)

// AccountView is an account as programs and people see it. Amounts are decimal strings in major units of its asset.
type AccountView struct {
	Account  string               `json:"account"` // "eu/alice"
	Asset    string               `json:"asset"`   // "USD/2"
	Balance  string               `json:"balance"`
	Floor    *string              `json:"floor"`   // null: unlimited
	Ceiling  *string              `json:"ceiling"` // null: unlimited
	Status   ledger.AccountStatus `json:"status"`
	Version  int64                `json:"version"` // the number of its entries
	Metadata map[string]string    `json:"metadata,omitempty"`
	OpenedAt time.Time            `json:"opened_at"`
}

// LimitNone is how an unlimited floor or ceiling is written.
const LimitNone = "none"

// AccountOpenInput asks for an account to be opened.
type AccountOpenInput struct {
	Account  string            `json:"account"`
	Asset    string            `json:"asset"`
	Floor    string            `json:"floor,omitempty"`   // "" is "0"; "none" is unlimited
	Ceiling  string            `json:"ceiling,omitempty"` // "" and "none" are unlimited
	Metadata map[string]string `json:"metadata,omitempty"`
}

// AccountSetInput asks for settings of an account to be written. "" leaves a setting as it is.
type AccountSetInput struct {
	Account  string            `json:"account"`
	Floor    string            `json:"floor,omitempty"`   // "none" is unlimited
	Ceiling  string            `json:"ceiling,omitempty"` // "none" is unlimited
	Status   string            `json:"status,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"` // null leaves it; else replaces all
}

// AccountShowInput asks for one account.
type AccountShowInput struct {
	Account string `json:"account"`
	Asset   string `json:"asset,omitempty"` // only for a transit account that has several
	// At asks for the balance as it was at that moment.
	At *time.Time `json:"at,omitempty"`
}

// AccountListInput asks for a page of a ledger's accounts, in the order in which they were opened.
type AccountListInput struct {
	Ledger string `json:"ledger"`
	Cursor int64  `json:"cursor,omitempty"` // AccountList.Next of the page before
	Limit  int    `json:"limit,omitempty"`  // 0 is 100; at most ledger.PageSizeMax
}

// AccountList is a page of accounts.
type AccountList struct {
	Accounts []AccountView `json:"accounts"`
	Next     int64         `json:"next,omitempty"` // 0: there is no more
}

// AccountStatementInput asks for a page of an account's entries.
type AccountStatementInput struct {
	Account string     `json:"account"`
	Asset   string     `json:"asset,omitempty"`
	From    *time.Time `json:"from,omitempty"`   // included
	To      *time.Time `json:"to,omitempty"`     // not included
	Cursor  int64      `json:"cursor,omitempty"` // AccountStatement.Next of the page before
	Limit   int        `json:"limit,omitempty"`  // 0 is 100; at most ledger.PageSizeMax
}

// AccountStatement is a page of entries.
type AccountStatement struct {
	Account string      `json:"account"`
	Asset   string      `json:"asset"`
	Entries []EntryView `json:"entries"`
	Next    int64       `json:"next,omitempty"` // 0: there is no more
}

// EntryView is one line of an account.
type EntryView struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	Amount  string    `json:"amount"` // signed
	Balance string    `json:"balance"`
	// Other is the account at the other end: on this ledger, or on another when the money came from or went there.
	Other string      `json:"other"`
	Kind  ledger.Kind `json:"kind"`
	Key   string      `json:"key"`
	Memo  string      `json:"memo,omitempty"`
}

// AccountOpen opens an account. Level 1: open already with the same settings, it is returned as it is.
func (a *Activities) AccountOpen(ctx context.Context, in AccountOpenInput) (AccountView, error) {
	ref, books, err := a.account(in.Account)
	if err != nil {
		return AccountView{}, err
	}
	account, err := in.account(ref.Name)
	if err != nil {
		return AccountView{}, errInvalid(err)
	}
	opened, err := books.AccountOpen(ctx, account)
	if err != nil {
		return AccountView{}, toTemporal(ctx, "open "+ref.String(), err)
	}
	return accountView(ref.Ledger, opened), nil
}

func (in *AccountOpenInput) account(name string) (ledger.Account, error) {
	asset, err := ledger.ParseAsset(in.Asset)
	if err != nil {
		return ledger.Account{}, err
	}
	account := ledger.NewAccount(name, asset)
	account.Metadata = in.Metadata
	if in.Floor != "" {
		limit, err := ParseLimit("floor", in.Floor, asset)
		if err != nil {
			return ledger.Account{}, err
		}
		account.Floor = limit.Pointer()
	}
	if in.Ceiling != "" {
		limit, err := ParseLimit("ceiling", in.Ceiling, asset)
		if err != nil {
			return ledger.Account{}, err
		}
		account.Ceiling = limit.Pointer()
	}
	return account, account.Validate()
}

// ParseLimit reads a floor or ceiling: "none", or a decimal number with an optional minus sign. field names it in the
// error, a *ledger.InvalidError.
func ParseLimit(field, s string, asset ledger.Asset) (ledger.Limit, error) {
	if s == LimitNone {
		return ledger.Limit{None: true}, nil
	}
	amount, err := ledger.ParseSignedAmount(s, asset)
	if err != nil {
		return ledger.Limit{}, &ledger.InvalidError{Field: field, Reason: err.Error() + ` (or "none")`}
	}
	return ledger.Limit{Amount: amount}, nil
}

// AccountSet writes settings of an account. Level 1: it is an absolute write.
func (a *Activities) AccountSet(ctx context.Context, in AccountSetInput) (AccountView, error) {
	ref, books, err := a.account(in.Account)
	if err != nil {
		return AccountView{}, err
	}
	doing := "set " + ref.String()
	// The asset, which never changes, says how the limits are written.
	account, err := books.Account(ctx, ref.Name, ledger.Asset{})
	if err != nil {
		return AccountView{}, toTemporal(ctx, doing, err)
	}
	change, err := in.change(account.Asset)
	if err != nil {
		return AccountView{}, errInvalid(err)
	}
	account, err = books.AccountSet(ctx, ref.Name, change)
	if err != nil {
		return AccountView{}, toTemporal(ctx, doing, err)
	}
	return accountView(ref.Ledger, account), nil
}

func (in *AccountSetInput) change(asset ledger.Asset) (ledger.AccountChange, error) {
	change := ledger.AccountChange{Metadata: in.Metadata}
	if in.Floor != "" {
		limit, err := ParseLimit("floor", in.Floor, asset)
		if err != nil {
			return change, err
		}
		change.Floor = &limit
	}
	if in.Ceiling != "" {
		limit, err := ParseLimit("ceiling", in.Ceiling, asset)
		if err != nil {
			return change, err
		}
		change.Ceiling = &limit
	}
	if in.Status != "" {
		status, err := ledger.ParseAccountStatus(in.Status)
		if err != nil {
			return change, err
		}
		change.Status = &status
	}
	return change, nil
}

// AccountShow reads an account, with its balance now or at a moment. Level 1: a read.
func (a *Activities) AccountShow(ctx context.Context, in AccountShowInput) (AccountView, error) {
	ref, books, err := a.account(in.Account)
	if err != nil {
		return AccountView{}, err
	}
	asset, err := optionalAsset(in.Asset)
	if err != nil {
		return AccountView{}, errInvalid(err)
	}
	doing := "show " + ref.String()
	account, err := books.Account(ctx, ref.Name, asset)
	if err != nil {
		return AccountView{}, toTemporal(ctx, doing, err)
	}
	if in.At != nil {
		account.Balance, err = books.BalanceAt(ctx, ref.Name, account.Asset, *in.At)
		if err != nil {
			return AccountView{}, toTemporal(ctx, doing, err)
		}
	}
	return accountView(ref.Ledger, account), nil
}

// AccountList reads a page of accounts. Level 1: a read.
func (a *Activities) AccountList(ctx context.Context, in AccountListInput) (AccountList, error) {
	books, err := a.ledger(in.Ledger)
	if err != nil {
		return AccountList{}, err
	}
	limit, err := pageLimit(in.Limit)
	if err != nil {
		return AccountList{}, errInvalid(err)
	}
	accounts, err := books.Accounts(ctx, ledger.AccountsPage{AfterID: in.Cursor, Limit: limit})
	if err != nil {
		return AccountList{}, toTemporal(ctx, "list the accounts of "+in.Ledger, err)
	}
	list := AccountList{Accounts: make([]AccountView, len(accounts))}
	for i := range accounts {
		list.Accounts[i] = accountView(in.Ledger, accounts[i])
	}
	if len(accounts) == limit {
		list.Next = accounts[limit-1].ID
	}
	return list, nil
}

// AccountStatement reads a page of an account's entries. Level 1: a read.
func (a *Activities) AccountStatement(ctx context.Context, in AccountStatementInput) (AccountStatement, error) {
	ref, books, err := a.account(in.Account)
	if err != nil {
		return AccountStatement{}, err
	}
	asset, err := optionalAsset(in.Asset)
	if err != nil {
		return AccountStatement{}, errInvalid(err)
	}
	limit, err := pageLimit(in.Limit)
	if err != nil {
		return AccountStatement{}, errInvalid(err)
	}
	doing := "statement of " + ref.String()
	account, err := books.Account(ctx, ref.Name, asset)
	if err != nil {
		return AccountStatement{}, toTemporal(ctx, doing, err)
	}
	page := ledger.EntriesPage{Account: ref.Name, Asset: account.Asset, AfterVersion: in.Cursor, Limit: limit}
	if in.From != nil {
		page.From = *in.From
	}
	if in.To != nil {
		page.To = *in.To
	}
	entries, err := books.Entries(ctx, page)
	if err != nil {
		return AccountStatement{}, toTemporal(ctx, doing, err)
	}
	statement := AccountStatement{Account: ref.String(), Asset: account.Asset.String(), Entries: make([]EntryView, len(entries))}
	for i := range entries {
		statement.Entries[i] = entryView(ref.Ledger, account.Asset, &entries[i])
	}
	if len(entries) == limit {
		statement.Next = entries[limit-1].Version
	}
	return statement, nil
}

// account reads an account's name and finds the books it is in.
func (a *Activities) account(name string) (ledger.AccountRef, Ledger, error) {
	ref, err := ledger.ParseAccountRef("account", name)
	if err != nil {
		return ref, nil, errInvalid(err)
	}
	books, err := a.ledger(ref.Ledger)
	return ref, books, err
}

func optionalAsset(s string) (ledger.Asset, error) {
	if s == "" {
		return ledger.Asset{}, nil
	}
	return ledger.ParseAsset(s)
}

func pageLimit(limit int) (int, error) {
	const limitDefault = 100
	switch {
	case limit == 0:
		return limitDefault, nil
	case limit < 0 || limit > ledger.PageSizeMax:
		return 0, &ledger.InvalidError{Field: "limit", Reason: "it must be from 1 to 1000"}
	default:
		return limit, nil
	}
}

func accountView(ledgerName string, a ledger.Account) AccountView {
	format := func(limit *ledger.Amount) *string {
		if limit == nil {
			return nil
		}
		s := limit.Format(a.Asset)
		return &s
	}
	return AccountView{
		Account:  ledger.AccountRef{Ledger: ledgerName, Name: a.Name}.String(),
		Asset:    a.Asset.String(),
		Balance:  a.Balance.Format(a.Asset),
		Floor:    format(a.Floor),
		Ceiling:  format(a.Ceiling),
		Status:   a.Status,
		Version:  a.Version,
		Metadata: a.Metadata,
		OpenedAt: a.OpenedAt,
	}
}

func entryView(ledgerName string, asset ledger.Asset, e *ledger.Entry) EntryView {
	other := e.Counterparty
	if other == "" {
		other = ledger.AccountRef{Ledger: ledgerName, Name: e.Other}.String()
	}
	return EntryView{
		Version: e.Version, At: e.At, Amount: e.Amount.Format(asset), Balance: e.Balance.Format(asset),
		Other: other, Kind: e.Kind, Key: string(e.Key), Memo: e.Memo,
	}
}
