package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"
)

// temporalSettings are the dynamic settings that a server with one history
// shard and few pollers needs to be quick.
var temporalSettings = []string{
	// The default, 20, adds 50 ms to each task.
	"history.transferProcessorMaxPollRPS=2000",
	// With four partitions, a task waits up to 2 s on one that nobody polls.
	"matching.numTaskqueueReadPartitions=1",
	"matching.numTaskqueueWritePartitions=1",
}

const (
	// prepareTimeout bounds one look at whether the server is ready, which asks it
	// for half a dozen things: one that is busy may take seconds for each.
	prepareTimeout = 30 * time.Second

	// connectTemporalTimeout is how long a server of ours may take for its first answer.
	connectTemporalTimeout = 15 * time.Second
)

// TemporalConfig describes a Temporal server to start. The zero value is a
// server that keeps nothing.
type TemporalConfig struct {
	// Log gets a line for each thing that takes a while. Nil: nowhere.
	Log io.Writer

	// UI runs the web UI too.
	UI bool

	// DBFile keeps the server's state, and is made if it is absent. Empty: in
	// memory, gone with the server's process, so after a Kill too.
	DBFile string

	// Namespace is made if it is absent. Empty: TEMPORAL_NAMESPACE for an
	// external server, and otherwise "default".
	Namespace string

	// SearchAttributes are registered if they are absent, names and types:
	// Keyword, Text, Int, Double, Bool, Datetime, KeywordList.
	SearchAttributes map[string]string

	// Settings are further dynamic settings, each NAME=VALUE with a JSON value.
	// An external server keeps its own.
	Settings []string

	// Port and UIPort are the ports to listen on. 0: free ones.
	Port, UIPort int
}

// Temporal is a Temporal server: one of our own, or the one that
// TEMPORAL_ADDRESS names. Its methods may be called from several goroutines.
type Temporal struct {
	// Address is the frontend's host:port.
	Address string
	// Namespace is the namespace to use.
	Namespace string
	// UIURL is the web UI's address, empty without one and for an external server.
	UIURL string

	external bool
	log      io.Writer
	options  client.Options // how to connect

	mu      sync.Mutex
	config  TemporalConfig
	binary  string
	dir     *workdir // log, and home for what the server writes unasked
	db      *os.File // the lock beside DBFile; nil without one
	ports   temporalPorts
	server  *child // nil before the first start
	stopped bool
}

// temporalPorts are the ports of a server. Those of its inner services it
// chooses itself, anew at each start.
type temporalPorts struct{ frontend, http, metrics, ui *port }

// StartTemporal starts a Temporal development server, and returns when it
// serves: workflows can be started in the namespace, with the search attributes.
// The context bounds the start alone. If TEMPORAL_ADDRESS is set, the server
// there gets the namespace and the search attributes that it lacks, and is
// reached with the settings for TLS and API keys of Temporal's envconfig.
//
// Errors: [ErrInUse] when another process uses DBFile, and [ErrNoTemporal],
// with what to install, when there is no server to run. Nothing is left behind
// after an error. See [TemporalBinary] for what the first start on a machine
// may take.
func StartTemporal(ctx context.Context, c TemporalConfig) (*Temporal, error) {
	if address := os.Getenv("TEMPORAL_ADDRESS"); address != "" {
		return useTemporal(ctx, address, c)
	}
	return startTemporal(ctx, c, defaultTemporalSearch())
}

