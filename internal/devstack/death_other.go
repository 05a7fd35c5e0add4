//go:build !linux

package devstack

import (
	"os/exec"
	"syscall"
)

// endWithParent has a watchdog send the signal to the command's process when we
// die.
func endWithParent(cmd *exec.Cmd, signal syscall.Signal) (*watchdog, error) {
	return watch(cmd, signal)
}
