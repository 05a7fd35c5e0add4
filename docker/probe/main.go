// Probe asks a URL once and exits 0 if the answer is a success. It is the image's health check: the image has no shell
// and no HTTP client of its own.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

// timeout is below the health check's own, so that the reason is printed before the process is killed.
const timeout = 2 * time.Second

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one URL, got %d arguments", len(args))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", args[0], response.Status)
	}
	return nil
}
