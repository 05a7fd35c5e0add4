package harness

import (
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var listening = regexp.MustCompile(`answering /metrics.* address=(\S+)`)

// Metrics reads all that a worker tells of itself, a line for each value. The worker must have been told to listen.
func (f *FaultWorker) Metrics(t testing.TB) string {
	t.Helper()
	address := listening.FindStringSubmatch(f.Log.String())
	require.NotNil(t, address, "the worker does not say where it listens")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address[1]+"/metrics", http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}
