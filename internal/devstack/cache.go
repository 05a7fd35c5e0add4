package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cacheDir returns the folder for server binaries that outlives us: in the
// user's cache folder, or, for a user who has none, in the temporary folder.
// What lies there is executed, so it must be ours alone to write. acc is the
// account that has to be able to run it.
func cacheDir(acc *account) (string, error) {
	var bases []string
	if base, err := os.UserCacheDir(); err == nil {
		bases = append(bases, filepath.Join(base, "payonce"))
	}
	own := "payonce-cache-" + strconv.Itoa(os.Geteuid())
	bases = append(bases, filepath.Join(os.TempDir(), own), filepath.Join("/var/tmp", own))
	var errs []error
	for _, dir := range bases {
		err := makeCache(dir, acc)
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("no folder to keep binaries in: %w", errors.Join(errs...))
}

func makeCache(dir string, acc *account) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || ownerOf(info) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that we alone may write to", dir)
	}
	if err := acc.mustReach(dir); err != nil {
		return err
	}
	probe, err := os.CreateTemp(dir, "writable-")
	if err != nil {
		return err
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// lockCache lets one process at a time add to the cache, and says so while it
// waits for another. Close the file to unlock.
func lockCache(ctx context.Context, dir, what string, log io.Writer) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, what+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := tryLock(f)
	if err == nil && !ok {
		stop := heartbeat(log, "waiting for another process that fetches "+what)
		err = poll(ctx, func() (bool, error) { return tryLock(f) })
		stop()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("wait for another process that fetches %s: %w", what, err)
	}
	return f, nil
}

// stage makes a folder in the cache for something that is being fetched, and
// removes those that were left by processes killed at it. The cache must be
// locked for what is fetched.
func stage(dir, what string) (string, error) {
	prefix := "fetch-" + what + "-"
	left, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil {
		return "", err
	}
	for _, old := range left {
		if err := os.RemoveAll(old); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(dir, prefix)
}

// heartbeatInterval is how often a long job says that it is still at it.
var heartbeatInterval = 30 * time.Second

// heartbeat says what is going on, now and every so often until stop.
func heartbeat(log io.Writer, what string) (stop func()) {
	logf(log, "%s", what)
	start := time.Now()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(heartbeatInterval)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				logf(log, "%s: %s so far", what, time.Since(start).Round(time.Second))
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// executables returns the programs of this name in the folders of a PATH, in
// its order. Like the shell's search, but relative folders are left out.
func executables(path, name string) []string {
	var found []string
	for _, dir := range filepath.SplitList(path) {
		if file := filepath.Join(dir, name); filepath.IsAbs(dir) && executable(file) {
			found = append(found, file)
		}
	}
	return found
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// without returns the environment without the variables whose names have one
// of the prefixes.
func without(env []string, prefixes ...string) []string {
	var kept []string
next:
	for _, entry := range env {
		for _, prefix := range prefixes {
			if strings.HasPrefix(entry, prefix) {
				continue next
			}
		}
		kept = append(kept, entry)
	}
	return kept
}
