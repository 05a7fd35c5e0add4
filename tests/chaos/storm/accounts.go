package storm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/starter/asking"
)

const (
	dollar = "USD/2"
	coin   = "ETH/18"
)

// The accounts of each ledger, by what is special about them.
const (
	world   = "world"   // unlimited: where money comes from
	hot     = "hot"     // plain, and in everybody's way
	poor    = "poor"    // has to refuse much of what is asked
	credit  = "credit"  // may fall below zero
	capped  = "capped"  // may not rise far
	tight   = "tight"   // full to its ceiling: what it gives can't always come back
	closed  = "closed"  // takes nothing
	frozen  = "frozen"  // frozen and thawed all the time
	limits  = "limits"  // whose limits change all the time
	cursed  = "cursed"  // poison: the database chokes on it
	flaky   = "flaky"   // poison every second time
	mint    = "mint"    // world for coins
	plain   = "plain-"  // plainOf(0), …
	coins   = "coins-"  // two of them
	late    = "late-"   // opened while transfers to them are under way
	plains  = 4         // how many plain ones
	lates   = 3         // how many late ones
	flooded = "2000.00" // what hot begins with
)

// account is how one is opened, and what it begins with.
type account struct {
	name, asset    string
	floor, ceiling string // in smallest units; "" for none
	status         string
	source         string // the account that its funds come from
	funds          string // "" for none
}

// accountsOf are the accounts of a ledger that are there before the storm.
func accountsOf() []account {
	dollars := func(name, funds string) account {
		return account{name: name, asset: dollar, floor: "0", status: "open", source: world, funds: funds}
	}
	list := []account{
		{name: world, asset: dollar, status: "open"},
		{name: mint, asset: coin, status: "open"},
		{name: credit, asset: dollar, floor: "-5000", status: "open"},
		{name: capped, asset: dollar, floor: "0", ceiling: "4000", status: "open"},
		{name: tight, asset: dollar, floor: "0", ceiling: "10000", status: "open", source: world, funds: "100.00"},
		{name: closed, asset: dollar, floor: "0", status: "closed"},
		dollars(cursed, ""), dollars(hot, flooded), dollars(poor, "20.00"), dollars(frozen, "100.00"), dollars(limits, "100.00"),
		dollars(flaky, "100.00"),
	}
	for i := range plains {
		list = append(list, dollars(plainOf(i), "200.00"))
	}
	return append(list,
		account{name: coins + "0", asset: coin, floor: "0", status: "open", source: mint, funds: "12345678901234567.123456789012345678"},
		account{name: coins + "1", asset: coin, floor: "0", status: "open"})
}

func plainOf(i int) string { return fmt.Sprint(plain, i) }

func lateOf(i int) string { return fmt.Sprint(late, i) }

const openAccountsSQL = `
insert into accounts (name, asset, floor, ceiling, status)
select name, asset, nullif(floor, '')::numeric, nullif(ceiling, '')::numeric, status
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) as new (name, asset, floor, ceiling, status)`

// openAccounts opens the accounts of a ledger, all but the late ones, without the product: it opens enough in the storm.
func (r *round) openAccounts(ctx context.Context, ledger string) error {
	var names, assets, floors, ceilings, statuses []string
	for _, a := range accountsOf() {
		names, assets, statuses = append(names, a.name), append(assets, a.asset), append(statuses, a.status)
		floors, ceilings = append(floors, a.floor), append(ceilings, a.ceiling)
	}
	return r.world.servers.exec(ctx, r.databases[ledger], openAccountsSQL, names, assets, floors, ceilings, statuses)
}

// timeoutAsk bounds one try of a command about an account.
const timeoutAsk = 10 * time.Second

// ask runs an account command until it is answered. A ledger's refusal of the command is an answer.
func (r *round) ask(ctx context.Context, clientNumber int, workflow, name string, in any) error {
	return retry(ctx, func() (final bool, err error) {
		askCtx, cancel := context.WithTimeout(ctx, timeoutAsk)
		defer cancel()
		_, err = asking.Run[activities.AccountView](askCtx, r.world.clients[clientNumber].temporal, asking.Question{
			Workflow: workflow, Name: workflow + "/" + name, Input: in,
		})
		var refused *temporal.ApplicationError
		if errors.As(err, &refused) && refused.Type() == activities.ErrorAccountConflict {
			return true, nil
		}
		return err == nil, err
	})
}
