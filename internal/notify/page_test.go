package notify_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

// The page has the receiver of example_test.go, word for word.
func TestPageOfNotifications(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/notifications.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, receiver, found := strings.Cut(string(source), "// Receive takes")
	require.True(t, found)
	require.Contains(t, string(page), "// Receive takes"+receiver)
}

// ids is a store that keeps what it was told in memory.
type ids map[string]int

func (s ids) BookOnce(id, _, _ string) error {
	if s[id] == 0 {
		s[id]++
	}
	return nil
}

func TestReceive(t *testing.T) {
	t.Parallel()
	verifier, err := standardwebhooks.NewWebhookRaw([]byte("0123456789abcdef0123456789abcdef"))
	require.NoError(t, err)
	booked := ids{}
	post := func(id, signature string, body []byte) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(body)))
		request.Header.Set("webhook-id", id)
		request.Header.Set("webhook-timestamp", strconv.FormatInt(time.Now().Unix(), 10))
		request.Header.Set("webhook-signature", signature)
		recorder := httptest.NewRecorder()
		Receive(verifier, booked)(recorder, request)
		return recorder.Code
	}
	body, err := json.Marshal(map[string]any{"type": "transfer.completed", "data": map[string]string{"id": "rent", "state": "completed"}})
	require.NoError(t, err)
	signature, err := verifier.Sign("a", time.Now(), body)
	require.NoError(t, err)
	require.Equal(t, []int{204, 204}, []int{post("a", signature, body), post("a", signature, body)})
	require.Equal(t, http.StatusBadRequest, post("b", signature, body))
	require.Equal(t, ids{"a": 1}, booked)
}
