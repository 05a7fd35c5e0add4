package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program starts the program, and returns where it answers.
func program(t *testing.T, stdin io.Reader, args ...string) (cmd *exec.Cmd, ready map[string]string, log *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.Command(self, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), envProgram+"=1", envToken+"=t0ken")
	cmd.Stdin = stdin
	log = &bytes.Buffer{}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err, log)
	require.NoError(t, json.Unmarshal(line, &ready))
	require.Equal(t, "ready", ready["event"])
	return cmd, ready, log
}

// TestTermination: SIGTERM ends the program in order, also while a request is held up, which is dropped.
func TestTermination(t *testing.T) {
	t.Parallel()
	plans := filepath.Join(t.TempDir(), "plans.json")
	require.NoError(t, os.WriteFile(plans, []byte(`[{"plan":{"submit":[{"do":"answer","after_ms":3600000}]}}]`), 0o600))
	cmd, ready, log := program(t, nil, "--plans", plans)

	get := func(address string) (status int, body string) {
		response, err := http.Get(address)
		require.NoError(t, err)
		defer response.Body.Close()
		raw, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(raw)
	}
	status, _ := get(ready["url"] + "/payouts/rent-7")
	require.Equal(t, 401, status, "it asks for the token")
	dropped := make(chan error, 1)
	go func() { dropped <- submit(t.Context(), ready["url"]) }()
	require.Eventually(t, func() bool {
		_, books := get(ready["control"] + "/books")
		return strings.Contains(books, `"sent":1`)
	}, 2*time.Minute, 10*time.Millisecond)

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		require.NoError(t, err, log)
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on")
	}
	require.Error(t, <-dropped)
	require.Contains(t, log.String(), "reference=rent-7")
	require.NotContains(t, log.String(), "t0ken")
}

func submit(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/payouts",
		strings.NewReader(`{"reference":"rent-7","amount":"10.00","asset":"USD/2","payee":{}}`))
	if err != nil {
		return err
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "Idempotency-Key": {`"k"`}, "Authorization": {"Bearer t0ken"},
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestItEndsWithItsInput(t *testing.T) {
	t.Parallel()
	in, write := io.Pipe()
	cmd, _, _ := program(t, in, "--until-input-ends")
	require.NoError(t, write.Close())
	require.NoError(t, cmd.Wait())
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	plans := filepath.Join(t.TempDir(), "plans.json")
	require.NoError(t, os.WriteFile(plans, []byte(`{"plan":{"outcome":"maybe"}}`), 0o600))
	none := func(string) (string, bool) { return "", false }
	for want, args := range map[string][]string{
		"unexpected argument":         {"x"},
		"unknown flag":                {"--x"},
		"no such file":                {"--plans", "/no/such.json"},
		`there is no outcome "maybe"`: {"--plans", plans},
		"listen":                      {"--listen", "nowhere"},
	} {
		err := run(t.Context(), args, none, strings.NewReader(""), io.Discard, io.Discard)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, run(t.Context(), []string{"--help"}, none, strings.NewReader(""), io.Discard, io.Discard))
}
