package activities

import (
	"context"
	"time"

	"payonce/ledger"
)

// StepInput is one keyed operation of one ledger, with a single leg. It is plain JSON.
type StepInput struct {
	Ledger   string            `json:"ledger"`
	Key      string            `json:"key"`  // workflow ID + "/" + step
	From     string            `json:"from"` // within the ledger
	To       string            `json:"to"`
	Amount   string            `json:"amount"`             // in major units, "10.00"
	Asset    string            `json:"asset"`              // "USD/2"
	Other    string            `json:"other,omitempty"`    // the account on the other ledger, "eu/bob", or a payout's rail and payee
	Reverses string            `json:"reverses,omitempty"` // the key that a refund, a return or a bounce gives back
	Memo     string            `json:"memo,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// StepOutcome is the recorded outcome of a step.
type StepOutcome struct {
	Ledger string              `json:"ledger"`
	Key    string              `json:"key"`
	State  ledger.OutcomeState `json:"state"`            // applied, refused or sealed
	Code   ledger.Code         `json:"code,omitempty"`   // why refused or sealed
	Detail string              `json:"detail,omitempty"` // the same for a person
	At     time.Time           `json:"at"`               // the ledger's clock
	Repeat bool                `json:"repeat,omitempty"` // it had been recorded before
}

// ResolveInput asks for the outcome of a step to be decided.
type ResolveInput struct {
	Kind   ledger.Kind `json:"kind"` // of the step: post, withdraw, deposit or reserve; others when they are discarded
	Step   StepInput   `json:"step"`
	Code   ledger.Code `json:"code"`   // why it is given up
	Detail string      `json:"detail"` // the same for a person
}

func (in *StepInput) operation(kind ledger.Kind) (ledger.Operation, error) {
	asset, err := ledger.ParseAsset(in.Asset)
	if err != nil {
		return ledger.Operation{}, err
	}
	amount, err := ledger.ParseAmount(in.Amount, asset)
	if err != nil {
		return ledger.Operation{}, err
	}
	operation := ledger.Operation{
		Key:          ledger.Key(in.Key),
		Kind:         kind,
		Legs:         []ledger.Leg{{From: in.From, To: in.To, Asset: asset, Amount: amount}},
		Reverses:     ledger.Key(in.Reverses),
		Counterparty: in.Other,
		Memo:         in.Memo,
		Metadata:     in.Metadata,
	}
	return operation, operation.Validate()
}

// Post moves money between two accounts of one ledger. Level 2.
func (a *Activities) Post(ctx context.Context, in StepInput) (StepOutcome, error) {
	return a.post(ctx, ledger.KindPost, in)
}

// Withdraw moves money from an account into transit to another ledger. Level 2.
func (a *Activities) Withdraw(ctx context.Context, in StepInput) (StepOutcome, error) {
	return a.post(ctx, ledger.KindWithdraw, in)
}

// Deposit moves money from transit to an account. Level 2.
func (a *Activities) Deposit(ctx context.Context, in StepInput) (StepOutcome, error) {
	return a.post(ctx, ledger.KindDeposit, in)
}

// Refund gives a withdraw back: from transit to its account. Level 2. It is refused when the withdraw did not apply.
func (a *Activities) Refund(ctx context.Context, in StepInput) (StepOutcome, error) {
	return a.post(ctx, ledger.KindRefund, in)
}

// Reserve keeps money of an account for a payout to a rail. Level 2.
func (a *Activities) Reserve(ctx context.Context, in StepInput) (StepOutcome, error) {
	return a.post(ctx, ledger.KindReserve, in)
}

// Settle books reserved money as paid by its rail. Level 2. When the money has been given back instead, the error is
// ErrorKeyConflict.
func (a *Activities) Settle(ctx context.Context, in StepInput) (StepOutcome, error) {
	return a.post(ctx, ledger.KindSettle, in)
}

// Return gives reserved money back to its account. Level 2. When it has been settled instead, the error is ErrorKeyConflict.
func (a *Activities) Return(ctx context.Context, in StepInput) (StepOutcome, error) {
	return a.post(ctx, ledger.KindReturn, in)
}

// Bounce gives settled money that came back from its rail to the account that it was reserved from. Level 2.
func (a *Activities) Bounce(ctx context.Context, in StepInput) (StepOutcome, error) {
	return a.post(ctx, ledger.KindBounce, in)
}

func (a *Activities) post(ctx context.Context, kind ledger.Kind, in StepInput) (_ StepOutcome, err error) {
	defer finish(ctx, string(kind)+" on ledger "+in.Ledger, &err)
	books, err := a.ledger(in.Ledger)
	if err != nil {
		return StepOutcome{}, err
	}
	operation, err := in.operation(kind)
	if err != nil {
		return StepOutcome{}, errInvalid(err)
	}
	outcome, err := books.Post(ctx, operation)
	if err != nil {
		return StepOutcome{}, err
	}
	return stepOutcome(in.Ledger, outcome), nil
}

// Resolve returns a step's outcome, or seals its key so that it can never get one. The answer is final. Level 2.
func (a *Activities) Resolve(ctx context.Context, in ResolveInput) (_ StepOutcome, err error) {
	defer finish(ctx, "resolve "+string(in.Kind)+" on ledger "+in.Step.Ledger, &err)
	books, err := a.ledger(in.Step.Ledger)
	if err != nil {
		return StepOutcome{}, err
	}
	operation, err := in.Step.operation(in.Kind)
	if err != nil {
		return StepOutcome{}, errInvalid(err)
	}
	outcome, err := books.Resolve(ctx, ledger.Seal{Operation: operation, Code: in.Code, Detail: in.Detail})
	if err != nil {
		return StepOutcome{}, err
	}
	return stepOutcome(in.Step.Ledger, outcome), nil
}

func stepOutcome(ledgerName string, o ledger.Outcome) StepOutcome {
	return StepOutcome{
		Ledger: ledgerName, Key: string(o.Key), State: o.State, Code: o.Code, Detail: o.Detail, At: o.At, Repeat: o.Repeat,
	}
}
