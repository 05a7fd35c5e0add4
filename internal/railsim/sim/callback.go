package sim

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"
)

// How a callback that nobody takes is repeated.
const (
	deliveryAttemptsMax  = 10
	deliveryRetryDefault = time.Second
	deliveryRetryMax     = 10 * time.Second
)

// delivery is a callback on its way.
type delivery struct {
	record *Delivery
	url    string
	secret string
	body   []byte
	retry  time.Duration
}

// announce has a payout's state told, as it is now. What it returns is to be called without the lock, and tells what the
// plan wants told before anything else happens.
func (s *Simulator) announce(p *Payout, c Callbacks) (tellNow func()) {
	nothing := func() {}
	to := cmp.Or(c.URL, s.config.CallbackURL)
	if c.Off || to == "" {
		return nothing
	}
	s.events++
	times := max(c.Times, 1)
	record := &Delivery{EventID: "ev-" + strconv.Itoa(s.events), Reference: p.Reference, Status: p.Status, Pending: times}
	s.books.deliveries = append(s.books.deliveries, record)
	d := delivery{
		record: record, url: to, secret: s.config.HMACSecret, retry: cmp.Or(ms(c.RetryMS), deliveryRetryDefault),
		body: encode(event{EventID: record.EventID, Reference: p.Reference, Payout: tell(p)}),
	}
	if c.Forged {
		d.secret += "-forged"
	}
	send := func() {
		for range times {
			s.deliver(d, 1)
		}
	}
	if c.Early {
		return send
	}
	s.later(ms(c.DelayMS), send)
	return nothing
}

// deliver sends a callback once, and has it sent again later if it was not taken.
func (s *Simulator) deliver(d delivery, attempt int) {
	done := Attempt{At: time.Now()}
	status, err := s.post(d)
	done.Status = status
	if err != nil {
		done.Error = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.record.Attempts = append(d.record.Attempts, done)
	if taken := 200 <= status && status < 300; taken || attempt == deliveryAttemptsMax {
		d.record.Pending--
		return
	}
	s.later(min(d.retry<<(attempt-1), max(d.retry, deliveryRetryMax)), func() { s.deliver(d, attempt+1) })
}

func (s *Simulator) post(d delivery) (status int, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(d.body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", jsonType)
	if d.secret != "" {
		at := strconv.FormatInt(time.Now().Unix(), 10)
		request.Header.Set("Payonce-Signature", "t="+at+",v1="+sign(d.secret, "payonce-callback\n"+at+"\n"+string(d.body)))
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, requestBytesMax))
	return response.StatusCode, nil
}
