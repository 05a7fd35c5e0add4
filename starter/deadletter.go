package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"payonce/activities"
	"payonce/ledger"
	"payonce/starter/asking"
	"payonce/starter/transfers"
	"payonce/workflows"
)

func (a *app) deadLetterCommand() *cobra.Command {
	return group("deadletter", "See and decide about the steps that were set aside after their attempts ran out",
		a.deadLetterListCommand(),
		a.deadLetterShowCommand(),
		a.deadLetterDecideCommand(workflows.ActionRetry),
		a.deadLetterDecideCommand(workflows.ActionCompensate),
		a.deadLetterDecideCommand(workflows.ActionSettle),
		a.deadLetterDecideCommand(workflows.ActionDiscard),
	)
}

// Filters of the state, beside those that a dead letter can have.
const (
	stateAll    = "all"
	stateParked = "parked" // open, and its transfer waits for a decision
)

// deadLetterFilter chooses dead letters of a ledger.
type deadLetterFilter struct {
	ledger, state, step, place, text string
	olderThan, newerThan             string
}

// deadLetterFilters are the names of the flags.
var deadLetterFilters = []string{"step", "place", "error", "older-than", "newer-than"}

func (f *deadLetterFilter) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	ledgerFlag(cmd, &f.ledger)
	flags.StringVar(&f.step, "step", "", "only this step, such as refund")
	flags.StringVar(&f.place, "place", "", "only where the money is: unknown, source, transit or destination")
	flags.StringVar(&f.text, "error", "", "only with this in the error's text, in any case, or with this error type")
	flags.StringVar(&f.olderThan, "older-than", "", "only with the last attempt longer ago than this: 90m, 36h, 7d")
	flags.StringVar(&f.newerThan, "newer-than", "", "only with the last attempt within this time")
	completeWith(cmd, "place", string(ledger.PlaceUnknown), string(ledger.PlaceSource), string(ledger.PlaceTransit), string(ledger.PlaceDestination))
	var steps []string
	for _, step := range deadLetterSteps {
		steps = append(steps, string(step))
	}
	completeWith(cmd, "step", steps...)
}

// input reads the filter's words.
func (f *deadLetterFilter) input(args []string) (in activities.DeadLetterListInput, err error) {
	if in.Ledger, err = chooseLedger(args, f.ledger); err != nil {
		return in, err
	}
	switch f.state {
	case string(ledger.DeadLetterOpen), string(ledger.DeadLetterClosed):
		in.State = ledger.DeadLetterState(f.state)
	case stateParked:
		in.State, in.Parked = ledger.DeadLetterOpen, true
	case stateAll:
	default:
		return in, usagef("state: %q is not open, parked, closed or all", f.state)
	}
	if f.step != "" && !slices.Contains(deadLetterSteps, workflows.Step(f.step)) {
		return in, usagef("step: %q is not a step, such as deposit", f.step)
	}
	in.Step = f.step
	switch place := ledger.Place(f.place); place {
	case "", ledger.PlaceUnknown, ledger.PlaceSource, ledger.PlaceTransit, ledger.PlaceDestination:
		in.Place = place
	default:
		return in, usagef("place: %q is not unknown, source, transit or destination", f.place)
	}
	in.Error = f.text
	if in.Until, err = momentBefore("older-than", f.olderThan); err != nil {
		return in, err
	}
	in.Since, err = momentBefore("newer-than", f.newerThan)
	return in, err
}

// momentBefore is the moment that lies so far back; "" is nil.
func momentBefore(field, age string) (*time.Time, error) {
	if age == "" {
		return nil, nil
	}
	ago, err := time.ParseDuration(age)
	if days, ok := strings.CutSuffix(age, "d"); ok && err != nil {
		var n int
		n, err = strconv.Atoi(days)
		ago = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || ago < 0 {
		return nil, usagef("%s: %q is not a time such as 90m, 36h or 7d", field, age)
	}
	moment := time.Now().Add(-ago)
	return &moment, nil
}

func (a *app) deadLetterListCommand() *cobra.Command {
	var filter deadLetterFilter
	var cursor string
	var limit int
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "list [LEDGER]",
		Short: "List the dead letters of a ledger, newest first",
		Long: `List the dead letters of a ledger, newest first: those that still want a person's attention, or with --state also others.
A transfer's dead letters are on the ledger that it pays from. Errors are cut here; show has them whole.

With --output json each letter is a line of its own. Its "cursor" begins another list after it: --limit and --cursor make pages.`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			in, err := filter.input(args)
			if err != nil {
				return err
			}
			if limit < 0 {
				return usagef("limit: %d is below 0", limit)
			}
			in.Cursor = cursor
			return a.deadLetterList(cmd.Context(), in, limit, timeout)
		}),
	}
	filter.register(cmd)
	cmd.Flags().StringVar(&filter.state, "state", string(ledger.DeadLetterOpen), "open, parked (open, and waiting for a decision), closed or all")
	completeWith(cmd, "state", string(ledger.DeadLetterOpen), stateParked, string(ledger.DeadLetterClosed), stateAll)
	cmd.Flags().IntVar(&limit, "limit", 0, "the most letters to list; 0 is all")
	cmd.Flags().StringVar(&cursor, "cursor", "", "begin after this place: the cursor of a letter")
	timeoutFlag(cmd, &timeout, timeoutAccount)
	return cmd
}

