package devstack

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// watchdogScript waits for its input to end, which happens when the process
// that holds the other end dies, however it dies.
const watchdogScript = `trap '' HUP INT TERM; read -r pid || exit 0; while read -r _; do :; done; kill -"$1" "$pid" 2>/dev/null`

// watchdog is a process that ends another when we die. It is for systems
// without a death signal of their own.
type watchdog struct {
	cmd     *exec.Cmd
	process *os.Process
	input   io.WriteCloser
	watched *exec.Cmd
}

// watch starts a watchdog over the process that cmd is about to become.
func watch(cmd *exec.Cmd, signal syscall.Signal) (*watchdog, error) {
	dog := exec.Command("/bin/sh", "-c", watchdogScript, "payonce-watchdog", strconv.Itoa(int(signal)))
	dog.SysProcAttr = childAttributes(nil)
	input, err := dog.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := dog.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	return &watchdog{cmd: dog, process: dog.Process, input: input, watched: cmd}, nil
}

// started tells the watchdog that there is a process to watch.
func (d *watchdog) started() { fmt.Fprintln(d.input, d.watched.Process.Pid) }

// ended ends the watchdog, once the process is gone or was never started. It
// is killed, not told by closing its input: the process ID may be someone
// else's by now.
func (d *watchdog) ended() {
	_ = d.process.Kill()
	_ = d.cmd.Wait()
}
