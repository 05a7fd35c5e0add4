package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/transfers"
	"payonce/workflows"
)

// payoutFlags is the command line of payout.
type payoutFlags struct {
	input    workflows.PayoutInput
	payee    []string
	metadata []string
	wait     bool
	timeout  time.Duration
}

// request is the payout that the flags ask for, known to be well formed.
func (f *payoutFlags) request() (workflows.PayoutInput, error) {
	in := f.input
	if in.ID == "" {
		return in, usagef("id: --id is required, and is never made up: choose it once, before the first attempt, and keep it for every retry")
	}
	var err error
	if in.Metadata, err = parseMetadata(f.metadata); err != nil {
		return in, err
	}
	if in.Payee, err = parsePairs("payee", f.payee); err != nil {
		return in, err
	}
	_, err = workflows.ParsePayout(in)
	return in, err
}

func (a *app) payoutCommand() *cobra.Command {
	var flags payoutFlags
	cmd := &cobra.Command{
		Use:   "payout --id ID --from ACCOUNT --rail RAIL --payee KEY=VALUE --amount AMOUNT --asset ASSET",
		Short: "Pay money out through a payment rail, once",
		Long: `Pay money out through a payment rail, once.

The ID names the payment, and is also the reference that the rail gets: running the command again with the same ID finds the
same payout. Money leaves the account at once and is reserved; it is settled when the rail has paid it, and comes back when
the rail says that it has not and never will. Until the rail says either, the payout is pending, exit code 5, and goes on by
itself. What settles may still come back from the payee days later: that too returns the money.`,
		Example: `  starter payout --id rent-2026-11 --from us/alice --rail bank --payee iban=DE89370400440532013000 --amount 10.00 --asset EUR`,
		Args:    cobra.NoArgs,
		RunE: a.command(func(cmd *cobra.Command, _ []string) error {
			return a.payout(cmd.Context(), &flags)
		}),
	}
	set := cmd.Flags()
	set.StringVar(&flags.input.ID, "id", "", "the payout's ID: choose it once, keep it for every retry (required)")
	set.StringVar(&flags.input.From, "from", "", "the account to pay from, such as us/alice (required)")
	set.StringVar(&flags.input.Rail, "rail", "", "the rail to pay through (required)")
	set.StringArrayVar(&flags.payee, "payee", nil, "KEY=VALUE of who gets the money, in the rail's own terms; may be given several times (required)")
	set.StringVar(&flags.input.Amount, "amount", "", "a plain decimal number, such as 10.00 (required)")
	set.StringVar(&flags.input.Asset, "asset", "", "USD, JPY, …, or code and decimal digits: POINTS/0, ETH/18 (required)")
	set.StringVar(&flags.input.Memo, "memo", "", "a text to keep with the entries; the rail gets it too")
	metadataFlag(set, &flags.metadata)
	notifyFlag(set, &flags.input.Notify)
	set.BoolVar(&flags.wait, "wait", true, "wait for the end")
	timeoutFlag(cmd, &flags.timeout, timeoutTransfer)
	cmd.AddCommand(
		a.aboutPayoutCommand("status", "Tell where a payout stands",
			`Tell where a payout stands, without waiting for its end and without asking its rail. The exit code is that of the payout.`,
			(*app).payoutStatus),
		a.aboutPayoutCommand("check", "Have a payout's rail asked now",
			`Have a payout's rail asked now what has become of it, also of one that has ended: it may have bounced. This is what a callback
of the rail does. It is always safe, and returns when the rail will be asked: see payout status then.`,
			func(a *app, ctx context.Context, payments *transfers.Client, id string) error {
				if err := payments.HintPayout(ctx, id); err != nil {
					return err
				}
				a.note("the rail is asked about payout %q: see starter payout status", id)
				return nil
			}),
		a.aboutPayoutCommand("cancel", "Ask a payout to stop",
			`Ask a payout to stop. Before it is submitted to its rail the money comes back at once. Afterwards the rail is asked to cancel,
if it can, and only its word brings the money back.`,
			func(a *app, ctx context.Context, payments *transfers.Client, id string) error {
				if err := payments.CancelPayout(ctx, id); err != nil {
					if errors.Is(err, transfers.ErrEnded) {
						return refusedf("%w", err)
					}
					return err
				}
				a.note("payout %q is asked to stop: see starter payout status", id)
				return nil
			}),
	)
	return cmd
}

// aboutPayoutCommand is a command about one payout.
func (a *app) aboutPayoutCommand(name, short, long string, do func(*app, context.Context, *transfers.Client, string) error) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: name + " ID", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			if err := ledger.CheckID("id", args[0], workflows.TransferIDBytesMax); err != nil {
				return err
			}
			return a.withTemporal(cmd.Context(), timeout, func(ctx context.Context, c client.Client) error {
				return do(a, ctx, transfers.New(c, transfers.Options{}), args[0])
			})
		}),
	}
	timeoutFlag(cmd, &timeout, timeoutTransfer)
	return cmd
}

func (a *app) payout(ctx context.Context, flags *payoutFlags) error {
	in, err := flags.request()
	if err != nil {
		return err
	}
	return a.withTemporal(ctx, flags.timeout, func(ctx context.Context, c client.Client) error {
		payments := transfers.New(c, transfers.Options{})
		handle, err := payments.StartPayout(ctx, in)
		if err != nil {
			return a.reportPayoutError(err, nil)
		}
		if !flags.wait {
			return a.payoutAccepted(ctx, payments, handle, in)
		}
		result, err := handle.Wait(ctx)
		if err != nil {
			return a.reportPayoutError(err, &handle.Attached)
		}
		return a.reportPayout(payoutView{PayoutResult: result, Attached: &handle.Attached})
	})
}