func useTemporal(ctx context.Context, address string, c TemporalConfig) (*Temporal, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, fmt.Errorf("settings for Temporal at TEMPORAL_ADDRESS: %w", err)
	}
	options.HostPort = address
	if c.Namespace != "" {
		options.Namespace = c.Namespace
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	t := &Temporal{Address: address, Namespace: options.Namespace, external: true, log: c.Log, config: c, options: options}
	logf(c.Log, "using Temporal at %s, from TEMPORAL_ADDRESS", address)
	if err := t.awaitAnswer(ctx); err != nil {
		return nil, fmt.Errorf("Temporal at %s, from TEMPORAL_ADDRESS, does not answer: %w", address, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	if err := t.awaitReady(ctx, nil); err != nil {
		return nil, fmt.Errorf("Temporal at %s, from TEMPORAL_ADDRESS: %w", address, err)
	}
	return t, nil
}

// awaitAnswer returns when an external server answers. One that is not there is
// not waited for as long as one that is still getting ready.
func (t *Temporal) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var last error
	err := poll(ctx, func() (bool, error) {
		var c client.Client
		if c, last = t.dial(ctx); last == nil {
			c.Close()
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func (t *Temporal) dial(ctx context.Context) (client.Client, error) {
	options := t.options
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	return client.DialContext(ctx, options)
}

func startTemporal(ctx context.Context, c TemporalConfig, search temporalSearch) (_ *Temporal, err error) {
	if !supported {
		return nil, fmt.Errorf("running Temporal on this system: %w: set TEMPORAL_ADDRESS to a running one", errors.ErrUnsupported)
	}
	if c.Namespace == "" {
		c.Namespace = client.DefaultNamespace
	}
	if _, err := attributeTypes(c.SearchAttributes); err != nil {
		return nil, err
	}
	t := &Temporal{Namespace: c.Namespace, log: c.Log, config: c}
	if t.binary, err = search.find(ctx, c.Log); err != nil {
		return nil, err
	}
	begun := time.Now()
	if t.dir, err = openWorkdir("", nil, c.Log); err != nil {
		return nil, fmt.Errorf("folder for Temporal: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Stop())
		}
	}()
	if err := t.lockDB(); err != nil {
		return nil, err
	}

	const attemptsMax = 5
	for attempt := 1; ; attempt++ {
		if err := t.reserve(); err != nil {
			return nil, err
		}
		logf(c.Log, "starting Temporal from %s on %s", t.binary, t.Address)
		err := t.launch(ctx)
		if err == nil {
			logf(c.Log, "Temporal is ready (%s)", time.Since(begun).Round(10*time.Millisecond))
			return t, nil
		}
		if !portTaken(err) || attempt == attemptsMax {
			return nil, err
		}
		t.release()
	}
}

// lockDB keeps other processes away from the file: two servers on it would not
// notice each other.
func (t *Temporal) lockDB() error {
	if t.config.DBFile == "" {
		return nil
	}
	path, err := filepath.Abs(t.config.DBFile)
	if err != nil {
		return err
	}
	t.config.DBFile = path
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if t.db, err = os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if ok, err := tryLock(t.db); err != nil || !ok {
		if err == nil {
			err = fmt.Errorf("%w: a Temporal server runs on %s already", ErrInUse, path)
		}
		return err
	}
	return nil
}

func (t *Temporal) reserve() error {
	for _, want := range []struct {
		port   **port
		number int
		needed bool
	}{
		{&t.ports.frontend, t.config.Port, true},
		{&t.ports.http, 0, true},
		{&t.ports.metrics, 0, true},
		{&t.ports.ui, t.config.UIPort, t.config.UI},
	} {
		if !want.needed {
			continue
		}
		var err error
		if *want.port, err = reservePort(want.number); err != nil {
			return fmt.Errorf("port for Temporal: %w", err)
		}
	}
	t.Address = t.ports.frontend.address()
	if t.config.UI {
		t.UIURL = "http://" + t.ports.ui.address()
	}
	t.options = client.Options{
		HostPort: t.Address, Namespace: t.Namespace,
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: connectTemporalTimeout},
	}
	return nil
}

func (t *Temporal) release() {
	for _, p := range []*port{t.ports.frontend, t.ports.http, t.ports.metrics, t.ports.ui} {
		p.release()
	}
}

func (t *Temporal) args() []string {
	args := []string{
		"server", "start-dev",
		"--ip", loopback,
		"--port", strconv.Itoa(t.ports.frontend.number),
		"--http-port", strconv.Itoa(t.ports.http.number),
		"--metrics-port", strconv.Itoa(t.ports.metrics.number),
		"--namespace", t.Namespace,
		"--log-level", "error",
	}
	if t.config.UI {
		args = append(args, "--ui-port", strconv.Itoa(t.ports.ui.number))
	} else {
		args = append(args, "--headless")
	}
	if t.config.DBFile != "" {
		args = append(args, "--db-filename", t.config.DBFile)
	}
	for _, setting := range slices.Concat(temporalSettings, t.config.Settings) {
		args = append(args, "--dynamic-config-value", setting)
	}
	for _, name := range sortedKeys(t.config.SearchAttributes) {
		args = append(args, "--search-attribute", name+"="+t.config.SearchAttributes[name])
	}
	return args
}

// launch starts the server on its ports and returns when it is ready.
func (t *Temporal) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("Temporal is not ready after %s", startTimeout))
	defer cancel()
	lock, err := t.dir.lockServer(ctx, t.log)
	if err != nil {
		return err
	}
	defer lock.Close()
	server, err := startChild(childConfig{
		name: "Temporal",
		path: t.binary,
		args: t.args(),
		// A home of its own: the server writes a file there, and the CLI would read
		// settings for clients that are none of the server's business.
		env:         environment("HOME=" + t.dir.path),
		dir:         t.dir.path,
		logPath:     t.LogFile(),
		deathSignal: syscall.SIGKILL,
		lock:        lock,
	})
	if err != nil {
		return err
	}
	if err := t.awaitReady(ctx, server); err != nil {
		return errors.Join(err, server.end(context.Background()))
	}
	t.server = server
	return nil
}

// awaitReady returns when workflows can be started, or when the server (nil:
// an external one) ends.
func (t *Temporal) awaitReady(ctx context.Context, server *child) error {
	var last error
	err := poll(ctx, func() (bool, error) {
		if server != nil && !server.alive() {
			return false, server.exit()
		}
		last = t.prepare(ctx)
		if fatal, ok := errors.AsType[*attributeError](last); ok {
			return false, fatal
		}
		if server == nil && permanent(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && last != nil && !errors.Is(err, last) && (server == nil || server.alive()) {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// permanent reports whether waiting will not help.
func permanent(err error) bool {
	_, denied := errors.AsType[*serviceerror.PermissionDenied](err)
	_, invalid := errors.AsType[*serviceerror.InvalidArgument](err)
	return denied || invalid
}

// prepare connects and passes through each part of the server once. An error
// says what is not ready yet.
func (t *Temporal) prepare(ctx context.Context) error {
	if !t.external {
		// A look at the port costs less than a client that has to wait for it.
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.Address)
		if err != nil {
			return err
		}
		conn.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("health: %w", err)
	}
	if err := t.prepareNamespace(ctx, c); err != nil {
		return fmt.Errorf("namespace %s: %w", t.Namespace, err)
	}
	if err := t.prepareAttributes(ctx, c); err != nil {
		return fmt.Errorf("search attributes: %w", err)
	}

	const nobody = "payonce-devstack-probe"
	_, err = c.DescribeWorkflow(ctx, nobody, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); !ok {
		return fmt.Errorf("history service: %w", err)
	}
	if _, err := c.DescribeTaskQueue(ctx, nobody, enums.TASK_QUEUE_TYPE_WORKFLOW); err != nil {
		return fmt.Errorf("matching service: %w", err)
	}
	return nil
}

func (t *Temporal) prepareNamespace(ctx context.Context, c client.Client) error {
	service := c.WorkflowService()
	_, err := service.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace})
	if _, absent := errors.AsType[*serviceerror.NamespaceNotFound](err); !absent {
		return err
	}
	_, err = service.RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        t.Namespace,
		WorkflowExecutionRetentionPeriod: durationpb.New(72 * time.Hour),
	})
	if _, exists := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); err != nil && !exists {
		return err
	}
	return errors.New("just made")
}

// attributeError is a search attribute that can't be had, however long we wait.
type attributeError struct{ reason string }

func (e *attributeError) Error() string { return e.reason }

// prepareAttributes adds the search attributes that are absent, and has the
// server use them all in a query: only then are they in force.
func (t *Temporal) prepareAttributes(ctx context.Context, c client.Client) error {
	wanted, err := attributeTypes(t.config.SearchAttributes)
	if err != nil {
		return err
	}
	service := c.OperatorService()
	listed, err := service.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: t.Namespace})
	if err != nil {
		return err
	}
	absent := make(map[string]enums.IndexedValueType)
	for name, kind := range wanted {
		switch found, ok := listed.GetCustomAttributes()[name]; {
		case !ok:
			absent[name] = kind
		case found != kind:
			return &attributeError{fmt.Sprintf("the search attribute %s is registered as %s, and %s is wanted", name, found, kind)}
		}
	}
	if len(absent) > 0 {
		_, err := service.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace:        t.Namespace,
			SearchAttributes: absent,
		})
		if _, exists := errors.AsType[*serviceerror.AlreadyExists](err); err != nil && !exists {
			return err
		}
	}
	// Also without attributes: the answer takes the namespace to be in force.
	var terms []string
	for _, name := range sortedKeys(t.config.SearchAttributes) {
		terms = append(terms, "`"+name+"` is not null")
	}
	_, err = c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: strings.Join(terms, " and ")})
	if invalid, ok := errors.AsType[*serviceerror.InvalidArgument](err); ok {
		// Not as permanent as the error's type says: they spread with a delay.
		return fmt.Errorf("not in force yet: %s", invalid.Message)
	}
	return err
}

