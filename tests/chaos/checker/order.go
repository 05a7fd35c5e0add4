package checker

import (
	"math/big"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// timeoutOrder bounds the search for the order of one account. Where the books are right, it takes milliseconds.
const timeoutOrder = 2 * time.Minute

// checkOrder sees that each account is one register: there is an order of all that was asked of it that fits the times at
// which clients asked and were told, in which each entry leaves the balance that it says, and each refusal had to be.
func (x *index) checkOrder(f *findings) {
	times := x.times()
	for i := range x.Ledgers {
		l := &x.Ledgers[i]
		b := newBooks(l)
		events := make(map[int64][]porcupine.Operation)
		for j := range l.Operations {
			o := &l.Operations[j]
			when, ok := times[ownerOf(o.Key)]
			if !ok || len(o.Legs) != 1 {
				continue // reported by other rules
			}
			if o.Kind == kindBounce { // what was settled can come back at any time
				when.told = x.Ended
			}
			for _, event := range b.events(o) {
				event.operation.Call, event.operation.Return = when.call.UnixNano(), when.told.UnixNano()
				events[event.account.ID] = append(events[event.account.ID], event.operation)
			}
		}
		for j := range l.Accounts {
			a := &l.Accounts[j]
			model := register(a.Floor, a.Ceiling)
			if x.Shifting[l.Name+"/"+a.Name] {
				// Its limits were not always what they are, so its refusals can't be judged.
				model = register(nil, nil)
				events[a.ID] = slices.DeleteFunc(events[a.ID], func(o porcupine.Operation) bool { return !inputOf(o.Input).applied })
			}
			switch porcupine.CheckOperationsTimeout(model, events[a.ID], timeoutOrder) {
			case porcupine.Ok:
			case porcupine.Illegal:
				f.account(RuleOrder, l.Name, a.Name, "its %d entries and refusals fit no order of what was asked", len(events[a.ID]))
			case porcupine.Unknown:
				f.account(RuleOrder, l.Name, a.Name, "no order of its %d entries and refusals was found within %s", len(events[a.ID]), timeoutOrder)
			}
		}
	}
}

// span is when a transfer or a payout was first asked for, and when somebody was first told its end.
type span struct{ call, told time.Time }

func (x *index) times() map[string]span {
	spans := make(map[string]span, len(x.transfers))
	for id, t := range x.transfers {
		s := span{told: x.Ended}
		for _, call := range t.calls {
			if s.call.IsZero() || call.Called.Before(s.call) {
				s.call = call.Called
			}
			if call.Told != "" && call.Told != EndConflict && call.Returned.Before(s.told) {
				s.told = call.Returned
			}
		}
		if !s.call.IsZero() {
			spans[id] = s
		}
	}
	for _, p := range x.payouts {
		s := span{call: p.asked[0].Called, told: x.Ended}
		for _, call := range p.asked {
			if call.Called.Before(s.call) {
				s.call = call.Called
			}
			if call.Told != "" && call.Returned.Before(s.told) {
				s.told = call.Returned
			}
		}
		spans[p.id] = s
	}
	return spans
}

// registerInput is what was asked of an account, and registerOutput what became of it.
type registerInput struct {
	applied bool
	credit  bool
	amount  *big.Int
}

type registerOutput struct {
	version int64
	balance *big.Int
}

func inputOf(v any) registerInput {
	input, ok := v.(registerInput)
	if !ok {
		panic("checker: not a registerInput")
	}
	return input
}

type accountEvent struct {
	account   *Account
	operation porcupine.Operation
}

// events are what an operation was to the accounts of its leg. A refusal is told of the account that refused.
func (b *books) events(o *Operation) []accountEvent {
	leg := &o.Legs[0]
	if o.State == stateApplied {
		var events []accountEvent
		for _, e := range b.ofOperation[o.ID] {
			a := b.accounts[e.AccountID]
			if a == nil {
				continue
			}
			events = append(events, accountEvent{a, porcupine.Operation{
				Input:  registerInput{applied: true, credit: e.Amount.Sign() > 0, amount: new(big.Int).Abs(e.Amount)},
				Output: registerOutput{version: e.Version, balance: e.Balance},
			}})
		}
		return events
	}
	var name string
	var credit bool
	switch {
	case o.State == stateRefused && o.Code == codeInsufficientFunds:
		name = leg.From
	case o.State == stateRefused && o.Code == codeCeilingExceeded:
		name, credit = leg.To, true
	default:
		return nil
	}
	for i := range b.Accounts {
		if a := &b.Accounts[i]; a.Name == name && a.Asset == leg.Asset {
			return []accountEvent{{a, porcupine.Operation{
				Input: registerInput{credit: credit, amount: leg.Amount}, Output: registerOutput{},
			}}}
		}
	}
	return nil
}

// registerState is an account between two entries.
type registerState struct {
	version int64
	balance string // decimal, so that states are comparable
}

// register is the model of an account with limits, each nil for none.
func register(floor, ceiling *big.Int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return registerState{balance: "0"} },
		Step: func(state, input, output any) (bool, any) {
			s, okState := state.(registerState)
			out, okOutput := output.(registerOutput)
			balance, okBalance := new(big.Int).SetString(s.balance, 10)
			if !okState || !okOutput || !okBalance {
				panic("checker: not a state of a register")
			}
			in := inputOf(input)
			var beyond bool
			if in.credit {
				balance.Add(balance, in.amount)
				beyond = ceiling != nil && balance.Cmp(ceiling) > 0
			} else {
				balance.Sub(balance, in.amount)
				beyond = floor != nil && balance.Cmp(floor) < 0
			}
			if !in.applied {
				return beyond, s
			}
			next := registerState{version: s.version + 1, balance: balance.String()}
			return !beyond && out.version == next.version && out.balance.Cmp(balance) == 0, next
		},
	}
}
