package ledger

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// DefaultLedger is the ledger of an account that is named without one.
const DefaultLedger = "main"

const (
	transitPrefix = "transit:"

	ledgerNameBytesMax  = 32
	accountNameBytesMax = 128
)

// AccountRef names an account across ledgers. It is written "ledger/name"; String always writes the ledger.
type AccountRef struct {
	Ledger string
	Name   string
}

// ParseAccountRef reads "eu/alice" or "alice", which is on DefaultLedger. A ledger's name is lower-case letters, digits
// and -, at most 32; an account's is letters, digits and _ . : @ + -, at most 128, beginning with a letter, digit or
// _. Accounts of the ledger's own, such as transit:eu, are read here too: see IsOwn. field names the input in the error, an
// *InvalidError.
func ParseAccountRef(field, s string) (AccountRef, error) {
	ledgerName, name, qualified := strings.Cut(s, "/")
	if !qualified {
		ledgerName, name = DefaultLedger, s
	}
	if s == "" {
		return AccountRef{}, invalid(field, "an account is required, such as alice or eu/alice")
	}
	if err := CheckLedgerName(field, ledgerName); err != nil {
		return AccountRef{}, err
	}
	if err := CheckAccountName(field, name); err != nil {
		return AccountRef{}, err
	}
	return AccountRef{Ledger: ledgerName, Name: name}, nil
}

// String is "ledger/name".
func (r AccountRef) String() string { return r.Ledger + "/" + r.Name }

// CheckLedgerName says whether name can name a ledger. The error is an *InvalidError for field.
func CheckLedgerName(field, name string) error {
	if !isNameOfLedger(name) {
		return invalid(field, "%q does not name a ledger: use lower-case letters, digits and -, a letter first, at most %d",
			clip(name), ledgerNameBytesMax)
	}
	return nil
}

func isNameOfLedger(name string) bool {
	ok := name != "" && len(name) <= ledgerNameBytesMax && isLower(name[0])
	for i := range len(name) {
		ok = ok && (isLower(name[i]) || isDigit(name[i]) || name[i] == '-')
	}
	return ok
}

