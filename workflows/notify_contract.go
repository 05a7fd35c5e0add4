package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"payonce/activities"
	"payonce/ledger"
)

// Whoever asks for a transfer or a payout may name endpoints to be told of its end. For each of them the end starts a
// workflow of its own, Notification, which a slow or broken endpoint holds up, and which holds up nobody:
//
//	workflow ID     NotificationWorkflowID(endpoint, workflow ID of what ended, its end)
//	input           NotificationInput
//	result          NotificationResult
//
// It promises that the endpoint is told at least once, or that a dead letter says that it could not be (level 3). It promises
// neither that the endpoint is told only once, nor in which order it hears of several ends: the workflow ID goes along, and
// is the same however often the same end is told, so that the receiver can tell.

// NotificationWorkflow is the type of the workflow that tells one endpoint of one end.
const NotificationWorkflow = "Notification"

// NotifyTaskQueue is where endpoints are told. No ledger's queue has such a name. Workers that have endpoints poll it.
const NotifyTaskQueue = TaskQueue + "-notify:"

const notificationWorkflowIDPrefix = "notify/"

// NotificationWorkflowID is the workflow ID of the notification of an endpoint about the end of a workflow:
// "notify/ops/transfer/rent/completed". No transfer and no payout has such an ID, whatever its own ID is.
func NotificationWorkflowID(endpoint, about string, end State) string {
	return notificationWorkflowIDPrefix + endpoint + "/" + about + "/" + string(end)
}

// NotifiedAbout is the workflow ID of what the notification with a workflow ID is about: "transfer/rent". ok is false for what is
// no notification's.
func NotifiedAbout(workflowID string) (about string, ok bool) {
	rest, ok := strings.CutPrefix(workflowID, notificationWorkflowIDPrefix)
	endpoint, rest, found := strings.Cut(rest, "/")
	cut := strings.LastIndexByte(rest, '/')
	if !ok || !found || cut < 1 || CheckEndpointName("", endpoint) != nil || !State(rest[cut+1:]).Ended() {
		return "", false
	}
	return rest[:cut], true
}

// StepNotify is the one step of a notification.
const StepNotify Step = "notify"

// StateDelivered is the end of a notification that the endpoint has taken. The other one is StateDiscarded.
const StateDelivered State = "delivered"

const (
	// NotifyMax bounds how many endpoints are told of one end.
	NotifyMax = 8
	// EndpointBytesMax bounds the name of an endpoint: with the longest ID, the key of its dead letter just fits.
	EndpointBytesMax = 20
)

// CheckEndpointName says whether name can name an endpoint: lower-case letters, digits and -, a letter first, at most
// EndpointBytesMax. The error is a *ledger.InvalidError for field.
func CheckEndpointName(field, name string) error {
	if len(name) > EndpointBytesMax || ledger.CheckLedgerName(field, name) != nil {
		return &ledger.InvalidError{Field: field, Reason: fmt.Sprintf("%q does not name an endpoint: use lower-case letters, digits and -, "+
			"a letter first, at most %d", ledger.ClipError(name, EndpointBytesMax), EndpointBytesMax)}
	}
	return nil
}

// checkNotify says whether names are endpoints to be told.
func checkNotify(names []string) error {
	if len(names) > NotifyMax {
		return &ledger.InvalidError{Field: "notify", Reason: fmt.Sprintf("there are %d; at most %d are told", len(names), NotifyMax)}
	}
	for i, name := range names {
		if err := CheckEndpointName("notify", name); err != nil {
			return err
		}
		if slices.Contains(names[:i], name) {
			return &ledger.InvalidError{Field: "notify", Reason: fmt.Sprintf("%q is there twice", name)}
		}
	}
	return nil
}

// NotificationInput asks for an endpoint to be told of an end.
type NotificationInput struct {
	Endpoint string `json:"endpoint"`
	// About is the workflow ID of what has ended, "transfer/rent", and End how.
	About string `json:"about"`
	End   State  `json:"end"`
	// Event is what is told, byte for byte, at each attempt; Text the same for a person.
	Event activities.NotifyEvent `json:"event"`
	Text  string                 `json:"text"`
	// Letter is what a dead letter says beside.
	Letter NotificationLetter `json:"letter"`
}

// Summary labels the notification in Temporal's web UI. It is short, whatever the transfer's ID is: Temporal refuses a long one.
func (in *NotificationInput) Summary() string { return "tell " + in.Endpoint + ": " + in.Event.Type }

// NotificationLetter is what the dead letter of a notification says of the transfer or payout that has ended.
type NotificationLetter struct {
	Transfer string            `json:"transfer"` // as its own dead letters name it
	Money    Whereabouts       `json:"money"`
	From     string            `json:"from"`
	To       string            `json:"to"`
	Memo     string            `json:"memo,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// NotificationResult is how a notification ended.
type NotificationResult struct {
	Endpoint string    `json:"endpoint"`
	About    string    `json:"about"`
	End      State     `json:"end"`
	State    State     `json:"state"` // delivered or discarded
	At       time.Time `json:"at"`
}

// NotificationStatus is where a notification stands. The query StatusQuery returns it.
type NotificationStatus struct {
	Request NotificationInput `json:"request"`
	Standing
	// Result is set when the notification has ended.
	Result *NotificationResult `json:"result,omitempty"`
}
