package demo

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
	"payonce/workflows"
)

// endpoint is the name of the demo's receiver.
const endpoint = "shop"

// webhook is what the receiver got.
type webhook struct{ id, body string }

func webhookDuplicate() *scenario {
	return &scenario{
		name:  "webhook-duplicate",
		title: "a webhook arrives, and the receiver's reply is lost",
		stake: "Nobody can tell that from a webhook that never arrived, so it is sent again: a shop that ships at each would ship twice.",
		moral: "it came twice with one webhook-id, and the receiver acted once",
		want: expectation{
			a: amount, b: amount,
			ends:     map[string]int{string(workflows.StateCompleted): 1},
			met:      []meeting{{fault.KindDeposit, ledger.OutcomeApplied, false}},
			recorded: bothApplied(),
			webhooks: 2,
		},
		play: func(ctx context.Context, p *play) error {
			receiver, err := p.listen(ctx)
			if err != nil {
				return err
			}
			defer receiver.close()
			if _, err := p.startWorker(ctx); err != nil {
				return err
			}
			if err := p.setUp(ctx); err != nil {
				return err
			}
			in := p.request()
			in.Notify = []string{endpoint}
			p.tell("client", WhatClient, "sends %s from A to B, transfer %s, and wants %s told", in.Amount, in.ID, endpoint)
			if err := p.send(ctx, "client", in).wait(); err != nil {
				return err
			}
			id := workflows.NotificationWorkflowID(endpoint, workflows.TransferWorkflowID(in.ID), workflows.StateCompleted)
			return p.config.Temporal.GetWorkflow(ctx, id, "").Get(ctx, nil)
		},
	}
}

// receiver takes the webhooks of a scenario, on this machine.
type receiver struct {
	play     *play
	verifier *standardwebhooks.Webhook
	server   *http.Server
	done     chan struct{}
}

// listen starts a receiver that acts once for each webhook-id and loses its first reply, and has the scenario's workers know it.
func (p *play) listen(ctx context.Context) (*receiver, error) {
	secret := []byte("the demo's own, thirty-two bytes")
	verifier, err := standardwebhooks.NewWebhookRaw(secret)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{play: p, verifier: verifier, done: make(chan struct{})}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(r.done)
		_ = r.server.Serve(listener)
	}()
	p.env = []string{
		"NOTIFY=" + endpoint + "=http://" + listener.Addr().String() + "/", "NOTIFY_ALLOW_PRIVATE=true",
		"NOTIFY_SHOP_SECRETS=whsec_" + base64.StdEncoding.EncodeToString(secret),
	}
	return r, nil
}

func (r *receiver) close() {
	_ = r.server.Close()
	<-r.done
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	const bodyBytesMax = 1 << 20
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, bodyBytesMax))
	if err == nil {
		err = r.verifier.Verify(body, request.Header)
	}
	if err != nil {
		http.Error(w, "not one of payonce's", http.StatusBadRequest)
		return
	}
	got := webhook{id: request.Header.Get(standardwebhooks.HeaderWebhookID), body: string(body)}
	if r.play.gotWebhook(got) == 1 {
		r.play.tell(endpoint, WhatStep, "gets %s, and ships", got.id)
		r.play.tell(endpoint, WhatFault, "THE REPLY IS LOST")
		panic(http.ErrAbortHandler)
	}
	r.play.tell(endpoint, WhatRepeat, "gets %s again, and knows it", got.id)
	w.WriteHeader(http.StatusNoContent)
}

// gotWebhook notes a webhook, and that the receiver acts on one that it does not know. It returns how many there were.
func (p *play) gotWebhook(got webhook) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := false
	for _, before := range p.seen.webhooks {
		known = known || before.id == got.id
	}
	if !known {
		p.seen.acts++
	}
	p.seen.webhooks = append(p.seen.webhooks, got)
	return len(p.seen.webhooks)
}

// judgeWebhooks checks that one webhook came so often, always the same, and that the receiver acted once.
func judgeWebhooks(want expectation, got observation) []string {
	var problems []string
	if len(got.webhooks) != want.webhooks {
		problems = append(problems, fmt.Sprintf("%d webhooks came, and %d must", len(got.webhooks), want.webhooks))
	}
	for _, one := range got.webhooks {
		if one != got.webhooks[0] {
			problems = append(problems, "the webhooks differ: nobody could tell that they are one")
			break
		}
	}
	if acts := min(want.webhooks, 1); got.acts != acts {
		problems = append(problems, fmt.Sprintf("the receiver acted %d times, and must act %d", got.acts, acts))
	}
	return problems
}
