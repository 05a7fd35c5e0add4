package tests

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/activities"
	"payonce/tests/harness"
)

// deadLetters reads the lines of `starter deadletter list`.
func deadLetters(t *testing.T, result *harness.Result) []activities.DeadLetterView {
	t.Helper()
	require.Equal(t, exitDone, result.Code)
	letters := []activities.DeadLetterView{}
	for line := range strings.Lines(result.Stdout) {
		var letter activities.DeadLetterView
		require.NoError(t, json.Unmarshal([]byte(line), &letter), line)
		letters = append(letters, letter)
	}
	return letters
}

// deadLetterStory reads what `starter deadletter show` says of one letter.
func deadLetterStory(t *testing.T, result *harness.Result) activities.DeadLetterStory {
	t.Helper()
	require.Equal(t, exitDone, result.Code)
	var stories struct {
		DeadLetters []activities.DeadLetterStory `json:"dead_letters"`
	}
	result.Decode(t, &stories)
	require.Len(t, stories.DeadLetters, 1)
	return stories.DeadLetters[0]
}

// actionsOf is what happened to a letter: "set-aside", "retry by carol: why".
func actionsOf(story *activities.DeadLetterStory) []string {
	var actions []string
	for _, action := range story.Actions {
		text := action.Action
		if action.By != "" {
			text += " by " + action.By
		}
		if action.Reason != "" {
			text += ": " + action.Reason
		}
		actions = append(actions, text)
	}
	return actions
}
