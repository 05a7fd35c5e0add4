package serve

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/ledger/postgres"
)

// newTestServer is a server with two ledgers that nothing has connected to.
func newTestServer(t *testing.T) *server {
	t.Helper()
	s := &server{
		log: slog.New(slog.DiscardHandler),
		config: Config{Version: "v1.2.3", Settings: Settings{
			PoolSize: 4,
			Ledgers:  []LedgerSetting{{"us", "postgres://app:" + password + "@127.0.0.1:1/us"}, {"eu", "postgres://app@127.0.0.1:1/eu"}},
		}},
	}
	require.NoError(t, s.openLedgers(t.Context()))
	t.Cleanup(func() { s.closeLedgers(false) })
	return s
}

func TestReadyz(t *testing.T) {
	s := newTestServer(t)
	ask := func() (int, readiness) {
		recorder := httptest.NewRecorder()
		s.readyz(recorder, nil)
		var answer readiness
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &answer))
		assert.Equal(t, recorder.Code == http.StatusOK, answer.Ready)
		return recorder.Code, answer
	}

	status, answer := ask()
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "starting", answer.State)
	require.Len(t, answer.Ledgers, 2)
	assert.Equal(t, "us", answer.Ledgers[0].Ledger)
	assert.Equal(t, "it has not been reached yet", answer.Ledgers[0].Error)

	s.state.set(stateServing)
	status, _ = ask()
	assert.Equal(t, http.StatusServiceUnavailable, status, "no ledger is in use")

	s.ledgers[1].monitor.open()
	status, answer = ask()
	assert.Equal(t, http.StatusOK, status, "one of two is in use")
	assert.False(t, answer.Ledgers[0].Open)
	assert.True(t, answer.Ledgers[1].Open)

	s.state.set(stateStopping)
	status, answer = ask()
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "stopping", answer.State)
}

func TestMetrics(t *testing.T) {
	s := newTestServer(t)
	s.ledgers[0].monitor.open()
	m, err := newMetrics(s)
	require.NoError(t, err)
	defer m.close()
	tagged := m.temporal.WithTags(map[string]string{"task_queue": "payonce-eu"})
	tagged.Counter("temporal_test").Inc(2)
	tagged.Timer("temporal_latency").Record(3_000_000)

	recorder := httptest.NewRecorder()
	m.handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	require.Equal(t, http.StatusOK, recorder.Code)
	for _, line := range []string{
		`payonce_worker_info{version="v1.2.3"} 1`,
		`payonce_worker_serving 0`,
		`payonce_ledger_open{ledger="us"} 1`,
		`payonce_ledger_open{ledger="eu"} 0`,
		`payonce_ledger_slots_limit{ledger="us"} 4`,
		`payonce_pool_connections_max{ledger="us"} 4`,
		`temporal_test_total{task_queue="payonce-eu"} 2`,
		`temporal_latency_seconds_bucket{task_queue="payonce-eu",le="0.005"} 1`,
		`temporal_latency_seconds_bucket{task_queue="payonce-eu",le="0.0025"} 0`,
		`go_goroutines`,
		`process_open_fds`,
	} {
		assert.Contains(t, recorder.Body.String(), line)
	}
	assert.NotContains(t, recorder.Body.String(), password)
}

func TestListen(t *testing.T) {
	s := newTestServer(t)
	var log strings.Builder
	s.log = slog.New(slog.NewJSONHandler(&log, nil))
	s.config.Listen = "127.0.0.1:0"
	m, err := newMetrics(s)
	require.NoError(t, err)
	defer m.close()
	closeHTTP, err := s.listen(t.Context(), m)
	require.NoError(t, err)
	var line struct {
		Address string `json:"address"`
	}
	require.NoError(t, json.Unmarshal([]byte(log.String()), &line))

	status, body := get(t.Context(), t, "http://"+line.Address+"/healthz")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "ok\n", body)
	status, _ = get(t.Context(), t, "http://"+line.Address+"/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	status, body = get(t.Context(), t, "http://"+line.Address+"/metrics")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "payonce_worker_info")
	status, _ = get(t.Context(), t, "http://"+line.Address+"/debug/pprof/")
	assert.Equal(t, http.StatusNotFound, status)

	// The same address can't be had twice.
	s.config.Listen = line.Address
	_, err = s.listen(t.Context(), m)
	require.ErrorContains(t, err, "PAYONCE_LISTEN")

	http.DefaultClient.CloseIdleConnections()
	closeHTTP()
	s.config.Listen = ""
	closeHTTP, err = s.listen(t.Context(), m)
	require.NoError(t, err)
	closeHTTP()
}

func get(ctx context.Context, t *testing.T, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(raw)
}

func TestLedgersThatAreDownAtTheStart(t *testing.T) {
	s := newTestServer(t)
	require.NoError(t, s.checkLedgers(t.Context()))
	for _, l := range s.ledgers {
		status := l.gate.status()
		assert.False(t, status.open)
		assert.ErrorContains(t, status.cause, "refused")
		assert.NotContains(t, status.cause.Error(), password)
	}
	var _ books = (*postgres.Ledger)(nil)
}
