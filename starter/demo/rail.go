package demo

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

const (
	bankName        = "bank"
	bankRepliesLost = 2
)

// bankPlan is what happens to a payout at the simulated bank: a part of what its control calls take.
type bankPlan struct {
	Submit       []bankFault `json:"submit"`
	UnknownForMS int64       `json:"unknown_for_ms"`
}

type bankFault struct {
	Do       string `json:"do"`
	Executed bool   `json:"executed"`
	Times    int    `json:"times"`
}

// bankBooks are what the bank has really done: a part of what it tells.
type bankBooks struct {
	References map[string]struct {
		Payouts int `json:"payouts"`
		Sent    int `json:"sent"`
	} `json:"references"`
	Requests []struct {
		Call   string `json:"call"`
		Key    string `json:"key"`
		Status int    `json:"status"`
	} `json:"requests"`
}

// railProcess is the simulated bank that runs.
type railProcess struct {
	cmd     *exec.Cmd
	input   io.Closer // it ends when this does
	control string
	env     []string // of workers that pay through it
}

// startRail starts the bank, with a plan for the scenario's payout, and has the workers that are started from then on use it.
func (p *play) startRail(ctx context.Context, plan bankPlan) error {
	token := rand.Text()
	cmd := exec.CommandContext(ctx, p.config.RailSim, "--listen", "127.0.0.1:0", "--until-input-ends")
	cmd.Env = []string{"RAILSIM_TOKEN=" + token}
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the bank: %w", err)
	}
	p.rail = &railProcess{cmd: cmd, input: input}
	var ready struct {
		URL     string `json:"url"`
		Control string `json:"control"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		return fmt.Errorf("the bank does not say where it is: %w", err)
	}
	variable := "RAIL_" + strings.ToUpper(bankName) + "_TOKEN"
	p.rail.control, p.rail.env = ready.Control, []string{"RAILS=" + bankName + "=" + ready.URL, variable + "=" + token}
	p.tell("demo", WhatSetting, "the bank (process %d) is ready; it will lose its first %d replies", cmd.Process.Pid, bankRepliesLost)
	return p.rail.ask(ctx, http.MethodPost, "/plans", map[string]any{"reference": p.transferID, "plan": plan}, nil)
}

func (r *railProcess) books(ctx context.Context) (books bankBooks, err error) {
	return books, r.ask(ctx, http.MethodGet, "/books", nil, &books)
}

func (r *railProcess) ask(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, r.control+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the bank: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the bank: %s %s: %s", method, path, response.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(out)
}

// stop ends the bank, if there is one.
func (r *railProcess) stop() error {
	if r == nil {
		return nil
	}
	_ = r.input.Close()
	return r.cmd.Wait()
}
