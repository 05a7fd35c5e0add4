package storm

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/tests/chaos/checker"
	"payonce/workflows"
)

// makeAnew has three people decide at once about the dead letter of a transfer that has ended, if it has one that leaves a
// choice: two to make it anew, one of them twice, and the third that or to discard the letter. Then everybody whose decision
// stands asks for the new transfer, as its client would.
func (r *round) makeAnew(ctx context.Context, in workflows.TransferInput, random *rand.Rand) {
	letter, found := r.letterOf(ctx, in, random)
	if !found {
		return
	}
	decide := func(action workflows.Action, by string) workflows.EndedDecision {
		return workflows.EndedDecision{
			Ledger: letter.Ledger, Key: letter.Key, Version: letter.Version, Action: action, By: by, Reason: "it may work now",
		}
	}
	third := pick(random, []workflows.Action{workflows.ActionRetry, workflows.ActionDiscard})
	decisions := []workflows.EndedDecision{
		decide(workflows.ActionRetry, "ann"), decide(workflows.ActionRetry, "ann"), decide(workflows.ActionRetry, "ben"), decide(third, "eve"),
	}
	random.Shuffle(len(decisions), func(i, j int) { decisions[i], decisions[j] = decisions[j], decisions[i] })
	begun := time.Now()
	var mu sync.Mutex
	var stands []workflows.EndedDecided
	var all sync.WaitGroup
	for i, decision := range decisions {
		k := r.world.clients[i%len(r.world.clients)]
		all.Go(func() {
			decided, err := r.decideEnded(ctx, k, decision)
			if err != nil || decided.Transfer == "" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			stands = append(stands, decided)
		})
	}
	all.Wait()
	if len(stands) == 0 {
		return
	}
	r.record.struck(FaultMakeAnew)
	anew := workflows.TransferInput{
		ID: stands[0].Transfer, From: letter.From, To: letter.To, Amount: letter.Amount, Asset: letter.Asset, Retries: letter.Transfer,
	}
	r.noteChoking(anew)
	// It was asked for when the first decision was sent.
	r.record.call(checker.Call{
		Client: "three people", Request: requestOf(anew), Called: begun, Returned: time.Now(), Note: "decided to make it anew",
	})
	for range stands {
		k := pick(random, r.world.clients)
		again := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		all.Go(func() { r.insist(ctx, k, again, anew, false) })
	}
	all.Wait()
}

// letterOf reads the open dead letter of a transfer that can be made anew.
func (r *round) letterOf(ctx context.Context, in workflows.TransferInput, random *rand.Rand) (letter activities.DeadLetterView, found bool) {
	source, _, _ := strings.Cut(in.From, "/")
	k := pick(random, r.world.clients)
	var list activities.DeadLetterList
	err := retry(ctx, func() (bool, error) {
		askCtx, cancel := context.WithTimeout(ctx, timeoutAsk)
		defer cancel()
		var err error
		list, err = asking.Run[activities.DeadLetterList](askCtx, k.temporal, asking.Question{
			Workflow: workflows.DeadLetterListWorkflow, Name: "letters of " + in.ID,
			Input: activities.DeadLetterListInput{Ledger: source, Transfer: in.ID, State: ledger.DeadLetterOpen},
		})
		return err == nil, err
	})
	if err != nil {
		return letter, false // the round is over
	}
	for _, letter := range list.DeadLetters {
		if !letter.Parked && slices.Contains(letter.Choices, string(workflows.ActionRetry)) {
			return letter, true
		}
	}
	return letter, false
}

// decideEnded sends a decision until it is answered. The error is that of a decision that is refused, or of the end of the
// round.
func (r *round) decideEnded(ctx context.Context, k *clerk, decision workflows.EndedDecision) (decided workflows.EndedDecided, err error) {
	err = retry(ctx, func() (bool, error) {
		askCtx, cancel := context.WithTimeout(ctx, timeoutAsk)
		defer cancel()
		decided, err = k.transfers.DecideEnded(askCtx, decision)
		if refused, ok := errors.AsType[*temporal.ApplicationError](err); ok && refused.Type() == workflows.ErrorDecisionRefused {
			return true, err
		}
		return err == nil, err
	})
	return decided, err
}
