package tests

import (
	"strings"

	"payonce/internal/faultworker/fault"
	"payonce/workflows"
)

// resumed fits the announcement that a transfer's step goes on after a fault at a point.
func resumed(point, id string) func(fault.Event) bool {
	return func(e fault.Event) bool {
		return e.Event == fault.EventResumed && e.Point.String() == point && isStepOf(e.Key, id)
	}
}

// struckBy fits the announcement that an action strikes at a point.
func struckBy(point string, action fault.Action) func(fault.Event) bool {
	return func(e fault.Event) bool {
		return e.Event == fault.EventFault && e.Point.String() == point && e.Action == action
	}
}

func isStepOf(key, id string) bool {
	return strings.HasPrefix(key, workflows.TransferWorkflowID(id)+"/")
}
