package devstack

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

var keyword = temporal.NewSearchAttributeKeyKeyword("Colour")

func newTemporal(t testing.TB, c TemporalConfig) *Temporal {
	t.Helper()
	if c.Log == nil {
		c.Log = testLog(t)
	}
	s, err := StartTemporal(within(t), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

func dial(t testing.TB, s *Temporal) client.Client {
	t.Helper()
	// The SDK gives a request up after 10 s, which one to a busy server may take.
	patient := &Temporal{options: s.options}
	patient.options.RPCTimeout, patient.options.ConnectionOptions.GetSystemInfoTimeout = patience, patience
	c, err := patient.dial(within(t))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// sleeper starts a workflow that no worker runs, which is all that a test of
// what the server keeps needs.
func sleeper(t testing.TB, s *Temporal, id string) {
	t.Helper()
	_, err := dial(t, s).ExecuteWorkflow(within(t), client.StartWorkflowOptions{
		ID:                    id,
		TaskQueue:             "nobody",
		TypedSearchAttributes: temporal.NewSearchAttributes(keyword.ValueSet("red")),
	}, "Sleep")
	require.NoError(t, err)
}

func requireSleeper(t testing.TB, s *Temporal, id string) {
	t.Helper()
	c := dial(t, s)
	_, err := c.DescribeWorkflow(within(t), id, "")
	require.NoError(t, err)
	eventually(t, "the workflow can be found", func() bool {
		count, err := c.CountWorkflow(within(t), &workflowservice.CountWorkflowExecutionsRequest{
			Query: "Colour = 'red' and WorkflowId = '" + id + "'",
		})
		return err == nil && count.GetCount() == 1
	})
}

func TestTemporalStartAndStop(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	s := newTemporal(t, TemporalConfig{
		Log:       log,
		UI:        true,
		Namespace: "books",
		SearchAttributes: map[string]string{
			"Colour": "Keyword", "Note": "Text", "Tries": "Int", "Share": "Double",
			"Done": "Bool", "Due": "Datetime", "Tags": "KeywordList",
		},
	})
	require.False(t, s.External())
	require.Equal(t, "books", s.Namespace)
	require.Contains(t, log.String(), "starting Temporal")
	sleeper(t, s, "one")
	requireSleeper(t, s, "one")

	resp, err := http.Get(s.UIURL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	pid, dir := s.PID(), s.dir.path
	require.NotZero(t, pid)
	require.NoError(t, s.Stop())
	require.True(t, gone(pid))
	require.NoDirExists(t, dir)
	require.Zero(t, s.PID())
	require.NoError(t, s.Stop(), "stopping again does nothing")
	require.NoError(t, s.Kill(), "killing what is down does nothing")
	require.ErrorIs(t, s.Restart(within(t)), ErrStopped)
}

func TestTemporalSideBySide(t *testing.T) {
	t.Parallel()
	servers := make([]*Temporal, 2)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			var err error
			servers[i], err = StartTemporal(within(t), TemporalConfig{Log: testLog(t), SearchAttributes: map[string]string{"Colour": "keyword"}})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	for _, s := range servers {
		require.NotNil(t, s)
		t.Cleanup(func() { require.NoError(t, s.Stop()) })
		require.Equal(t, client.DefaultNamespace, s.Namespace)
		require.Empty(t, s.UIURL)
	}
	sleeper(t, servers[0], "here alone")
	_, err := dial(t, servers[1]).DescribeWorkflow(within(t), "here alone", "")
	require.Error(t, err)
}

// TestTemporalServes runs a workflow with an update that starts it, which takes
// all parts of the server.
func TestTemporalServes(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	s := newTemporal(t, TemporalConfig{})
	c := dial(t, s)
	w := worker.New(c, "busy", worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) (string, error) {
		named := ""
		err := workflow.SetUpdateHandler(ctx, "name", func(_ workflow.Context, name string) (string, error) {
			named = name
			return "hello " + name, nil
		})
		if err != nil {
			return "", err
		}
		err = workflow.Await(ctx, func() bool { return named != "" && workflow.AllHandlersFinished(ctx) })
		return named, err
	}, workflow.RegisterOptions{Name: "Greet"})
	require.NoError(t, w.Start())
	defer w.Stop()

	start := c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: "greet", TaskQueue: "busy", WorkflowIDConflictPolicy: 1,
	}, "Greet")
	update, err := c.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions:          client.UpdateWorkflowOptions{UpdateName: "name", Args: []any{"you"}, WaitForStage: client.WorkflowUpdateStageCompleted},
	})
	require.NoError(t, err)
	var answer string
	require.NoError(t, update.Get(ctx, &answer))
	require.Equal(t, "hello you", answer)
	require.NoError(t, c.GetWorkflow(ctx, "greet", "").Get(ctx, &answer))
	require.Equal(t, "you", answer)
}

