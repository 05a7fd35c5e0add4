package devstack

import (
	"os/exec"
	"syscall"
)

// deathSignal needs no help while the process lives.
type deathSignal struct{}

func (deathSignal) started() {}
func (deathSignal) ended()   {}

// endWithParent has the kernel send the signal to the command's process when
// the thread that starts it dies. The caller keeps that thread for as long as
// the process lives.
func endWithParent(cmd *exec.Cmd, signal syscall.Signal) (deathSignal, error) {
	cmd.SysProcAttr.Pdeathsig = signal
	return deathSignal{}, nil
}
