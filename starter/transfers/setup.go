package transfers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"payonce/workflows"
)

// SearchAttributes are those that a namespace must know before a transfer is started in it: names and types.
func SearchAttributes() map[string]string {
	attributes := make(map[string]string)
	for _, key := range searchAttributes() {
		attributes[key.GetName()] = key.GetValueType().String()
	}
	return attributes
}

func searchAttributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{workflows.SearchAttributeState, workflows.SearchAttributeTransferID}
}

// SearchAttributesError says that the namespace does not know search attributes of transfers. Nothing was started.
type SearchAttributesError struct {
	Missing []string // their names
	Cause   error    // what the server said
}

func (e *SearchAttributesError) Error() string {
	var commands []string
	for _, key := range searchAttributes() {
		for _, name := range e.Missing {
			if key.GetName() == name {
				commands = append(commands, fmt.Sprintf("temporal operator search-attribute create --name %s --type %s", name, key.GetValueType()))
			}
		}
	}
	return fmt.Sprintf("the Temporal namespace lacks the search attributes %s: run, once: %s",
		strings.Join(e.Missing, ", "), strings.Join(commands, "; "))
}

func (e *SearchAttributesError) Unwrap() error { return e.Cause }

// explainStart finds out whether a start was refused for want of search attributes. The server's error does not tell that
// from other malformed requests, but a query that needs an attribute fails without it.
func (c *Client) explainStart(ctx context.Context, err error) error {
	if !isInvalidArgument(err) {
		return err
	}
	var missing []string
	for _, key := range searchAttributes() {
		_, errQuery := c.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: key.GetName() + " is not null"})
		if isInvalidArgument(errQuery) {
			missing = append(missing, key.GetName())
		}
	}
	if len(missing) == 0 {
		return err
	}
	return &SearchAttributesError{Missing: missing, Cause: err}
}

func isInvalidArgument(err error) bool {
	_, ok := errors.AsType[*serviceerror.InvalidArgument](err)
	return ok
}
