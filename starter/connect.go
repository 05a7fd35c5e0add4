package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"payonce/internal/headers"
	"payonce/starter/asking"
	"payonce/starter/diagnosis"
	"payonce/starter/transfers"
)

// connect connects to Temporal, with the settings of the environment and, before them, of the flags. Close the client.
func (a *app) connect(ctx context.Context) (client.Client, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, usagef("Temporal's settings: %w", err)
	}
	if a.address != "" {
		options.HostPort = a.address
	}
	if a.namespace != "" {
		options.Namespace = a.namespace
	}
	return dial(ctx, options)
}

func dial(ctx context.Context, options client.Options) (client.Client, error) {
	if options.HostPort == "" {
		options.HostPort = client.DefaultHostPort
	}
	// What the SDK has to say reaches the user as an error.
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, headers.DialOption())
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("no answer from Temporal at %s: %w", options.HostPort, err)
	}
	return c, nil
}

// withTimeout bounds a command's work by its --timeout.
func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc, error) {
	if timeout <= 0 {
		return nil, nil, usagef("--timeout: %s is not above zero", timeout)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, &timeoutError{timeout})
	return ctx, cancel, nil
}

// withTemporal connects, bounds the work by a command's --timeout, and does it.
func (a *app) withTemporal(ctx context.Context, timeout time.Duration, work func(context.Context, client.Client) error) error {
	ctx, cancel, err := withTimeout(ctx, timeout)
	if err != nil {
		return err
	}
	defer cancel()
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	err = work(ctx, c)
	if ctx.Err() != nil && isBareTimeout(err) {
		return context.Cause(ctx)
	}
	return err
}

// isBareTimeout says whether err tells no more than that the time is up.
func isBareTimeout(err error) bool {
	var deadline *serviceerror.DeadlineExceeded
	var unanswered *asking.UnansweredError
	var pending *transfers.PendingError
	return (errors.As(err, &deadline) || errors.Is(err, context.DeadlineExceeded)) &&
		!errors.As(err, &unanswered) && !errors.As(err, &pending)
}

// ask has a worker answer a question, and tells the user what it waits for when that takes long.
func ask[Answer any](ctx context.Context, a *app, c client.Client, q asking.Question) (Answer, error) {
	q.Observe = func(ctx context.Context, workflowID string) func() {
		return a.narrate(ctx, func(ctx context.Context) string {
			return strings.Join(diagnosis.Workflow(ctx, c, workflowID, ""), "; ")
		})
	}
	return asking.Run[Answer](ctx, c, q)
}

// timeoutError is the end of a --timeout.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

// Is makes it a context.DeadlineExceeded for those who ask.
func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