// payoutAccepted tells where a payout stands that nobody waits for.
func (a *app) payoutAccepted(ctx context.Context, payments *transfers.Client, handle *transfers.PayoutHandle, in workflows.PayoutInput) error {
	status := transfers.PayoutStatus{PayoutStatus: workflows.PayoutStatus{
		Request: in, Standing: workflows.Standing{State: workflows.StateRunning, Detail: "accepted"},
	}}
	if handle.Attached {
		// It may have ended long ago.
		var err error
		if status, err = payments.PayoutStatus(ctx, in.ID); err != nil {
			return err
		}
	}
	view := payoutStatusView(&status)
	view.Attached = &handle.Attached
	err := a.reportPayout(view)
	going := status.State == workflows.StateRunning || status.State == workflows.StatePending
	if exit := (*exitError)(nil); going && errors.As(err, &exit) && exit.err == nil {
		return nil // Accepted is what was asked for.
	}
	return err
}

func (a *app) payoutStatus(ctx context.Context, payments *transfers.Client, id string) error {
	status, err := payments.PayoutStatus(ctx, id)
	if err != nil {
		return a.reportPayoutError(err, nil)
	}
	return a.reportPayout(payoutStatusView(&status))
}

// reportPayoutError tells where a payout stands that has not ended, if that is what err is about.
func (a *app) reportPayoutError(err error, attached *bool) error {
	var pending *transfers.PayoutPendingError
	var closed *transfers.ClosedError
	switch {
	case errors.As(err, &pending):
		view := payoutStatusView(&pending.Status)
		view.Attached = attached
		if pending.Cause != nil {
			a.note("the payout goes on by itself: run the same command again, or starter payout status %q", pending.Status.Request.ID)
		}
		return a.reportPayout(view)
	case errors.As(err, &closed) && exitOfClosed(closed.How) == exitPending:
		return a.reportPayout(payoutView{PayoutResult: workflows.PayoutResult{ID: closed.ID, State: transfers.StateUnknown, Detail: closed.Error()}, Attached: attached})
	default:
		return err
	}
}

// payoutView is a payout as it is printed: PayoutResult, and more while it has not ended.
type payoutView struct {
	workflows.PayoutResult

	Step    workflows.Step         `json:"step,omitempty"`
	Word    *activities.RailAnswer `json:"word,omitempty"` // the rail's last
	Parking *workflows.Parking     `json:"parking,omitempty"`
	Notes   []string               `json:"notes,omitempty"`
	// Attached: it had been started before. Only payout knows.
	Attached *bool `json:"attached,omitempty"`
}

func payoutStatusView(status *transfers.PayoutStatus) payoutView {
	if status.Ended() {
		return payoutView{PayoutResult: *status.Result, Notes: status.Notes}
	}
	in := &status.Request
	view := payoutView{
		PayoutResult: workflows.PayoutResult{
			ID: in.ID, State: status.State, From: in.From, Rail: in.Rail, Payee: in.Payee, Amount: in.Amount, Asset: in.Asset,
			Detail: status.Detail, Steps: status.Steps,
		},
		Step: status.Step, Word: status.Word, Parking: status.Parking, Notes: status.Notes,
	}
	if parsed, err := workflows.ParsePayout(*in); err == nil {
		view.From, view.Amount, view.Asset = parsed.From.String(), parsed.Amount.Format(parsed.Asset), parsed.Asset.String()
	}
	return view
}

// reportPayout prints where a payout stands. Its error is the exit code for that.
func (a *app) reportPayout(view payoutView) error {
	if view.Steps == nil {
		view.Steps = []workflows.StepReport{}
	}
	return a.reportState(view.State, view, view.text)
}

func (v *payoutView) text(w io.Writer) error {
	line := fmt.Sprintf("%s: %s", v.ID, v.State)
	if v.Amount != "" {
		line += fmt.Sprintf(": %s %s from %s to %s", v.Amount, v.Asset, v.From, ledger.PayoutCounterparty(v.Rail, v.Payee))
	}
	if v.Attached != nil && *v.Attached {
		line += " (started before)"
	}
	lines := []string{line}
	var rows [][]string
	for i := range v.Steps {
		step := &v.Steps[i]
		rows = append(rows, []string{string(step.Step), string(step.State), step.Ledger, timeText(step.At), strings.TrimSpace(string(step.Code) + " " + step.Detail)})
	}
	if err := writeLines(w, "", lines...); err != nil {
		return err
	}
	if err := (table{rows: rows, indent: "  "}).write(w); err != nil {
		return err
	}
	lines = nil
	if v.RailID != "" {
		lines = append(lines, "the rail calls it "+v.RailID)
	}
	if v.Detail != "" {
		lines = append(lines, v.Detail)
	}
	if p := v.Parking; p != nil {
		lines = append(lines, fmt.Sprintf("parking %d at %s, since %s; the money is in %s (%s)", p.Number, p.Step, timeText(p.Since), p.Account, p.Place))
	}
	return writeLines(w, "  ", append(lines, v.Notes...)...)
}