func (a *app) deadLetterList(ctx context.Context, in activities.DeadLetterListInput, limit int, timeout time.Duration) error {
	head := []string{"KEY", "STATE", "ATTEMPTS", "LAST ATTEMPT", "AMOUNT", "ASSET", "MONEY IS IN", "ERROR"}
	show := func(letters []activities.DeadLetterView) error {
		if a.output == outputJSON {
			for i := range letters {
				if err := a.printLine(&letters[i]); err != nil {
					return err
				}
			}
			return nil
		}
		rows := make([][]string, len(letters))
		for i := range letters {
			l := &letters[i]
			rows[i] = []string{l.Key, stateText(l), fmt.Sprint(l.Attempts), timeText(l.LastAt), l.Amount, l.Asset, l.Account, shortText(l.Error)}
		}
		err := table{head: head, rows: rows, right: []int{2, 4}}.write(a.stdout)
		head = nil
		return err
	}
	return a.withTemporal(ctx, timeout, func(ctx context.Context, c client.Client) error {
		rest, err := a.eachDeadLetter(ctx, c, in, limit, show)
		if err == nil && rest != "" {
			a.note("there are more: --cursor %s", rest)
		}
		if err != nil {
			a.noteWaiting(ctx, c)
		}
		return err
	})
}

// eachDeadLetter has page called with each page of a list, up to limit letters; 0 is no limit. rest is the cursor for what it
// has left out.
func (a *app) eachDeadLetter(ctx context.Context, c client.Client, in activities.DeadLetterListInput, limit int,
	page func([]activities.DeadLetterView) error,
) (rest string, err error) {
	for {
		in.Limit = activities.DeadLetterPageMax
		if limit > 0 {
			in.Limit = min(in.Limit, limit)
		}
		list, err := a.askDeadLetters(ctx, c, in)
		if err != nil {
			return "", err
		}
		if err := page(list.DeadLetters); err != nil {
			return "", err
		}
		if list.Next == "" {
			return "", nil
		}
		if limit > 0 {
			if limit -= len(list.DeadLetters); limit == 0 {
				return list.Next, nil
			}
		}
		in.Cursor = list.Next
	}
}

func (a *app) askDeadLetters(ctx context.Context, c client.Client, in activities.DeadLetterListInput) (activities.DeadLetterList, error) {
	return ask[activities.DeadLetterList](ctx, a, c, asking.Question{
		Workflow: workflows.DeadLetterListWorkflow, Name: "deadletter-list/" + in.Ledger, Input: in,
	})
}

// waitingMax bounds how many transfers are named that wait for a ledger.
const waitingMax = 20

// noteWaiting tells what Temporal itself knows when a ledger does not answer: the transfers that are parked, and those that
// have ended and wait to write their dead letters.
func (a *app) noteWaiting(ctx context.Context, c client.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutWaiting)
	defer cancel()
	waiting, err := transfers.New(c, transfers.Options{}).Waiting(ctx, waitingMax)
	if err != nil {
		a.note("nor could Temporal be asked which transfers wait: %v", err)
		return
	}
	for _, one := range waiting {
		a.note("Temporal knows of %q: %s", one.ID, one.State)
	}
	if len(waiting) == waitingMax {
		a.note("and maybe of more")
	}
}

const timeoutWaiting = 3 * time.Second

// deadLetterSteps are the steps that can be set aside.
var deadLetterSteps = []workflows.Step{
	workflows.StepPost, workflows.StepWithdraw, workflows.StepDeposit, workflows.StepRefund,
	workflows.StepResolvePost, workflows.StepResolveWithdraw, workflows.StepResolveDeposit, workflows.StepResolveRefund,
	workflows.StepReserve, workflows.StepSubmit, workflows.StepSettle, workflows.StepReturn, workflows.StepBounce, workflows.StepResolveReserve,
	workflows.StepNotify,
}

// What dead letters are of.
const (
	ofTransfer     = "transfer"
	ofPayout       = "payout"
	ofNotification = "notification"
)

// letterName is what a person calls a dead letter by.
type letterName struct {
	what string         // ofTransfer, ofPayout or ofNotification
	id   string         // of the transfer or payout; the workflow's of a notification
	step workflows.Step // "" if it was no key
}

