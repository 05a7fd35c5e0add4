package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"payonce/internal/headers"
	"payonce/workflows"
)

const (
	connectTimeout  = 10 * time.Second // one try
	connectPause    = 500 * time.Millisecond
	connectPauseMax = 5 * time.Second

	// dialCallTimeout is how long one answer may take of those that a client of Dial wants. The SDK gives a call up after 10 s, and a busy
	// server takes longer for a long list.
	dialCallTimeout = time.Minute

	// A server learns of a new namespace or search attribute some seconds after it was made.
	noticeTimeout = 15 * time.Second
)

// connect connects to Temporal and checks that it has what transfers need. It tries for as long as the server can't be
// reached; the error is what no waiting helps with, or that of ctx.
func connect(ctx context.Context, options client.Options, log *slog.Logger) (client.Client, error) {
	pause := connectPause
	begun := time.Now()
	var said time.Time
	var lacking string
	var lackingSince time.Time
	for {
		c, err := tryConnect(ctx, options, log)
		if err == nil {
			return c, nil
		}
		var missing *missingError
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &missing):
			if lacking != missing.what {
				lacking, lackingSince = missing.what, time.Now()
				log.Info("waiting, in case it has only just been made", "error", missing)
			}
			if time.Since(lackingSince) > noticeTimeout {
				return nil, fmt.Errorf("temporal at %s: %w", options.HostPort, err)
			}
			pause = connectPause
		case !isOutage(err):
			return nil, fmt.Errorf("temporal at %s: %w", options.HostPort, err)
		case time.Since(said) >= time.Minute:
			said = time.Now()
			log.Warn("Temporal can't be reached; trying until it can", "address", options.HostPort,
				"for", time.Since(begun).Round(time.Second).String(), "error", err)
		}
		if !wait(ctx, jitter(pause)) {
			return nil, context.Cause(ctx)
		}
		pause = min(2*pause, connectPauseMax)
	}
}

// Dial connects to Temporal and checks that it has what transfers need. It does not wait for a server that can't be reached.
func Dial(ctx context.Context, options client.Options) (client.Client, error) {
	log := slog.New(slog.DiscardHandler)
	options.Logger = sdklog.NewStructuredLogger(log)
	options.RPCTimeout = dialCallTimeout
	c, err := tryConnect(ctx, options, log)
	if err != nil {
		return nil, fmt.Errorf("temporal at %s: %w", options.HostPort, err)
	}
	return c, nil
}

func tryConnect(ctx context.Context, options client.Options, log *slog.Logger) (client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	options.ConnectionOptions.DialOptions = append(slices.Clone(options.ConnectionOptions.DialOptions), headers.DialOption())
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := checkNamespace(ctx, c, options.Namespace, log); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// isOutage says whether waiting may help.
func isOutage(err error) bool {
	var unavailable *serviceerror.Unavailable
	var deadline *serviceerror.DeadlineExceeded
	var busy *serviceerror.ResourceExhausted
	return errors.As(err, &unavailable) || errors.As(err, &deadline) || errors.As(err, &busy) ||
		errors.Is(err, context.DeadlineExceeded)
}

// missingError is something that an operator must make in Temporal, and the command that makes it.
type missingError struct {
	what    string
	command string
}

func (e *missingError) Error() string { return e.what + "; make it with: " + e.command }

func checkNamespace(ctx context.Context, c client.Client, namespace string, log *slog.Logger) error {
	_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return namespaceError(namespace, err)
	}
	listed, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	var denied *serviceerror.PermissionDenied
	var absentAPI *serviceerror.Unimplemented
	switch {
	case errors.As(err, &denied) || errors.As(err, &absentAPI):
		// A worker's credentials need not have this right.
		log.Warn("can't see the namespace's search attributes; transfers are stuck if they are missing",
			"namespace", namespace, "needed", searchAttributes(), "error", err)
		return nil
	case err != nil:
		return namespaceError(namespace, err)
	}
	return checkSearchAttributes(namespace, listed.GetCustomAttributes())
}

// namespaceError explains an answer about a namespace. A server that has just been told of one may know it in one place
// and not yet in another.
func namespaceError(namespace string, err error) error {
	var absent *serviceerror.NamespaceNotFound
	var notFound *serviceerror.NotFound
	if errors.As(err, &absent) || errors.As(err, &notFound) {
		return &missingError{
			what:    fmt.Sprintf("there is no namespace %q", namespace),
			command: "temporal operator namespace create --namespace " + namespace,
		}
	}
	return fmt.Errorf("namespace %q: %w", namespace, err)
}

// checkSearchAttributes says whether a namespace has the search attributes that every transfer sets. Without them its
// workflow tasks fail for ever.
func checkSearchAttributes(namespace string, found map[string]enums.IndexedValueType) error {
	var missing []string
	var command strings.Builder
	command.WriteString("temporal operator search-attribute create --namespace " + namespace)
	for _, name := range searchAttributes() {
		kind, ok := found[name]
		if ok && kind != enums.INDEXED_VALUE_TYPE_KEYWORD {
			return fmt.Errorf("the search attribute %s of namespace %q has the type %s, and must have Keyword", name, namespace, kind)
		}
		if !ok {
			missing = append(missing, name)
			command.WriteString(" --name " + name + " --type Keyword")
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &missingError{
		what:    fmt.Sprintf("the namespace %q has no search attribute %s", namespace, strings.Join(missing, ", ")),
		command: command.String(),
	}
}

// searchAttributes are the names of those that transfers set, sorted.
func searchAttributes() []string {
	var names []string
	for _, key := range workflows.SearchAttributes() {
		names = append(names, key.GetName())
	}
	slices.Sort(names)
	return names
}