func TestTemporalCrashKeepsItsFile(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	file := filepath.Join(t.TempDir(), "deep", "temporal.db")
	colour := map[string]string{"Colour": "Keyword"}
	s := newTemporal(t, TemporalConfig{DBFile: file, SearchAttributes: colour, UI: true})
	address, ui := s.Address, s.UIURL
	sleeper(t, s, "survivor")

	for range 2 {
		pid := s.PID()
		require.NoError(t, s.Kill())
		require.True(t, gone(pid))
		_, err := net.Dial("tcp", address)
		require.Error(t, err)
		require.NoError(t, s.Restart(ctx))
		require.Equal(t, address, s.Address)
		require.Equal(t, ui, s.UIURL)
		requireSleeper(t, s, "survivor")
	}

	_, err := StartTemporal(ctx, TemporalConfig{DBFile: file})
	require.ErrorIs(t, err, ErrInUse)

	require.NoError(t, s.Stop())
	// The server takes new search attributes for new files only.
	s = newTemporal(t, TemporalConfig{DBFile: file, SearchAttributes: map[string]string{"Colour": "Keyword", "Shape": "Int"}})
	requireSleeper(t, s, "survivor")
	require.NoError(t, s.Stop())

	_, err = StartTemporal(ctx, TemporalConfig{DBFile: file, SearchAttributes: map[string]string{"Colour": "Int"}})
	require.ErrorContains(t, err, "Colour is registered as Keyword, and Int is wanted")
}

func TestTemporalRestartInMemory(t *testing.T) {
	t.Parallel()
	s := newTemporal(t, TemporalConfig{SearchAttributes: map[string]string{"Colour": "Keyword"}})
	address, pid := s.Address, s.PID()
	require.NoError(t, s.Restart(within(t)))
	require.NotEqual(t, pid, s.PID())
	require.Equal(t, address, s.Address)
	sleeper(t, s, "after")
	requireSleeper(t, s, "after")
}

func TestTemporalGivenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", hostPort(0))
	require.NoError(t, err)
	defer l.Close()
	_, digits, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	busy := number(digits)
	_, err = StartTemporal(within(t), TemporalConfig{Port: busy})
	require.ErrorContains(t, err, "is not free")
	require.NoError(t, l.Close())
	s := newTemporal(t, TemporalConfig{Port: busy})
	require.Equal(t, hostPort(busy), s.Address)
}