func attributeTypes(names map[string]string) (map[string]enums.IndexedValueType, error) {
	types := make(map[string]enums.IndexedValueType, len(names))
	for name, kind := range names {
		for known, number := range enums.IndexedValueType_shorthandValue {
			if strings.EqualFold(known, kind) {
				types[name] = enums.IndexedValueType(number)
			}
		}
		if types[name] == enums.INDEXED_VALUE_TYPE_UNSPECIFIED {
			return nil, &attributeError{fmt.Sprintf("the search attribute %s has no type %q: "+
				"there are Keyword, Text, Int, Double, Bool, Datetime and KeywordList", name, kind)}
		}
	}
	return types, nil
}

// External reports whether the server is one that TEMPORAL_ADDRESS names.
func (t *Temporal) External() bool { return t.external }

// LogFile returns the path of the server's log, which Stop removes. Empty for
// an external server.
func (t *Temporal) LogFile() string {
	if t.external {
		return ""
	}
	return filepath.Join(t.dir.path, "temporal.log")
}

// PID returns the process ID of our server, 0 while it is down and for an
// external one.
func (t *Temporal) PID() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.server.alive() {
		return 0
	}
	return t.server.pid
}

// Kill ends the server without warning. Its ports stay reserved; without a
// DBFile, all workflows are gone. Killing a server that is down does nothing.
// [ErrExternal] for an external server.
func (t *Temporal) Kill() error {
	if t.external {
		return ErrExternal
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.server.end(context.Background())
}

// Restart starts the server again after a Kill or a crash of its own, on the
// same ports and the same DBFile; one that runs is shut down first. It returns
// when the server serves. [ErrExternal] for an external server, [ErrStopped]
// after Stop.
func (t *Temporal) Restart(ctx context.Context) error {
	if t.external {
		return ErrExternal
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return ErrStopped
	}
	if err := t.server.end(ctx, t.goodbye()...); err != nil {
		return err
	}
	logf(t.log, "restarting Temporal on %s", t.Address)
	const attemptsMax = 5
	for attempt := 1; ; attempt++ {
		// Its inner services may have met a port that was taken meanwhile.
		err := t.launch(ctx)
		if !portTaken(err) || attempt == attemptsMax {
			return err
		}
	}
}

// goodbye is how the server is shut down: with notice, if it has a file to keep.
func (t *Temporal) goodbye() []farewell {
	if t.config.DBFile == "" {
		return nil
	}
	return []farewell{{syscall.SIGTERM, 15 * time.Second}}
}

// Stop shuts the server down. An external server is left alone. Safe to call
// twice.
func (t *Temporal) Stop() error {
	if t == nil || t.external {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil
	}
	t.stopped = true
	err := t.server.end(context.Background(), t.goodbye()...)
	t.release()
	if t.db != nil {
		t.db.Close()
	}
	return errors.Join(err, t.dir.close())
}
