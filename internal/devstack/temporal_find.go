package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
)

const (
	// temporalVersion is the CLI that we build. Later ones can't be installed
	// with plain Go: their go.mod has replace directives.
	temporalVersion = "v1.5.1"
	temporalPackage = "github.com/temporalio/cli/cmd/temporal"

	temporalInstall = "install Temporal's CLI (macOS: brew install temporal; elsewhere: https://docs.temporal.io/cli) " +
		"or Go, to build it, or set TEMPORAL_ADDRESS to a running server"
)

// temporalSearch is where Temporal's CLI is looked for.
type temporalSearch struct {
	path     string // a PATH, to find temporal on, and go
	cacheDir func() (string, error)
	download func(ctx context.Context, dir string) (path string, err error)
}

func defaultTemporalSearch() temporalSearch {
	return temporalSearch{
		path:     os.Getenv("PATH"),
		cacheDir: func() (string, error) { return cacheDir(nil) },
		download: downloadTemporal,
	}
}

// TemporalBinary returns the path of Temporal's CLI. The first of these: the
// one on PATH; one in our cache folder; one that Go installed; the one that the
// SDK downloads; one built from source. The last takes about 5 minutes on two
// cores, once: several processes at a time build it once, and log (nil:
// nowhere) is told how it goes. [ErrNoTemporal] when none can be had.
func TemporalBinary(ctx context.Context, log io.Writer) (string, error) {
	return defaultTemporalSearch().find(ctx, log)
}

func (s temporalSearch) find(ctx context.Context, log io.Writer) (string, error) {
	for _, file := range executables(s.path, "temporal") {
		if isTemporal(ctx, file) {
			return file, nil
		}
	}
	cache, err := s.cacheDir()
	if err != nil {
		return "", err
	}
	built := filepath.Join(cache, "temporal-"+temporalVersion)
	downloaded := filepath.Join(cache, "temporal-sdk-"+temporal.SDKVersion)
	cached := func() (string, bool) {
		for _, file := range []string{built, downloaded} {
			if executable(file) && isTemporal(ctx, file) {
				return file, true
			}
		}
		return "", false
	}
	if file, ok := cached(); ok {
		return file, nil
	}
	if file, ok := s.installedByGo(ctx); ok {
		return file, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}

	lock, err := lockCache(ctx, cache, "temporal", log)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if file, ok := cached(); ok {
		return file, nil
	}
	dir, err := stage(cache, "temporal")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)

	stop := heartbeat(log, "no Temporal CLI on this machine: downloading one, once")
	file, errDownload := s.download(ctx, dir)
	stop()
	if errDownload == nil {
		return s.keep(ctx, file, downloaded)
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	logf(log, "downloading Temporal's CLI: %v", errDownload)
	file, errBuild := s.build(ctx, dir, log)
	if errBuild == nil {
		return s.keep(ctx, file, built)
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return "", fmt.Errorf("%w (downloading it: %w; building it: %w): %s", ErrNoTemporal, errDownload, errBuild, temporalInstall)
}

// keep puts a file that works in its place in the cache.
func (s temporalSearch) keep(ctx context.Context, file, place string) (string, error) {
	if !isTemporal(ctx, file) {
		return "", fmt.Errorf("%w: what was fetched does not run: %s", ErrNoTemporal, temporalInstall)
	}
	if err := os.Chmod(file, 0o755); err != nil {
		return "", err
	}
	return place, os.Rename(file, place)
}

func isTemporal(ctx context.Context, file string) bool {
	out, err := output(ctx, nil, file, "--version")
	return err == nil && strings.HasPrefix(out, "temporal version")
}

// installedByGo looks where go install puts programs.
func (s temporalSearch) installedByGo(ctx context.Context) (string, bool) {
	var dirs []string
	if dir := os.Getenv("GOBIN"); dir != "" {
		dirs = append(dirs, dir)
	}
	paths := os.Getenv("GOPATH")
	for _, goTool := range executables(s.path, "go") {
		// Asked, as settings made with go env -w are not in the environment.
		if out, err := output(ctx, nil, goTool, "env", "GOBIN", "GOPATH"); err == nil {
			gobin, gopath, _ := strings.Cut(strings.TrimRight(out, "\n"), "\n")
			dirs, paths = append(dirs, gobin), gopath
			break
		}
	}
	if paths == "" {
		if home, err := os.UserHomeDir(); err == nil {
			paths = filepath.Join(home, "go")
		}
	}
	for _, dir := range filepath.SplitList(paths) {
		dirs = append(dirs, filepath.Join(dir, "bin"))
	}
	for _, file := range executables(strings.Join(dirs, string(filepath.ListSeparator)), "temporal") {
		if isTemporal(ctx, file) {
			return file, true
		}
	}
	return "", false
}

// downloadTemporal has the SDK download the CLI into a folder that is empty.
func downloadTemporal(ctx context.Context, dir string) (string, error) {
	const (
		patience = 15 * time.Second // to begin with
		timeout  = 5 * time.Minute  // to be done
	)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done after %s", timeout))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		// The SDK downloads the CLI in order to run a server. Ours are to end with
		// us, which its own are not: so it gets to run the CLI's help text.
		_, err := testsuite.StartDevServer(ctx, testsuite.DevServerOptions{
			CachedDownload: testsuite.CachedDownload{DestDir: dir},
			ClientOptions:  &client.Options{Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))},
			ExtraArgs:      []string{"--help"},
			Stdout:         io.Discard,
			Stderr:         io.Discard,
		})
		if err == nil {
			err = errors.New("the help text has become a server")
		}
		ended <- err
	}()
	begun := time.Now()
	var file string
	err := poll(ctx, func() (bool, error) {
		complete, _ := filepath.Glob(filepath.Join(dir, "temporal-cli-go-sdk-*"))
		if len(complete) > 0 {
			file = complete[0]
			return true, nil
		}
		select {
		case err := <-ended:
			return false, err
		default:
		}
		entries, err := os.ReadDir(dir)
		if err == nil && len(entries) == 0 && time.Since(begun) > patience {
			err = fmt.Errorf("nothing has come in %s", patience)
		}
		return false, err
	})
	return file, err
}