func TestTemporalEndsEarly(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	fake := func(body string) temporalSearch {
		dir := t.TempDir()
		script(t, filepath.Join(dir, "temporal"), `[ "$1" = --version ] && echo temporal version 0 && exit`+"\n"+body)
		return temporalSearch{path: dir}
	}
	_, err := startTemporal(ctx, TemporalConfig{}, fake("echo what a day; echo oh no >&2; exit 3"))
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "what a day\n  oh no")

	t.Run("a port is taken", func(t *testing.T) {
		t.Parallel()
		genuine, err := TemporalBinary(ctx, nil)
		require.NoError(t, err)
		tries := filepath.Join(t.TempDir(), "tries")
		search := fake(`echo "$@" >> ` + tries + `
[ $(wc -l < ` + tries + `) -gt 2 ] && exec ` + genuine + ` "$@"
echo "listen tcp 127.0.0.1:1: bind: address already in use"; exit 1`)
		s, err := startTemporal(ctx, TemporalConfig{Log: testLog(t)}, search)
		require.NoError(t, err)
		require.NoError(t, s.Stop())
		require.FileExists(t, tries)
	})
	t.Run("always", func(t *testing.T) {
		t.Parallel()
		_, err := startTemporal(ctx, TemporalConfig{}, fake("echo address already in use; exit 1"))
		require.ErrorContains(t, err, "address already in use")
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		pidFile := filepath.Join(t.TempDir(), "pid")
		search := fake("echo $$ > " + pidFile + "; exec sleep 1000")
		ended := make(chan error, 1)
		go func() {
			_, err := startTemporal(ctx, TemporalConfig{}, search)
			ended <- err
		}()
		var pid int
		eventually(t, "the server runs", func() bool {
			raw, _ := os.ReadFile(pidFile)
			pid = number(strings.TrimSpace(string(raw)))
			return pid != 0
		})
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.True(t, gone(pid))
	})
	_, err = StartTemporal(ctx, TemporalConfig{SearchAttributes: map[string]string{"Colour": "Paint"}})
	require.ErrorContains(t, err, `no type "Paint"`)
}

func TestTemporalExternal(t *testing.T) {
	ctx := within(t)
	own := newTemporal(t, TemporalConfig{})
	t.Setenv("TEMPORAL_ADDRESS", own.Address)

	c := TemporalConfig{Log: testLog(t), Namespace: "guest", SearchAttributes: map[string]string{"Colour": "Keyword"}}
	s, err := StartTemporal(ctx, c)
	require.NoError(t, err)
	require.True(t, s.External())
	require.Equal(t, own.Address, s.Address)
	require.Equal(t, "guest", s.Namespace)
	require.Empty(t, s.LogFile())
	sleeper(t, s, "guest")
	requireSleeper(t, s, "guest")
	_, err = StartTemporal(ctx, c)
	require.NoError(t, err, "there already is fine")

	require.ErrorIs(t, s.Kill(), ErrExternal)
	require.ErrorIs(t, s.Restart(ctx), ErrExternal)
	require.NoError(t, s.Stop())
	requireSleeper(t, s, "guest")

	t.Run("namespace from the environment", func(t *testing.T) {
		t.Setenv("TEMPORAL_NAMESPACE", "guest")
		s, err := StartTemporal(ctx, TemporalConfig{})
		require.NoError(t, err)
		require.Equal(t, "guest", s.Namespace)
	})
	t.Run("a type that differs", func(t *testing.T) {
		_, err := StartTemporal(ctx, TemporalConfig{Namespace: "guest", SearchAttributes: map[string]string{"Colour": "Int"}})
		require.ErrorContains(t, err, "Colour is registered as Keyword")
	})
	t.Run("nobody there", func(t *testing.T) {
		p, err := reservePort(0)
		require.NoError(t, err)
		defer p.release()
		t.Setenv("TEMPORAL_ADDRESS", p.address())
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err = StartTemporal(short, TemporalConfig{})
		require.ErrorContains(t, err, "does not answer")
		require.ErrorContains(t, err, p.address())
	})
}

func TestTemporalKeepsHomeClean(t *testing.T) {
	cache, err := os.UserCacheDir() // else Temporal would be built again
	require.NoError(t, err)
	t.Setenv("XDG_CACHE_HOME", cache)
	home := t.TempDir()
	t.Setenv("HOME", home)
	s := newTemporal(t, TemporalConfig{})
	require.NoError(t, s.Stop())
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, entries)
}
