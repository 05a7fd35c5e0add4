package process

import "syscall"

// attributes give a worker a process group of its own, so that a terminal's Ctrl-C reaches its parent alone, and have the
// kernel kill it, frozen or not, when the thread that started it dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
