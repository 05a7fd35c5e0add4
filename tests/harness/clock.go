package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// envSkew is by how many seconds the wall clock of a program is off that was built by skewedBinary.
const envSkew = "PAYONCE_TEST_CLOCK_SKEW_SECONDS"

// StartSkewedWorker is StartFaultWorker on a machine whose wall clock is off: all of its program, down to the standard
// library, reads a clock that is ahead by skew, or behind if skew is below zero. The clock that timers and durations go by
// is right, as it is on such a machine.
func (w *World) StartSkewedWorker(t testing.TB, skew time.Duration, c FaultConfig) *FaultWorker {
	t.Helper()
	binary, err := skewedBinary()
	require.NoError(t, err)
	c.binary = binary
	c.Env = append(c.Env, fmt.Sprintf("%s=%d", envSkew, int64(skew.Seconds())))
	return w.StartFaultWorker(t, c)
}

// skewedBinary builds the worker with faults with another time.Now. Go reads the clock without the C library, so nothing
// that is loaded beside a program can change it, and a time namespace of Linux has no wall clock of its own. The first build
// on a machine takes a minute, since nearly everything depends on package time; it yields to the tests.
var skewedBinary = sync.OnceValues(func() (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	overlay, err := skewedTime(dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "skewed-"+faultWorker)
	build := exec.CommandContext(context.Background(), "nice", "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", binary,
		"./internal/faultworker")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a worker with a wrong clock: %w\n%s", err, out)
	}
	return binary, nil
})

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
func skewedTime(dir string) (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("look for the standard library: %w", err)
	}
	original := filepath.Join(string(bytes.TrimSpace(out)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if bytes.Count(source, []byte(readsClock)) != 1 {
		return "", errors.New("package time reads the clock in another way than this test knows")
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
