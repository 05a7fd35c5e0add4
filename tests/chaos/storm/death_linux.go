package storm

import "syscall"

// childAttributes give a program a process group of its own, so that a terminal's Ctrl-C reaches us alone, and have the
// kernel kill it when the thread that started it dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
