package demo

import (
	"context"
	"fmt"
	"net/http"

	"payonce/ledger"
	"payonce/workflows"
)

func payoutReplyLost() *scenario {
	return &scenario{
		name:  "payout-reply-lost",
		title: "a bank pays, loses its replies, and doesn't find the payment at first",
		stake: "The bank shares no database transaction with the ledger. Sending again may pay twice, and giving the money back may give it away.",
		moral: "asked again under one key until the bank has told: paid once, and booked",
		want: expectation{
			a: amount, b: zero,
			ends: map[string]int{string(workflows.StateSettled): 1},
			recorded: map[workflows.Step]ledger.OutcomeState{
				workflows.StepReserve: ledger.OutcomeApplied, workflows.StepSettle: ledger.OutcomeApplied,
			},
		},
		play: func(ctx context.Context, p *play) error {
			p.workflowID = workflows.PayoutWorkflowID(p.transferID)
			if err := p.startRail(ctx, bankPlan{
				Submit: []bankFault{{Do: "drop", Executed: true, Times: bankRepliesLost}}, UnknownForMS: 10_000,
			}); err != nil {
				return err
			}
			if err := p.onHealthyWorker(ctx); err != nil {
				return err
			}
			return p.payOut(ctx)
		},
		look: func(ctx context.Context, p *play) error {
			if err := p.observe(ctx); err != nil {
				return err
			}
			return p.judgeBank(ctx)
		},
	}
}

// payOut has the client send money to the bank, and waits for the end.
func (p *play) payOut(ctx context.Context) error {
	in := workflows.PayoutInput{
		ID: p.transferID, From: p.a, Rail: bankName, Payee: map[string]string{"iban": "DE89370400440532013000"}, Amount: amount, Asset: asset,
	}
	p.tell("client", WhatClient, "sends %s of A to the bank, payout %s", in.Amount, in.ID)
	handle, err := p.client.StartPayout(ctx, in)
	if err != nil {
		return err
	}
	result, err := handle.Wait(ctx)
	if err != nil {
		return err
	}
	p.tell("client", WhatClient, "is told: %s", result.State)
	p.mu.Lock()
	p.seen.ends = append(p.seen.ends, end{told: string(result.State), attached: handle.Attached})
	p.mu.Unlock()
	return p.tellBooks(ctx)
}

// judgeBank tells what the bank's own books have, and finds what is wrong with them.
func (p *play) judgeBank(ctx context.Context) error {
	books, err := p.rail.books(ctx)
	if err != nil {
		return err
	}
	lost, keys := 0, make(map[string]bool)
	for _, r := range books.Requests {
		text := "is asked about it, and has it"
		switch {
		case r.Call == "submit" && r.Status == 0:
			lost++
			text = "is asked to pay, and its reply is LOST"
		case r.Call == "submit":
			text = fmt.Sprintf("is asked to pay, under the same key, and answers %d", r.Status)
		case r.Status == http.StatusNotFound:
			text = "is asked about it, and doesn't find it"
		}
		if r.Key != "" {
			keys[r.Key] = true
		}
		p.tell("bank", WhatServer, "%s", text)
	}
	sums := books.References[p.transferID]
	p.tell("bank", WhatBooks, "its own books: %d payment, sent %d time", sums.Payouts, sums.Sent)
	switch {
	case lost < bankRepliesLost:
		return fmt.Errorf("%d replies of the bank were lost, and %d must be: nothing was proved", lost, bankRepliesLost)
	case len(keys) != 1:
		return fmt.Errorf("the bank was asked under %d keys, and must be under one", len(keys))
	case sums.Payouts != 1 || sums.Sent != 1:
		return fmt.Errorf("the bank has %d payments and has sent %d", sums.Payouts, sums.Sent)
	}
	return nil
}