// deadLetterName reads a dead letter's key, a transfer's ID, or a payout's as "payout/ID".
func deadLetterName(name string) letterName {
	whole, step := name, workflows.Step("")
	if cut := strings.LastIndexByte(name, '/'); cut > 0 && slices.Contains(deadLetterSteps, workflows.Step(name[cut+1:])) {
		whole, step = name[:cut], workflows.Step(name[cut+1:])
	}
	if _, ok := workflows.NotifiedAbout(whole); ok && step == workflows.StepNotify {
		return letterName{what: ofNotification, id: whole, step: step}
	}
	if id, ok := strings.CutPrefix(whole, workflows.PayoutWorkflowID("")); ok && id != "" {
		return letterName{what: ofPayout, id: id, step: step}
	}
	if id, ok := strings.CutPrefix(whole, workflows.TransferWorkflowID("")); ok && id != "" && step != "" {
		return letterName{what: ofTransfer, id: id, step: step}
	}
	return letterName{what: ofTransfer, id: name}
}

// workflowID is that of what the dead letter is of.
func (n *letterName) workflowID() string {
	switch n.what {
	case ofPayout:
		return workflows.PayoutWorkflowID(n.id)
	case ofNotification:
		return n.id
	default:
		return workflows.TransferWorkflowID(n.id)
	}
}

// letters is what the dead letters call the transfer or payout. Those of a notification are among those of what it tells of.
func (n *letterName) letters() string {
	switch n.what {
	case ofPayout:
		return n.workflowID()
	case ofNotification:
		about, _ := workflows.NotifiedAbout(n.id)
		return strings.TrimPrefix(about, workflows.TransferWorkflowID(""))
	default:
		return n.id
	}
}

// String is "transfer "rent"" or "payout "rent"".
func (n *letterName) String() string { return fmt.Sprintf("%s %q", n.what, n.id) }

// letterSubject is where the transfer, payout or notification of a dead letter stands.
type letterSubject struct {
	from    string
	state   workflows.State
	parking *workflows.Parking
	ended   bool
}

// subject asks where it stands.
func (n *letterName) subject(ctx context.Context, payments *transfers.Client) (letterSubject, error) {
	switch n.what {
	case ofPayout:
		status, err := payments.PayoutStatus(ctx, n.id)
		return letterSubject{from: status.Request.From, state: status.State, parking: status.Parking, ended: status.Ended()}, err
	case ofNotification:
		status, err := payments.NotificationStatus(ctx, n.id)
		return letterSubject{from: status.Request.Letter.From, state: status.State, parking: status.Parking, ended: status.Result != nil}, err
	}
	status, err := payments.Status(ctx, n.id)
	return letterSubject{from: status.Request.From, state: status.State, parking: status.Parking, ended: status.Ended()}, err
}

// decide tells what is parked what was decided, and returns its state.
func (n *letterName) decide(ctx context.Context, payments *transfers.Client, decision workflows.Decision) (workflows.State, error) {
	switch n.what {
	case ofPayout:
		status, err := payments.DecidePayout(ctx, n.id, decision)
		return status.State, err
	case ofNotification:
		status, err := payments.DecideNotification(ctx, n.id, decision)
		return status.State, err
	}
	status, err := payments.Decide(ctx, n.id, decision)
	return status.State, err
}

// deadLettersOf reads the dead letters that a key or a transfer's ID names, newest first, and the ledger that they are on.
func (a *app) deadLettersOf(ctx context.Context, c client.Client, name, ledgerName string) ([]activities.DeadLetterView, string, error) {
	n := deadLetterName(name)
	if ledgerName == "" {
		var err error
		if ledgerName, err = sourceLedger(ctx, transfers.New(c, transfers.Options{}), &n); err != nil {
			return nil, "", err
		}
	}
	list, err := a.askDeadLetters(ctx, c, activities.DeadLetterListInput{Ledger: ledgerName, Transfer: n.letters(), Step: string(n.step)})
	letters := list.DeadLetters
	if n.what == ofNotification {
		// Several may tell of the same end.
		key := workflows.StepKey(n.id, n.step)
		letters = slices.DeleteFunc(letters, func(letter activities.DeadLetterView) bool { return letter.Key != key })
	}
	return letters, ledgerName, err
}

// checkDeadLetterName checks the argument and the flag that name a dead letter.
func checkDeadLetterName(name, ledgerName string) error {
	if err := ledger.CheckID("key or transfer ID", name, ledger.KeyBytesMax); err != nil {
		return err
	}
	if ledgerName == "" {
		return nil
	}
	return ledger.CheckLedgerName("ledger", ledgerName)
}

func stateText(l *activities.DeadLetterView) string {
	if l.Parked {
		return stateParked
	}
	return string(l.State)
}

// shortText keeps a line of a table readable.
func shortText(s string) string {
	const runesMax = 200
	if runes := []rune(s); len(runes) > runesMax {
		return string(runes[:runesMax]) + " …"
	}
	return s
}

func writeLines(w io.Writer, indent string, lines ...string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, indent+oneLine(line)); err != nil {
			return err
		}
	}
	return nil
}
