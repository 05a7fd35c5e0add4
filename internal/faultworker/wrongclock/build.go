// Package wrongclock builds the worker with faults for a machine whose wall clock is off: all of its program, down to the
// standard library, reads a clock that is ahead or behind. The clock that timers and durations go by is right, as it is on
// such a machine.
//
// Go reads the clock without the C library, so nothing that is loaded beside a program can change it, and a time namespace of
// Linux has no wall clock of its own. So the program is built with another time.Now.
package wrongclock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const envSkew = "PAYONCE_TEST_CLOCK_SKEW_SECONDS"

// Env is the setting of a worker whose clock is ahead by skew, in whole seconds, or behind if skew is below zero.
func Env(skew time.Duration) string { return fmt.Sprintf("%s=%d", envSkew, int64(skew.Seconds())) }

// Build builds the worker into a folder, and returns its path. The working directory must be in the module. The first build
// on a machine takes a minute, since nearly everything depends on package time; it yields to others, but not so much that it
// never ends beside tests that keep every processor busy.
func Build(ctx context.Context, dir string) (string, error) {
	overlay, err := skewedTime(ctx, dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "wrongclock-faultworker")
	build := exec.CommandContext(ctx, "nice", "-n", "3", "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", binary,
		"payonce/internal/faultworker")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a worker with a wrong clock: %w\n%s", err, out)
	}
	return binary, nil
}

// The line of package time at which the wall clock is read, and what is put behind it.
const (
	readsClock = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	addsSkew   = "\tsec += testSkew\n"
	knowsSkew  = `
// testSkew is a whole number of seconds from the environment.
var testSkew = func() (n int64) {
	text, _ := syscall.Getenv("` + envSkew + `")
	for _, digit := range text {
		if digit != '-' {
			n = 10*n + int64(digit-'0')
		}
	}
	if text != "" && text[0] == '-' {
		return -n
	}
	return n
}()
`
)

// skewedTime writes a copy of package time's own file that has the skew, and returns the file that tells the compiler to take
// it.
func skewedTime(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("look for the standard library: %w", err)
	}
	original := filepath.Join(string(bytes.TrimSpace(out)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if bytes.Count(source, []byte(readsClock)) != 1 {
		return "", errors.New("package time reads the clock in another way than package wrongclock knows")
	}
	source = bytes.Replace(source, []byte(readsClock), []byte(readsClock+addsSkew), 1)
	source = bytes.Replace(source, []byte("\nimport ("), []byte("\nimport (\n\t\"syscall\""), 1)
	source = append(source, knowsSkew...)
	replacement := filepath.Join(dir, "time.go")
	if err := os.WriteFile(replacement, source, 0o600); err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, text, 0o600)
}