// CheckAccountName says whether name can name an account within its ledger. The error is an *InvalidError for field.
func CheckAccountName(field, name string) error {
	ok := name != "" && len(name) <= accountNameBytesMax
	for i := range len(name) {
		c := name[i]
		plain := isLower(c) || isDigit(c) || ('A' <= c && c <= 'Z') || c == '_'
		ok = ok && (plain || (i > 0 && strings.IndexByte(".:@+-", c) >= 0))
	}
	if !ok {
		return invalid(field, "%q does not name an account: use letters, digits and _ . : @ + -, at most %d",
			clip(name), accountNameBytesMax)
	}
	return nil
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// TransitAccount names the account where money is while it is on its way to or from another ledger. There is one for
// each asset; a ledger opens it when it is first needed, without floor or ceiling.
func TransitAccount(otherLedger string) string { return transitPrefix + otherLedger }

// IsTransit says whether name is a transit account's. Only the steps of a transfer between ledgers may use those.
func IsTransit(name string) bool { return strings.HasPrefix(name, transitPrefix) }

// TransitLedger is the other ledger of the transit account name, or "".
func TransitLedger(name string) string {
	other, ok := strings.CutPrefix(name, transitPrefix)
	if !ok {
		return ""
	}
	return other
}

// AccountStatus says what an account takes part in.
type AccountStatus string

// An open account gives and takes. A frozen one neither gives nor takes until it is opened again. A closed one is
// done: its balance was zero when it closed. A frozen or closed account still takes back its own money when a step is reversed.
const (
	AccountOpen   AccountStatus = "open"
	AccountFrozen AccountStatus = "frozen"
	AccountClosed AccountStatus = "closed"
)

// ParseAccountStatus reads "open", "frozen" or "closed". The error is an *InvalidError.
func ParseAccountStatus(s string) (AccountStatus, error) {
	switch status := AccountStatus(s); status {
	case AccountOpen, AccountFrozen, AccountClosed:
		return status, nil
	default:
		return "", invalid("status", "%q is not open, frozen or closed", clip(s))
	}
}

// Account is one account of a ledger as it was at the moment of reading.
type Account struct {
	ID       int64
	Name     string // within its ledger
	Asset    Asset
	Balance  Amount
	Version  int64   // the number of its entries
	Floor    *Amount // the least balance; nil: unlimited
	Ceiling  *Amount // the greatest balance; nil: unlimited
	Status   AccountStatus
	Metadata map[string]string
	OpenedAt time.Time
	// EntryAt is the time of the last entry, or zero when there is none.
	EntryAt time.Time
}

// NewAccount returns an open account with the defaults: floor 0, so no overdraft, and no ceiling.
func NewAccount(name string, asset Asset) Account {
	return Account{Name: name, Asset: asset, Floor: new(Amount), Status: AccountOpen}
}

// Validate says whether a can be opened. The error is an *InvalidError. The ledger opens its own accounts itself.
func (a *Account) Validate() error {
	if err := CheckAccountName("account", a.Name); err != nil {
		return err
	}
	if IsOwn(a.Name) {
		return invalid("account", "%q: accounts named transit:…, rail:… and settled:… are opened by the ledger itself", a.Name)
	}
	if a.Asset.IsZero() {
		return invalid("asset", "an asset is required, such as USD or POINTS/0")
	}
	switch {
	case a.Status != AccountOpen && a.Status != "":
		return invalid("status", "%q: an account is opened open", clip(string(a.Status)))
	case a.Floor != nil && a.Floor.Sign() > 0:
		return invalid("floor", "it is %s: a new account has nothing, so its floor is at most zero", a.Floor.Format(a.Asset))
	case a.Ceiling != nil && a.Ceiling.Sign() < 0:
		return invalid("ceiling", "it is %s: a new account has nothing, so its ceiling is at least zero", a.Ceiling.Format(a.Asset))
	}
	return checkMetadata(a.Metadata)
}

// AccountChange is an absolute write of some of an account's settings: nil leaves a setting as it is. Level 1: a
// repeat is safe and needs no key.
type AccountChange struct {
	Floor    *Limit
	Ceiling  *Limit
	Status   *AccountStatus
	Metadata map[string]string // nil: as it is; else replaces all
}

// Validate says whether the change is well formed for the account that is named, whatever its state. The error is an
// *InvalidError. Accounts of the ledger's own are not set.
func (c *AccountChange) Validate(name string) error {
	if err := CheckAccountName("account", name); err != nil {
		return err
	}
	if IsOwn(name) {
		return invalid("account", "%q: accounts named transit:…, rail:… and settled:… are the ledger's own", name)
	}
	if c.Status != nil {
		if _, err := ParseAccountStatus(string(*c.Status)); err != nil {
			return err
		}
	}
	return checkMetadata(c.Metadata)
}

// Apply changes the account, or leaves it as it is and says why: the error is ErrAccountConflict. The owner of a has it
// locked, so that its balance is what it is.
func (c *AccountChange) Apply(a *Account) error {
	changed := *a
	if c.Floor != nil {
		changed.Floor = c.Floor.Pointer()
	}
	if c.Ceiling != nil {
		changed.Ceiling = c.Ceiling.Pointer()
	}
	if c.Status != nil {
		changed.Status = *c.Status
	}
	if c.Metadata != nil {
		changed.Metadata = maps.Clone(c.Metadata)
	}
	balance, floor, ceiling := changed.Balance, changed.Floor, changed.Ceiling
	switch {
	case floor != nil && balance.Cmp(*floor) < 0:
		return changed.conflict("it has %s, less than the floor %s", balance.Format(a.Asset), floor.Format(a.Asset))
	case ceiling != nil && balance.Cmp(*ceiling) > 0:
		return changed.conflict("it has %s, more than the ceiling %s", balance.Format(a.Asset), ceiling.Format(a.Asset))
	case c.Status != nil && changed.Status == AccountClosed && balance.Sign() != 0:
		return changed.conflict("it has %s, and is closed only without money", balance.Format(a.Asset))
	}
	*a = changed
	return nil
}

func (a *Account) conflict(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrAccountConflict, a.Name, fmt.Sprintf(format, args...))
}

// Limit is a floor or ceiling in an AccountChange: an amount, or none.
type Limit struct {
	None   bool
	Amount Amount // when not None
}

// Pointer is the limit as an Account holds it: nil for none.
func (l Limit) Pointer() *Amount {
	if l.None {
		return nil
	}
	return &l.Amount
}

// PageSizeMax is the most rows that one read of a page returns.
const PageSizeMax = 1_000

// AccountsPage asks for accounts in the order in which they were opened.
type AccountsPage struct {
	AfterID int64 // the ID of the last account of the page before; 0 for the first page
	Limit   int   // 1 to PageSizeMax
}

// EntriesPage asks for entries of one account in the order of their versions.
type EntriesPage struct {
	Account string
	Asset   Asset // zero, unless Account is a transit account that has several
	// AfterVersion is the version of the last entry of the page before; 0 for the first page.
	AfterVersion int64
	// From and To bound the entries' time, From included and To not; zero is unbounded.
	From, To time.Time
	Limit    int // 1 to PageSizeMax
}
