package devstack

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestServersOutliveThreads ends threads, as many as it takes to meet those that
// servers were started from, were these left to end: the kernel takes that thread
// for the server's parent.
func TestServersOutliveThreads(t *testing.T) {
	t.Parallel()
	config := childConfig{
		name:        "sleep",
		path:        "/bin/sleep",
		args:        []string{"1000"},
		dir:         "/",
		logPath:     filepath.Join(t.TempDir(), "log"),
		deathSignal: syscall.SIGKILL,
	}
	var servers []*child
	for range 8 {
		c, err := startChild(config)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.end(within(t))) })
		servers = append(servers, c)
	}
	// The canaries are started the wrong way. Once they are dead, so are the
	// threads, and the servers would have had their signals. A process's first
	// thread is not ended but set aside, so that it can't have one.
	canaries := make([]*exec.Cmd, 20)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			if i < len(canaries) && syscall.Gettid() != os.Getpid() {
				canaries[i] = exec.Command("/bin/sleep", "1000")
				canaries[i].SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
				assert.NoError(t, canaries[i].Start())
			}
		})
	}
	wg.Wait()
	for _, canary := range canaries {
		if canary == nil {
			continue
		}
		require.Error(t, canary.Wait(), "the kernel's rule holds")
	}
	for _, c := range servers {
		require.True(t, c.alive())
		require.False(t, gone(c.pid))
	}
}