// build has Go build the CLI into a folder that is empty.
func (s temporalSearch) build(ctx context.Context, dir string, log io.Writer) (string, error) {
	tools := executables(s.path, "go")
	if len(tools) == 0 {
		return "", errors.New("there is no Go on PATH")
	}
	goTool := tools[0]
	env, err := buildEnvironment(ctx, goTool, dir)
	if err != nil {
		return "", err
	}
	stop := heartbeat(log, fmt.Sprintf("building Temporal's CLI %s from source (about 5 minutes, once)", temporalVersion))
	defer stop()
	begun := time.Now()
	install, err := startChild(childConfig{
		name:        "go install",
		path:        goTool,
		args:        []string{"install", temporalPackage + "@" + temporalVersion},
		env:         env,
		dir:         dir,
		logPath:     filepath.Join(dir, "build.log"),
		deathSignal: syscall.SIGINT,
	})
	if err != nil {
		return "", err
	}
	if err := install.wait(ctx); err != nil {
		return "", errors.Join(err, install.end(context.Background(), farewell{syscall.SIGINT, 5 * time.Second}))
	}
	if install.code != 0 {
		return "", install.exit()
	}
	logf(log, "built Temporal's CLI in %s", time.Since(begun).Round(time.Second))
	return filepath.Join(dir, "temporal"), nil
}

// buildEnvironment returns our environment without what would make go install
// of another module fail, or put the result elsewhere than in dir.
func buildEnvironment(ctx context.Context, goTool, dir string) ([]string, error) {
	out, err := output(ctx, nil, goTool, "env", "GOFLAGS", "GOCACHE", "GOPATH")
	if err != nil {
		return nil, err
	}
	lines := append(strings.Split(out, "\n"), "", "", "")
	flags := []string{"-buildvcs=false"} // never empty, which would bring back what go env -w set
	for flag := range strings.FieldsSeq(lines[0]) {
		if name := strings.TrimLeft(flag, "-"); !strings.HasPrefix(name, "mod=") && !strings.HasPrefix(name, "modfile=") {
			flags = append(flags, flag)
		}
	}
	env := append(without(os.Environ(), "GOFLAGS=", "GOBIN=", "GOOS=", "GOARCH=", "GOWORK=", "GO111MODULE="),
		"GOBIN="+dir,
		"GOOS="+runtime.GOOS,
		"GOARCH="+runtime.GOARCH,
		"GOWORK=off",
		"GO111MODULE=on",
	)
	// A user without a home has no place for Go's own caches either.
	if !writable(lines[1]) {
		env = append(env, "GOCACHE="+filepath.Join(dir, "gocache"))
	}
	if gopath, _, _ := strings.Cut(lines[2], string(filepath.ListSeparator)); !writable(gopath) && os.Getenv("GOMODCACHE") == "" {
		env = append(env, "GOPATH="+filepath.Join(dir, "gopath"), "GOMODCACHE=")
		flags = append(flags, "-modcacherw") // or it could not be removed
	}
	return append(env, "GOFLAGS="+strings.Join(flags, " ")), nil
}

// writable reports whether files can be made in a folder, which is made if it
// is absent.
func writable(dir string) bool {
	if !filepath.IsAbs(dir) || os.MkdirAll(dir, 0o755) != nil {
		return false
	}
	probe, err := os.CreateTemp(dir, ".payonce-")
	if err != nil {
		return false
	}
	probe.Close()
	return os.Remove(probe.Name()) == nil
}
