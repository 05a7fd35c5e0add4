package demo

import (
	"context"

	"payonce/workflows"
)

// scenario is one way to break a transfer.
type scenario struct {
	name  string
	title string
	stake string // what would be bad
	moral string // what is shown, if it is shown
	want  expectation
	// options changes those of the workers, if it is set.
	options func(*workflows.Options)
	// play breaks it. It leaves a worker that answers questions.
	play func(context.Context, *play) error
	// look observes the end; nil looks at the ledgers.
	look func(context.Context, *play) error
}

// scenarios are all, in the demo's order.
func scenarios() []*scenario {
	return []*scenario{
		noKey(),
		neverStarted(), replyLost(), partlyApplied(),
		clientRetries(), otherContent(),
		poison(),
		lateAttempt(),
		statementRewritten(),
		payoutReplyLost(),
		webhookDuplicate(),
	}
}
