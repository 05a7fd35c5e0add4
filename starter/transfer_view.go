package main

import (
	"fmt"
	"io"

	"payonce/starter/transfers"
	"payonce/workflows"
)

// transferView is a transfer as it is printed: TransferResult, and more while it has not ended.
type transferView struct {
	workflows.TransferResult

	// Step and Parking are where it stands, Notes what may be wrong.
	Step    workflows.Step     `json:"step,omitempty"`
	Parking *workflows.Parking `json:"parking,omitempty"`
	Notes   []string           `json:"notes,omitempty"`
	// Attached: it had been started before. Only transfer knows.
	Attached *bool `json:"attached,omitempty"`
}

func endView(result workflows.TransferResult, attached *bool) transferView {
	return transferView{TransferResult: result, Attached: attached}
}

func statusView(status *transfers.Status) transferView {
	if status.Ended() {
		view := endView(*status.Result, nil)
		view.Notes = status.Notes
		return view
	}
	view := transferView{
		TransferResult: workflows.TransferResult{
			ID: status.Request.ID, State: status.State, Detail: status.Detail, Steps: status.Steps,
			From: status.Request.From, To: status.Request.To, Amount: status.Request.Amount, Asset: status.Request.Asset,
		},
		Step: status.Step, Parking: status.Parking, Notes: status.Notes,
	}
	if parsed, err := workflows.ParseTransfer(status.Request); err == nil {
		view.From, view.To = parsed.From.String(), parsed.To.String()
		view.Amount, view.Asset = parsed.Amount.Format(parsed.Asset), parsed.Asset.String()
	}
	return view
}

// reportTransfer prints where a transfer stands. Its error is the exit code for that.
func (a *app) reportTransfer(view transferView) error {
	if view.Steps == nil {
		view.Steps = []workflows.StepReport{}
	}
	return a.reportState(view.State, view, view.text)
}

// reportState prints what is in a state. Its error is the exit code for that.
func (a *app) reportState(state workflows.State, view any, text func(io.Writer) error) error {
	if err := a.print(view, text); err != nil {
		return err
	}
	if code := exitOfState(state); code != exitDone {
		return &exitError{code: code}
	}
	return nil
}

func (v *transferView) text(w io.Writer) error {
	line := fmt.Sprintf("%s: %s", v.ID, v.State)
	if v.Amount != "" {
		line += fmt.Sprintf(": %s %s from %s to %s", v.Amount, v.Asset, v.From, v.To)
	}
	if v.Attached != nil && *v.Attached {
		line += " (started before)"
	}
	if _, err := fmt.Fprintln(w, oneLine(line)); err != nil {
		return err
	}
	var rows [][]string
	for i := range v.Steps {
		step := &v.Steps[i]
		detail := step.Detail
		if step.Code != "" {
			detail = fmt.Sprintf("%s: %s", step.Code, detail)
		}
		rows = append(rows, []string{string(step.Step), string(step.State), step.Ledger, timeText(step.At), detail})
	}
	if err := (table{rows: rows, indent: "  "}).write(w); err != nil {
		return err
	}
	var lines []string
	if v.Detail != "" && !v.saidByStep() {
		lines = append(lines, v.Detail)
	}
	if p := v.Parking; p != nil {
		lines = append(lines, fmt.Sprintf("parking %d at %s, since %s; the money is in %s (%s)", p.Number, p.Step, timeText(p.Since), p.Account, p.Place))
	}
	for _, text := range append(lines, v.Notes...) {
		if _, err := fmt.Fprintln(w, "  "+oneLine(text)); err != nil {
			return err
		}
	}
	return nil
}

// saidByStep says whether the detail is that of one of the steps.
func (v *transferView) saidByStep() bool {
	for i := range v.Steps {
		if v.Steps[i].Detail == v.Detail {
			return true
		}
	}
	return false
}
